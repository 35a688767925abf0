"""Usage -> text tables; nothing here prints."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from tabulate import SEPARATING_LINE, tabulate

from etcd_coverage.classify import NEXT_STEPS, has_unknown_key
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.text import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from etcd_coverage.classify import Finding, Row
    from etcd_coverage.maps import Example, Quality
    from etcd_coverage.reference import GrpcMethod
    from etcd_coverage.usage import Usage

UNKNOWN_ROWS = 20
"""How many rows of unknown keys a table shows."""

KEY_WIDTH = 100
"""How many characters of a key a table shows."""


def percent(part: int, whole: int) -> str:
    """Return the share in percent, such as "12.50%"; 0.00% of nothing."""
    return f"{100 * part / whole if whole else 0:.2f}%"


def calls_table(usage: Usage) -> str:
    """Return the table of the server spans per gRPC method, the most called first."""
    total = sum(usage.calls.values())
    rows = [
        [name, str(count), percent(count, total)]
        for name, count in sorted(usage.calls.items(), key=lambda item: (-item[1], item[0]))
    ]
    return _table(["method", "calls", "percent"], rows, ["total", str(total), percent(total, total)], numbers=2)


def method_table(usage: Usage, method: GrpcMethod) -> str:
    """Return the table of a gRPC method's rows; empty if it was not called."""
    rows = [row for row in usage.rows if row.grpc_method == method.name]
    if not rows:
        return ""
    calls = sum(row.calls for row in rows)
    names = [arg.name for arg in method.args]
    lines, left_out = _shown(rows)
    body = [
        [
            row.call_pattern,
            shorten(row.key_pattern, KEY_WIDTH),
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
    return _table(["method", "pattern", *names, "contract", "calls", "percent"], body, footer, numbers=len(names) + 3)


def leases_table(usage: Usage) -> str:
    """Return the table of the leases by key pattern, TTLs in seconds; empty if there are none."""
    if not usage.leases:
        return ""
    calls = sum(lease.calls for lease in usage.leases)
    rows = [
        [
            lease.key_pattern,
            f"{lease.uses / lease.calls:.1f}",
            f"{lease.ttl_seconds / lease.calls:.1f}",
            str(lease.calls),
            percent(lease.calls, calls),
        ]
        for lease in usage.leases
    ]
    footer = ["total", "", "", str(calls), percent(calls, calls)]
    return _table(["pattern", "avg uses", "avg ttl", "calls", "percent"], rows, footer, numbers=4)


def tables(usage: Usage) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of each table that has rows."""
    yield "calls", calls_table(usage)
    for method in GRPC_METHODS:
        if text := method_table(usage, method):
            yield method.name, text
    if text := leases_table(usage):
        yield "leases", text


def quality_line(quality: Quality) -> str:
    """Return one line that says how complete the dump is."""
    without_call = f"{quality.grpc_spans_without_call} gRPC spans without call"
    if quality.failed_without_call:
        without_call += f" ({quality.failed_without_call} failed)"
    return (
        f"{quality.spans} spans, {quality.traces} traces, {quality.skipped_spans} skipped, "
        f"{quality.duplicate_spans} duplicates, {quality.calls_without_parent} calls without parent, {without_call}"
    )


def failure_text(findings: Sequence[Finding], jaeger_url: str = "") -> str:
    """Return all findings of a test with their counts and examples, and what to do about each kind.

    Examples are links where ``jaeger_url`` tells where Jaeger's pages are.
    """
    lines = []
    for finding in findings:
        lines.append(finding.message)
        if finding.example is not None:
            lines.append(f"    {finding.count} calls, for example {_place(finding.example, jaeger_url)}")
    lines += [f"{identifier}: {NEXT_STEPS[identifier]}" for identifier in dict.fromkeys(f.id for f in findings)]
    return "\n".join(lines)


def trace_link(example: Example, jaeger_url: str) -> str:
    """Return the address of Jaeger's page of the trace."""
    return f"{jaeger_url.rstrip('/')}/trace/{quote(example.trace_id, safe='')}"


def _place(example: Example, jaeger_url: str) -> str:
    place = f"trace {example.trace_id} span {example.span_id}"
    return f"{place} ({trace_link(example, jaeger_url)})" if jaeger_url else place


def _shown(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Split the rows into those to show and those of unknown keys that are too many."""
    unknown = [row for row in rows if has_unknown_key(row)]
    left_out = unknown[UNKNOWN_ROWS:]
    return [row for row in rows if row not in left_out] if left_out else list(rows), left_out


def _table(headers: list[str], rows: list[list[str]], footer: list[str], *, numbers: int) -> str:
    """Lay out the table, its last ``numbers`` columns to the right, the footer under a line."""
    align = ["left"] * (len(headers) - numbers) + ["right"] * numbers
    return tabulate(
        [*rows, SEPARATING_LINE, footer],
        headers=headers,
        tablefmt="simple",
        disable_numparse=True,
        colalign=align,
    )
