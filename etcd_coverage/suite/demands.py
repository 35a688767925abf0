"""The options that were given -> the run that they ask for, and the verdict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from etcd_coverage.suite.options import all_options

if TYPE_CHECKING:
    import argparse

    from etcd_coverage.judging.data_quality import Limits
    from etcd_coverage.judging.usage import Usage
    from etcd_coverage.suite.run import Run


def checked_run(given: argparse.Namespace, project: Path, *, known_reference: Usage | None = None) -> Run:
    """Return what the options ask for; raise `DumpError`, a whole line, if one of them cannot be met.

    ``project`` is where testdata/ and known_gaps.toml are looked for. ``known_reference`` is the reference's usage if
    another process computed it.
    """
    from etcd_coverage.comparing import gates, known_gaps, saved
    from etcd_coverage.dumps.error import DumpError
    from etcd_coverage.suite.run import Run
    from etcd_coverage.text import escape

    default = project / "testdata"
    try:
        paths = given.testdata or ([str(default)] if default.is_dir() else [])
        run = Run(paths, given.kubernetes_version, parts=given.parts)
    except DumpError as error:
        raise DumpError(f"--testdata: {error}") from None
    run.place = run.place or escape(str(default))
    if given.require_dumps and not run.sources:
        raise DumpError(f"--require-dumps: no dump in {run.place}: put one there, or name a folder with --testdata")
    if given.kubernetes_version and not re.fullmatch(r"\d+\.\d+", given.kubernetes_version, re.ASCII):
        raise DumpError(f"--kubernetes-version: {given.kubernetes_version!r} is not a release such as 1.37")
    if given.jaeger_url and not re.match(r"https?://[^/]", given.jaeger_url):
        raise DumpError(f"--jaeger-url: {given.jaeger_url!r} is not a URL such as http://localhost:16686")
    if given.origins and not given.usage_json:
        raise DumpError("--origins says how much --usage-json saves: name a file with --usage-json")
    if given.usage_json:
        try:
            saved.check_target(Path(given.usage_json))
        except DumpError as error:
            raise DumpError(f"--usage-json: {escape(given.usage_json)} {error}") from None
    for option, target in (("--usage-markdown", given.usage_markdown), ("--usage-html", given.usage_html)):
        if target and (Path(target).is_dir() or not Path(target).absolute().parent.is_dir()):
            raise DumpError(f"{option}: {escape(target)} cannot be written: name a file in a folder that exists")
    run.limits = limits_of(given)
    run.by_test = given.by_test
    demanded = gates.Gates(
        min_coverage=given.min_coverage,
        min_shape_coverage=given.min_shape_coverage,
        fail_on_new=given.fail_on_new,
        fail_on_missing=given.fail_on_missing,
        fail_on_new_caller=given.fail_on_new_caller,
        min_contract=given.min_contract,
        min_calls=given.min_calls or 1,
        min_runs=given.min_runs or 1,
        methods=given.gate_methods or (),
    )
    if given.reference is not None:
        path = Path(given.known_gaps) if given.known_gaps else project / known_gaps.KNOWN_GAPS
        run.compare_with(
            given.reference,
            demanded,
            path if given.known_gaps or path.exists() else None,
            known=known_reference,
            # A dump may be large.
            read=not (given.collectonly or given.help),
        )
    elif demanded.need_a_reference or given.known_gaps:
        raise DumpError("gates but --min-contract need a --reference: a dump or a saved usage to compare with")
    else:
        run.gates = demanded
    return run


def limits_of(given: argparse.Namespace) -> Limits:
    """Return what of a dump may be lost, by the options or else by default."""
    from msgspec.structs import replace

    from etcd_coverage.judging.data_quality import Limits

    given_limits = {
        "max_lost_calls": given.max_lost_calls,
        "max_orphan_calls": given.max_orphan_calls,
        "max_left_out": given.max_left_out,
    }
    limits = Limits(allow_clipped=given.allow_clipped, allow_dropped=given.allow_dropped)
    return replace(limits, **{name: limit for name, limit in given_limits.items() if limit is not None})


_SHOWN_ELSEWHERE = ("--testdata", "--parts", "--require-dumps", "--usage-html", "--usage-markdown", "--usage-summary")
"""Options of which the rest of the header, or the end of a run, says all there is."""


def asked(given: argparse.Namespace) -> list[str]:
    """Return the names of the options that were given: each asks for the suite's verdict."""
    options = sorted(all_options(), key=lambda option: option.name not in _SHOWN_ELSEWHERE)
    # A limit of 0 % is given too.
    return [
        option.name for option in options if (value := option.value(given)) is not False and value not in (None, "")
    ]


def in_force(given: argparse.Namespace) -> str:
    """Return the options that were given, as they could be written; empty without any."""
    from etcd_coverage.reference import short_name
    from etcd_coverage.text import escape

    shown = []
    for option in all_options():
        if option.name in _SHOWN_ELSEWHERE:
            continue
        name, value = option.name, option.value(given)
        if value is True:
            shown.append(name)
        elif isinstance(value, tuple) and value:
            shown.append(f"{name}={','.join(map(short_name, value))}")
        elif isinstance(value, float):
            shown.append(f"{name}={value:g}")
        elif value:
            shown.append(f"{name}={value}")
    return escape(" ".join(shown))
