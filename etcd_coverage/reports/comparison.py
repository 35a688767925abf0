"""Comparisons and what gates find in them -> text for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.comparing import compare
from etcd_coverage.comparing.compare import COVERED, NEW, ComparedRow, shape_text
from etcd_coverage.comparing.gates import doubts
from etcd_coverage.reference import GRPC_METHODS, short_name
from etcd_coverage.reports.figures import MOST_SHOWN, key_text, trace_of
from etcd_coverage.reports.terminal import laid_out, place
from etcd_coverage.reports.view import split_rows
from etcd_coverage.text import counted, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from etcd_coverage.comparing.compare import Comparison, Coverage
    from etcd_coverage.comparing.gates import Gates, Outcome
    from etcd_coverage.judging.usage import Usage


def comparison_tables(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the name of each gRPC method that either usage has rows of, and its table."""
    for method in dict.fromkeys(row.grpc_method for row in comparison.rows):
        yield method, _comparison_table([row for row in comparison.rows if row.grpc_method == method])


def comparison_summary(comparison: Comparison, reference: Usage, subject: Usage) -> list[str]:
    """Return the shares that are covered, and what the comparison leaves out, a line each."""
    return [
        f"call shapes covered: {share_text(comparison.shape_coverage)}",
        f"rows covered: {share_text(comparison.row_coverage)}",
        *(f"note: {note}" for note in comparison_notes(reference, subject)),
    ]


def comparison_notes(reference: Usage, subject: Usage) -> list[str]:
    """Return what a comparison leaves out, a line each."""
    lines = []
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


def gates_text(outcome: Outcome, gates: Gates, reference: Usage, subject: Usage, jaeger_url: str = "") -> str:
    """Return everything that the gates failed for, with examples."""
    lines = list(outcome.failures)
    if outcome.missing_shapes:
        lines.append("missing call shapes, the heaviest first:")
    for shape, calls in outcome.missing_shapes.items():
        lines.append(f"    {short_name(shape[0])} {shape_text(shape)}: {counted(calls, 'call')}")
    lines += _listed("missing rows, the heaviest first:", outcome.missing_rows, reference, jaeger_url)
    lines += _listed("new rows, the heaviest first:", outcome.new_rows, subject, jaeger_url)
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
    if outcome.excused:
        calls = sum(row.reference_calls for row in outcome.excused)
        rows = counted(len(outcome.excused), "missing row")
        lines.append(f"known gaps: {rows} ({counted(calls, 'call')}), which --fail-on-missing allows")
    return lines


def _listed(title: str, rows: Sequence[ComparedRow], usage: Usage, jaeger_url: str) -> list[str]:
    lines = [title] if rows else []
    total = sum(row.calls for row in usage.rows)
    for row in rows[:MOST_SHOWN]:
        calls = row.reference_calls or row.subject_calls
        pattern = f" {key_text(row.key_pattern)}" if row.key_pattern else ""
        trace = trace_of(compare.example_of(row, usage), jaeger_url)
        shown_at = f", for example {place(trace)}" if trace else ", no example saved"
        lines.append(f"    {short_name(row.grpc_method)} {shape_text(row.shape)}{pattern}")
        lines.append(f"        {counted(calls, 'call')}, {percent(calls, total)} of all{shown_at}")
    if rest := rows[MOST_SHOWN:]:
        calls = sum(row.reference_calls or row.subject_calls for row in rest)
        lines.append(f"    ... and {counted(len(rest), 'more row')} ({counted(calls, 'call')})")
    return lines


def _comparison_table(rows: Sequence[ComparedRow]) -> str:
    in_reference = sum(row.reference_calls for row in rows)
    in_subject = sum(row.subject_calls for row in rows)
    lines, left_out = split_rows(rows)
    body = [
        [
            row.call_pattern,
            key_text(row.key_pattern),
            ",".join(row.args),
            str(row.reference_calls),
            percent(row.reference_calls, in_reference),
            str(row.subject_calls),
            percent(row.subject_calls, in_subject),
            row.status,
        ]
        for row in lines
    ]
    if left_out:
        calls = sum(row.subject_calls for row in left_out)
        more = f"... and {len(left_out)} more unknown keys"
        body.append(["", more, "", "0", percent(0, in_reference), str(calls), percent(calls, in_subject), NEW])
    demanded = [row for row in rows if row.status != NEW]
    covered = sum(row.status == COVERED for row in demanded)
    footer = [
        "total", "", "",
        str(in_reference), percent(in_reference, in_reference),
        str(in_subject), percent(in_subject, in_subject),
        f"{covered} of {len(demanded)} covered",
    ]  # fmt: skip
    headers = ["method", "pattern", "args", "reference", "percent", "subject", "percent", "status"]
    align = ["left", "left", "left", "right", "right", "right", "right", "left"]
    return laid_out(headers, body, footer, align)


def share_text(share: Coverage) -> str:
    """Return how much is covered: 13 of 16, 98.21% of the reference's calls."""
    return (
        f"{share.covered} of {share.reference}, {compare.percent_text(share.percent_of_calls)} of the reference's calls"
    )
