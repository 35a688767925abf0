"""The rows of reference.py that etcd's Go tests have too.

What the Go original counts stays true of these rows, whatever rows a contributor adds to them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest

from etcd_coverage.judging import classify, findings, judge
from etcd_coverage.reference import GRPC_METHODS, SPECIAL_KEYS, SPECIAL_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

CALL_PATTERNS = {
    "etcdserverpb.KV/Range": ("Healthcheck", "Compaction", "Get", "Count", "Keys", "List", "GetCurrentRevision"),
    "etcdserverpb.KV/RangeStream": ("List",),
    "etcdserverpb.KV/Txn": ("Compaction", "OptimisticPut", "OptimisticDelete"),
    "etcdserverpb.KV/Compact": ("Compact",),
    "etcdserverpb.Watch/Watch": ("Compaction", "Watch"),
    "etcdserverpb.Lease/LeaseGrant": (),
    "etcdserverpb.Maintenance/Status": (),
}
KEYS = ("/registry/health", "compact_rev_key")
RESOURCES = ("services", "masterleases", "events")


@contextmanager
def its_rows_alone() -> Iterator[None]:
    """Judge by these rows."""
    methods = tuple(
        msgspec.structs.replace(
            method,
            call_patterns=tuple(row for row in method.call_patterns if row.name in CALL_PATTERNS[method.name]),
        )
        for method in GRPC_METHODS
        if method.name in CALL_PATTERNS
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "GRPC_METHODS", methods)
        patch.setattr(findings, "GRPC_METHODS", methods)
        patch.setattr(classify, "GRPC_METHODS", methods)
        patch.setattr(classify, "SPECIAL_KEYS", [key for key in SPECIAL_KEYS if key.key in KEYS])
        patch.setattr(classify, "SPECIAL_RESOURCES", [one for one in SPECIAL_RESOURCES if one.name in RESOURCES])
        yield
