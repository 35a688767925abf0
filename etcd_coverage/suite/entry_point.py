"""What an installed package changes in other projects' runs of pytest: nothing, unless a run asks for this suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

CLONE = Path(__file__).parents[2]
"""The folder of the clone, if the package is used from one."""

PACKAGE = "etcd_coverage.suite"
PLUGIN = "etcd_coverage.suite.plugin"


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the suite's plugin, with its options, where ``etcd_coverage.suite`` is among the arguments, or in the clone.

    The clone's conftest loads it too, but pytest does not read that one where ``--testdata DIR`` made it take DIR for
    its root, since it looks for its root before it knows that the option takes a value.
    """
    config = pluginmanager.get_plugin("pytestconfig")
    assert config is not None
    modules = [argument.partition("::")[0] for argument in config.known_args_namespace.file_or_dir]
    asked = any(module == PACKAGE or module.startswith(f"{PACKAGE}.") for module in modules)
    if asked or (config.invocation_params.dir == CLONE and (CLONE / "pyproject.toml").is_file()):
        pluginmanager.import_plugin(PLUGIN)
