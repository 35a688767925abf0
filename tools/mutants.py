"""Changes the source in small ways, one at a time, and reports each change that no test notices.

``python tools/mutants.py [--most N] [MODULE...]`` tries N changes of each module of judging/, comparing/, dumps/, or of
the modules named, drawn with a fixed seed: on a copy of the project, by the tests that run the changed line.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

# What the tests import, so that each child finds it imported; nothing of the project itself, which is changed.
import coverage
import hypothesis
import jsonschema
import msgspec
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
ROOMS = ("judging", "comparing", "dumps")
# The tests of these rooms that take seconds, not those that run the suite or a server.
TESTS = [
    *(f"tests/test_{name}.py" for name in ("contract", "key_pattern", "matchers", "reference", "sort")),
    *(
        f"meta_tests/test_{name}.py"
        for name in (
            "classify", "compare", "data_quality", "gates", "golden", "maps", "otlp", "saved", "second_implementation",
            "unseen", "usage",
        )
    ),
]  # fmt: skip
OPTIONS = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not integration and not parity"]
TIMEOUT_SECONDS = 120
_PRELOADED = (hypothesis, jsonschema, msgspec)


class Change(NamedTuple):
    """What is to be changed about a node: its field, or the item ``at`` of that list, becomes ``value``."""

    text: str
    field: str
    at: int | None
    value: object

    def make(self, node: ast.AST) -> None:
        """Make the change in place."""
        if self.at is None:
            setattr(node, self.field, self.value)
        elif self.value is None:
            del getattr(node, self.field)[self.at]
        else:
            getattr(node, self.field)[self.at] = self.value


class Mutant(NamedTuple):
    """One change: where, what, and the module's source with it."""

    path: Path
    line: int
    text: str
    source: str


_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add,
}  # fmt: skip
_REMOVABLE = (ast.Expr, ast.AugAssign, ast.Assign, ast.Raise, ast.Continue, ast.Break)


def changes(node: ast.AST) -> Iterator[Change]:
    """Yield the changes of a node and of the statements right in it."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            if new := _SWAPPED.get(type(operator)):
                yield Change(_swap(operator, new), "ops", at, new())
    elif isinstance(node, (ast.BoolOp, ast.BinOp)):
        if new := _SWAPPED.get(type(node.op)):
            yield Change(_swap(node.op, new), "op", None, new())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield Change("without not", "operand", None, ast.UnaryOp(ast.Not(), node.operand))
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield from (Change(f"if {value}", "test", None, ast.Constant(value)) for value in (True, False))
    elif isinstance(node, ast.comprehension):
        yield from (Change("without a condition", "ifs", at, None) for at in range(len(node.ifs)))
    elif isinstance(node, ast.Constant):
        if (other := _other_value(node.value)) is not None:
            yield Change(f"{node.value!r} -> {other!r}", "value", None, other)
    elif isinstance(node, ast.Return):
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield Change("return None", "value", None, ast.Constant(None))
    elif isinstance(node, ast.FunctionDef):
        for at, decorator in enumerate(node.decorator_list):
            if ast.unparse(decorator) not in ("property", "abstractmethod", "contextlib.contextmanager"):
                yield Change(f"without @{ast.unparse(decorator)}", "decorator_list", at, None)
    for field in ("body", "orelse", "finalbody"):
        body = getattr(node, field, None)
        if isinstance(body, list) and not isinstance(node, (ast.Module, ast.ClassDef)):
            for at, statement in enumerate(body):
                if isinstance(statement, _REMOVABLE) and not _is_docstring(statement):
                    yield Change(f"without {ast.unparse(statement).splitlines()[0][:60]}", field, at, ast.Pass())


def _swap(old: ast.AST, new: type[ast.AST]) -> str:
    return f"{type(old).__name__} -> {new.__name__}"


def _other_value(value: object) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    # Not sentences: their words are no behaviour.
    if isinstance(value, str) and value and " " not in value:
        return f"{value}?"
    return None


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def mutants(path: Path) -> list[Mutant]:
    """Return every change of the module."""
    tree = ast.parse(path.read_text())
    skipped = set()
    for node in ast.walk(tree):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if is_for_types or (isinstance(node, ast.Expr) and _is_docstring(node)):
            parts.append(node)
        skipped |= {id(inner) for part in parts if isinstance(part, ast.AST) for inner in ast.walk(part)}
    found = []
    line = 1
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        for change in changes(node):
            changed = copy.deepcopy(tree)
            change.make(next(inner for at, inner in enumerate(ast.walk(changed)) if at == number))
            line = getattr(node, "lineno", line)
            found.append(Mutant(path, line, change.text, ast.unparse(ast.fix_missing_locations(changed))))
    return found


def _copy_of_project(folder: Path) -> Path:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def _tests_by_line(project: Path) -> dict[str, dict[int, list[str]]]:
    """Run the tests unchanged; return which of them run each line, by the module's path in the project."""
    data = project / "lines.coverage"
    command = [
        sys.executable,
        "-m",
        "pytest",
        *OPTIONS,
        "--cov=etcd_coverage",
        "--cov-context=test",
        "--cov-report=",
        *TESTS,
    ]
    environment = os.environ | {"PYTHONPATH": str(project), "COVERAGE_FILE": str(data)}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"the tests fail without any change:\n{done.stdout[-3000:]}")
    lines = coverage.CoverageData(basename=str(data))
    lines.read()
    return {
        str(Path(file).relative_to(project)): {
            line: sorted({context.partition("|")[0] for context in contexts if context})
            for line, contexts in lines.contexts_by_lineno(file).items()
        }
        for file in lines.measured_files()
    }


def _run_tests(project: Path, tests: list[str]) -> int:
    """Fork a process that ends with 0 if the tests pass; return its id."""
    child = os.fork()
    if child:
        return child
    signal.alarm(TIMEOUT_SECONDS)
    os.chdir(project)
    sys.path.insert(0, str(project))
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    os._exit(int(pytest.main([*OPTIONS, *tests])))


def survivors(tried: list[Mutant], projects: list[Path]) -> Iterator[Mutant]:
    """Yield the changes that no test notices, one project copy each at a time."""
    by_line = _tests_by_line(projects[0])
    print(f"{len(tried)} changes", flush=True)
    free = list(projects)
    running: dict[int, tuple[Mutant, Path]] = {}
    waiting = list(tried)
    while waiting or running:
        if waiting and free:
            mutant, project = waiting.pop(), free.pop()
            name = str(mutant.path.relative_to(ROOT))
            tests = by_line.get(name, {}).get(mutant.line) or TESTS
            _write(project / name, mutant.source)
            running[_run_tests(project, tests)] = (mutant, project)
            continue
        child, status = os.wait()
        mutant, project = running.pop(child)
        name = str(mutant.path.relative_to(ROOT))
        _write(project / name, mutant.path.read_text())
        free.append(project)
        if status == 0:
            yield mutant


def _write(path: Path, source: str) -> None:
    path.write_text(source)
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
        compiled.unlink()


def main() -> int:
    """Report the survivors; 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", type=Path, metavar="MODULE")
    parser.add_argument(
        "--most", type=int, default=25, metavar="N", help="changes of each module (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    package = ROOT / "etcd_coverage"
    modules = [path.resolve() for path in given.modules] or [
        path for room in ROOMS for path in sorted((package / room).glob("*.py")) if path.name != "__init__.py"
    ]
    draw = random.Random(given.seed)
    tried = []
    for path in modules:
        every = mutants(path)
        tried += draw.sample(every, min(given.most, len(every)))
    draw.shuffle(tried)
    left: defaultdict[str, int] = defaultdict(int)
    with tempfile.TemporaryDirectory() as folder:
        projects = [_copy_of_project(Path(folder).resolve() / str(number)) for number in range(given.jobs)]
        for mutant in survivors(tried, projects):
            name = str(mutant.path.relative_to(ROOT))
            left[name] += 1
            print(f"{name}:{mutant.line}: {mutant.text}", flush=True)
    totals = Counter(str(mutant.path.relative_to(ROOT)) for mutant in tried)
    for name, number in totals.items():
        print(f"{name}: {left[name]} of {number} changes unnoticed")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
