"""``etcd-coverage DUMP_OR_FOLDER... [any option of pytest]``: pytest on this suite, in any folder, without a clone.

The module is also the plugin of such a run, and of its workers.
"""

from __future__ import annotations

import os
import sys

import pytest

from etcd_coverage.suite.entry_point import PACKAGE, PLUGIN

# Neither a conftest nor the settings of the project around are part of this run: they may need plugins that the
# environment of a command (uvx, pipx) has not, or have options of the same names. Options of the user come later, and
# win.
_OPTIONS = ("-p", PLUGIN, "-p", __name__, "--pyargs", "--noconftest", "-c", os.devnull, "--rootdir", ".")
# Plugins that an environment may have, which no test here uses, and which take as long to start as a third of the
# largest dump takes to judge; pyproject.toml leaves them out too.
_LEFT_OUT = ("-p", "no:hypothesispytest", "-p", "no:anyio")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take what pytest would take for paths of tests as the dumps to judge."""
    paths = [*(config.option.testdata or ()), *config.option.file_or_dir]
    config.option.testdata = list(dict.fromkeys(paths)) or ["testdata"]
    config.option.file_or_dir = config.args = [PACKAGE]
    config.args_source = pytest.Config.ArgsSource.ARGS


def main() -> int:
    """Judge what the command line names, ``testdata`` if it names nothing; return pytest's exit code."""
    # By its name here too, since pytest looks at paths before it loads the plugins of -p.
    return pytest.main([*_OPTIONS, *_LEFT_OUT, *sys.argv[1:]], plugins=[PLUGIN])
