"""Classification: args, call patterns and findings of tiny dumps, by hand from the reference semantics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from etcd_coverage.comparing import compare
from etcd_coverage.dumps.otlp_json import JsonSpan
from etcd_coverage.judging.ancestors import Ancestors
from etcd_coverage.judging.classify import KeyPatterns, with_known_keys
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.leases import leases
from etcd_coverage.judging.span_maps import Call
from etcd_coverage.judging.usage import Example, Finding, Lease, Usage
from meta_tests.builder import (
    COMPACT,
    GET,
    LEASE_GRANT,
    POD,
    PODS,
    PUT,
    RANGE,
    RANGE_STREAM,
    TRACE,
    TXN,
    WATCH,
    WATCH_PODS,
    call,
    complete,
    etcd,
    write,
)
from meta_tests.go_original import its_rows_alone

if TYPE_CHECKING:
    from pathlib import Path

ONE = Example(TRACE, "00000001000000bb")
POD_PATTERN = "/registry/{resource}/{namespace}/{name}"
PODS_PATTERN = "/registry/{resource}/"
DELETE = PUT | {"success_first_type": "delete_range"}


def judged(tmp_path: Path, *calls: Any) -> Usage:
    with its_rows_alone():
        usage = judge(write(tmp_path / "dump.json", etcd(*calls)))
    assert usage.error is None
    return usage


def findings(usage: Usage) -> list[Finding]:
    """Return the findings but for the methods that a tiny dump does not call, without who made the calls and how."""
    return [
        replace(finding, attributes="", origins=[]) for finding in usage.findings if finding.id != "method-not-called"
    ]


@pytest.mark.parametrize(
    ("method", "arguments", "call_pattern", "key_pattern", "args"),
    [
        (RANGE, {"range_begin": "/registry/health"}, "Healthcheck", "/registry/health", ()),
        (RANGE, {"range_begin": "/registry/health", "limit": 1}, "Healthcheck", "/registry/health", ("limit",)),
        (RANGE, {"range_begin": "compact_rev_key"}, "Compaction", "compact_rev_key", ()),
        (RANGE, GET, "Get", POD_PATTERN, ("limit",)),
        (RANGE, GET | {"rev": 9}, "Get", POD_PATTERN, ("limit", "rev")),
        (RANGE, GET | {"keys_only": True}, "Get", POD_PATTERN, ("limit", "keysOnly")),
        (RANGE, GET | {"limit": 2}, "", POD_PATTERN, ("limit",)),
        (RANGE, GET | {"limit": "1"}, "", POD_PATTERN, ()),
        (RANGE, PODS | {"count_only": True}, "Count", PODS_PATTERN, ("rangeEnd", "countOnly")),
        (RANGE, PODS | {"count_only": True, "rev": 1}, "", PODS_PATTERN, ("rangeEnd", "rev", "countOnly")),
        (RANGE, PODS | {"count_only": True, "limit": 1}, "", PODS_PATTERN, ("limit", "rangeEnd", "countOnly")),
        (
            RANGE,
            PODS | {"count_only": True, "keys_only": True},
            "",
            PODS_PATTERN,
            ("rangeEnd", "countOnly", "keysOnly"),
        ),
        (RANGE, PODS | {"keys_only": True}, "Keys", PODS_PATTERN, ("rangeEnd", "keysOnly")),
        (RANGE, PODS | {"keys_only": True, "limit": 1}, "", PODS_PATTERN, ("limit", "rangeEnd", "keysOnly")),
        (RANGE, PODS | {"keys_only": True, "rev": 1}, "", PODS_PATTERN, ("rangeEnd", "rev", "keysOnly")),
        (RANGE, PODS, "List", PODS_PATTERN, ("rangeEnd",)),
        (RANGE, PODS | {"limit": 1}, "List", PODS_PATTERN, ("limit", "rangeEnd")),
        (RANGE, PODS | {"limit": 500, "rev": 9}, "List", PODS_PATTERN, ("limit", "rangeEnd", "rev")),
        (RANGE, PODS | {"limit": -1, "rev": -1}, "List", PODS_PATTERN, ("rangeEnd",)),
        (RANGE, {"range_begin": "/registry/pods/"}, "", PODS_PATTERN, ()),
        (RANGE_STREAM, PODS, "List", PODS_PATTERN, ("rangeEnd",)),
        (RANGE_STREAM, PODS | {"limit": 3, "rev": 1}, "List", PODS_PATTERN, ("limit", "rangeEnd", "rev")),
        (RANGE_STREAM, PODS | {"keys_only": True}, "", PODS_PATTERN, ("rangeEnd",)),
        (RANGE_STREAM, PODS | {"count_only": True}, "", PODS_PATTERN, ("rangeEnd",)),
        (RANGE_STREAM, GET, "", POD_PATTERN, ("limit",)),
        (TXN, {"compare_first_key": "compact_rev_key"}, "Compaction", "compact_rev_key", ()),
        (TXN, PUT, "OptimisticPut", POD_PATTERN, ()),
        (TXN, PUT | {"failure_len": 1}, "OptimisticPut", POD_PATTERN, ("getOnFailure",)),
        (TXN, PUT | {"failure_len": 2}, "OptimisticPut", POD_PATTERN, ()),
        (TXN, PUT | {"success_first_lease": 7}, "OptimisticPut", POD_PATTERN, ("lease",)),
        (TXN, PUT | {"success_first_lease": -1}, "OptimisticPut", POD_PATTERN, ()),
        (TXN, PUT | {"read_only": True}, "", POD_PATTERN, ("readOnly",)),
        (TXN, PUT | {"compare_len": 2}, "", POD_PATTERN, ()),
        (TXN, PUT | {"success_len": 0}, "", POD_PATTERN, ()),
        (TXN, PUT | {"success_first_type": "range"}, "", POD_PATTERN, ()),
        (TXN, DELETE, "OptimisticDelete", POD_PATTERN, ()),
        (TXN, DELETE | {"failure_len": 1}, "OptimisticDelete", POD_PATTERN, ("getOnFailure",)),
        (TXN, DELETE | {"read_only": True}, "", POD_PATTERN, ("readOnly",)),
        (COMPACT, {"rev": 5}, "Compact", "", ("rev",)),
        (COMPACT, {"rev": 5, "is_physical": True}, "Compact", "", ("rev", "physical")),
        (COMPACT, {}, "Compact", "", ()),
        (WATCH, {"key": "compact_rev_key"}, "Compaction", "compact_rev_key", ()),
        (WATCH, WATCH_PODS, "Watch", PODS_PATTERN, ("range_end", "start_rev", "prev_kv")),
        (
            WATCH,
            WATCH_PODS | {"progress_notify": True},
            "Watch",
            PODS_PATTERN,
            ("range_end", "start_rev", "prev_kv", "progress_notify"),
        ),
        (
            WATCH,
            WATCH_PODS | {"fragment": True},
            "",
            PODS_PATTERN,
            ("range_end", "start_rev", "prev_kv", "fragment"),
        ),
        (WATCH, WATCH_PODS | {"start_rev": 0}, "", PODS_PATTERN, ("range_end", "prev_kv")),
        (WATCH, WATCH_PODS | {"prev_kv": False}, "", PODS_PATTERN, ("range_end", "start_rev")),
        (WATCH, WATCH_PODS | {"range_end": ""}, "", PODS_PATTERN, ("start_rev", "prev_kv")),
    ],
)
def test_call_is_told_by_its_first_matching_pattern(
    tmp_path: Path, method: str, arguments: dict[str, Any], call_pattern: str, key_pattern: str, args: tuple[str, ...]
) -> None:
    usage = judged(tmp_path, call(1, method, arguments))
    (row,) = usage.rows
    assert (row.grpc_method, row.call_pattern, row.key_pattern, row.args) == (method, call_pattern, key_pattern, args)
    assert [finding.id for finding in findings(usage)] == ([] if call_pattern else ["new-call-pattern"])


def test_new_call_pattern_is_told_once_a_row_with_its_count(tmp_path: Path) -> None:
    odd = {"range_begin": "/registry/pods/"}
    usage = judged(
        tmp_path, call(1, RANGE, odd), call(2, RANGE, odd), call(3, RANGE, PODS | {"limit": 3, "keys_only": True})
    )
    told = "New call pattern detected: etcdserverpb.KV/Range(key=/registry/{resource}/"
    assert [(finding.message, finding.count, finding.example) for finding in findings(usage)] == [
        (f"{told},limit=false,rangeEnd=false,rev=false,countOnly=false,keysOnly=false)", 2, ONE),
        (
            f"{told},limit=true,rangeEnd=true,rev=false,countOnly=false,keysOnly=true)",
            1,
            Example(TRACE, "00000003000000bb"),
        ),
    ]


def test_new_key_pattern_is_told_whole_and_escaped(tmp_path: Path) -> None:
    key = "/registry/a/b/c/d\x1b[31m\x00\u202e\\"
    usage = judged(tmp_path, call(1, RANGE, GET | {"range_begin": key}))
    shown = "/registry/a/b/c/d\\x1b[31m\\x00\\u202e\\\\"
    assert [row.key_pattern for row in usage.rows] == [shown]
    assert findings(usage) == [
        Finding(
            id="new-key-pattern",
            grpc_method=RANGE,
            message=f"New key pattern detected: {shown}",
            count=1,
            example=ONE,
        )
    ]


def test_both_kinds_are_told_of_one_row(tmp_path: Path) -> None:
    """The Go original tells the first of them only."""
    usage = judged(tmp_path, call(1, WATCH, {"key": "\x00"}))
    assert [finding.id for finding in findings(usage)] == ["new-key-pattern", "new-call-pattern"]


def test_same_unknown_key_in_two_rows_is_one_finding(tmp_path: Path) -> None:
    usage = judged(
        tmp_path, call(1, RANGE, GET | {"range_begin": "k"}), call(2, RANGE, GET | {"range_begin": "k", "rev": 1})
    )
    assert len(usage.rows) == 2
    assert [(one.message, one.count, one.example) for one in findings(usage)] == [
        ("New key pattern detected: k", 2, ONE)
    ]


def test_missing_key_is_an_unknown_pattern(tmp_path: Path) -> None:
    usage = judged(tmp_path, call(1, RANGE, {"limit": 1}), call(2, RANGE, {"range_begin": 5, "limit": 1}))
    assert [(row.key_pattern, row.calls) for row in usage.rows] == [("", 2)]
    assert [finding.message for finding in findings(usage)] == ["New key pattern detected: "]


def test_unexpected_methods_are_told_by_name_and_escaped(tmp_path: Path) -> None:
    usage = judged(
        tmp_path,
        call(1, "etcdserverpb.KV/Put", {}),
        call(2, "etcdserverpb.KV/Put", {})[:1],
        call(3, "etcdserverpb.\x1b[2J", {}),
        call(4, "etcdserverpb.Maintenance/Status", {}),
    )
    assert [(finding.id, finding.message, finding.count) for finding in findings(usage)] == [
        ("unexpected-method", "unexpected 1 calls to method: etcdserverpb.\\x1b[2J", 1),
        ("unexpected-method", "unexpected 2 calls to method: etcdserverpb.KV/Put", 2),
    ]
    assert usage.calls == {
        "etcdserverpb.\\x1b[2J": 1,
        "etcdserverpb.KV/Put": 2,
        "etcdserverpb.Maintenance/Status": 1,
    }


def test_each_method_that_was_not_called_is_told(tmp_path: Path) -> None:
    usage = judged(tmp_path, call(1, RANGE, GET))
    assert [finding.message for finding in usage.findings] == [
        f'expected "{method}" method to be called at least once'
        for method in (RANGE_STREAM, TXN, COMPACT, WATCH, LEASE_GRANT)
    ]


def test_complete_dump_has_no_findings(tmp_path: Path) -> None:
    usage = judged(tmp_path, complete())
    assert usage.findings == []
    assert usage.leases == [Lease(key_pattern=POD_PATTERN, uses=1, ttl_seconds=15, calls=1)]


@pytest.mark.parametrize(
    ("version", "told"), [("1.36", False), ("1.9", False), ("1.37", True), ("1.40", True), ("2.0", True), ("", True)]
)
def test_method_is_not_missed_in_releases_before_it(tmp_path: Path, version: str, told: bool) -> None:
    dump = write(tmp_path / "dump.json", etcd([one for one in complete() if not one["spanId"].startswith("00000002")]))
    assert any(finding.grpc_method == RANGE_STREAM for finding in judge(dump, version).findings) is told


def txn(number: int, lease: int, key: str = POD) -> list[dict[str, Any]]:
    return call(number, TXN, PUT | {"success_first_lease": lease, "success_first_key": key})


@pytest.mark.parametrize(
    ("grant", "transactions", "identifier", "message"),
    [
        ({"ttl": 15}, [], "lease-without-id", "Lease without ID"),
        ({"id": 7, "ttl": 15}, [], "new-key-pattern", "New key pattern detected: no pattern found"),
        ({"id": 7, "ttl": 15}, [txn(2, 8)], "new-key-pattern", "New key pattern detected: no pattern found"),
        (
            {"id": 7, "ttl": 15},
            [txn(2, 7), txn(3, 7, "/registry/pods/x")],
            "new-key-pattern",
            "New key pattern detected: multiple key patterns",
        ),
        ({"id": 7, "ttl": 15}, [txn(2, 7, "a\x00")], "new-key-pattern", "New key pattern detected: a\\x00"),
        ({"id": 7, "ttl": 15}, [txn(2, 7), txn(3, 7, "b")], "new-key-pattern", "New key pattern detected: b"),
        (
            {"id": 7, "ttl": 15},
            [call(2, TXN, {"success_first_lease": 7})],
            "new-key-pattern",
            "New key pattern detected: no pattern found",
        ),
        ({"id": 7, "ttl": 15}, [txn(2, 7), txn(3, 7, "")], "new-key-pattern", "New key pattern detected: "),
        (
            {"id": 7, "ttl": 15},
            [txn(2, 7), call(3, TXN, {"success_first_lease": 7, "success_first_key": 5})],
            "new-key-pattern",
            "New key pattern detected: ",
        ),
        ({"id": 7}, [txn(2, 7)], "lease-without-ttl", "Lease without TTL"),
        ({"id": 7}, [], "new-key-pattern", "New key pattern detected: no pattern found"),
        ({}, [], "lease-without-id", "Lease without ID"),
    ],
)
def test_lease_with_a_finding_is_not_counted(
    tmp_path: Path, grant: dict[str, int], transactions: list[Any], identifier: str, message: str
) -> None:
    usage = judged(tmp_path, call(1, LEASE_GRANT, grant), *transactions)
    assert usage.leases == []
    assert [finding for finding in findings(usage) if finding.grpc_method == LEASE_GRANT] == [
        Finding(id=identifier, grpc_method=LEASE_GRANT, message=message, count=1, example=ONE)
    ]


def test_transaction_without_a_first_key_uses_the_lease_and_has_no_pattern(tmp_path: Path) -> None:
    """As the Go original counts it: 1 lease, 2.0 uses."""
    usage = judged(
        tmp_path, call(1, LEASE_GRANT, {"id": 7, "ttl": 5}), call(2, TXN, {"success_first_lease": 7}), txn(3, 7)
    )
    assert usage.leases == [Lease(key_pattern=POD_PATTERN, uses=2, ttl_seconds=5, calls=1)]


def test_keys_of_a_lease_are_read_once_however_often_it_was_granted() -> None:
    class Counted(KeyPatterns):
        finds = 0

        def find(self, key: str) -> str | None:
            self.finds += 1
            return super().find(key)

    patterns = Counted()
    grants = [Call(JsonSpan(), {"id": 7, "ttl": 1})] * 50
    transactions = [Call(JsonSpan(), {"success_first_lease": 7, "success_first_key": POD})] * 40
    found, problems = leases(grants, {7: transactions}, patterns, Ancestors({}))
    assert found == [Lease(key_pattern=POD_PATTERN, uses=2000, ttl_seconds=50, calls=50)]
    assert problems == []
    assert patterns.finds == 40


def test_same_finding_of_two_leases_is_told_once(tmp_path: Path) -> None:
    usage = judged(tmp_path, call(1, LEASE_GRANT, {}), call(2, LEASE_GRANT, {}))
    assert [(finding.message, finding.count) for finding in findings(usage)] == [("Lease without ID", 2)]


def test_id_and_ttl_of_another_type_or_zero_are_there(tmp_path: Path) -> None:
    """Absent is what counts: of another type they read 0."""
    usage = judged(
        tmp_path, call(1, LEASE_GRANT, {"id": "7", "ttl": "15"}), call(2, LEASE_GRANT, {"id": 0, "ttl": 0}), txn(3, 0)
    )
    assert usage.leases == [Lease(key_pattern=POD_PATTERN, uses=2, ttl_seconds=0, calls=2)]
    assert [finding for finding in findings(usage) if finding.grpc_method == LEASE_GRANT] == []


def test_server_span_alone_is_no_call(tmp_path: Path) -> None:
    usage = judged(tmp_path, call(1, RANGE, GET)[:1])
    assert usage.calls == {RANGE: 1}
    assert usage.rows == []
    assert findings(usage)[0] == Finding(
        id="call-not-recorded",
        grpc_method=RANGE,
        message=f'"{RANGE}" method was called 1 time, but no call was recorded',
        count=1,
        example=Example(TRACE, "00000001000000aa"),
    )


def test_server_spans_alone_are_no_calls_of_a_release_that_has_no_such_method(tmp_path: Path) -> None:
    servers = [server for number in (7, 8) for server in call(number, RANGE_STREAM, PODS)[:1]]
    without = [one for one in complete() if not one["spanId"].startswith("00000002")]
    usage = judge(write(tmp_path / "dump.json", etcd(without, servers)), "1.36")
    assert [(one.id, one.message) for one in usage.findings] == [
        ("call-not-recorded", f'"{RANGE_STREAM}" method was called 2 times, but no call was recorded'),
        ("outside-release", f"{RANGE_STREAM} came with Kubernetes 1.37, this dump is of 1.36"),
    ]


def test_calls_are_sorted_by_name(tmp_path: Path) -> None:
    usage = judged(tmp_path, call(1, WATCH, WATCH_PODS), call(2, TXN, PUT), call(3, RANGE, GET))
    assert list(usage.calls) == [RANGE, TXN, WATCH]


def test_row_of_a_method_without_keys_has_no_unknown_key(tmp_path: Path) -> None:
    usage = judged(tmp_path, call(1, COMPACT, {"rev": 1}), call(2, RANGE, GET), call(3, RANGE, {}))
    assert [row.known_key for row in usage.rows] == [False, True, True]


def test_key_that_reads_like_a_pattern_is_unknown_and_stands_beside_the_pattern(tmp_path: Path) -> None:
    literal = "/registry/{api-group}/{resource}/{namespace}/{name}"
    known = call(1, RANGE, GET | {"range_begin": "/registry/crd.io/widgets/default/web"})
    both = judged(tmp_path, known, call(2, RANGE, GET | {"range_begin": literal}))
    assert [(row.key_pattern, row.known_key, row.calls) for row in both.rows] == [
        (literal, False, 1),
        (literal, True, 1),
    ]
    assert [(one.id, one.count) for one in findings(both)] == [("new-key-pattern", 1)]
    compared = compare.compare(judged(tmp_path, known), both)
    assert [(row.key_pattern, row.known_key, row.status) for row in compared.rows] == [
        (literal, True, "covered"),
        (literal, False, "new"),
    ]
    assert compare.left_out(both) == [both.rows[0]]
    example = compare.example_of(compared.rows[1], both)
    assert example is not None
    assert example.span_id == "00000002000000bb"


def test_unknown_keys_of_earlier_saved_usages_are_recognised(tmp_path: Path) -> None:
    rows = judged(
        tmp_path, call(1, COMPACT, {"rev": 1}), call(2, RANGE, GET), call(3, RANGE, {"range_begin": "k"})
    ).rows
    assert with_known_keys(msgspec.structs.replace(row, known_key=True) for row in rows) == rows


def test_leases_are_summed_by_key_pattern(tmp_path: Path) -> None:
    event = "/registry/events/default/web.17f0"
    usage = judged(
        tmp_path,
        call(1, LEASE_GRANT, {"id": 7, "ttl": 3660}),
        call(2, LEASE_GRANT, {"id": 2**62, "ttl": 3600}),
        call(3, LEASE_GRANT, {"id": 9, "ttl": 15}),
        txn(4, 7, event),
        txn(5, 7, event),
        txn(6, 2**62, event),
        txn(7, 9, "/registry/masterleases/10.0.0.1"),
    )
    assert usage.leases == [
        Lease(key_pattern="/registry/events/{namespace}/{name}", uses=3, ttl_seconds=7260, calls=2),
        Lease(key_pattern="/registry/masterleases/{name}", uses=1, ttl_seconds=15, calls=1),
    ]


def test_contract_calls_are_counted_in_their_row(tmp_path: Path) -> None:
    server, child = call(1, RANGE, GET)
    server["events"] = [{"name": "contract.Get"}]
    usage = judged(tmp_path, [server, child], call(2, RANGE, GET))
    assert [(row.calls, row.contract_calls) for row in usage.rows] == [(2, 1)]
