"""Usage -> which rows e2e tests reach, as values and as tables."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.comparing.compare import shape_text
from etcd_coverage.judging.usage import Row
from etcd_coverage.reference import short_name
from etcd_coverage.reports.figures import MOST_SHOWN, key_text, message_text
from etcd_coverage.reports.layout import TextTable, fitted, left_then_right
from etcd_coverage.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from etcd_coverage.judging.usage import Usage

CONFORMANCE = "[Conformance]"
"""In the name of each conformance test.

https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/conformance-tests.md
"""

NO_TESTS = "no call was made by a known e2e test: nothing to show by test"


class TestLine(Struct, frozen=True):
    """An e2e test: the rows that it reaches, how many of these no test before it in the table does, its calls."""

    test: str
    rows: int
    new_rows: int
    calls: int


class ByTest(Struct, frozen=True, kw_only=True):
    """What e2e tests reach; calls of a test are those in rows.

    ``rows`` is the number of all rows, ``reached`` of those that tests reach. ``of_one_test`` are rows that only one
    test reaches, ``without_conformance`` those that no conformance test does, the heaviest first. ``tests`` are all,
    that of most rows first; ``cover`` are some that reach all of the ``reached`` rows. Of ``not_named`` rows a saved
    usage does not name all tests: they are in neither list of rows, and tests may reach more of them.
    """

    rows: int
    reached: int
    of_one_test: list[Row]
    without_conformance: list[Row]
    tests: list[TestLine]
    cover: list[TestLine]
    not_named: int


def by_test(usage: Usage) -> ByTest | None:
    """Return what the e2e tests reach that are named in the usage; None if none is."""
    reaches: dict[str, set[int]] = {}
    calls: Counter[str] = Counter()
    for number, row in enumerate(usage.rows):
        for one in row.tests:
            reaches.setdefault(one.test, set()).add(number)
            calls[one.test] += one.calls
    if not reaches:
        return None
    by_weight = sorted(usage.rows, key=lambda row: -row.calls)
    named = [row for row in by_weight if not row.other_tests or not row.other_tests.tests]
    names = sorted(reaches, key=lambda name: (-len(reaches[name]), -calls[name], name))
    return ByTest(
        rows=len(usage.rows),
        reached=sum(bool(row.tests) for row in usage.rows),
        of_one_test=[row for row in named if len(row.tests) == 1],
        without_conformance=[row for row in named if not any(CONFORMANCE in one.test for one in row.tests)],
        tests=_lines(names, reaches, calls),
        cover=_lines(_cover(names, reaches), reaches, calls),
        not_named=len(usage.rows) - len(named),
    )


def _cover(names: Sequence[str], reaches: dict[str, set[int]]) -> Iterator[str]:
    """Yield tests that reach all rows of any, each time that of most rows not yet reached.

    Greedy, so it may not be the smallest set: https://en.wikipedia.org/wiki/Set_cover_problem#Greedy_algorithm.
    """
    left = set().union(*reaches.values())
    while left:
        best = max(names, key=lambda name: len(reaches[name] & left))
        left -= reaches[best]
        yield best


def _lines(names: Iterable[str], reaches: dict[str, set[int]], calls: Counter[str]) -> list[TestLine]:
    seen: set[int] = set()
    lines = []
    for name in names:
        lines.append(TestLine(name, len(reaches[name]), len(reaches[name] - seen), calls[name]))
        seen |= reaches[name]
    return lines


def texts(made: ByTest | None, width: int | None = None) -> Iterator[str]:
    """Yield each table with its title, and what they leave open."""
    if made is None:
        yield NO_TESTS
        return
    for title, table in tables(made):
        yield f"{title}\n{fitted(table, width)}\n" if table.rows else f"{title}: none\n"
    if made.not_named:
        yield not_named_text(made)


def not_named_text(made: ByTest) -> str:
    """Return what a saved usage leaves open."""
    return (
        f"of {counted(made.not_named, 'row')} the saved usage does not name all e2e tests, so more may reach them: "
        "save it again with --origins=all"
    )


def tables(made: ByTest) -> Iterator[tuple[str, TextTable]]:
    """Yield title and cells of each table, as plain text, numbers to the right; a table may have no rows."""
    yield (
        "rows that only one e2e test reaches",
        _rows_table(
            made.of_one_test,
            ["e2e test", "call", "pattern", "calls of all"],
            lambda row: [message_text(row.tests[0].test), *_call_and_pattern(row), str(row.calls)],
            left_then_right(4, 1),
            made.reached,
        ),
    )
    yield (
        "rows that no conformance test reaches",
        _rows_table(
            made.without_conformance,
            ["call", "pattern", "other e2e tests", "calls of all"],
            lambda row: [*_call_and_pattern(row), str(len(row.tests) or ""), str(row.calls)],
            left_then_right(4, 2),
            made.rows,
        ),
    )
    left_out = made.tests[MOST_SHOWN:]
    calls = sum(line.calls for line in left_out)
    total = [f"{counted(len(made.tests), 'test')}, {made.reached} of {counted(made.rows, 'row')}", str(made.reached)]
    all_calls = str(sum(line.calls for line in made.tests))
    yield (
        "e2e tests that reach most rows",
        TextTable(
            headers=["e2e test", "rows", "calls"],
            rows=[[message_text(line.test), str(line.rows), str(line.calls)] for line in made.tests[:MOST_SHOWN]],
            rest=[[f"... and {counted(len(left_out), 'more test')}", "", str(calls)]] if left_out else [],
            footer=[*total, all_calls],
            align=left_then_right(3, 2),
        ),
    )
    yield (
        "a small set of e2e tests that reaches all rows of any (greedy: there may be a smaller one)",
        TextTable(
            headers=["e2e test", "rows", "of these new"],
            rows=[[message_text(line.test), str(line.rows), str(line.new_rows)] for line in made.cover],
            footer=[counted(len(made.cover), "test"), "", str(made.reached)],
            align=left_then_right(3, 2),
        ),
    )


def _call_and_pattern(row: Row) -> list[str]:
    return [key_text(f"{short_name(row.grpc_method)} {shape_text(row.shape)}"), key_text(row.key_pattern)]


def _rows_table(
    rows: Sequence[Row], headers: list[str], cells: Callable[[Row], list[str]], align: list[str], of: int
) -> TextTable:
    left_out = rows[MOST_SHOWN:]
    calls = sum(row.calls for row in left_out)
    return TextTable(
        headers=headers,
        rows=[cells(row) for row in rows[:MOST_SHOWN]],
        rest=[[f"... and {counted(len(left_out), 'more row')}", "", "", str(calls)]] if left_out else [],
        footer=[f"{len(rows)} of {counted(of, 'row')}", "", "", str(sum(row.calls for row in rows))],
        align=align,
    )
