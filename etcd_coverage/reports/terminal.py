"""Usages -> text tables for the terminal; nothing here prints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tabulate import SEPARATING_LINE, tabulate

from etcd_coverage.judging.findings import UNEXPECTED_METHOD
from etcd_coverage.reference import GRPC_METHODS, short_name
from etcd_coverage.reports.figures import key_text
from etcd_coverage.reports.finding_details import details
from etcd_coverage.reports.grouped_findings import grouped
from etcd_coverage.reports.view import methods_by_calls, split_rows
from etcd_coverage.text import counted, percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from etcd_coverage.judging.usage import Finding, Usage
    from etcd_coverage.reference import GrpcMethod
    from etcd_coverage.reports.figures import Trace

VERDICT_METHODS = 4
"""How many gRPC methods the verdict on a dump names."""


def calls_table(usage: Usage) -> str:
    """Return the table of the server spans per gRPC method, the most called first."""
    total = sum(usage.calls.values())
    shown_methods, left_out = methods_by_calls(usage)
    rows = [[key_text(name), str(count), percent(count, total)] for name, count in shown_methods]
    if left_out:
        count = sum(count for _, count in left_out)
        rows.append([f"... and {counted(len(left_out), 'more unexpected method')}", str(count), percent(count, total)])
    return laid_out(
        ["method", "calls", "percent"], rows, ["total", str(total), percent(total, total)], left_then_right(3, 2)
    )


def method_table(usage: Usage, method: GrpcMethod) -> str:
    """Return the table of a gRPC method's rows; empty if it was not called."""
    rows = [row for row in usage.rows if row.grpc_method == method.name]
    if not rows:
        return ""
    calls = sum(row.calls for row in rows)
    names = [arg.name for arg in method.args]
    lines, left_out = split_rows(rows)
    body = [
        [
            row.call_pattern,
            key_text(row.key_pattern),
            *("X" if name in row.args else "" for name in names),
            percent(row.contract_calls, row.calls),
            str(row.calls),
            percent(row.calls, calls),
        ]
        for row in lines
    ]
    if left_out:
        body.append(
            [
                "",
                f"... and {len(left_out)} more unknown keys",
                *("" for _ in names),
                "",
                str(sum(row.calls for row in left_out)),
                percent(sum(row.calls for row in left_out), calls),
            ]
        )
    footer = [
        "total",
        "",
        *(str(sum(row.calls for row in rows if name in row.args)) for name in names),
        str(sum(row.contract_calls for row in rows)),
        str(calls),
        percent(calls, calls),
    ]
    headers = ["method", "pattern", *names, "contract", "calls", "percent"]
    return laid_out(headers, body, footer, left_then_right(len(headers), len(names) + 3))


def leases_table(usage: Usage) -> str:
    """Return the table of the leases by key pattern, TTLs in seconds; empty if there are none."""
    if not usage.leases:
        return ""
    calls = sum(lease.calls for lease in usage.leases)
    rows = [
        [
            key_text(lease.key_pattern),
            f"{lease.uses / lease.calls:.1f}",
            f"{lease.ttl_seconds / lease.calls:.1f}",
            str(lease.calls),
            percent(lease.calls, calls),
        ]
        for lease in usage.leases
    ]
    footer = ["total", "", "", str(calls), percent(calls, calls)]
    return laid_out(["pattern", "avg uses", "avg ttl", "calls", "percent"], rows, footer, left_then_right(5, 4))


def tables(usage: Usage) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of each table that has rows."""
    yield "calls", calls_table(usage)
    for method in GRPC_METHODS:
        if text := method_table(usage, method):
            yield method.name, text
    if text := leases_table(usage):
        yield "leases", text


def failure_text(findings: Sequence[Finding], jaeger_url: str = "", dump: str = "") -> str:
    """Return all findings of a test with their counts, origins and examples, and what to do about each kind.

    ``dump`` is where the dump is, empty for a saved usage.

    Examples are links where ``jaeger_url`` tells where Jaeger's pages are.
    """
    shown_findings = grouped(findings, jaeger_url)
    lines = []
    rows: set[str] = set()
    for line in shown_findings.lines:
        lines.append(line.message)
        if line.trace is not None:
            lines += [f"    {detail}" for detail in details(line, place(line.trace), dump, rows)]
    lines += [left_out.text for left_out in shown_findings.left_out]
    lines += [f"{identifier}: {step}" for identifier, step in shown_findings.next_steps]
    return "\n".join(lines)


def verdict_lines(verdicts: dict[str, str], usages: dict[str, Usage]) -> list[str]:
    """Return one line a dump: those that are as expected first, so that failing ones are nearest to the end.

    ``verdicts`` says by dump name what is wrong; empty if nothing is.
    """
    lines = []
    for name in sorted(usages, key=lambda name: (bool(verdicts[name]), name)):
        if not verdicts[name]:
            lines.append(f"PASS {key_text(name)}: {counted(sum(usages[name].calls.values()), 'call')}")
            continue
        weights: Counter[str] = Counter()
        tests = set()
        for finding in usages[name].findings:
            weights[key_text(short_name(finding.grpc_method))] += finding.count
            tests.add("" if finding.id == UNEXPECTED_METHOD else finding.grpc_method)
        where = f" in {counted(len(tests), 'test')}" if tests else ""
        methods = [method for method, _ in weights.most_common()]
        more = f" and {len(methods) - VERDICT_METHODS} more" if len(methods) > VERDICT_METHODS else ""
        named = f": {', '.join(methods[:VERDICT_METHODS])}{more}" if methods else ""
        lines.append(f"FAIL {key_text(name)}: {verdicts[name]}{where}{named}")
    return lines


def place(trace: Trace) -> str:
    """Return where a trace is: the ids of its span, and the link to Jaeger if there is one."""
    address = f" ({trace.address})" if trace.address else ""
    return f"trace {trace.trace_id} span {trace.span_id}{address}"


def left_then_right(columns: int, numbers: int) -> list[str]:
    """Return the alignment of a table whose last ``numbers`` columns are numbers."""
    return ["left"] * (columns - numbers) + ["right"] * numbers


def laid_out(headers: list[str], rows: list[list[str]], footer: list[str], align: Sequence[str]) -> str:
    """Lay out the table, the footer under a line."""
    return tabulate(
        [*rows, SEPARATING_LINE, footer],
        headers=headers,
        tablefmt="simple",
        disable_numparse=True,
        colalign=align,
    )
