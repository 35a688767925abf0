"""Usage -> who makes the calls, and which rows are outside the interface, as values and as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from etcd_coverage.comparing.compare import shape_text
from etcd_coverage.judging.origins import caller_name
from etcd_coverage.judging.usage import Origin, OtherOrigins, Row
from etcd_coverage.reference import short_name
from etcd_coverage.reports.figures import Share, key_text
from etcd_coverage.reports.finding_details import origins_text
from etcd_coverage.reports.layout import TextTable, fitted, left_then_right
from etcd_coverage.text import counted

if TYPE_CHECKING:
    from etcd_coverage.judging.usage import Usage

MOST_CALLERS = 20
"""How many callers, and rows outside the interface, are shown."""


class CallerLine(Struct, frozen=True):
    """A component and role: its calls as a share of all in rows, those through the contract, the gRPC methods."""

    name: str
    share: Share
    contract: Share
    methods: list[str]


class CallersTable(Struct, frozen=True):
    """Callers, the heaviest first, and how many are left out, among them those that a saved usage does not name."""

    lines: list[CallerLine]
    left_out: int
    rest: CallerLine | None
    total: CallerLine


class OutsideLine(Struct, frozen=True):
    """A row with calls outside the interface: these as a share of its calls, and who made them, the heaviest first.

    The calls of ``origins`` are those outside alone; ``others`` are origins that a saved usage does not name.
    """

    row: Row
    share: Share
    origins: list[Origin]
    others: OtherOrigins | None


class OutsideTable(Struct, frozen=True):
    """The rows with calls outside the interface, the most such calls first.

    ``left_out`` rows are not in ``lines``, with ``rest`` such calls. ``total`` is the share of all of these calls of
    all in rows.
    """

    lines: list[OutsideLine]
    left_out: int
    rest: int
    total: Share


def callers_table(usage: Usage, most: int = MOST_CALLERS) -> CallersTable | None:
    """Return who makes the calls of the rows, the ``most`` heaviest by name; None where that was not recorded."""
    total = sum(row.calls for row in usage.rows)
    calls: dict[str, list[int]] = {}
    methods: dict[str, dict[str, None]] = {}
    for row in usage.rows:
        for origin in row.origins:
            name = caller_name(origin)
            numbers = calls.setdefault(name, [0, 0])
            numbers[0] += origin.calls
            numbers[1] += origin.contract_calls
            methods.setdefault(name, {})[short_name(row.grpc_method)] = None
    if not calls:
        return None
    names = sorted(calls, key=lambda name: (-calls[name][0], name))
    lines = [
        CallerLine(name, Share(calls[name][0], total), Share(calls[name][1], calls[name][0]), list(methods[name]))
        for name in names
    ]
    shown, left_out = lines[:most], lines[most:]
    contract = sum(row.contract_calls for row in usage.rows)
    rest_calls = total - sum(line.share.calls for line in shown)
    rest_contract = contract - sum(line.contract.calls for line in shown)
    rest = CallerLine("", Share(rest_calls, total), Share(rest_contract, rest_calls), []) if rest_calls else None
    return CallersTable(
        shown, len(left_out), rest, CallerLine("total", Share(total, total), Share(contract, total), [])
    )


def outside_table(usage: Usage, most: int = MOST_CALLERS) -> OutsideTable | None:
    """Return the ``most`` heaviest rows below 100 % contract, and the sum of the rest.

    None if there are none, or nothing in the dump has a contract event.
    """
    rows = sorted(
        (row for row in usage.rows if row.contract_calls < row.calls), key=lambda row: row.contract_calls - row.calls
    )
    if not rows or not any(row.contract_calls for row in usage.rows):
        return None
    outside = sum(row.calls - row.contract_calls for row in rows)
    total = sum(row.calls for row in usage.rows)
    lines = [outside_line(row) for row in rows[:most]]
    return OutsideTable(
        lines, len(rows[most:]), outside - sum(line.share.calls for line in lines), Share(outside, total)
    )


def outside_line(row: Row) -> OutsideLine:
    """Return a row's calls outside the interface, and who made them."""
    origins = [
        replace(one, calls=one.calls - one.contract_calls) for one in row.origins if one.contract_calls < one.calls
    ]
    others = row.other_origins
    if others:
        outside = others.calls - others.contract_calls
        others = replace(others, calls=outside, contract_calls=0) if outside else None
    share = Share(row.calls - row.contract_calls, row.calls)
    return OutsideLine(row, share, sorted(origins, key=lambda one: -one.calls), others)


def more_callers(table: CallersTable) -> str:
    """Return what the rest of the callers are."""
    return f"and {table.left_out} more" if table.left_out else "and others, which were not saved by name"


def callers_text(table: CallersTable, width: int | None = None) -> str:
    """Return the table of the callers."""
    lines = [[key_text(line.name), ", ".join(map(key_text, line.methods)), *_numbers(line)] for line in table.lines]
    if table.rest:
        lines.append([f"... {more_callers(table)}", "", *_numbers(table.rest)])
    made = TextTable(
        headers=["caller", "gRPC methods", "contract", "calls", "percent"],
        rows=lines,
        footer=["total", "", *_numbers(table.total)],
        align=left_then_right(5, 3),
    )
    return fitted(made, width)


def _numbers(line: CallerLine) -> list[str]:
    return [line.contract.percent, str(line.share.calls), line.share.percent]


def outside_text(table: OutsideTable, width: int | None = None) -> str:
    """Return the table of the rows outside the interface, with those who made most of their calls."""
    calls = [[key_text(outside_call(line)), key_text(line.row.key_pattern)] for line in table.lines]
    others = [[origins_text(line.origins, line.others), str(line.share.calls)] for line in table.lines]
    rest = [f"... and {counted(table.left_out, 'more row')}"]
    headers = ["calls outside from", "outside"]
    total = [f"{table.total.percent} of the calls in all rows", str(table.total.calls)]
    return fitted(
        TextTable(
            headers=["call", "pattern", *headers],
            rows=[[*cells, *other] for cells, other in zip(calls, others, strict=True)],
            rest=[[*rest, "", "", str(table.rest)]] if table.left_out else [],
            footer=["total", "", *total],
            align=left_then_right(4, 1),
        ),
        width,
        TextTable(
            headers=["call", *headers],
            rows=[["\n".join(filter(None, cells)), *other] for cells, other in zip(calls, others, strict=True)],
            rest=[[*rest, "", str(table.rest)]] if table.left_out else [],
            footer=["total", *total],
            align=left_then_right(3, 1),
        ),
    )


def outside_call(line: OutsideLine) -> str:
    """Return what the row calls: "KV/Range List(rangeEnd)"."""
    return f"{short_name(line.row.grpc_method)} {shape_text(line.row.shape)}"
