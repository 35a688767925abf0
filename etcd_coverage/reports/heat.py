"""Usages and comparisons -> calls by key pattern (down) and call shape (across)."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.judging.usage import Shape
from etcd_coverage.reference import GRPC_METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.comparing.compare import ComparedRow, Comparison
    from etcd_coverage.judging.usage import Row, Usage

HEAT = (1, 10, 100, 1000, 10_000)
"""From how many calls on a cell of the heat map has the levels 1 to 5."""

NO_KEY = "(no key)"
UNKNOWN_KEYS = "(unknown keys)"


class Cell(Struct, frozen=True):
    """Calls of a shape with a key pattern: ``level`` is the heat, ``status`` that of a comparison or empty."""

    calls: int
    level: int
    status: str = ""


class HeatMap(Struct, frozen=True):
    """Calls by key pattern (down) and call shape (across); None where there are none.

    ``methods`` are the gRPC methods with how many of the ``shapes`` each has.
    """

    methods: list[tuple[str, int]]
    shapes: list[Shape]
    rows: list[tuple[str, list[Cell | None]]]


def heat_map(usage: Usage) -> HeatMap:
    """Return the calls of a usage by key pattern and call shape; unknown keys share a row."""
    return _heat_map((row, row.calls, "") for row in usage.rows)


def coverage_map(comparison: Comparison) -> HeatMap:
    """Return the reference's calls by key pattern and call shape, the subject's where the reference has none."""
    return _heat_map((row, row.calls, row.status) for row in comparison.rows)


def place_of(row: Row | ComparedRow) -> tuple[str, Shape]:
    """Return the key pattern and the call shape under which a map has the row's calls; unknown keys share one."""
    key = (row.key_pattern or NO_KEY) if row.known_key else UNKNOWN_KEYS
    return key, row.shape


def cell(calls: int, status: str = "") -> Cell:
    """Return the cell of that many calls."""
    return Cell(calls, sum(calls >= least for least in HEAT), status)


def _heat_map(entries: Iterable[tuple[Row | ComparedRow, int, str]]) -> HeatMap:
    calls: defaultdict[str, Counter[Shape]] = defaultdict(Counter)
    statuses: dict[tuple[str, Shape], str] = {}
    for row, count, status in entries:
        key, shape = place_of(row)
        calls[key][shape] += count
        statuses[key, shape] = status
    shapes = sorted({shape for counts in calls.values() for shape in counts}, key=_shape_order)
    methods = Counter(method for method, _, _ in shapes)
    rows = [
        (
            key,
            [cell(calls[key][shape], statuses[key, shape]) if shape in calls[key] else None for shape in shapes],
        )
        for key in sorted(calls, key=lambda key: (key in (NO_KEY, UNKNOWN_KEYS), key))
    ]
    return HeatMap(list(methods.items()), shapes, rows)


_METHOD_ORDER = {method.name: number for number, method in enumerate(GRPC_METHODS)}
_PATTERN_ORDER = {
    (method.name, pattern.name): number
    for method in GRPC_METHODS
    for number, pattern in enumerate(method.call_patterns)
}


def _shape_order(shape: Shape) -> tuple[object, ...]:
    method, pattern, args = shape
    last = len(_PATTERN_ORDER)
    return _METHOD_ORDER.get(method, last), method, _PATTERN_ORDER.get((method, pattern), last), pattern, args
