"""The hooks of pytest-xdist: what the controller and its workers say to each other."""

from __future__ import annotations

from typing import Any

import pytest

from etcd_coverage.judging import usage
from etcd_coverage.suite.run import RUN, ascii_id

KEY = "etcd_coverage"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give each worker the reference's usage, which the controller computed."""
    run = node.config.stash[RUN]
    if run.reference is not None:
        node.workerinput[KEY] = usage.encode(run.reference_usage())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker computed."""
    for name, text in getattr(node, "workeroutput", {}).get(KEY, {}).items():
        node.config.stash[RUN].usages[name] = usage.decode(text)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a dump on one worker, so that no dump is read twice; no verdict depends on it."""
    from xdist.scheduler import LoadScopeScheduling

    longest_first = sorted(map(ascii_id, config.stash[RUN].sources), key=len, reverse=True)

    class ByDump(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((name for name in longest_first if f"[{name}-" in nodeid or f"[{name}]" in nodeid), nodeid)

    return ByDump(config, log) if config.getoption("dist") == "load" else None
