"""Usages -> what reports are about: every number, sum, share and order that they show, and what they leave out.

The values of a comparison are in `comparison_view`, those of the maps in `heat`. Reports only lay them out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from etcd_coverage.comparing.compare import ComparedRow, Comparison, Coverage
from etcd_coverage.judging.usage import Quality, Row, Usage
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.reports.figures import Share, heaviest
from etcd_coverage.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EXPECTED = "as expected"
_Row = TypeVar("_Row", Row, ComparedRow)


class Report(Struct, frozen=True, kw_only=True):
    """What a report is about: usages by the name of their dump, and what is known besides.

    ``releases`` are the Kubernetes releases ("X.Y") that dumps were judged as, ``comparisons`` those with the usage of
    the name ``reference``; ``comparison_notes`` say what a comparison leaves out, ``gate_failures`` which gates fail, a
    line each; all by dump name. ``jaeger_url`` makes example traces links; ``by_test`` asks for what
    e2e tests reach.
    """

    usages: dict[str, Usage]
    releases: dict[str, str] = {}
    reference: str = ""
    comparisons: dict[str, Comparison] = {}
    comparison_notes: dict[str, list[str]] = {}
    gate_failures: dict[str, list[str]] = {}
    jaeger_url: str = ""
    by_test: bool = False

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

    def overview(self) -> list[DumpLine]:
        """Return a line for each dump, in the order of the report: those that are not as expected first, by name."""
        lines = [self._line(name, usage) for name, usage in self.usages.items()]
        return sorted(lines, key=lambda line: (line.is_expected, line.name))

    def _line(self, name: str, usage: Usage) -> DumpLine:
        verdict = self.verdict(name)
        comparison = self.comparisons.get(name)
        return DumpLine(
            name=name,
            verdict=verdict,
            is_expected=verdict == EXPECTED,
            release=self.releases.get(name, ""),
            calls=sum(usage.calls.values()),
            rows=len(usage.rows),
            spans=usage.quality.spans,
            traces=usage.quality.traces,
            coverages=[comparison.shape_coverage, comparison.row_coverage] if comparison else [],
        )


class DumpLine(Struct, frozen=True, kw_only=True):
    """What the overview has of a dump; ``coverages`` are those of call shapes and rows, if it was compared."""

    name: str
    verdict: str
    is_expected: bool
    release: str
    calls: int
    rows: int
    spans: int
    traces: int
    coverages: list[Coverage]


class LeftOut(Struct, frozen=True):
    """How many lines of a table are not shown, and their calls."""

    number: int
    share: Share


class CallsTable(Struct, frozen=True):
    """The server spans per gRPC method, the most called first; ``left_out`` are unexpected methods."""

    lines: list[tuple[str, Share]]
    left_out: LeftOut | None
    total: Share


class RowLine(Struct, frozen=True):
    """A row, its calls as a share of the gRPC method's, and those through the contract as a share of its own."""

    row: Row
    contract: Share
    share: Share


class MethodTable(Struct, frozen=True):
    """The rows of a gRPC method in table order.

    ``args`` are its columns with the calls that set each. The totals count what is left out too, which are rows with
    unknown keys; ``contract`` is the share of all calls that were made through the contract, ``failed`` counts those
    that etcd answered with an error.
    """

    grpc_method: str
    args: dict[str, int]
    lines: list[RowLine]
    left_out: LeftOut | None
    contract: Share
    total: Share
    failed: int = 0


class LeaseLine(Struct, frozen=True):
    """The leases of a key pattern: average transactions of one, average TTL in seconds, LeaseGrant calls."""

    key_pattern: str
    uses: float
    ttl_seconds: float
    share: Share


class LeasesTable(Struct, frozen=True):
    """The leases by key pattern, in table order."""

    lines: list[LeaseLine]
    total: Share


def calls_table(usage: Usage) -> CallsTable:
    """Return the server spans per gRPC method."""
    total = sum(usage.calls.values())
    known = {method.name for method in GRPC_METHODS}
    ordered = sorted(usage.calls.items(), key=lambda item: (-item[1], item[0]))
    shown, rest = heaviest(ordered, lambda item: item[0] not in known, lambda item: item[1])
    return CallsTable(
        lines=[(name, Share(calls, total)) for name, calls in shown],
        left_out=_left_out([calls for _, calls in rest], total),
        total=Share(total, total),
    )


def method_tables(usage: Usage) -> list[MethodTable]:
    """Return the table of each gRPC method that has rows, in the order of the rows."""
    return [_method_table(method, rows) for method, rows in by_method(usage.rows)]


def _method_table(name: str, rows: Sequence[Row]) -> MethodTable:
    total = sum(row.calls for row in rows)
    columns = next(([arg.name for arg in method.args] for method in GRPC_METHODS if method.name == name), [])
    # Saved usages may have columns that the reference no longer has.
    columns = list(dict.fromkeys([*columns, *(arg for row in rows for arg in row.args)]))
    shown, rest = split_rows(rows)
    return MethodTable(
        grpc_method=name,
        args={column: sum(row.calls for row in rows if column in row.args) for column in columns},
        lines=[RowLine(row, Share(row.contract_calls, row.calls), Share(row.calls, total)) for row in shown],
        left_out=_left_out([row.calls for row in rest], total),
        contract=Share(sum(row.contract_calls for row in rows), total),
        total=Share(total, total),
        failed=sum(row.failed or 0 for row in rows),
    )


def all_rows(tables: Sequence[MethodTable]) -> Share:
    """Return the calls through the contract of all gRPC methods, as a share of all calls that have rows."""
    return Share(sum(table.contract.calls for table in tables), sum(table.total.of for table in tables))


def leases_table(usage: Usage) -> LeasesTable | None:
    """Return the leases by key pattern; None if there are none."""
    if not usage.leases:
        return None
    total = sum(lease.calls for lease in usage.leases)
    lines = [
        LeaseLine(
            lease.key_pattern, lease.uses / lease.calls, lease.ttl_seconds / lease.calls, Share(lease.calls, total)
        )
        for lease in usage.leases
    ]
    return LeasesTable(lines, Share(total, total))


def _left_out(calls: Sequence[int], total: int) -> LeftOut | None:
    return LeftOut(len(calls), Share(sum(calls), total)) if calls else None


def by_method(rows: Sequence[_Row]) -> Iterator[tuple[str, list[_Row]]]:
    """Yield each gRPC method with its rows, in the order of the rows."""
    for method in dict.fromkeys(row.grpc_method for row in rows):
        yield method, [row for row in rows if row.grpc_method == method]


def split_rows(rows: Sequence[_Row]) -> tuple[list[_Row], list[_Row]]:
    """Split the rows into those to show and those of unknown keys that are too many."""
    return heaviest(rows, lambda row: not row.known_key, lambda row: row.calls)


def quality_line(quality: Quality) -> str:
    """Return one line that says how complete the dump is."""
    without_call = f"{quality.grpc_spans_without_call} gRPC spans without call"
    if quality.failed_without_call:
        without_call += f" ({quality.failed_without_call} failed)"
    return (
        f"{quality.spans} spans, {quality.traces} traces, {quality.skipped_spans} skipped, "
        f"{quality.duplicate_spans} duplicates, {quality.calls_without_parent} calls without parent, {without_call}"
    )
