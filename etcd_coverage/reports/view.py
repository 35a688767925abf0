"""Usages and comparisons -> what reports are about, and the values that several of them show."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from etcd_coverage.comparing import compare
from etcd_coverage.comparing.compare import ComparedRow, Comparison, Shape
from etcd_coverage.judging.usage import Quality, Row, Usage
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.reports.figures import heaviest
from etcd_coverage.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HEAT = (1, 10, 100, 1000, 10_000)
"""From how many calls on a cell of the heat map has the levels 1 to 5."""

EXPECTED = "as expected"
_Row = TypeVar("_Row", Row, ComparedRow)

NO_KEY = "(no key)"
UNKNOWN_KEYS = "(unknown keys)"


class Report(Struct, frozen=True, kw_only=True):
    """What a report is about: usages by the name of their dump, and what is known besides.

    ``releases`` are the Kubernetes releases ("X.Y") that dumps were judged as, ``comparisons`` those with the usage of
    the name ``reference``; ``comparison_notes`` say what a comparison leaves out, ``gate_failures`` which gates fail, a
    line each; all by dump name. ``jaeger_url`` makes example traces links.
    """

    usages: dict[str, Usage]
    releases: dict[str, str] = {}
    reference: str = ""
    comparisons: dict[str, Comparison] = {}
    comparison_notes: dict[str, list[str]] = {}
    gate_failures: dict[str, list[str]] = {}
    jaeger_url: str = ""

    def verdict(self, name: str) -> str:
        """Return what the dump of that name was found to be, in a few words."""
        usage = self.usages[name]
        if usage.error is not None:
            return "not judged"
        failures = self.gate_failures.get(name, [])
        faults = [
            counted(len(usage.findings), "finding") if usage.findings else "",
            counted(len(failures), "failed gate") if failures else "",
        ]
        return ", ".join(filter(None, faults)) or EXPECTED


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
    return _heat_map((row, row.reference_calls or row.subject_calls, row.status) for row in comparison.rows)


def _heat_map(entries: Iterable[tuple[Row | ComparedRow, int, str]]) -> HeatMap:
    calls: defaultdict[str, Counter[Shape]] = defaultdict(Counter)
    statuses: dict[tuple[str, Shape], str] = {}
    for row, count, status in entries:
        key = (row.key_pattern or NO_KEY) if row.known_key else UNKNOWN_KEYS
        shape = (row.grpc_method, row.call_pattern, row.args)
        calls[key][shape] += count
        statuses[key, shape] = status
    shapes = sorted({shape for counts in calls.values() for shape in counts}, key=_shape_order)
    methods = Counter(method for method, _, _ in shapes)
    rows = [
        (
            key,
            [
                Cell(calls[key][shape], _level(calls[key][shape]), statuses[key, shape])
                if shape in calls[key]
                else None
                for shape in shapes
            ],
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


def _level(calls: int) -> int:
    return sum(calls >= least for least in HEAT)


def missing_shapes(comparison: Comparison) -> dict[Shape, int]:
    """Return the reference's calls of each call shape that the subject lacks, the heaviest first."""
    return compare.missing_shapes(comparison.rows, comparison.rows)


def split_rows(rows: Sequence[_Row]) -> tuple[list[_Row], list[_Row]]:
    """Split the rows into those to show and those of unknown keys that are too many."""
    return heaviest(rows, lambda row: not row.known_key, _calls_of)


def _calls_of(row: _Row) -> int:
    return row.calls if isinstance(row, Row) else row.reference_calls or row.subject_calls


def methods_by_calls(usage: Usage) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return gRPC methods with their server spans, the most called first, and the unexpected ones that are too many."""
    ordered = sorted(usage.calls.items(), key=lambda item: (-item[1], item[0]))
    known = {method.name for method in GRPC_METHODS}
    return heaviest(ordered, lambda item: item[0] not in known, lambda item: item[1])


def quality_line(quality: Quality) -> str:
    """Return one line that says how complete the dump is."""
    without_call = f"{quality.grpc_spans_without_call} gRPC spans without call"
    if quality.failed_without_call:
        without_call += f" ({quality.failed_without_call} failed)"
    return (
        f"{quality.spans} spans, {quality.traces} traces, {quality.skipped_spans} skipped, "
        f"{quality.duplicate_spans} duplicates, {quality.calls_without_parent} calls without parent, {without_call}"
    )


def by_method(rows: Sequence[_Row]) -> Iterator[tuple[str, list[_Row], list[_Row]]]:
    """Yield each gRPC method with its rows to show and those that are too many."""
    for method in dict.fromkeys(row.grpc_method for row in rows):
        shown, left_out = split_rows([row for row in rows if row.grpc_method == method])
        yield method, shown, left_out
