"""The order of a table's rows: key pattern, call pattern, args, each by code point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.judging.judge import judge
from meta_tests.builder import GET, JSON, PODS, RANGE, call, etcd, write
from meta_tests.go_original import its_rows_alone

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_are_sorted_by_code_point(tmp_path: Path) -> None:
    keys = [
        "zeta",
        "compact_rev_key",
        "/registry/pods/default/web",
        "/registry/services/specs/a/b",
        "\x00",
        "é",
        "/registry/crd.io/r/a/b",
    ]
    calls = [call(number, RANGE, {"range_begin": key, "limit": 1}) for number, key in enumerate(keys)]
    usage = judge(write(tmp_path / "dump.json", etcd(*calls)))
    assert [row.key_pattern for row in usage.rows] == [
        "\\x00",
        "/registry/services/{subresource}/{namespace}/{name}",
        "/registry/{api-group}/{resource}/{namespace}/{name}",
        "/registry/{resource}/{namespace}/{name}",
        "compact_rev_key",
        "zeta",
        "é",
    ]


def test_rows_of_a_key_pattern_are_sorted_by_call_pattern_then_args(tmp_path: Path) -> None:
    arguments: list[JSON] = [
        PODS | {"limit": 5},
        PODS | {"keys_only": True},
        PODS,
        PODS | {"limit": 5, "rev": 1},
        PODS | {"count_only": True},
        PODS | {"rev": 1},
        {"range_begin": "/registry/pods/"},
    ]
    with its_rows_alone():
        usage = judge(write(tmp_path / "dump.json", etcd(*(call(n, RANGE, one) for n, one in enumerate(arguments)))))
    assert [(row.call_pattern, row.args) for row in usage.rows] == [
        ("", ()),
        ("Count", ("rangeEnd", "countOnly")),
        ("Keys", ("rangeEnd", "keysOnly")),
        ("List", ("rangeEnd",)),
        ("List", ("rangeEnd", "rev")),
        ("List", ("limit", "rangeEnd")),
        ("List", ("limit", "rangeEnd", "rev")),
    ]


def test_order_of_the_spans_changes_nothing(tmp_path: Path) -> None:
    calls = [
        call(1, RANGE, GET),
        call(2, RANGE, PODS),
        call(3, RANGE, GET | {"rev": 2}),
        call(4, RANGE, {"range_begin": "k"}),
    ]
    there = judge(write(tmp_path / "a.json", etcd(*calls)))
    back = judge(write(tmp_path / "b.json", etcd(*(group[::-1] for group in calls[::-1]))))
    assert there.rows == back.rows
    assert there.findings == back.findings
