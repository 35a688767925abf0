"""The small changes of a module's source that ``make mutants`` tries."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
    """One change of a module: which, of the node of that number in the order of ``ast.walk``, and where it counts.

    ``lines`` are those of the statement, or of the first line of a compound one; ``function`` those of the outermost
    function around it, none for a change of what runs when the module is imported.
    """

    path: Path
    number: int
    change: Change
    line: int
    lines: range
    function: range | None

    def tree(self) -> ast.Module:
        """Return the changed module, with the lines of the original."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        self.change.make(next(node for at, node in enumerate(ast.walk(tree)) if at == self.number))
        return ast.fix_missing_locations(tree)


_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add,
}  # fmt: skip
_REMOVABLE = (ast.Expr, ast.AugAssign, ast.Assign, ast.Raise, ast.Continue, ast.Break)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


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
            if ast.unparse(decorator) not in ("property", "abstractmethod", "contextlib.contextmanager", "overload"):
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


class _Place(NamedTuple):
    lines: range
    function: range | None


def _places(tree: ast.Module) -> dict[ast.AST, _Place]:
    """Return where each node stands; those that are never changed are left out: types, and docstrings."""
    found: dict[ast.AST, _Place] = {tree: _Place(range(0), None)}

    def visit(parent: ast.AST, place: _Place) -> None:
        for name, value in ast.iter_fields(parent):
            if name in ("annotation", "returns"):
                continue
            for node in value if isinstance(value, list) else [value]:
                if not isinstance(node, ast.AST):
                    continue
                if isinstance(node, ast.stmt):
                    if _is_docstring(node) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
                        continue
                    inner = place.function
                    if inner is None and isinstance(parent, _FUNCTION) and name == "body":
                        inner = range(parent.lineno, (parent.end_lineno or 0) + 1)
                    last = node.body[0].lineno if hasattr(node, "body") else (node.end_lineno or 0) + 1
                    found[node] = _Place(range(node.lineno, max(last, node.lineno + 1)), inner)
                else:
                    found[node] = place
                visit(node, found[node])

    visit(tree, found[tree])
    return found


def mutants(path: Path) -> list[Mutant]:
    """Return every change of the module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    places = _places(tree)
    found = []
    for number, node in enumerate(ast.walk(tree)):
        if node in places:
            for change in changes(node):
                changed = getattr(node, change.field)
                inner = changed[change.at] if change.at is not None else changed
                # A statement that is left out, or a part of one.
                place = places.get(inner, places[node]) if isinstance(inner, ast.stmt) else places[node]
                line = getattr(inner if isinstance(inner, ast.stmt) else node, "lineno", None) or place.lines.start
                found.append(Mutant(path, number, change, line, place.lines, place.function))
    return found
