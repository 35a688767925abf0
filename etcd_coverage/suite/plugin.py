"""The pytest shell of the suite: header, dump parameters, fixtures, exit code, terminal summary."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging import usage
from etcd_coverage.suite import demands, options, summary, workers, written
from etcd_coverage.suite.entry_point import CLONE
from etcd_coverage.suite.ledger import LEDGER, Ledger
from etcd_coverage.suite.run import RUN
from etcd_coverage.suite.verdict import UNREADABLE, Verdict

if TYPE_CHECKING:
    from collections.abc import Generator

    from etcd_coverage.judging.usage import Usage

_TESTS = Path(__file__).parent / "test_*.py"
_written = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    # The suite's tests have pytest's default names, whatever the project around calls its own.
    for setting, pattern in (("python_files", str(_TESTS)), ("python_classes", "Test"), ("python_functions", "test")):
        config.addinivalue_line(setting, pattern)
    known = getattr(config, "workerinput", {}).get(workers.KEY)
    is_clone = config.pluginmanager.hasplugin(str(CLONE / "conftest.py"))
    try:
        config.stash[RUN] = demands.checked_run(
            config.option,
            CLONE if is_clone else config.invocation_params.dir,
            known_reference=usage.decode(known) if known else None,
        )
    except DumpError as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(workers)
    config.stash[LEDGER] = Ledger()
    config.stash[UNREADABLE] = {}


def pytest_report_header(config: pytest.Config) -> list[str]:
    given = demands.in_force(config.option)
    return [*config.stash[RUN].header(), *([f"  options: {given}"] if given else [])]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "etcd_dump" not in metafunc.fixturenames:
        return
    run = metafunc.config.stash[RUN]
    names, none, reason = list(run.sources), "no-dump", f"no dump in {run.place}: nothing was judged"
    if "etcd_reference" in metafunc.fixturenames:
        names = run.held_to_gates()
        if run.reference is None and run.gates.min_contract is None:
            none, reason = "no-reference", "no --reference: nothing was compared"
        elif run.reference is not None and run.sources:
            reason = f"no dump in {run.place} but the reference {run.reference.name}: nothing was compared"
    nothing = pytest.param("", id=none, marks=pytest.mark.skip(reason=reason))
    params = [pytest.param(name, id=name) for name in names] or [nothing]
    metafunc.parametrize("etcd_dump", params, indirect=True, scope="session")


# Fixtures bear long names, since a conftest of the project around would override those that it has too.
@pytest.fixture(scope="session")
def etcd_dump(request: pytest.FixtureRequest) -> tuple[str, Usage]:
    """Return name and usage of each dump in turn, computed when its first test runs."""
    return request.param, request.config.stash[RUN].judge(request.param)


@pytest.fixture(scope="session")
def etcd_reference(request: pytest.FixtureRequest) -> Usage | None:
    """Return the usage that others are compared with; None where gates hold each dump by itself."""
    run = request.config.stash[RUN]
    return run.reference_usage() if run.reference else None


@pytest.fixture
def etcd_verdict(etcd_dump: tuple[str, Usage], request: pytest.FixtureRequest) -> Verdict:
    """Return the verdict on the dump in turn."""
    return Verdict(*etcd_dump, request)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    session.config.stash[LEDGER].has_run = not session.config.option.collectonly


# Not a hook of the module, since it needs pytest's config, which a report does not carry.
class _Recorder:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._config.stash[LEDGER].record(report, self._config.stash[RUN])


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.pluginmanager.register(_Recorder(session.config))


# First, because the JUnit XML is written in this hook too.
@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    run = config.stash[RUN]
    if hasattr(config, "workeroutput"):
        config.workeroutput[workers.KEY] = run.encoded_usages()
        return
    junit = [plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "add_global_property")]
    if junit:
        for name, value in run.properties().items():
            junit[0].add_global_property(name, value)
    config.stash[_written], failed = written.write(config.option, run)
    is_green = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if is_green and (failed or _lacking(config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _lacking(config: pytest.Config) -> str:
    return config.stash[LEDGER].lacking(demands.asked(config.option), config.stash[RUN])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for kind, text in summary.summary(config.stash[RUN], config.stash[LEDGER], config.get_verbosity()):
        if kind == "section":
            terminalreporter.section(text)
        else:
            terminalreporter.line(text, yellow=kind == "warning")
    for line in config.stash.get(_written, []):
        terminalreporter.line(line)


# A second implementation of the hook in this module; pytest passes over names without its prefix.
@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_terminal_summary")
def pytest_verdicts(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> Generator[None, Any, Any]:
    """Print the verdicts after everything else, right before pytest's own last line."""
    result = yield
    run, ledger = config.stash[RUN], config.stash[LEDGER]
    for failed, line in summary.verdict_lines(run, ledger):
        if failed or config.get_verbosity() >= 0:
            terminalreporter.line(line, red=failed, green=not failed)
    if lacking := _lacking(config):
        terminalreporter.line(lacking, red=True)
    elif ledger.has_run and not run.sources:
        terminalreporter.line(f"no dumps in {run.place}: NOTHING WAS JUDGED", yellow=True)
    return result
