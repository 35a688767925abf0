"""The plugin of a run of etcd-coverage, and of its workers: paths on the command line name dumps, not tests."""

from __future__ import annotations

import pytest

from etcd_coverage.suite.entry_point import PACKAGE


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Take what pytest would take for paths of tests as the dumps to judge."""
    paths = [*(config.option.testdata or ()), *config.option.file_or_dir]
    config.option.testdata = list(dict.fromkeys(paths)) or ["testdata"]
    config.option.file_or_dir = config.args = [PACKAGE]
    config.args_source = pytest.Config.ArgsSource.ARGS
