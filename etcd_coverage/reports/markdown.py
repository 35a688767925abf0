"""Usages and comparisons -> GitHub's Markdown; nothing of a dump is markup."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from etcd_coverage.comparing.compare import NEW, shape_text
from etcd_coverage.comparing.saved import MESSAGE_WIDTH
from etcd_coverage.reference import short_name
from etcd_coverage.reports import by_test
from etcd_coverage.reports.callers import callers_table, more_callers, outside_call, outside_table
from etcd_coverage.reports.comparison_view import compared_tables, coverage_share, coverage_text, missing_shapes
from etcd_coverage.reports.figures import ERROR_WIDTH, KEY_WIDTH
from etcd_coverage.reports.finding_details import origins_text
from etcd_coverage.reports.grouped_findings import grouped
from etcd_coverage.reports.markdown_parts import as_code, as_table
from etcd_coverage.reports.view import calls_table, leases_table, method_tables, quality_line
from etcd_coverage.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from etcd_coverage.comparing.compare import ComparedRow, Comparison
    from etcd_coverage.judging.usage import Row, Usage
    from etcd_coverage.reports.callers import CallerLine
    from etcd_coverage.reports.figures import Trace
    from etcd_coverage.reports.view import MethodTable, Report

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
STEP_SUMMARY_BYTES = 1024 * 1024
"""https://docs.github.com/actions/reference/workflow-commands-for-github-actions#step-isolation-and-limits"""

MOST_CALLERS = 10
"""How many callers, and rows outside the interface, are shown: the rest of either is one line."""


def markdown(report: Report, *, with_rows: bool = True) -> str:
    """Return GitHub's Markdown, the tables of callers and of all rows folded away; nothing of a dump is markup."""
    return "\n\n".join(_sections(report, with_rows=with_rows)) + "\n"


def append_step_summary(report: Report) -> Path | None:
    """Append the Markdown to the summary of the GitHub Actions step, if this runs in one, and return its path.

    GitHub refuses a summary of more than 1 MiB: the tables of callers and of all rows are left out of one that would be
    longer.
    """
    if not os.environ.get(STEP_SUMMARY):
        return None
    path = Path(os.environ[STEP_SUMMARY])
    room = STEP_SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
    text = markdown(report)
    if len(text.encode()) > room:
        text = markdown(report, with_rows=False)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
    return path


def _sections(report: Report, *, with_rows: bool) -> Iterator[str]:
    yield "# How Kubernetes uses etcd"
    yield _overview(report)
    for line in report.overview():
        name, usage = line.name, report.usages[line.name]
        yield f"## {as_code(name)}"
        if usage.error is not None:
            yield f"Not judged: {as_code(usage.error, ERROR_WIDTH)}"
            continue
        for warning in usage.quality.warnings():
            yield f"Warning: {as_code(warning, MESSAGE_WIDTH)}"
        yield from _findings_sections(usage, report.jaeger_url)
        for failure in report.gate_failures.get(name, []):
            yield f"Gate failed: {as_code(failure, MESSAGE_WIDTH)}"
        if comparison := report.comparisons.get(name):
            yield from _comparison_sections(name, comparison, report, with_rows=with_rows)
        if with_rows:
            if made_by := list(_callers_tables(usage)):
                yield from _folded("Callers, and calls outside the interface", made_by)
            yield from _folded("Calls and call patterns", _usage_tables(usage))
        if report.by_test:
            yield from _folded("By e2e test", _test_tables(usage))
        yield f"Data quality: {quality_line(usage.quality)}."
    if not with_rows:
        yield "The tables of callers and of all rows are left out: `--usage-markdown` and `--usage-html` write them."


def _overview(report: Report) -> str:
    if not report.usages:
        return "No dump was judged."
    compared = ["shapes covered", "rows covered"] if report.comparisons else []
    rows = []
    for line in report.overview():
        coverages = [
            f"{coverage.covered} of {coverage.reference} ({coverage_share(coverage).percent} of calls)"
            for coverage in line.coverages
        ]
        rows.append(
            [
                as_code(line.name),
                f"{'✓' if line.is_expected else '✗'} {line.verdict}",
                line.release,
                *coverages,
                *("" for _ in compared[len(coverages) :]),
                str(line.calls),
                str(line.rows),
                str(line.spans),
                str(line.traces),
            ]
        )
    headers = ["dump", "verdict", "Kubernetes", *compared, "calls", "rows", "spans", "traces"]
    table = as_table(headers, rows, numbers=4 + len(compared))
    note = f"Percentages are of the calls in the reference, {as_code(report.reference)}."
    return f"{table}\n\n{note}" if compared else table


def _findings_sections(usage: Usage, jaeger_url: str) -> Iterator[str]:
    if not usage.findings:
        return
    shown = grouped(usage.findings, jaeger_url)
    yield "### Findings"
    yield as_table(
        ["finding", "message", "example trace", "calls"],
        [[line.id, as_code(line.message), _trace(line.trace), str(line.calls)] for line in shown.lines],
        numbers=1,
    )
    for left_out in shown.left_out:
        yield as_code(left_out.text)
    yield "\n".join(f"- {id_}: {step}" for id_, step in shown.next_steps)


def _comparison_sections(name: str, comparison: Comparison, report: Report, *, with_rows: bool) -> Iterator[str]:
    yield f"### Compared with {as_code(report.reference)}"
    yield (
        f"- call shapes covered: {coverage_text(comparison.shape_coverage)}\n"
        f"- rows covered: {coverage_text(comparison.row_coverage)}"
    )
    if missing := missing_shapes(comparison):
        yield as_table(
            ["missing call shape", "", "reference calls", "share of all"],
            [
                [as_code(short_name(shape[0])), as_code(shape_text(shape)), str(share.calls), share.percent]
                for shape, share in missing
            ],
            numbers=2,
        )
    for note in report.comparison_notes.get(name, []):
        yield f"Note: {as_code(note, MESSAGE_WIDTH)}"
    if with_rows:
        yield from _folded(f"Side by side: {len(comparison.rows)} rows", [_compared_table(comparison)])


def _compared_table(comparison: Comparison) -> str:
    body = []
    for table in compared_tables(comparison):
        body += [
            [
                line.row.status,
                *_shape_cells(line.row),
                str(line.reference.calls),
                line.reference.percent,
                str(line.subject.calls),
                line.subject.percent,
            ]
            for line in table.lines
        ]
        if out := table.left_out:
            shares = [str(out.reference.calls), out.reference.percent, str(out.subject.calls), out.subject.percent]
            body.append([NEW, as_code(short_name(table.grpc_method)), "", _more(out.number, "unknown key"), *shares])
    return as_table(
        ["status", "gRPC method", "call shape", "key pattern", "reference", "share", "subject", "share"],
        body,
        numbers=4,
    )


def _usage_tables(usage: Usage) -> Iterator[str]:
    calls = calls_table(usage)
    body = [[as_code(name, KEY_WIDTH), str(share.calls), share.percent] for name, share in calls.lines]
    if out := calls.left_out:
        body.append([_more(out.number, "unexpected method"), str(out.share.calls), out.share.percent])
    body.append(["total", str(calls.total.calls), calls.total.percent])
    yield as_table(["gRPC method", "calls", "share"], body, numbers=2)
    if tables := method_tables(usage):
        yield as_table(
            ["gRPC method", "call shape", "key pattern", "contract", "calls", "share of the method's"],
            [cells for table in tables for cells in _method_lines(table)],
            numbers=3,
        )
    if leases := leases_table(usage):
        body = [
            [
                as_code(line.key_pattern, KEY_WIDTH),
                f"{line.uses:.1f}",
                f"{line.ttl_seconds:.1f}",
                str(line.share.calls),
                line.share.percent,
            ]
            for line in leases.lines
        ]
        body.append(["total", "", "", str(leases.total.calls), leases.total.percent])
        yield as_table(["lease", "transactions a lease", "average TTL, s", "calls", "share"], body, numbers=4)


def _test_tables(usage: Usage) -> Iterator[str]:
    made = by_test.by_test(usage)
    if made is None:
        yield by_test.NO_TESTS
        return
    for title, table in by_test.tables(made):
        yield f"#### {title[0].upper()}{title[1:]}"
        numbers = table.align.count("right")
        # Only numbers and the table's own words are no code.
        body = [
            [*map(as_code, cells[: len(cells) - numbers]), *cells[len(cells) - numbers :]]
            for cells in [*table.rows, *table.rest, table.footer]
        ]
        yield as_table(table.headers, body, numbers=numbers) if table.rows else "None."
    if made.not_named:
        yield f"Note: {by_test.not_named_text(made)}."


def _callers_tables(usage: Usage) -> Iterator[str]:
    if callers := callers_table(usage, MOST_CALLERS):
        body = [
            [as_code(line.name, KEY_WIDTH), as_code(", ".join(line.methods)), *_caller_numbers(line)]
            for line in callers.lines
        ]
        if callers.rest:
            body.append([f"… {more_callers(callers)}", "", *_caller_numbers(callers.rest)])
        body.append(["total", "", *_caller_numbers(callers.total)])
        yield as_table(["caller", "gRPC methods", "contract", "calls", "share"], body, numbers=3)
    if outside := outside_table(usage, MOST_CALLERS):
        body = [
            [
                as_code(outside_call(line)),
                as_code(line.row.key_pattern, KEY_WIDTH),
                as_code(origins_text(line.origins, line.others), ERROR_WIDTH),
                str(line.share.calls),
                line.share.percent,
            ]
            for line in outside.lines
        ]
        if outside.left_out:
            body.append([_more(outside.left_out, "row"), "", "", str(outside.rest), ""])
        body.append(["total", "", "", str(outside.total.calls), ""])
        headers = ["call outside the interface", "key pattern", "from", "calls outside", "share of the row's"]
        yield as_table(headers, body, numbers=2)


def _caller_numbers(line: CallerLine) -> list[str]:
    return [line.contract.percent, str(line.share.calls), line.share.percent]


def _method_lines(table: MethodTable) -> Iterator[list[str]]:
    for line in table.lines:
        yield [*_shape_cells(line.row), line.contract.percent, str(line.share.calls), line.share.percent]
    if out := table.left_out:
        more = _more(out.number, "unknown key")
        yield [as_code(short_name(table.grpc_method)), "", more, "", str(out.share.calls), out.share.percent]


def _shape_cells(row: Row | ComparedRow) -> list[str]:
    key = as_code(row.key_pattern, KEY_WIDTH)
    return [
        as_code(short_name(row.grpc_method)),
        as_code(shape_text(row.shape)),
        key if row.known_key else f"{key} unknown key",
    ]


def _more(number: int, what: str) -> str:
    return f"… and {counted(number, f'more {what}')}"


def _folded(title: str, parts: Iterable[str]) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>"
    yield from parts
    yield "</details>"


def _trace(trace: Trace | None) -> str:
    if trace is None:
        return ""
    text = as_code(trace.trace_id, KEY_WIDTH)
    return f"[{text}]({_destination(trace.address)})" if trace.address else text


def _destination(url: str) -> str:
    """Percent-encode what would end the destination of a link, or a cell."""
    return quote(url, safe="/:?#@!$&'*+,;=%~")
