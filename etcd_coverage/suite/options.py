"""The suite's options: what they are, what they ask for, the files that they want written."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from etcd_coverage.judging.data_quality import Limits
    from etcd_coverage.judging.usage import Usage
    from etcd_coverage.suite.run import Run

GROUP = "etcd coverage"
GATES = "etcd coverage: compare with a reference"


def add_options(parser: pytest.Parser) -> None:
    """Add the options to pytest's; their help is also what README.md and docs/coverage.md say (``make docs``)."""
    judging = parser.getgroup(GROUP)
    judging.addoption(
        "--testdata",
        metavar="PATH",
        action="append",
        help="judges this dump, or every file in this folder but dotfiles; may be given several times "
        "(default: testdata)",
    )
    judging.addoption(
        "--require-dumps",
        action="store_true",
        help="ends the run at once if there is no dump to judge",
    )
    judging.addoption(
        "--kubernetes-version",
        metavar="X.Y",
        default="",
        help="the release that the dumps are from: methods that came later need not be called "
        "(default: as the file name says, as in kubernetes-1.36.json.gz, else the newest)",
    )
    judging.addoption(
        "--max-lost-calls",
        metavar="PCT",
        type=_parsed_by("percentage"),
        help="fails if more than PCT %% of a gRPC method's server spans lack their call (default: 1)",
    )
    judging.addoption(
        "--max-orphan-calls",
        metavar="PCT",
        type=_parsed_by("percentage"),
        help="fails if more than PCT %% of the calls lack their server span "
        "(default: 0.1, and 1 in a dump without spans of the apiserver)",
    )
    judging.addoption(
        "--max-left-out",
        metavar="PCT",
        type=_parsed_by("percentage"),
        help="fails if more than PCT %% of the server spans are of unexpected methods in traces left out "
        "(default: 0.1)",
    )
    judging.addoption("--allow-clipped", action="store_true", help="accepts a dump that was cut at a limit of traces")
    judging.addoption("--allow-dropped", action="store_true", help="accepts calls that lost attributes to a limit")
    judging.addoption(
        "--jaeger-url",
        metavar="URL",
        default="",
        help="shows the example trace of each finding as a link to Jaeger",
    )
    judging.addoption(
        "--usage-json",
        metavar="PATH",
        help="saves what was computed (docs/usage-format.md); what PATH holds of other dumps stays",
    )
    judging.addoption(
        "--origins",
        metavar="N|all",
        type=_number_or_all,
        help="how many origins and e2e tests of a row --usage-json saves by name, the heaviest (default: 10)",
    )
    judging.addoption(
        "--by-test",
        action="store_true",
        help="shows which rows e2e tests reach, here and in --usage-markdown (docs/reports.md)",
    )
    judging.addoption("--usage-html", metavar="PATH", help="writes a report as one HTML page (docs/reports.md)")
    judging.addoption("--usage-markdown", metavar="PATH", help="writes a report in GitHub's Markdown (docs/reports.md)")
    judging.addoption(
        "--usage-summary",
        action="store_true",
        help="appends the Markdown to $GITHUB_STEP_SUMMARY, in a step of GitHub Actions",
    )
    gating = parser.getgroup(GATES)
    gating.addoption(
        "--reference",
        metavar="PATH",
        help="compares every other dump with this dump or saved usage, as test_coverage[DUMP]; "
        "PATH::NAME for one of several usages in a file",
    )
    gating.addoption(
        "--min-coverage",
        metavar="PCT",
        type=_parsed_by("percentage"),
        help="fails if the rows covered stand for less than PCT %% of the reference's calls",
    )
    gating.addoption(
        "--min-shape-coverage",
        metavar="PCT",
        type=_parsed_by("percentage"),
        help="fails if the call shapes covered, whatever the key, stand for less than PCT %% of the reference's calls",
    )
    gating.addoption(
        "--fail-on-new", action="store_true", help="fails if there is a row that the reference does not have"
    )
    gating.addoption(
        "--fail-on-missing",
        action="store_true",
        help="fails if a row of the reference is missing, unless it is a known gap",
    )
    gating.addoption(
        "--fail-on-new-caller",
        action="store_true",
        help="fails if a row has a caller (component and role) that the reference does not have for this row",
    )
    gating.addoption(
        "--min-contract",
        metavar="PCT",
        type=_parsed_by("percentage"),
        help="fails each dump, with or without --reference, of whose calls with rows less than PCT %% are made "
        "through the etcd-Kubernetes interface (below a contract event)",
    )
    gating.addoption(
        "--min-calls",
        metavar="N",
        type=_parsed_by("number_of_calls"),
        help="leaves out of the gates rows of the reference, new rows and new callers with fewer than N calls",
    )
    gating.addoption(
        "--gate-methods",
        metavar="KV/Txn,...",
        type=_parsed_by("method_names"),
        help="holds only these gRPC methods to the gates",
    )
    gating.addoption(
        "--known-gaps",
        metavar="PATH",
        help="missing rows that do not fail --fail-on-missing (default: known_gaps.toml, if it is there)",
    )


def _number_or_all(text: str) -> int | str:
    if text == "all":
        return text
    if not re.fullmatch("[0-9]{1,9}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number from 1 on nor all")
    return int(text)


def _parsed_by(name: str) -> Callable[[str], Any]:
    """Return the parser of that name as argparse wants it, which is loaded if the option is given."""

    def parsed(text: str) -> Any:
        from etcd_coverage.comparing import gates

        try:
            return getattr(gates, name)(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


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
        run = Run(given.testdata or ([str(default)] if default.is_dir() else []), given.kubernetes_version)
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


_OPTIONS = (
    "testdata", "require-dumps", "usage-html", "usage-markdown", "usage-summary",
)  # fmt: skip
_SHOWN = (
    "kubernetes-version", "max-lost-calls", "max-orphan-calls", "max-left-out", "allow-clipped", "allow-dropped",
    "jaeger-url", "usage-json", "origins", "by-test", "reference", "min-coverage", "min-shape-coverage",
    "fail-on-new", "fail-on-missing", "fail-on-new-caller", "min-contract", "min-calls", "gate-methods", "known-gaps",
)  # fmt: skip


def asked(given: argparse.Namespace) -> list[str]:
    """Return the names of the options that were given: each asks for the suite's verdict."""
    values = {name: getattr(given, name.replace("-", "_")) for name in (*_OPTIONS, *_SHOWN)}
    # A limit of 0 % is given too.
    return [f"--{name}" for name, value in values.items() if value is not False and value not in (None, "")]


def in_force(given: argparse.Namespace) -> str:
    """Return the options that were given, as they could be written; empty without any."""
    from etcd_coverage.reference import short_name
    from etcd_coverage.text import escape

    shown = []
    for name in _SHOWN:
        value = getattr(given, name.replace("-", "_"))
        if value is True:
            shown.append(f"--{name}")
        elif isinstance(value, tuple) and value:
            shown.append(f"--{name}={','.join(map(short_name, value))}")
        elif isinstance(value, float):
            shown.append(f"--{name}={value:g}")
        elif value:
            shown.append(f"--{name}={value}")
    return escape(" ".join(shown))
