"""The suite's options: their names, what they take, and what their help says."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

GROUP = "etcd coverage"
GATES = "etcd coverage: compare with a reference"


def add_options(parser: pytest.Parser) -> None:
    """Add the options to pytest's; their help is also what README.md and docs/coverage.md say (``make docs``)."""
    judging = parser.getgroup(GROUP)
    judging.addoption(
        "--testdata",
        metavar="PATH",
        action="append",
        help="judges this dump, or everything in this folder but dotfiles: each file is a dump, and each folder one "
        "dump in parts; may be given several times (default: testdata)",
    )
    judging.addoption(
        "--parts",
        action="store_true",
        help="takes each folder that is given for one dump in parts, not for a folder of dumps",
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
        "--min-runs",
        metavar="N",
        type=_parsed_by("number_of_runs"),
        help="leaves out of the gates rows that fewer than N of the runs have which the reference was merged of "
        "(python -m etcd_coverage.merge)",
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


class Option(NamedTuple):
    """An option of the suite: its group in pytest's help, its name (``--testdata``), what it takes, what it does."""

    group: str
    name: str
    metavar: str
    help: str

    def value(self, given: argparse.Namespace) -> Any:
        """Return what was given for it."""
        return getattr(given, self.name.removeprefix("--").replace("-", "_"))


def all_options() -> list[Option]:
    """Return the suite's options, in the order of the help."""
    recorder = _Recorder()
    add_options(cast("pytest.Parser", recorder))
    return recorder.options


class _Recorder:
    """Takes options as pytest's parser and its groups do."""

    def __init__(self) -> None:
        self.options: list[Option] = []
        self._group = ""

    def getgroup(self, name: str) -> _Recorder:
        self._group = name
        return self

    def addoption(self, name: str, *, help: str, metavar: str = "", **_: object) -> None:  # noqa: A002
        self.options.append(Option(self._group, name, metavar, help.replace("%%", "%")))
