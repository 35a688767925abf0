"""Every number that the Go original counts on real dumps.

The golden files hold what etcd's tests/robustness/coverage (3.8-alpha) printed for the dump beside them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from etcd_coverage.judging.finding_kinds import UNEXPECTED_METHOD
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.leases import LEASE_GRANT
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.reports import terminal
from etcd_coverage.text import percent
from meta_tests.go_original import its_rows_alone

if TYPE_CHECKING:
    from etcd_coverage.judging.usage import Usage

ROOT = Path(__file__).parents[1]
DUMPS = ROOT / "meta_tests" / "dumps"
SHARED = ROOT.parent / "shared"
FULL = SHARED / "dumps" / "kubernetes-1.37-full.json.gz"

without_shared = pytest.mark.skipif(not FULL.exists(), reason="the 178 MB dump is not part of the project")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((DUMPS / "kubernetes-1.37.json.gz", DUMPS / "kubernetes-1.37.golden.json"), id="1.37"),
        pytest.param((DUMPS / "kubernetes-1.36.json.gz", DUMPS / "kubernetes-1.36.golden.json"), id="1.36"),
        pytest.param((DUMPS / "robustness.json.gz", DUMPS / "robustness.golden.json"), id="robustness"),
        pytest.param(
            (DUMPS / "truncated-100-traces.json.gz", DUMPS / "truncated-100-traces.golden.json"), id="truncated"
        ),
        pytest.param(
            (FULL, SHARED / "golden" / "kubernetes-1.37-full.json"),
            id="full",
            marks=[without_shared, pytest.mark.integration],
        ),
    ],
)
def both(request: pytest.FixtureRequest) -> tuple[Usage, dict[str, Any]]:
    dump, golden = request.param
    with its_rows_alone():
        usage = judge(dump)
    assert usage.error is None
    return usage, json.loads(golden.read_text())


def test_calls(both: tuple[Usage, dict[str, Any]]) -> None:
    usage, golden = both
    assert usage.calls == golden["calls"]
    assert sum(usage.calls.values()) == golden["total_calls"]


def test_rows(both: tuple[Usage, dict[str, Any]]) -> None:
    usage, golden = both
    methods = [method for method in GRPC_METHODS if method.call_patterns]
    assert {method.name: rows for method in methods if (rows := rows_of(usage, method.name))} == {
        name: [
            (row["method"], row["pattern"], tuple(row["args"]), row["contract"], row["calls"], row["percent"])
            for row in table["rows"]
        ]
        for name, table in golden["rows"].items()
    }


def rows_of(usage: Usage, method: str) -> list[tuple[object, ...]]:
    rows = [row for row in usage.rows if row.grpc_method == method]
    calls = sum(row.calls for row in rows)
    return [
        (
            row.call_pattern,
            row.key_pattern,
            row.args,
            percent(row.contract_calls, row.calls),
            row.calls,
            percent(row.calls, calls),
        )
        for row in rows
    ]


def test_printed_tables_and_footers(both: tuple[Usage, dict[str, Any]]) -> None:
    usage, golden = both
    printed = dict(terminal.tables(usage))
    for name, table in golden["rows"].items():
        header, _, *rows, _, footer = printed[name].splitlines()
        # What etcd answered with an error is a column that the Go original has not.
        failed = [row.failed or 0 for row in usage.rows if row.grpc_method == name]
        more = ["failed"] if any(failed) else []
        assert header.split() == ["method", "pattern", *table["footer"]["args"], "contract", "calls", "percent", *more]
        assert len(rows) == len(table["rows"])
        for row, wanted, errors in zip(rows, table["rows"], failed, strict=True):
            expected = [wanted["method"], wanted["pattern"], *("X" for _ in wanted["args"])]
            expected += [wanted["contract"], str(wanted["calls"]), wanted["percent"]]
            expected += [str(errors)] if errors else []
            assert row.split() == [cell for cell in expected if cell]
        footers = table["footer"]
        assert footer.split() == [
            "total",
            *map(str, footers["args"].values()),
            str(footers["contract"]),
            str(footers["calls"]),
            "100.00%",
            *([str(sum(failed))] if more else []),
        ]


def test_leases(both: tuple[Usage, dict[str, Any]]) -> None:
    usage, golden = both
    calls = sum(lease.calls for lease in usage.leases)
    assert {
        lease.key_pattern: {
            "avg_uses": f"{lease.uses / lease.calls:.1f}",
            "avg_ttl": f"{lease.ttl_seconds / lease.calls:.1f}",
            "calls": lease.calls,
            "percent": percent(lease.calls, calls),
        }
        for lease in usage.leases
    } == golden["leases"]
    if golden["leases"]:
        printed = dict(terminal.tables(usage))["leases"].splitlines()[2:-2]
        assert sorted(line.split() for line in printed) == sorted(
            [pattern, row["avg_uses"], row["avg_ttl"], str(row["calls"]), row["percent"]]
            for pattern, row in golden["leases"].items()
        )


def test_verdicts(both: tuple[Usage, dict[str, Any]]) -> None:
    """Without a --kubernetes-version, as the Go original knows none."""
    usage, golden = both
    verdicts = {
        "only_expected_methods_were_called": all(finding.id != UNEXPECTED_METHOD for finding in usage.findings),
    }
    for name in [*(method.name for method in GRPC_METHODS if method.call_patterns), LEASE_GRANT]:
        verdicts[name] = all(finding.grpc_method != name for finding in usage.findings)
    assert verdicts == golden["verdicts"]


def test_messages(both: tuple[Usage, dict[str, Any]]) -> None:
    """Each line that the Go original printed is told here too; it prints one arbitrary example of several."""
    usage, golden = both
    told = {finding.message for finding in usage.findings}
    printed = {line for lines in golden["errors"].values() for line in lines}
    assert printed <= told
    assert {re.sub(r"\(.*|detected: .*|\d+", "", line) for line in told} == {
        re.sub(r"\(.*|detected: .*|\d+", "", line) for line in printed
    }


def test_warnings(both: tuple[Usage, dict[str, Any]]) -> None:
    usage, golden = both
    assert [line for line in usage.quality.warnings() if "exactly 100 traces" not in line] == golden["warnings"]
