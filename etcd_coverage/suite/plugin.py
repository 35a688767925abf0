"""The pytest shell of the suite: header, dump parameters, fixtures, terminal summary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from etcd_coverage.dumps.error import DumpError
from etcd_coverage.suite import options
from etcd_coverage.suite.options import pytest_addoption
from etcd_coverage.suite.run import RUN, UNREADABLE, ascii_id
from etcd_coverage.suite.verdict import Verdict

if TYPE_CHECKING:
    from etcd_coverage.judging.usage import Usage

__all__ = ["pytest_addoption"]

PROJECT = Path(__file__).parents[2]
_written = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    # Here, since pytest does not find pyproject.toml if --testdata is all that it is given.
    config.addinivalue_line("markers", "integration: drives real servers on loopback; run by make integration")
    config.addinivalue_line(
        "markers", "parity: malformed values that etcd's Go tests refuse, not yet all refused here; run by make parity"
    )
    config.stash[UNREADABLE] = set()
    try:
        config.stash[RUN] = options.checked_run(config.option, PROJECT)
    except DumpError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> list[str]:
    given = options.in_force(config.option)
    return [*config.stash[RUN].header(), *([f"  options: {given}"] if given else [])]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "dump" not in metafunc.fixturenames:
        return
    run = metafunc.config.stash[RUN]
    names, none, reason = list(run.sources), "no-dump", f"no dump in {run.place}: nothing was judged"
    if "reference" in metafunc.fixturenames:
        names = run.subjects()
        if run.reference is None:
            none, reason = "no-reference", "no --reference: nothing was compared"
        elif run.sources:
            reason = f"no dump in {run.place} but the reference {run.reference.name}: nothing was compared"
    nothing = pytest.param("", id=none, marks=pytest.mark.skip(reason=reason))
    params = [pytest.param(name, id=name) for name in names] or [nothing]
    metafunc.parametrize("dump", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def dump(request: pytest.FixtureRequest) -> tuple[str, Usage]:
    """Return name and usage of each dump in turn, computed when its first test runs and let go after its last."""
    return request.param, request.config.stash[RUN].judge(request.param)


@pytest.fixture(scope="session")
def reference(request: pytest.FixtureRequest) -> Usage:
    """Return the usage that others are compared with, computed when the first of them is."""
    return request.config.stash[RUN].reference_usage()


@pytest.fixture
def verdict(dump: tuple[str, Usage], request: pytest.FixtureRequest) -> Verdict:
    """Return the verdict on the dump in turn."""
    return Verdict(*dump, request)


# First, because the JUnit XML is written in this hook too.
@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    run = config.stash[RUN]
    if hasattr(config, "workeroutput"):
        config.workeroutput["etcd_coverage"] = run.handed_over()
        return
    junit = [plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "add_global_property")]
    if junit:
        for name, value in run.properties().items():
            junit[0].add_global_property(name, value)
    config.stash[_written], failed = options.write(config.option, run)
    if failed:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of pytest-xdist computed."""
    if computed := getattr(node, "workeroutput", {}).get("etcd_coverage"):
        node.config.stash[RUN].take_over(**computed)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a dump on one worker, so that no dump is read twice."""
    from xdist.scheduler import LoadScopeScheduling

    by_length = sorted(map(ascii_id, config.stash[RUN].sources), key=len, reverse=True)

    class ByDump(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            _, _, parameters = nodeid.partition("[")
            return next((name for name in by_length if parameters.startswith((f"{name}-", f"{name}]"))), nodeid)

    return ByDump(config, log) if config.getoption("dist") == "load" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [report for of_kind in terminalreporter.stats.values() for report in of_kind]
    tests = [report.nodeid for report in reports if isinstance(report, pytest.TestReport)]
    compared = {test.rpartition("::test_coverage")[2].strip("[]") for test in tests if "::test_coverage" in test}
    for kind, text in config.stash[RUN].summary(config.get_verbosity(), compared):
        if kind == "section":
            terminalreporter.section(text)
        else:
            terminalreporter.line(text, yellow=kind == "warning")
    for line in config.stash.get(_written, []):
        terminalreporter.line(line)
