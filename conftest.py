"""The pytest shell of the suite: header, dump parameters, fixtures, terminal summary.

What is computed lies in etcd_coverage, what is demanded of it in tests/test_interface_use.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from etcd_coverage import options, tables
from etcd_coverage.options import pytest_addoption
from etcd_coverage.otlp import DumpError
from etcd_coverage.run import Run, ascii_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from etcd_coverage.classify import Finding
    from etcd_coverage.usage import Usage

__all__ = ["pytest_addoption"]

pytest_plugins = ["pytester"]

PROJECT = Path(__file__).parent
JUDGED_BY = "tests/test_interface_use.py::TestInterfaceUse::test_only_expected_methods_were_called"
_run = pytest.StashKey[Run]()
_written = pytest.StashKey[list[str]]()
_unreadable = pytest.StashKey[set[str]]()


def pytest_configure(config: pytest.Config) -> None:
    # Here, since pytest does not find pyproject.toml if --testdata is all that it is given.
    config.addinivalue_line("markers", "integration: drives real servers on loopback; run by make integration")
    config.stash[_unreadable] = set()
    try:
        config.stash[_run] = options.checked_run(config.option, PROJECT)
    except DumpError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> list[str]:
    given = options.in_force(config.option)
    return [*config.stash[_run].header(), *([f"  options: {given}"] if given else [])]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "dump" not in metafunc.fixturenames:
        return
    run = metafunc.config.stash[_run]
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
    """Name and usage of each dump in turn, computed when its first test runs and let go after its last."""
    return request.param, request.config.stash[_run].judge(request.param)


@pytest.fixture(scope="session")
def reference(request: pytest.FixtureRequest) -> Usage:
    """The usage that others are compared with, computed when the first of them is."""
    return request.config.stash[_run].reference_usage()


class Verdict:
    """What the tests of one dump demand of its usage."""

    def __init__(self, name: str, judged: Usage, request: pytest.FixtureRequest) -> None:
        self._name = name
        self._usage = judged
        self._config = request.config
        self._run = request.config.stash[_run]
        self._id = request.node.callspec.id
        self._properties = request.node.user_properties
        self._properties.append(("dump", name))
        self.kubernetes_version = self._run.release(name)

    @property
    def usage(self) -> Usage:
        """The usage; if the dump could not be read, its first test fails and says why, the others are skipped."""
        if self._usage.error is not None:
            unreadable = self._config.stash[_unreadable]
            if self._name in unreadable:
                pytest.skip("the dump cannot be judged: see its first failure")
            unreadable.add(self._name)
            pytest.fail(self._usage.error, pytrace=False)
        return self._usage

    def expect_none(self, findings: Sequence[Finding]) -> None:
        """Fail once with all of the findings, if there are any."""
        self._properties.append(("findings", len(findings)))
        if findings:
            pytest.fail(tables.failure_text(findings, self._config.getoption("jaeger_url")), pytrace=False)

    def expect_covered(self, reference: Usage) -> None:
        """Fail once with everything that the gates find in the comparison with the reference."""
        assert self.usage.error is None
        if reference.error is not None:
            pytest.fail(reference.error, pytrace=False)
        folder = self._config.getoption("testdata")
        text = self._run.failure(
            self._name,
            f"{JUDGED_BY}[{self._id}]",
            [f"--testdata={folder}"] if folder else [],
            self._config.getoption("jaeger_url"),
        )
        if text:
            pytest.fail(text, pytrace=False)


@pytest.fixture
def verdict(dump: tuple[str, Usage], request: pytest.FixtureRequest) -> Verdict:
    """The verdict on the dump in turn."""
    return Verdict(*dump, request)


# First, because the JUnit XML is written in this hook too.
@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    run = config.stash[_run]
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
        node.config.stash[_run].take_over(**computed)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a dump on one worker, so that no dump is read twice."""
    from xdist.scheduler import LoadScopeScheduling

    by_length = sorted(map(ascii_id, config.stash[_run].sources), key=len, reverse=True)

    class ByDump(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            _, _, parameters = nodeid.partition("[")
            return next((name for name in by_length if parameters.startswith((f"{name}-", f"{name}]"))), nodeid)

    return ByDump(config, log) if config.getoption("dist") == "load" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [report for of_kind in terminalreporter.stats.values() for report in of_kind]
    tests = [report.nodeid for report in reports if isinstance(report, pytest.TestReport)]
    compared = {test.rpartition("::test_coverage")[2].strip("[]") for test in tests if "::test_coverage" in test}
    for kind, text in config.stash[_run].summary(config.get_verbosity(), compared):
        if kind == "section":
            terminalreporter.section(text)
        else:
            terminalreporter.line(text, yellow=kind == "warning")
    for line in config.stash.get(_written, []):
        terminalreporter.line(line)
