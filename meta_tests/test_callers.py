"""The tables of callers and of rows outside the interface."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.origin_counts import with_heaviest_origins
from etcd_coverage.judging.usage import Origin, Row, Usage
from etcd_coverage.reports import callers, terminal
from etcd_coverage.reports.by_caller import RestOfOrigins, by_caller
from etcd_coverage.reports.figures import Share
from meta_tests.builder import COMPACT, RANGE, RANGE_STREAM

DUMPS = Path(__file__).parent / "dumps"


def origin(component: str, calls: int, contract_calls: int = 0, **more: Any) -> Origin:
    fields = {"role": "", "verb": "", "resource": ""} | more
    return Origin(component=component, calls=calls, contract_calls=contract_calls, **fields)


def row(method: str, calls: int, contract_calls: int, *origins: Origin) -> Row:
    return Row(
        grpc_method=method,
        call_pattern="List",
        key_pattern="/registry/events/",
        args=("rangeEnd",),
        calls=calls,
        contract_calls=contract_calls,
        origins=list(origins),
    )


USAGE = Usage(
    rows=[
        row(RANGE, 8, 6, origin("a", 5, 5, role="r", verb="GET"), origin("b", 3, 1)),
        row(RANGE_STREAM, 4, 0, origin("b", 3, verb="LIST", resource="events"), origin("a", 1, role="r", verb="LIST")),
        row(COMPACT, 4, 4, origin("", 4, 4)),
    ]
)


def cells(title: str, usage: Usage = USAGE) -> list[list[str]]:
    """Return the cells of a table's lines, which have two blanks between them at least."""
    lines = dict(terminal.tables(usage))[title].splitlines()
    return [re.split(r" {2,}", line) for line in lines if not line.startswith("--")]


def test_callers() -> None:
    assert cells("callers") == [
        ["caller", "gRPC methods", "contract", "calls", "percent"],
        ["a/r", "KV/Range, KV/RangeStream", "83.33%", "6", "37.50%"],
        ["b", "KV/Range, KV/RangeStream", "16.67%", "6", "37.50%"],
        ["(no user agent)", "KV/Compact", "100.00%", "4", "25.00%"],
        ["total", "62.50%", "16", "100.00%"],
    ]


def test_rows_outside_the_interface() -> None:
    assert cells("outside the interface") == [
        ["call", "pattern", "calls outside from", "outside"],
        ["KV/RangeStream List(rangeEnd)", "/registry/events/", "b LIST events (3), a/r LIST (1)", "4"],
        ["KV/Range List(rangeEnd)", "/registry/events/", "b (2)", "2"],
        ["total", "37.50% of the calls in all rows", "6"],
    ]


def test_nothing_without_origins_or_contract_events() -> None:
    assert {"callers", "outside the interface"} & dict(terminal.tables(Usage(rows=[row(RANGE, 1, 0)]))).keys() == set()


def test_callers_and_rows_that_are_many_are_added_up() -> None:
    rows = [row(f"etcdserverpb.KV/M{n:02}", n, n % 2, origin(f"c{n:02}", n, n % 2)) for n in range(2, 27)]
    usage = Usage(rows=rows)
    of_callers = dict(terminal.tables(usage))["callers"].splitlines()
    assert of_callers[2].split() == ["c26", "KV/M26", "0.00%", "26", "7.43%"]
    assert of_callers[-3].split() == ["...", "and", "5", "more", "10.00%", "20", "5.71%"]
    outside = dict(terminal.tables(usage))["outside the interface"].splitlines()
    assert outside[-3].split() == ["...", "and", "5", "more", "rows", "18"]


def test_calls_of_each_caller_alone() -> None:
    parts = by_caller(USAGE)
    assert parts is not None
    own = {caller: (one.contract, one.share, one.origins) for caller, one in parts.row(USAGE.rows[0]).items()}
    assert own == {0: (Share(5, 5), Share(5, 5), 1), 1: (Share(1, 3), Share(3, 3), 1)}
    assert {caller: (one.contract, one.share.calls) for caller, one in parts.total().items()} == {
        0: (Share(5, 6), 6), 1: (Share(1, 6), 6), 2: (Share(4, 4), 4),
    }  # fmt: skip
    cells = parts.cells("/registry/events/", (RANGE_STREAM, "List", ("rangeEnd",)))
    assert {caller: cell.calls for caller, cell in cells.items()} == {0: 1, 1: 3}
    assert parts.callers_of_key("/registry/events/") == [0, 1, 2]
    assert by_caller(Usage(rows=[row(RANGE, 1, 0)])) is None


def test_origins_that_were_not_saved_are_the_rest_of_the_callers() -> None:
    parts = by_caller(with_heaviest_origins(USAGE, 1))
    assert parts is not None
    assert [line.name for line in parts.table.lines] == ["a/r", "(no user agent)", "b"]
    saved = with_heaviest_origins(USAGE, 1).rows[0]
    own = {caller: (one.contract, one.origins) for caller, one in parts.row(saved).items()}
    assert own == {0: (Share(5, 5), 1), 3: (Share(1, 3), 1)}
    found = parts.origins(saved)
    assert (found.number, [(line.text, line.calls, line.caller) for line in found.lines]) == (2, [("a/r GET", 5, 0)])
    assert (found.rest, found.rest_by_caller) == (RestOfOrigins(1, 3), {3: RestOfOrigins(1, 3)})


def test_real_dump_adds_up_also_as_it_is_saved() -> None:
    usage = judge(DUMPS / "kubernetes-1.37.json.gz")
    calls = sum(one.calls for one in usage.rows)
    for one in (usage, with_heaviest_origins(usage, 1)):
        table = callers.callers_table(one)
        assert table is not None
        assert sum(line.share.calls for line in table.lines) + (table.rest.share.calls if table.rest else 0) == calls
        outside = callers.outside_table(one)
        assert outside is not None
        assert outside.total.calls == calls - sum(one.contract_calls for one in usage.rows)
