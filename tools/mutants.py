"""Changes the source in small ways, one at a time, and reports each change that no test notices.

``python -m tools.mutants [--most N] [MODULE...]`` tries every change of judging/, comparing/, dumps/, or of the modules
named, or N drawn with a fixed seed. The tests are collected once, in a copy of the project; each change is made in a
process forked from there, which runs the tests that run the changed line, the quickest first, until one fails.
Changes that leave the behaviour as it is are listed in tools/equivalent_mutants.toml, with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.machinery
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import coverage
import hypothesis
import pytest
from _pytest.runner import runtestprotocol

from tools.mutations import Mutant, mutants

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
EQUIVALENT = ROOT / "tools" / "equivalent_mutants.toml"
ROOMS = ("judging", "comparing", "dumps")
# The tests of these rooms that take seconds, not those that run the suite, a command or a server.
TESTS = [
    *(f"tests/test_{name}.py" for name in ("contract", "key_pattern", "matchers", "reference", "sort")),
    *(
        f"meta_tests/test_{name}.py"
        for name in (
            "advise", "callers", "classify", "compare", "data_quality", "dump_files", "etcd_prefix", "finding_details",
            "gates", "golden", "history", "kinds", "live_judge", "long_answers", "maps", "merge", "origins", "otlp",
            "otlp_values", "parts", "releases", "saved", "second_implementation", "spelling", "unknown_keys", "unseen",
            "usage",
        )
    ),
]  # fmt: skip
# -s: a forked process must not write into what the tests' process captures.
OPTIONS = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not integration"]
MOST_CPU_SECONDS, MOST_SECONDS, MOST_BYTES = 30, 300, 4 << 30
"""Limits of the tests of one change, which may have made an endless loop; what reaches one is noticed."""
_NAME = "mutants-lines"


class Timed(NamedTuple):
    """Which tests run each line, by the module's path in the project, and how long each test takes."""

    by_line: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]

    def tests(self, mutant: Mutant, budget: float) -> list[str]:
        """Return the tests that run the changed lines, the quickest first, those that fit into ``budget`` seconds."""
        lines = self.by_line.get(str(mutant.path), {})
        everywhere: Iterable[int] = lines
        for places in (mutant.lines, mutant.function or ()) if mutant.function else (everywhere,):
            if found := set().union(*(lines.get(line, ()) for line in places)):
                break
        chosen: list[str] = []
        for test in sorted(found, key=lambda name: (self.seconds.get(name, 0), name)):
            budget -= self.seconds.get(test, 0)
            if chosen and budget < 0:
                break
            chosen.append(test)
        return chosen


class _Durations:
    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration  # type: ignore[assignment]


def _measure(project: Path) -> Timed:
    """Run the tests unchanged, in a process of their own."""
    data = project / f"{_NAME}.coverage"
    arguments = [*OPTIONS, "--cov=etcd_coverage", "--cov-context=test", "--cov-report=", *TESTS]
    code = (
        "import json, pathlib, sys, pytest; from tools.mutants import _Durations; made = _Durations(); "
        f"code = pytest.main({arguments!r}, plugins=[made]); "
        f"pathlib.Path('{_NAME}.json').write_text(json.dumps(made.seconds)); sys.exit(code)"
    )
    environment = os.environ | {"PYTHONPATH": str(project), "COVERAGE_FILE": str(data)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"the tests fail without any change:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    lines = coverage.CoverageData(basename=str(data))
    lines.read()
    by_line = {
        str(Path(file).relative_to(project)): {
            line: {context.partition("|")[0] for context in contexts if context}
            for line, contexts in lines.contexts_by_lineno(file).items()
        }
        for file in lines.measured_files()
    }
    return Timed(by_line, json.loads((project / f"{_NAME}.json").read_text()))


def _functions(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _functions(inner)


def _replace(mutant: Mutant) -> None:
    """Give each function of the module, wherever it is used, its changed code."""
    path = str(mutant.path.resolve())
    changed = compile(mutant.tree(), path, "exec", dont_inherit=True)
    codes = {(code.co_qualname, code.co_firstlineno): code for code in _functions(changed)}
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename == path:
            code = codes[function.__code__.co_qualname, function.__code__.co_firstlineno]
            function.__code__ = code


def _import_again(mutant: Mutant) -> None:
    """Let the next import of the project find the module changed."""
    path = str(mutant.path.resolve())
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: Any, fullname: str) -> CodeType | None:
        if loader.get_filename(fullname) == path:
            return compile(mutant.tree(), path, "exec", dont_inherit=True)
        return original(loader, fullname)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    for name in list(sys.modules):
        if name.partition(".")[0] in ("etcd_coverage", "tests", "meta_tests", "conftest"):
            del sys.modules[name]


class Trials:
    """Tries each change when the tests have been collected; a plugin of pytest, which runs none itself."""

    def __init__(self, tried: list[Mutant], timed: Timed, jobs: int, budget: float) -> None:
        self.tried = tried
        self.timed = timed
        self.jobs = jobs
        self.budget = budget
        self.unnoticed: list[tuple[Mutant, bool]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fill ``unnoticed``: each change that no test notices, and whether one ran the line at all."""
        items = {item.nodeid: item for item in session.items}
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        running: dict[int, Mutant] = {}
        waiting = list(self.tried)
        started, done = time.monotonic(), 0
        while waiting or running:
            if waiting and len(running) < self.jobs:
                mutant = waiting.pop(0)
                if tests := self.timed.tests(mutant, self.budget):
                    running[self._start(mutant, [items[test] for test in tests])] = mutant
                else:
                    self.unnoticed.append((mutant, False))
                    continue
            if len(running) == self.jobs or not waiting:
                child, status = os.wait()
                mutant = running.pop(child)
                done += 1
                if status == 0:
                    self.unnoticed.append((mutant, True))
                    print(f"{mutant.path}:{mutant.line}: {mutant.change.text}", flush=True)
                if done % 100 == 0:
                    print(f"... {done} of {len(self.tried)}, {time.monotonic() - started:.0f} s", flush=True)
        return True

    def _start(self, mutant: Mutant, items: list[pytest.Item]) -> int:
        """Fork a process that ends with 0 if the tests pass; return its id."""
        if child := os.fork():
            return child
        failed = True
        try:
            signal.alarm(MOST_SECONDS)
            resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS))
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            failed = _fails(mutant, items)
        finally:
            os._exit(failed)


def _fails(mutant: Mutant, items: list[pytest.Item]) -> bool:
    if mutant.function:
        # A change that needs other variables from around a function is imported.
        with contextlib.suppress(ValueError):
            _replace(mutant)
            return any(
                report.failed
                for item, following in pairwise([*items, None])
                if item
                for report in runtestprotocol(item, log=False, nextitem=following)
            )
    _import_again(mutant)
    return pytest.main([*OPTIONS, "-x", *(item.nodeid for item in items)]) != pytest.ExitCode.OK


def equivalents() -> dict[tuple[str, str, str], str]:
    """Return why each change listed leaves the behaviour as it is, by module, text of the line, and change."""
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    return {(one["module"], one["line"], change): one["reason"] for one in listed for change in one["changes"]}


def key(mutant: Mutant) -> tuple[str, str, str]:
    """Return by what a change is listed as equivalent."""
    text = mutant.path.read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip()
    return str(mutant.path), text, mutant.change.text


def _copy_of_project(folder: Path) -> Path:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants ARGS=...", description=__doc__)
    parser.add_argument("modules", nargs="*", type=Path, metavar="MODULE")
    parser.add_argument("--most", type=int, metavar="N", help="changes in total (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw and the order (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="changes tried at once (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=5, help="of the tests of a change, without it (default: %(default)s)"
    )
    return parser.parse_args()


def main() -> int:
    """Report the survivors; 1 if there is one that is not listed as equivalent."""
    given = _options()
    package = ROOT / "etcd_coverage"
    paths = [path.resolve() for path in given.modules] or [
        path for room in ROOMS for path in sorted((package / room).glob("*.py"))
    ]
    os.nice(10)
    with tempfile.TemporaryDirectory() as folder:
        project = _copy_of_project(Path(folder).resolve())
        os.chdir(project)
        tried = [mutant for path in paths for mutant in mutants(path.relative_to(ROOT))]
        random.Random(given.seed).shuffle(tried)
        known = equivalents()
        listed = [mutant for mutant in tried if key(mutant) in known]
        tried = [mutant for mutant in tried if key(mutant) not in known][: given.most]
        print(f"{len(tried)} changes; {len(listed)} more are listed as equivalent", flush=True)
        trials = Trials(tried, _measure(project), given.jobs, given.seconds)
        sys.path.insert(0, str(project))
        hypothesis.settings.register_profile("mutants", derandomize=True, database=None, deadline=None)
        hypothesis.settings.load_profile("mutants")
        if pytest.main([*OPTIONS, "--no-header", *TESTS], plugins=[trials]) != pytest.ExitCode.OK:
            sys.exit("the tests were not collected")
        _report(trials)
    return 1 if trials.unnoticed else 0


def _report(trials: Trials) -> None:
    totals = Counter(str(mutant.path) for mutant in trials.tried)
    left = Counter(str(mutant.path) for mutant, _ in trials.unnoticed)
    for mutant, was_run in sorted(trials.unnoticed, key=lambda one: (str(one[0].path), one[0].line)):
        where, text, change = key(mutant)
        not_run = "" if was_run else " (no test runs it)"
        print(f"{where}:{mutant.line}: {text}\n    {change}{not_run}")
    for name in sorted(totals):
        print(f"{name}: {left[name]} of {totals[name]} changes unnoticed")
    print(f"{left.total()} of {totals.total()} changes unnoticed")


if __name__ == "__main__":
    sys.exit(main())
