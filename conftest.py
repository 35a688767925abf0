"""The pytest shell of the suite: header, dump parameters, fixtures, terminal summary.

What is computed lies in etcd_coverage, what is demanded of it in tests/test_interface_use.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from etcd_coverage import tables, usage
from etcd_coverage.options import pytest_addoption
from etcd_coverage.text import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from etcd_coverage.classify import Finding
    from etcd_coverage.usage import Usage

__all__ = ["pytest_addoption"]

pytest_plugins = ["pytester"]

TESTDATA = Path(__file__).parent / "testdata"
_dumps = pytest.StashKey[dict[str, Path]]()
_usages = pytest.StashKey[dict[str, "Usage"]]()
_unreadable = pytest.StashKey[set[str]]()


def pytest_configure(config: pytest.Config) -> None:
    # Here, since pytest does not find pyproject.toml if --testdata is all that it is given.
    config.addinivalue_line("markers", "integration: drives real servers on loopback; run by make integration")
    config.stash[_usages] = {}
    config.stash[_unreadable] = set()
    config.stash[_dumps] = _find_dumps(config)
    if config.getoption("require_dumps") and not config.stash[_dumps]:
        raise pytest.UsageError(
            f"--require-dumps: no dump in {_testdata(config)}: put one there, or name a folder with --testdata"
        )
    version = config.getoption("kubernetes_version")
    if version and not re.fullmatch(r"\d+\.\d+", version):
        raise pytest.UsageError(f"--kubernetes-version: {version!r} is not a release such as 1.37")
    url = config.getoption("jaeger_url")
    if url and not re.match(r"https?://[^/]", url):
        raise pytest.UsageError(f"--jaeger-url: {url!r} is not a URL such as http://localhost:16686")
    path = config.getoption("usage_json")
    if path and (Path(path).is_dir() or not Path(path).absolute().parent.is_dir()):
        raise pytest.UsageError(f"--usage-json: {path} cannot be written: name a file in a folder that exists")


def pytest_report_header(config: pytest.Config) -> list[str]:
    dumps = config.stash[_dumps]
    if not dumps:
        return [f'etcd coverage: NO DUMPS in {_testdata(config)}: NOTHING WILL BE JUDGED (README.md, "Collect a dump")']
    lines = [f"etcd coverage: {len(dumps)} dumps in {_testdata(config)}"]
    for name, path in dumps.items():
        release = _release(config, name)
        size = f"{path.stat().st_size / 1e6:.1f} MB" if path.is_file() else "not a file"
        lines.append(f"  {name}: {size}" + (f", judged as Kubernetes {release}" if release else ""))
    options = [
        f"--{name}={config.getoption(name.replace('-', '_'))}"
        for name in ("kubernetes-version", "jaeger-url", "usage-json")
        if config.getoption(name.replace("-", "_"))
    ]
    return [*lines, f"  options: {escape(' '.join(options))}"] if options else lines


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "dump" not in metafunc.fixturenames:
        return
    params = [pytest.param(name, id=name) for name in metafunc.config.stash[_dumps]]
    if not params:
        nothing = pytest.mark.skip(reason=f"no dump in {_testdata(metafunc.config)}: nothing was judged")
        params = [pytest.param("", id="no-dump", marks=nothing)]
    metafunc.parametrize("dump", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def dump(request: pytest.FixtureRequest) -> tuple[str, Usage]:
    """Name and usage of each dump in turn, computed when its first test runs and let go after its last."""
    config = request.config
    name = request.param
    found = usage.judge(config.stash[_dumps][name], _release(config, name))
    config.stash[_usages][name] = found
    return name, found


class Verdict:
    """What the tests of one dump demand of its usage."""

    def __init__(self, name: str, judged: Usage, config: pytest.Config) -> None:
        self._name = name
        self._usage = judged
        self._config = config
        self.kubernetes_version = _release(config, name)

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
        if findings:
            pytest.fail(tables.failure_text(findings, self._config.getoption("jaeger_url")), pytrace=False)


@pytest.fixture
def verdict(dump: tuple[str, Usage], request: pytest.FixtureRequest) -> Verdict:
    """The verdict on the dump in turn."""
    return Verdict(*dump, request.config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    judged = config.stash[_usages]
    if hasattr(config, "workeroutput"):
        config.workeroutput["usages"] = {name: usage.encode(one) for name, one in judged.items()}
    elif path := config.getoption("usage_json"):
        usage.save(Path(path), judged)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of pytest-xdist computed."""
    for name, text in getattr(node, "workeroutput", {}).get("usages", {}).items():
        node.config.stash[_usages][name] = usage.decode(text)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a dump on one worker, so that no dump is read twice."""
    from xdist.scheduler import LoadScopeScheduling

    dumps: dict[str, Path] = config.stash[_dumps]
    by_length = sorted(dumps, key=len, reverse=True)

    class ByDump(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            _, _, parameters = nodeid.partition("[")
            return next((name for name in by_length if parameters.startswith((f"{name}-", f"{name}]"))), nodeid)

    return ByDump(config, log) if config.getoption("dist") == "load" else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.stash[_dumps]:
        terminalreporter.line(f"no dumps in {_testdata(config)}: NOTHING WAS JUDGED", yellow=True, bold=True)
    judged = {name: one for name, one in sorted(config.stash[_usages].items()) if one.error is None}
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


def _testdata(config: pytest.Config) -> Path:
    folder = config.getoption("testdata")
    return Path(folder) if folder else TESTDATA


def _find_dumps(config: pytest.Config) -> dict[str, Path]:
    """Return each entry of the folder but dotfiles, by its printable name."""
    folder = _testdata(config)
    if config.getoption("testdata") and not folder.is_dir():
        raise pytest.UsageError(f"--testdata: {folder} is not a folder")
    if not folder.is_dir():
        return {}
    return {escape(path.name): path for path in sorted(folder.iterdir()) if not path.name.startswith(".")}


def _release(config: pytest.Config, dump: str) -> str:
    version: str = config.getoption("kubernetes_version") or usage.release_of(dump)
    return version
