"""The suite's options.

The installed project registers this module as a pytest plugin: pytest has to know that an option takes a value before
it looks for its root folder, or it would take the folder of ``--testdata DIR`` for one
(https://docs.pytest.org/en/stable/reference/customize.html#finding-the-rootdir).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    group.addoption("--usage-json", metavar="PATH", help="save what was computed as JSON (docs/usage-format.md)")
