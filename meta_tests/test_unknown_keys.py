"""A key that is written like a key pattern is an unknown key, in comparisons and in all reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from etcd_coverage.comparing import saved
from etcd_coverage.comparing.compare import Comparison, compare, example_of, left_out
from etcd_coverage.comparing.gates import Gates, hold
from etcd_coverage.comparing.known_gaps import KnownGap
from etcd_coverage.comparing.unseen import unseen
from etcd_coverage.judging.judge import judge
from etcd_coverage.reports import comparison, heat, html, markdown, terminal
from etcd_coverage.reports.view import Report
from meta_tests.builder import GET, RANGE, call, complete, etcd, write
from meta_tests.report_parsers import markdown_tables, parsed, table_of, text_table

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.judging.usage import Usage

LITERAL = "/registry/{api-group}/{resource}/{namespace}/{name}"
SERVICE = "/registry/services/{a}/{b}/{c}/{d}"
DEPLOYMENT = "/registry/example.com/deployments/default/web"


@pytest.fixture
def literal(tmp_path: Path) -> Usage:
    """Return the usage of a dump with the literal keys, saved and loaded again."""
    odd = [*call(8, RANGE, GET | {"range_begin": LITERAL}), *call(7, RANGE, GET | {"range_begin": SERVICE})]
    usage = judge(write(tmp_path / "literal.json", etcd(complete(), odd)))
    saved.update(tmp_path / "usage.json", {"literal.json": usage})
    return saved.load(tmp_path / "usage.json")["literal.json"]


@pytest.fixture
def real(tmp_path: Path) -> Usage:
    """Return the usage of a dump with a key that has the pattern."""
    real = call(8, RANGE, GET | {"range_begin": DEPLOYMENT})
    return judge(write(tmp_path / "real.json", etcd(complete(), real)))


def statuses(of: Comparison) -> set[tuple[str, bool, str]]:
    return {(row.key_pattern, row.known_key, row.status) for row in of.rows if row.key_pattern in (LITERAL, SERVICE)}


def test_comparison_takes_it_for_no_row_of_the_reference(literal: Usage, real: Usage) -> None:
    assert {finding.message for finding in literal.findings} == {
        f"New key pattern detected: {LITERAL}", f"New key pattern detected: {SERVICE}",
    }  # fmt: skip
    made = compare(real, literal)
    assert statuses(made) == {(LITERAL, True, "missing"), (LITERAL, False, "new"), (SERVICE, False, "new")}
    assert statuses(compare(literal, real)) == {(LITERAL, True, "new")}
    assert [row.key_pattern for row in left_out(literal)] == [SERVICE, LITERAL]
    odd = next(row for row in made.rows if row.key_pattern == LITERAL and not row.known_key)
    example = example_of(odd, literal)
    assert example is not None
    assert example.span_id == "00000008000000bb"
    assert example_of(odd, real) is None


def test_gates_and_gaps_are_about_the_pattern_alone(literal: Usage, real: Usage) -> None:
    gap = KnownGap(method="KV/Range", shape="Get(limit)", key_patterns=(LITERAL,), reason="r", link="https://a")
    gates = Gates(fail_on_missing=True, fail_on_new=True)
    outcome = hold("literal.json", compare(real, literal), gates, [gap])
    assert [row.known_key for row in outcome.excused] == [True]
    assert outcome.failures == ["--fail-on-new: 2 rows (2 calls) that the reference does not have"]
    text = comparison.gates_text(outcome, gates, real, literal)
    assert f"    KV/Range Get(limit) {LITERAL} (unknown key)" in text.splitlines()


def test_special_resource_is_not_seen_by_it(literal: Usage) -> None:
    assert "special resource services" in list(unseen([literal]))


def test_reports_mark_it(literal: Usage, real: Usage) -> None:
    made = compare(real, literal)
    tables = dict(terminal.tables(literal))
    assert [line[1] for line in text_table(tables[RANGE])[1:-1]][:2] == [
        f"{SERVICE} (unknown key)",
        f"{LITERAL} (unknown key)",
    ]
    of_real = dict(terminal.tables(real))[RANGE]
    assert LITERAL in of_real
    assert "unknown" not in of_real
    compared = text_table(dict(comparison.comparison_tables(made))[RANGE])
    assert {(line[1], line[-1]) for line in compared if LITERAL in line[1]} == {
        (LITERAL, "missing"), (f"{LITERAL} (unknown key)", "new"),
    }  # fmt: skip

    report = Report(usages={"literal.json": literal}, reference="real.json", comparisons={"literal.json": made})
    page = parsed(html.html(report))
    assert [line[2] for line in table_of(page, "Call patterns by key pattern") if LITERAL in line[2]] == [
        f"{LITERAL} unknown key"
    ]
    assert [(line[0], line[3]) for line in table_of(page, "Side by side")[2:] if LITERAL in line[3]] == [
        ("missing", LITERAL), ("new", f"{LITERAL} unknown key"),
    ]  # fmt: skip
    cells = {cell for table in markdown_tables(markdown.markdown(report)) for line in table for cell in line}
    assert {cell for cell in cells if LITERAL in cell and "detected" not in cell} == {LITERAL, f"{LITERAL} unknown key"}
    assert LITERAL not in [key for key, _ in heat.heat_map(literal).rows]
    assert [key for key, _ in heat.coverage_map(made).rows][-1] == "(unknown keys)"
