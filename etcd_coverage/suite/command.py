"""``etcd-coverage DUMP_OR_FOLDER... [any option of pytest]``: pytest on this suite, in any folder, without a clone."""

from __future__ import annotations

import os
import sys

import pytest

from etcd_coverage.suite.entry_point import PLUGIN

# Neither a conftest nor the settings of the project around are part of this run: they may need plugins that the
# environment of a command (uvx, pipx) has not, or have options of the same names. Options of the user come later, and
# win. -rfEs: skips are listed with their reasons, since a skipped test judged nothing.
_OPTIONS = (
    "-rfEs", "-p", PLUGIN, "-p", "etcd_coverage.suite.paths", "--pyargs", "--noconftest", "-c", os.devnull,
    "--rootdir", ".",
    # Plugins of other packages that take more time to start than a small dump takes to judge.
    "-p", "no:hypothesispytest", "-p", "no:anyio",
    # The package is imported to start pytest; no test of it needs what pytest would have rewritten.
    "-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning",
)  # fmt: skip


def main() -> int:
    """Judge what the command line names, ``testdata`` if it names nothing; return pytest's exit code."""
    # By its name here too, since pytest looks at paths before it loads the plugins of -p.
    return pytest.main([*_OPTIONS, *sys.argv[1:]], plugins=[PLUGIN])
