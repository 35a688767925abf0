"""Names the suite's plugin; what it does stands in etcd_coverage/suite/."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["etcd_coverage.suite.plugin", "pytester"]

# A bare pytest judges, even where an option made it take another folder for its root, and with it no testpaths: pytest
# looks for its root before it knows that --testdata takes a value. What is named on the command line runs all the same.
collect_ignore = ["etcd_coverage", "meta_tests"]


def pytest_configure(config: pytest.Config) -> None:
    # Here, since pyproject.toml is not found either where another folder is the root.
    config.addinivalue_line("markers", "integration: drives real servers on loopback; run by make integration")
    config.addinivalue_line(
        "markers", "parity: malformed values that etcd's Go tests refuse, not yet all refused here; run by make parity"
    )
