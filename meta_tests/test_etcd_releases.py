"""Dumps of other etcd releases than the demo dumps are of."""

from __future__ import annotations

from pathlib import Path

from etcd_coverage.judging.finding_kinds import NEXT_STEPS
from etcd_coverage.judging.judge import judge

# Of a real etcd 3.6.8, through Jaeger: the calls that test_integration.py makes.
DUMP = Path(__file__).parent / "dumps" / "etcd-3.6.json.gz"


def test_etcd_3_6_records_no_call_which_is_never_taken_for_arguments_that_are_not_set() -> None:
    usage = judge(DUMP, "1.36")
    assert usage.calls == {
        "etcdserverpb.KV/Compact": 1,
        "etcdserverpb.KV/Range": 131,
        "etcdserverpb.KV/Txn": 10,
        "etcdserverpb.Lease/LeaseGrant": 2,
        "etcdserverpb.Maintenance/Status": 4,
        "etcdserverpb.Watch/Watch": 3,
    }
    assert usage.rows == []
    assert usage.leases == []
    assert {(one.id, one.grpc_method, one.count) for one in usage.findings} == {
        ("call-not-recorded", name, count)
        for name, count in usage.calls.items()
        if name != "etcdserverpb.Maintenance/Status"
    }
    assert "etcd 3.7 or newer" in NEXT_STEPS["call-not-recorded"]
