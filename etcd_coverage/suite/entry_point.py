"""What an installed package changes in other projects' runs of pytest: nothing, unless a run asks for this suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

PACKAGE = "etcd_coverage.suite"
PLUGIN = "etcd_coverage.suite.plugin"


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the suite's plugin, with its options, where ``etcd_coverage.suite`` is among the arguments."""
    config = pluginmanager.get_plugin("pytestconfig")
    assert config is not None
    modules = [argument.partition("::")[0] for argument in config.known_args_namespace.file_or_dir]
    if any(module == PACKAGE or module.startswith(f"{PACKAGE}.") for module in modules):
        pluginmanager.import_plugin(PLUGIN)
