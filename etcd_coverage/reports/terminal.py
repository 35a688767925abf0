"""Usages -> text tables for the terminal; nothing here prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.comparing.compare import shape_text
from etcd_coverage.reports import callers, view
from etcd_coverage.reports.figures import key_text
from etcd_coverage.reports.finding_details import DETAILED, details
from etcd_coverage.reports.grouped_findings import grouped
from etcd_coverage.reports.layout import TextTable, fitted, left_then_right
from etcd_coverage.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from etcd_coverage.judging.usage import Finding, Shape, Usage
    from etcd_coverage.reports.figures import Trace
    from etcd_coverage.reports.view import CallsTable, LeasesTable, MethodTable


def tables(usage: Usage, width: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of each table that has rows.

    ``width`` is that of the terminal in characters; None for tables as wide as their texts are.
    """
    yield "calls", calls_text(view.calls_table(usage), width)
    for table in view.method_tables(usage):
        yield key_text(table.grpc_method), method_text(table, width)
    if leases := view.leases_table(usage):
        yield "leases", leases_text(leases, width)
    if made_by := callers.callers_table(usage):
        yield "callers", callers.callers_text(made_by, width)
    if outside := callers.outside_table(usage):
        yield "outside the interface", callers.outside_text(outside, width)


def calls_text(table: CallsTable, width: int | None = None) -> str:
    """Return the table of the server spans per gRPC method."""
    rows = [[key_text(name), str(share.calls), share.percent] for name, share in table.lines]
    if table.left_out:
        more = f"... and {counted(table.left_out.number, 'more unexpected method')}"
        rows.append([more, str(table.left_out.share.calls), table.left_out.share.percent])
    made = TextTable(
        headers=["method", "calls", "percent"],
        rows=rows,
        footer=["total", str(table.total.calls), table.total.percent],
        align=left_then_right(3, 2),
    )
    return fitted(made, width)


def method_text(table: MethodTable, width: int | None = None) -> str:
    """Return the table of a gRPC method's rows; where it is too wide, args, call and key pattern share a column."""
    # A column only where there is something to show.
    failed = [str(line.row.failed or "") for line in table.lines]
    numbers = [
        [line.contract.percent, str(line.share.calls), line.share.percent, *([errors] if table.failed else [])]
        for line, errors in zip(table.lines, failed, strict=True)
    ]
    wide = [
        [
            key_text(line.row.call_pattern),
            key_pattern_text(line.row.key_pattern, known=line.row.known_key),
            *("X" if name in line.row.args else "" for name in table.args),
        ]
        for line in table.lines
    ]
    narrow = [[call_text(line.row.shape, cells[1])] for line, cells in zip(table.lines, wide, strict=True)]
    if table.left_out:
        more = f"... and {counted(table.left_out.number, 'more unknown key')}"
        wide.append(["", more, *("" for _ in table.args)])
        narrow.append([more])
        numbers.append(["", str(table.left_out.share.calls), table.left_out.share.percent])
        if table.failed:
            numbers[-1].append(str(table.failed - sum(line.row.failed or 0 for line in table.lines) or ""))
    totals = [str(table.contract.calls), str(table.total.calls), table.total.percent]
    headers = ["contract", "calls", "percent"]
    if table.failed:
        totals.append(str(table.failed))
        headers.append("failed")
    of_args = ", ".join(f"{key_text(name)} {calls}" for name, calls in table.args.items() if calls)
    return fitted(
        TextTable(
            headers=["method", "pattern", *map(key_text, table.args), *headers],
            rows=[[*cells, *line] for cells, line in zip(wide, numbers, strict=True)],
            footer=["total", "", *map(str, table.args.values()), *totals],
            align=left_then_right(len(table.args) + len(headers) + 2, len(table.args) + len(headers)),
        ),
        width,
        TextTable(
            headers=["call", *headers],
            rows=[[*cells, *line] for cells, line in zip(narrow, numbers, strict=True)],
            footer=[f"total\n{of_args}" if of_args else "total", *totals],
            align=left_then_right(len(headers) + 1, len(headers)),
        ),
    )


def leases_text(table: LeasesTable, width: int | None = None) -> str:
    """Return the table of the leases by key pattern, TTLs in seconds."""
    made = TextTable(
        headers=["pattern", "avg uses", "avg ttl", "calls", "percent"],
        rows=[
            [
                key_text(line.key_pattern),
                f"{line.uses:.1f}",
                f"{line.ttl_seconds:.1f}",
                str(line.share.calls),
                line.share.percent,
            ]
            for line in table.lines
        ],
        footer=["total", "", "", str(table.total.calls), table.total.percent],
        align=left_then_right(5, 4),
    )
    return fitted(made, width)


def key_pattern_text(key_pattern: str, *, known: bool) -> str:
    """Return the key pattern as a table shows it: of an unknown key that it is one, since it may look like a pattern.

    Without braces it cannot: then the key stands alone, as the Go original prints it.
    """
    text = key_text(key_pattern)
    return text if known or "{" not in text else f"{text} (unknown key)"


def call_text(shape: Shape, key_pattern: str) -> str:
    """Return call pattern and args, and the key pattern in a line of its own, if there is one."""
    text = key_text(shape_text(shape))
    return f"{text}\n{key_pattern}" if key_pattern else text


def failure_text(findings: Sequence[Finding], jaeger_url: str = "", dump: str = "") -> str:
    """Return all findings of a test with their counts, origins and examples, and what to do about each kind.

    ``dump`` is where the dump is, empty for a saved usage.

    ``jaeger_url`` is where Jaeger's pages are: examples are links to them; empty for their ids alone.
    """
    shown_findings = grouped(findings, jaeger_url)
    lines = []
    rows: set[str] = set()
    for number, line in enumerate(shown_findings.lines):
        lines.append(line.message)
        if line.trace is not None:
            lines += [
                f"    {detail}" for detail in details(line, place(line.trace), dump, rows, whole=number < DETAILED)
            ]
    lines += [left_out.text for left_out in shown_findings.left_out]
    lines += [f"{identifier}: {step}" for identifier, step in shown_findings.next_steps]
    return "\n".join(lines)


def place(trace: Trace) -> str:
    """Return where a trace is: the ids of its span, and the link to Jaeger if there is one."""
    address = f" ({trace.address})" if trace.address else ""
    return f"trace {trace.trace_id} span {trace.span_id}{address}"
