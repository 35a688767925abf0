"""The suite's options.

The installed project registers this module as a pytest plugin: pytest has to know that an option takes a value before
it looks for its root folder, or it would take the folder of ``--testdata DIR`` for one
(https://docs.pytest.org/en/stable/reference/customize.html#finding-the-rootdir).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, once: from the entry point if the project is installed, else from conftest.py."""
    group = parser.getgroup("etcd coverage")
    if group.options:
        return
    group.addoption("--testdata", metavar="DIR", help="judge the dumps in DIR (default: testdata in the project)")
    group.addoption("--require-dumps", action="store_true", help="fail if there is no dump to judge")
    group.addoption(
        "--kubernetes-version",
        metavar="X.Y",
        default="",
        help="the release that the dumps are from: methods that came later need not be called "
        "(default: told by the file name, as in kubernetes-1.36.json.gz, else the newest)",
    )
    group.addoption(
        "--jaeger-url",
        metavar="URL",
        default="",
        help="show the example trace of each finding as a link to Jaeger",
    )
    group.addoption(
        "--usage-json",
        metavar="PATH",
        help="save what was computed as JSON (docs/usage-format.md); what PATH holds of other dumps stays",
    )
    group.addoption("--usage-html", metavar="PATH", help="write a report as one HTML page (docs/reports.md)")
    group.addoption("--usage-markdown", metavar="PATH", help="write a report in GitHub's Markdown (docs/reports.md)")
    group.addoption(
        "--usage-summary",
        action="store_true",
        help="append the Markdown to $GITHUB_STEP_SUMMARY, in a step of GitHub Actions",
    )
    group.addoption(
        "--reference",
        metavar="PATH",
        help="compare every other dump with this dump or saved usage (PATH::NAME for one of several in a file)",
    )
    group.addoption(
        "--min-coverage",
        metavar="PCT",
        type=_parsed_by("percentage"),
        help="fail if the rows covered stand for less than PCT %% of the reference's calls",
    )
    group.addoption(
        "--min-shape-coverage",
        metavar="PCT",
        type=_parsed_by("percentage"),
        help="fail if the call shapes covered stand for less than PCT %% of the reference's calls",
    )
    group.addoption("--fail-on-new", action="store_true", help="fail if a dump has a row that the reference has not")
    group.addoption("--fail-on-missing", action="store_true", help="fail if a dump lacks a row of the reference")
    group.addoption(
        "--min-calls",
        metavar="N",
        type=_parsed_by("number_of_calls"),
        help="leave rows with fewer than N calls out of the gates",
    )
    group.addoption(
        "--gate-methods",
        metavar="KV/Txn,...",
        type=_parsed_by("method_names"),
        help="hold only these gRPC methods to the gates",
    )
    group.addoption(
        "--known-gaps",
        metavar="PATH",
        help="missing rows that do not fail --fail-on-missing (default: known_gaps.toml in the project, if any)",
    )


def _parsed_by(name: str) -> Callable[[str], Any]:
    """Return the parser of that name as argparse wants it, which is loaded if the option is given."""

    def parsed(text: str) -> Any:
        from etcd_coverage import gates

        try:
            return getattr(gates, name)(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed
