"""Which rows e2e tests reach: usages by hand, with what is to be shown of them counted by hand."""

from __future__ import annotations

import re

from etcd_coverage.judging import usage as values
from etcd_coverage.judging.origin_counts import with_heaviest_origins
from etcd_coverage.judging.usage import Row, Usage
from etcd_coverage.reports import by_test
from etcd_coverage.reports.html import html
from etcd_coverage.reports.markdown import markdown
from etcd_coverage.reports.view import Report
from meta_tests.builder import RANGE
from meta_tests.report_parsers import parsed, table_of

TITLES = (
    "Rows that only one e2e test reaches",
    "Rows that no conformance test reaches",
    "E2e tests that reach most rows",
    "A small set of e2e tests that reaches all rows of any (greedy: there may be a smaller one)",
)
CONFORMANT = "[sig-apps] works [Conformance]"


def row(key: str, calls: int, **tests: int) -> Row:
    """Return a row of that many calls, and how many of these each test made; ``C`` is a conformance test."""
    return Row(
        grpc_method=RANGE,
        call_pattern="Get",
        key_pattern=key,
        args=("limit",),
        calls=calls,
        contract_calls=0,
        tests=[values.TestCalls(test=CONFORMANT if name == "C" else name, calls=made) for name, made in tests.items()],
    )


USAGE = Usage(
    rows=[
        row("/one", 10, a=6, C=2),
        row("/two", 20, a=1),
        row("/three", 30, b=3),
        row("/four", 40),
        row("/five", 50, b=5, C=4),
        row("/six", 60, a=1, b=1, d=1),
    ]
)


def cells(made: by_test.ByTest | None) -> dict[str, list[list[str]]]:
    """Return the cells of each table's lines, which have two blanks between them at least, by its title."""
    found = {}
    for text in by_test.texts(made):
        title, *lines = text.rstrip("\n").split("\n")
        found[title] = [re.split(r" {2,}", line.strip()) for line in lines if not line.startswith("--")]
    return found


def test_tables() -> None:
    assert cells(by_test.by_test(USAGE)) == {
        "rows that only one e2e test reaches": [
            ["e2e test", "call", "pattern", "calls of all"],
            ["b", "KV/Range Get(limit)", "/three", "30"],
            ["a", "KV/Range Get(limit)", "/two", "20"],
            ["2 of 5 rows", "50"],
        ],
        "rows that no conformance test reaches": [
            ["call", "pattern", "other e2e tests", "calls of all"],
            ["KV/Range Get(limit)", "/six", "3", "60"],
            ["KV/Range Get(limit)", "/four", "40"],
            ["KV/Range Get(limit)", "/three", "1", "30"],
            ["KV/Range Get(limit)", "/two", "1", "20"],
            ["4 of 6 rows", "150"],
        ],
        "e2e tests that reach most rows": [
            ["e2e test", "rows", "calls"],
            ["b", "3", "9"],
            ["a", "3", "8"],
            [CONFORMANT, "2", "6"],
            ["d", "1", "1"],
            ["4 tests, 5 of 6 rows", "5", "24"],
        ],
        "a small set of e2e tests that reaches all rows of any (greedy: there may be a smaller one)": [
            ["e2e test", "rows", "of these new"],
            ["b", "3", "3"],
            ["a", "3", "2"],
            ["2 tests", "5"],
        ],
    }


def test_set_is_greedy_though_a_smaller_one_exists() -> None:
    """Two tests of 3 rows each would do; one of 4 rows comes first, and then both are needed."""
    rows = [
        row(f"/{number}", 1, **dict.fromkeys(tests, 1))
        for number, tests in enumerate(("pg", "pg", "p", "qg", "qg", "q"))
    ]
    made = by_test.by_test(Usage(rows=rows))
    assert made is not None
    assert [(line.test, line.rows, line.new_rows) for line in made.cover] == [("g", 4, 4), ("p", 3, 1), ("q", 3, 1)]


def test_tests_that_were_not_saved_leave_rows_open() -> None:
    made = by_test.by_test(with_heaviest_origins(USAGE, 1))
    assert made is not None
    # /one, /five and /six have more tests than are named.
    assert made.not_named == 3
    assert [one.key_pattern for one in made.of_one_test] == ["/three", "/two"]
    assert [one.key_pattern for one in made.without_conformance] == ["/four", "/three", "/two"]
    *_, note = by_test.texts(made)
    assert note == (
        "of 3 rows the saved usage does not name all e2e tests, so more may reach them: save it again with --origins=all"
    )


def test_no_tests_are_said_to_be_none() -> None:
    made = by_test.by_test(Usage(rows=[row("/four", 40)]))
    assert made is None
    assert list(by_test.texts(made)) == ["no call was made by a known e2e test: nothing to show by test"]
    assert "rows that only one e2e test reaches: none" in cells(by_test.by_test(Usage(rows=[row("/1", 1, a=1, b=1)])))


def test_more_than_20_rows_and_tests_are_added_up() -> None:
    made = cells(by_test.by_test(Usage(rows=[row(f"/{n}", n, **{f"t{n:02}": n}) for n in range(1, 24)])))
    # 1 + 2 + 3 are left out of 1 + ... + 23.
    assert made["rows that only one e2e test reaches"][-2:] == [["... and 3 more rows", "6"], ["23 of 23 rows", "276"]]
    assert made["e2e tests that reach most rows"][-2:] == [
        ["... and 3 more tests", "6"],
        ["23 tests, 23 of 23 rows", "23", "276"],
    ]


def test_markdown_has_the_tables_where_they_are_asked_for() -> None:
    text = markdown(Report(usages={"a": USAGE}, by_test=True))
    assert "| `b` | `KV/Range Get(limit)` | `/three` | 30 |" in text
    assert f"| `{CONFORMANT}` | 2 | 6 |" in text
    assert "By e2e test" not in markdown(Report(usages={"a": USAGE}))


def test_page_has_the_tables_where_they_are_asked_for() -> None:
    page = parsed(html(Report(usages={"a": USAGE}, by_test=True)))
    assert {title: table_of(page, title) for title in TITLES} == {
        TITLES[0]: [
            ["e2e test", "call", "pattern", "calls of all"],
            ["b", "KV/Range Get(limit)", "/three", "30"],
            ["a", "KV/Range Get(limit)", "/two", "20"],
            ["2 of 5 rows", "", "", "50"],
        ],
        TITLES[1]: [
            ["call", "pattern", "other e2e tests", "calls of all"],
            ["KV/Range Get(limit)", "/six", "3", "60"],
            ["KV/Range Get(limit)", "/four", "", "40"],
            ["KV/Range Get(limit)", "/three", "1", "30"],
            ["KV/Range Get(limit)", "/two", "1", "20"],
            ["4 of 6 rows", "", "", "150"],
        ],
        TITLES[2]: [
            ["e2e test", "rows", "calls"],
            ["b", "3", "9"],
            ["a", "3", "8"],
            [CONFORMANT, "2", "6"],
            ["d", "1", "1"],
            ["4 tests, 5 of 6 rows", "5", "24"],
        ],
        TITLES[3]: [["e2e test", "rows", "of these new"], ["b", "3", "3"], ["a", "3", "2"], ["2 tests", "", "5"]],
    }
    assert "By e2e test" not in html(Report(usages={"a": USAGE}))
    assert "No call was made by a known e2e test" in html(Report(usages={"a": Usage()}, by_test=True))


def test_page_sorts_what_it_names_and_adds_up_the_rest_below() -> None:
    made = Usage(rows=[row(f"/{n}", 1000 * n, **{f"t{n:02}": n}) for n in range(1, 24)])
    page = parsed(html(Report(usages={"a": made}, by_test=True)))
    for title, rest in (
        (TITLES[0], [["... and 3 more rows", "", "", "6,000"], ["23 of 23 rows", "", "", "276,000"]]),
        (TITLES[2], [["... and 3 more tests", "", "6"], ["23 tests, 23 of 23 rows", "23", "276"]]),
    ):
        *_, last, below = table_of(page, title)
        assert [last, below] == rest
    bodies = [
        len(list(body))
        for table in page.iter("table")
        if "-tests-" in table.attrib["aria-labelledby"]
        for body in table.iter("tbody")
    ]
    assert bodies == [20, 20, 20, 23]
    note = " ".join(html(Report(usages={"a": with_heaviest_origins(USAGE, 1)}, by_test=True)).split())
    assert "<p>Note: of 3 rows the saved usage does not name all e2e tests" in note


def test_names_of_tests_are_no_markup() -> None:
    odd = Report(usages={"a": Usage(rows=[row("/one", 1, **{"| <b>x</b> |": 1})])}, by_test=True)
    assert "<b>" not in markdown(odd)
    assert "<b>" not in html(odd)
