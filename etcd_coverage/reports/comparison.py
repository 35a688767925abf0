"""Comparisons and what gates find in them -> text for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.comparing import compare
from etcd_coverage.comparing.compare import NEW, ComparedRow, shape_text
from etcd_coverage.comparing.gates import doubts
from etcd_coverage.judging.usage import Usage
from etcd_coverage.reference import GRPC_METHODS, short_name
from etcd_coverage.reports.callers import outside_line
from etcd_coverage.reports.comparison_view import compared_tables, coverage_text
from etcd_coverage.reports.figures import MOST_SHOWN, Share, key_text, trace_of
from etcd_coverage.reports.finding_details import origins_text
from etcd_coverage.reports.layout import TextTable, fitted
from etcd_coverage.reports.terminal import call_text, key_pattern_text, place
from etcd_coverage.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from etcd_coverage.comparing.compare import Comparison
    from etcd_coverage.comparing.gates import Gates, Outcome
    from etcd_coverage.judging.usage import Row
    from etcd_coverage.reports.comparison_view import ComparedTable


def comparison_tables(comparison: Comparison, width: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield the name of each gRPC method that either usage has rows of, and its table.

    ``width`` is that of the terminal in characters; None for tables as wide as their texts are.
    """
    for table in compared_tables(comparison):
        yield key_text(table.grpc_method), _table(table, width)


def comparison_summary(comparison: Comparison, reference: Usage, subject: Usage) -> list[str]:
    """Return the shares that are covered, and what the comparison leaves out, a line each."""
    return [
        f"call shapes covered: {coverage_text(comparison.shape_coverage)}",
        f"rows covered: {coverage_text(comparison.row_coverage)}",
        *(f"note: {note}" for note in comparison_notes(reference, subject)),
    ]


def comparison_notes(reference: Usage, subject: Usage) -> list[str]:
    """Return what a comparison leaves out and what makes it say little, a line each."""
    lines = []
    if compare.is_same_dump(reference, subject):
        lines.append("both are usages of the same dump: the comparison shows no change of Kubernetes or etcd")
    if rows := compare.left_out(reference):
        calls = sum(row.calls for row in rows)
        lines.append(
            f"{counted(len(rows), 'row')} of the reference ({counted(calls, 'call')}) without a call pattern "
            "or with an unknown key: left out"
        )
    without_rows = {method.name for method in GRPC_METHODS if not method.call_patterns}
    lines += [
        f"{short_name(name)}, compared by its calls alone: "
        f"{reference.calls.get(name, 0)} in the reference, {subject.calls.get(name, 0)} in the subject"
        for name in sorted(without_rows & (reference.calls.keys() | subject.calls.keys()))
    ]
    return lines


def gates_text(outcome: Outcome, gates: Gates, reference: Usage | None, subject: Usage, jaeger_url: str = "") -> str:
    """Return everything that the gates failed for, with examples; without a reference nothing is missing or new."""
    lines = list(outcome.failures)
    if outcome.missing_shapes:
        lines.append("missing call shapes, the heaviest first:")
    for shape, calls in outcome.missing_shapes.items():
        lines.append(f"    {key_text(short_name(shape[0]))} {key_text(shape_text(shape))}: {counted(calls, 'call')}")
    lines += _listed("missing rows, the heaviest first:", outcome.missing_rows, reference or Usage(), jaeger_url)
    lines += _listed("new rows, the heaviest first:", outcome.new_rows, subject, jaeger_url)
    lines += _new_callers(outcome)
    lines += _outside(outcome.outside)
    lost = [row.grpc_method for row in outcome.missing_rows] + [shape[0] for shape in outcome.missing_shapes]
    if lost and (reasons := doubts(lost, subject)):
        lines.append(f"may be not recorded rather than not called: {', '.join(reasons)}")
    lines += gates_notes(outcome, gates)
    return "\n".join(lines)


def gates_notes(outcome: Outcome, gates: Gates) -> list[str]:
    """Return what the gates did not look at, a line each."""
    lines = []
    if gates.methods:
        lines.append(f"--gate-methods: judged {', '.join(map(short_name, gates.methods))} alone")
    if outcome.left_out:
        rows = counted(len(outcome.left_out), "row")
        lines.append(f"--min-calls={gates.min_calls}: left out {rows} with fewer calls")
    if outcome.volatile:
        rows = counted(len(outcome.volatile), "row")
        lines.append(f"--min-runs={gates.min_runs}: left out {rows} that fewer runs of the reference have")
    if outcome.excused:
        calls = sum(row.reference_calls for row in outcome.excused)
        rows = counted(len(outcome.excused), "missing row")
        lines.append(f"known gaps: {rows} ({counted(calls, 'call')}), which --fail-on-missing allows")
    return lines


def _listed(title: str, rows: Sequence[ComparedRow], usage: Usage, jaeger_url: str) -> list[str]:
    lines = [title] if rows else []
    total = sum(row.calls for row in usage.rows)
    for row in rows[:MOST_SHOWN]:
        share = Share(row.calls, total)
        trace = trace_of(compare.example_of(row, usage), jaeger_url)
        shown_at = f", for example {place(trace)}" if trace else ", no example saved"
        lines.append(f"    {_row_text(row)}")
        lines.append(f"        {counted(share.calls, 'call')}, {share.percent} of all{shown_at}")
    if rest := rows[MOST_SHOWN:]:
        calls = sum(row.calls for row in rest)
        lines.append(f"    ... and {counted(len(rest), 'more row')} ({counted(calls, 'call')})")
    return lines


def _new_callers(outcome: Outcome) -> Iterator[str]:
    if outcome.new_callers:
        yield "new callers, the heaviest first:"
    for new in outcome.new_callers[:MOST_SHOWN]:
        yield f"    {_row_text(new.row)}"
        yield f"        {counted(new.calls, 'call')}, from {key_text(new.name)}"
    if rest := outcome.new_callers[MOST_SHOWN:]:
        calls = counted(sum(new.calls for new in rest), "call")
        yield f"    ... and {counted(len(rest), 'more caller')} of a row ({calls})"


def _outside(rows: Sequence[Row]) -> Iterator[str]:
    if rows:
        yield "calls outside the interface, the most first:"
    for row in rows[:MOST_SHOWN]:
        yield f"    {_row_text(row)}"
        of = f"{row.calls - row.contract_calls} of {counted(row.calls, 'call')}"
        line = outside_line(row)
        origins = origins_text(line.origins, line.others)
        yield f"        {of}, from {origins}" if origins else f"        {of}"
    if rest := rows[MOST_SHOWN:]:
        calls = counted(sum(row.calls - row.contract_calls for row in rest), "call")
        yield f"    ... and {counted(len(rest), 'more row')} ({calls})"


def _row_text(row: Row | ComparedRow) -> str:
    pattern = f" {key_pattern_text(row.key_pattern, known=row.known_key)}" if row.key_pattern else ""
    return f"{key_text(short_name(row.grpc_method))} {key_text(shape_text(row.shape))}{pattern}"


def _table(table: ComparedTable, width: int | None) -> str:
    numbers = [
        [
            str(line.reference.calls),
            line.reference.percent,
            str(line.subject.calls),
            line.subject.percent,
            line.row.status,
        ]
        for line in table.lines
    ]
    wide = [
        [
            key_text(line.row.call_pattern),
            key_pattern_text(line.row.key_pattern, known=line.row.known_key),
            key_text(",".join(line.row.args)),
        ]
        for line in table.lines
    ]
    narrow = [[call_text(line.row.shape, cells[1])] for line, cells in zip(table.lines, wide, strict=True)]
    if left_out := table.left_out:
        more = f"... and {counted(left_out.number, 'more unknown key')}"
        wide.append(["", more, ""])
        narrow.append([more])
        of_reference = [str(left_out.reference.calls), left_out.reference.percent]
        numbers.append([*of_reference, str(left_out.subject.calls), left_out.subject.percent, NEW])
    totals = [str(table.reference.calls), table.reference.percent, str(table.subject.calls), table.subject.percent]
    covered = f"{table.covered} of {table.demanded} covered"
    headers = ["reference", "percent", "subject", "percent", "status"]
    align = ["right", "right", "right", "right", "left"]
    return fitted(
        TextTable(
            headers=["method", "pattern", "args", *headers],
            rows=[[*cells, *line] for cells, line in zip(wide, numbers, strict=True)],
            footer=["total", "", "", *totals, covered],
            align=["left", "left", "left", *align],
        ),
        width,
        TextTable(
            headers=["call", *headers],
            rows=[[*cells, *line] for cells, line in zip(narrow, numbers, strict=True)],
            footer=[f"total\n{covered}", *totals, ""],
            align=["left", *align],
        ),
    )
