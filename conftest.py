"""The pytest shell of the suite: header, dump parameters, fixtures, terminal summary.

What is computed lies in etcd_coverage, what is demanded of it in tests/test_interface_use.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from etcd_coverage import gates, saved, tables
from etcd_coverage.gates import Gates
from etcd_coverage.options import pytest_addoption
from etcd_coverage.otlp import DumpError
from etcd_coverage.run import Run
from etcd_coverage.text import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from etcd_coverage.classify import Finding
    from etcd_coverage.usage import Usage

__all__ = ["pytest_addoption"]

pytest_plugins = ["pytester"]

PROJECT = Path(__file__).parent
OPTIONS = (
    "kubernetes-version", "jaeger-url", "usage-json", "reference", "min-coverage", "min-shape-coverage",
    "fail-on-new", "fail-on-missing", "min-calls", "gate-methods", "known-gaps",
    "usage-markdown", "usage-html", "usage-summary",
)  # fmt: skip
JUDGED_BY = "tests/test_interface_use.py::TestInterfaceUse::test_only_expected_methods_were_called"
_run = pytest.StashKey[Run]()
_saved = pytest.StashKey[list[str]]()
_reports = pytest.StashKey[list[str]]()
_unreadable = pytest.StashKey[set[str]]()


def pytest_configure(config: pytest.Config) -> None:
    # Here, since pytest does not find pyproject.toml if --testdata is all that it is given.
    config.addinivalue_line("markers", "integration: drives real servers on loopback; run by make integration")
    if config.getoption("testdata") and not _testdata(config).is_dir():
        raise pytest.UsageError(f"--testdata: {_testdata(config)} is not a folder")
    run = config.stash[_run] = Run(_testdata(config), config.getoption("kubernetes_version"))
    config.stash[_unreadable] = set()
    if config.getoption("require_dumps") and not run.sources:
        raise pytest.UsageError(
            f"--require-dumps: no dump in {_testdata(config)}: put one there, or name a folder with --testdata"
        )
    version = config.getoption("kubernetes_version")
    if version and not re.fullmatch(r"\d+\.\d+", version):
        raise pytest.UsageError(f"--kubernetes-version: {version!r} is not a release such as 1.37")
    url = config.getoption("jaeger_url")
    if url and not re.match(r"https?://[^/]", url):
        raise pytest.UsageError(f"--jaeger-url: {url!r} is not a URL such as http://localhost:16686")
    if path := config.getoption("usage_json"):
        try:
            saved.check_target(Path(path))
        except DumpError as error:
            raise pytest.UsageError(f"--usage-json: {escape(path)} {error}") from None
    for option in ("usage-markdown", "usage-html"):
        target = config.getoption(option.replace("-", "_"))
        if target and (Path(target).is_dir() or not Path(target).absolute().parent.is_dir()):
            raise pytest.UsageError(
                f"--{option}: {escape(target)} cannot be written: name a file in a folder that exists"
            )
    _configure_comparison(config, run)


def _configure_comparison(config: pytest.Config, run: Run) -> None:
    demanded = Gates(
        min_coverage=config.getoption("min_coverage"),
        min_shape_coverage=config.getoption("min_shape_coverage"),
        fail_on_new=config.getoption("fail_on_new"),
        fail_on_missing=config.getoption("fail_on_missing"),
        min_calls=config.getoption("min_calls") or 1,
        methods=config.getoption("gate_methods") or (),
    )
    known_gaps = config.getoption("known_gaps")
    reference = config.getoption("reference")
    if reference is None:
        if demanded != Gates() or known_gaps:
            raise pytest.UsageError("gates need a --reference: a dump or a saved usage to compare with")
        return
    path = Path(known_gaps) if known_gaps else PROJECT / gates.KNOWN_GAPS
    try:
        run.compare_with(reference, demanded, path if known_gaps or path.exists() else None)
    except DumpError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header(config: pytest.Config) -> list[str]:
    run = config.stash[_run]
    if not run.sources:
        return [f'etcd coverage: NO DUMPS in {run.folder}: NOTHING WILL BE JUDGED (README.md, "Collect a dump")']
    lines = [f"etcd coverage: {len(run.sources)} dumps in {run.folder}"]
    for name, source in run.sources.items():
        size = f"{source.path.stat().st_size / 1e6:.1f} MB" if source.path.is_file() else "not a file"
        release = run.release(name)
        how = f", judged as Kubernetes {release}" if release else ""
        lines.append(f"  {name}: {size}{', a saved usage' if saved.is_saved(source.path) else how}")
    options = " ".join(filter(None, (_in_force(config, name) for name in OPTIONS)))
    return [*lines, f"  options: {escape(options)}"] if options else lines


def _in_force(config: pytest.Config, option: str) -> str:
    """Return the option as it would be written; empty if it was not given."""
    value = config.getoption(option.replace("-", "_"))
    if (not value and value != 0.0) or value is False:
        return ""
    if isinstance(value, tuple):
        value = ",".join(map(gates.short_name, value))
    if isinstance(value, float):
        value = f"{value:g}"
    return f"--{option}" if value is True else f"--{option}={value}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "dump" not in metafunc.fixturenames:
        return
    run = metafunc.config.stash[_run]
    names, none, reason = list(run.sources), "no-dump", f"no dump in {run.folder}: nothing was judged"
    if "reference" in metafunc.fixturenames:
        names = run.subjects()
        if run.reference is None:
            none, reason = "no-reference", "no --reference: nothing was compared"
        elif run.sources:
            reason = f"no dump in {run.folder} but the reference {run.reference.name}: nothing was compared"
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
    elif run.usages and (path := config.getoption("usage_json")):
        try:
            config.stash[_saved] = run.save(Path(path)).lines()
        except OSError as error:
            config.stash[_saved] = [f"cannot be written, nothing was saved: {error.strerror or error}"]
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if not hasattr(config, "workeroutput"):
        _report(session, run)


def _report(session: pytest.Session, run: Run) -> None:
    """Write the reports that are wanted, and add properties to the JUnit XML if there is one."""
    config = session.config
    writers = [plugin for plugin in config.pluginmanager.get_plugins() if hasattr(plugin, "add_global_property")]
    paths = [config.getoption(option) for option in ("usage_markdown", "usage_html")]
    summary = config.getoption("usage_summary")
    if not (writers or any(paths) or summary):
        return
    # Here, since a run without a report needs no template engine.
    from etcd_coverage import report

    found = run.report(config.getoption("jaeger_url"))
    for writer in writers:
        for name, value in report.properties(found).items():
            writer.add_global_property(name, value)
    try:
        written = report.write(found, *paths, step_summary=summary)
        config.stash[_reports] = [f"usage report written to {escape(str(path))}" for path in written]
    except OSError as error:
        config.stash[_reports] = [f"{escape(str(error.filename))}: cannot be written: {error.strerror or error}"]
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

    by_length = sorted(config.stash[_run].sources, key=len, reverse=True)

    class ByDump(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            _, _, parameters = nodeid.partition("[")
            return next((name for name in by_length if parameters.startswith((f"{name}-", f"{name}]"))), nodeid)

    return ByDump(config, log) if config.getoption("dist") == "load" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    run = config.stash[_run]
    if not run.sources:
        terminalreporter.line(f"no dumps in {run.folder}: NOTHING WAS JUDGED", yellow=True, bold=True)
    judged = {name: one for name, one in sorted(run.usages.items()) if one.error is None}
    verbosity = config.get_verbosity()
    with_tables = {name for name, one in judged.items() if one.findings or verbosity > 0}
    if judged.keys() - with_tables and verbosity == 0:
        terminalreporter.section("etcd coverage (-v shows the tables)")
    for name, one in judged.items():
        if name in with_tables:
            terminalreporter.section(f"etcd coverage: {name}")
            for title, table in tables.tables(one):
                terminalreporter.line(f"{title}\n{table}\n")
            terminalreporter.line(f"data quality: {tables.quality_line(one.quality)}")
        elif verbosity == 0:
            terminalreporter.line(f"{name}: {tables.quality_line(one.quality)}")
        else:
            continue
        for warning in one.quality.warnings():
            terminalreporter.line(f"warning: {warning}", yellow=True)
    _summarize_comparisons(terminalreporter, run, verbosity)
    for line in config.stash.get(_saved, []):
        terminalreporter.line(f"{escape(config.getoption('usage_json'))}: {line}")
    for line in config.stash.get(_reports, []):
        terminalreporter.line(line)


def _summarize_comparisons(terminalreporter: pytest.TerminalReporter, run: Run, verbosity: int) -> None:
    reports = [report for of_kind in terminalreporter.stats.values() for report in of_kind]
    tests = [report.nodeid for report in reports if isinstance(report, pytest.TestReport)]
    ran = {test.rpartition("::test_coverage")[2] for test in tests}
    for name, comparison in run.comparisons().items():
        assert run.reference is not None
        terminalreporter.section(f"etcd coverage: {name} against {run.reference.name}")
        for line in run.comparison_lines(name, comparison, verbose=verbosity > 0, was_tested=f"[{name}]" in ran):
            terminalreporter.line(line, yellow=line.startswith("warning:"))
    for line in run.unused_gaps():
        terminalreporter.line(line, yellow=True)


def _testdata(config: pytest.Config) -> Path:
    folder = config.getoption("testdata")
    return Path(folder) if folder else PROJECT / "testdata"
