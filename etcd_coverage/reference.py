"""The tables: which gRPC methods Kubernetes calls, and how. The one file that a contributor edits.

``GRPC_METHODS`` holds the methods in the order in which they are judged, each with its call patterns in the order in
which they are tried: the first that matches names the call. Each row says why it is there and carries an example, and
``tests/test_reference.py`` holds the rows to it. CONTRIBUTING.md shows how to add one.
"""

from __future__ import annotations

from msgspec import Struct

from etcd_coverage.attributes import Attributes
from etcd_coverage.key_pattern import SpecialKey, SpecialResource
from etcd_coverage.matchers import Matcher, all_of, always, bool_set, equals, int_set, none_of, str_set


class Arg(Struct, frozen=True):
    """A column of a method's table: an argument, and when it counts as set."""

    name: str
    is_set: Matcher


class CallPattern(Struct, frozen=True, kw_only=True):
    """One way in which Kubernetes calls a method.

    ``example`` holds attributes which this pattern is the first to claim; ``shadowed_by`` names the earlier pattern
    that claims them instead, so that this one is never chosen. ``since`` and ``until`` are the first and the last
    Kubernetes release that calls so ("X.Y"; empty: every release).
    """

    name: str
    reason: str
    matches: Matcher
    example: Attributes
    shadowed_by: str = ""
    since: str = ""
    until: str = ""


class GrpcMethod(Struct, frozen=True, kw_only=True):
    """A gRPC method that Kubernetes may call.

    ``key`` is the attribute that holds the key, empty for a method without one. ``required`` methods must be called at
    least once. ``since`` and ``until`` are the first and the last Kubernetes release that calls the method ("X.Y";
    empty: every release). A method without ``call_patterns`` may be called in any way. Calls of a method that is not
    ``always_recorded`` may lack the span that holds their arguments. ``ends`` are gRPC statuses with which its calls
    end as they should.
    """

    name: str
    reason: str
    key: str = ""
    args: tuple[Arg, ...] = ()
    call_patterns: tuple[CallPattern, ...] = ()
    required: bool = True
    since: str = ""
    until: str = ""
    always_recorded: bool = True
    ends: tuple[str, ...] = ()


RELEASES = ("1.34", "1.35", "1.36", "1.37", "1.38")
"""The Kubernetes minors on whose dumps the rows were checked, in order; the newest may be ahead of its release."""

GRPC_PREFIX = "etcdserverpb."
"""What the name of each of etcd's gRPC methods starts with."""


def short_name(method: str) -> str:
    """Return the gRPC method without its package: KV/Range."""
    return method.removeprefix(GRPC_PREFIX)


_INTERFACE = "part of the etcd-Kubernetes interface, go.etcd.io/etcd/client/v3/kubernetes"
_COMPACTOR = "the apiserver's compactor keeps the last compacted revision there"
_COMPACT_KEY = "compact_rev_key"
_HEALTH_KEY = "/registry/health"

_LIMIT = Arg("limit", int_set("limit"))
_RANGE_END = Arg("rangeEnd", str_set("range_end"))
_REV = Arg("rev", int_set("rev"))
_COUNT_ONLY = Arg("countOnly", bool_set("count_only"))
_KEYS_ONLY = Arg("keysOnly", bool_set("keys_only"))

_READ_ONLY = Arg("readOnly", bool_set("read_only"))

_START_REV = Arg("start_rev", int_set("start_rev"))
_WATCH_RANGE_END = Arg("range_end", str_set("range_end"))
_PREV_KV = Arg("prev_kv", bool_set("prev_kv"))
_FRAGMENT = Arg("fragment", bool_set("fragment"))
_PROGRESS_NOTIFY = Arg("progress_notify", bool_set("progress_notify"))

_LIST = all_of(_RANGE_END.is_set, none_of(_KEYS_ONLY.is_set, _COUNT_ONLY.is_set))
_ONE_COMPARE_ONE_SUCCESS = all_of(equals("compare_len", 1), equals("success_len", 1), none_of(_READ_ONLY.is_set))

GRPC_METHODS = (
    GrpcMethod(
        name="etcdserverpb.KV/Range",
        reason=_INTERFACE,
        key="range_begin",
        args=(_LIMIT, _RANGE_END, _REV, _COUNT_ONLY, _KEYS_ONLY),
        call_patterns=(
            CallPattern(
                name="Healthcheck",
                reason="the apiserver's readiness and health checks read a key that never exists",
                matches=equals("range_begin", _HEALTH_KEY),
                example={"range_begin": _HEALTH_KEY},
            ),
            CallPattern(
                name="Compaction",
                reason=_COMPACTOR,
                matches=equals("range_begin", _COMPACT_KEY),
                example={"range_begin": _COMPACT_KEY},
            ),
            CallPattern(
                name="Get",
                reason="reads one object",
                matches=all_of(equals("limit", 1), none_of(_RANGE_END.is_set)),
                example={"range_begin": "/registry/pods/default/web", "limit": 1},
            ),
            CallPattern(
                name="Count",
                reason="counts the objects of a resource for the apiserver's metrics",
                matches=all_of(
                    _COUNT_ONLY.is_set,
                    _RANGE_END.is_set,
                    none_of(_KEYS_ONLY.is_set, _LIMIT.is_set, _REV.is_set),
                ),
                example={
                    "range_begin": "/registry/pods/",
                    "range_end": "/registry/pods0",
                    "count_only": True,
                },
            ),
            CallPattern(
                name="Keys",
                reason="estimates the size of a resource's objects from its keys",
                matches=all_of(
                    _KEYS_ONLY.is_set,
                    _RANGE_END.is_set,
                    none_of(_COUNT_ONLY.is_set, _LIMIT.is_set, _REV.is_set),
                ),
                example={"range_begin": "/registry/pods/", "range_end": "/registry/pods0", "keys_only": True},
            ),
            CallPattern(
                name="List",
                reason="reads the objects of a resource or namespace, in pages if a limit is set",
                matches=_LIST,
                example={"range_begin": "/registry/pods/", "range_end": "/registry/pods0", "limit": 500},
            ),
            CallPattern(
                name="GetCurrentRevision",
                reason="asks for the store's revision by listing one object",
                matches=all_of(
                    equals("limit", 1),
                    _RANGE_END.is_set,
                    none_of(_KEYS_ONLY.is_set, _COUNT_ONLY.is_set, _REV.is_set),
                ),
                example={"range_begin": "/registry/pods/", "range_end": "/registry/pods0", "limit": 1},
                shadowed_by="List",
            ),
        ),
    ),
    GrpcMethod(
        name="etcdserverpb.KV/RangeStream",
        reason="lists without building the whole answer in memory; not part of the etcd-Kubernetes interface: feature "
        "gate EtcdRangeStream, https://github.com/kubernetes/enhancements/issues/5966",
        since="1.37",
        key="range_begin",
        args=(_LIMIT, _RANGE_END, _REV),
        call_patterns=(
            CallPattern(
                name="List",
                reason="reads the objects of a resource or namespace, in pages if a limit is set",
                matches=_LIST,
                example={"range_begin": "/registry/pods/", "range_end": "/registry/pods0"},
            ),
        ),
    ),
    GrpcMethod(
        name="etcdserverpb.KV/Txn",
        reason=_INTERFACE,
        key="compare_first_key",
        args=(
            Arg("getOnFailure", equals("failure_len", 1)),
            _READ_ONLY,
            Arg("lease", int_set("success_first_lease")),
        ),
        call_patterns=(
            CallPattern(
                name="Compaction",
                reason=_COMPACTOR,
                matches=equals("compare_first_key", _COMPACT_KEY),
                example={"compare_first_key": _COMPACT_KEY},
            ),
            CallPattern(
                name="OptimisticPut",
                reason="creates or updates an object, unless it changed since it was read",
                matches=all_of(_ONE_COMPARE_ONE_SUCCESS, equals("success_first_type", "put")),
                example={
                    "compare_first_key": "/registry/pods/default/web",
                    "compare_len": 1,
                    "success_len": 1,
                    "success_first_type": "put",
                },
            ),
            CallPattern(
                name="OptimisticDelete",
                reason="deletes an object, unless it changed since it was read",
                matches=all_of(_ONE_COMPARE_ONE_SUCCESS, equals("success_first_type", "delete_range")),
                example={
                    "compare_first_key": "/registry/pods/default/web",
                    "compare_len": 1,
                    "success_len": 1,
                    "success_first_type": "delete_range",
                },
            ),
        ),
    ),
    GrpcMethod(
        name="etcdserverpb.KV/Compact",
        reason="the apiserver compacts every 5 minutes; to move into etcd, https://github.com/kubernetes/kubernetes/issues/80513",
        args=(_REV, Arg("physical", bool_set("is_physical"))),
        call_patterns=(
            CallPattern(
                name="Compact",
                reason="drops the history before a revision",
                matches=always,
                example={"rev": 1},
            ),
        ),
    ),
    GrpcMethod(
        name="etcdserverpb.Watch/Watch",
        reason="feeds the apiserver's watch cache; not yet part of the etcd-Kubernetes interface",
        # A watch lasts until its client goes away or its time is over.
        ends=("CANCELLED", "DEADLINE_EXCEEDED"),
        key="key",
        args=(
            _WATCH_RANGE_END,
            _START_REV,
            _PREV_KV,
            _FRAGMENT,
            _PROGRESS_NOTIFY,
        ),
        # A stream that ends before its watch is made has a server span alone.
        always_recorded=False,
        call_patterns=(
            CallPattern(
                name="Compaction",
                reason=_COMPACTOR,
                matches=equals("key", _COMPACT_KEY),
                example={"key": _COMPACT_KEY, "start_rev": 1},
            ),
            CallPattern(
                name="Watch",
                reason="watches the objects of a resource from a revision on",
                matches=all_of(_WATCH_RANGE_END.is_set, _START_REV.is_set, _PREV_KV.is_set, none_of(_FRAGMENT.is_set)),
                example={
                    "key": "/registry/pods/",
                    "range_end": "/registry/pods0",
                    "start_rev": 1,
                    "prev_kv": True,
                },
            ),
            CallPattern(
                name="WatchWithoutPrevKV",
                reason="feeds the watch cache, which has the previous values itself: feature gate "
                "WatchFromStorageWithoutPrevKV, https://github.com/kubernetes/kubernetes/issues/130939",
                since="1.38",
                # Other watches keep prev_kv, those of events too, which have no watch cache.
                matches=all_of(
                    _WATCH_RANGE_END.is_set,
                    _START_REV.is_set,
                    _PROGRESS_NOTIFY.is_set,
                    none_of(_PREV_KV.is_set, _FRAGMENT.is_set),
                ),
                example={
                    "key": "/registry/pods/",
                    "range_end": "/registry/pods0",
                    "start_rev": 1,
                    "progress_notify": True,
                },
            ),
        ),
    ),
    GrpcMethod(
        name="etcdserverpb.Lease/LeaseGrant",
        reason="lets masterleases and events expire",
    ),
    GrpcMethod(
        name="etcdserverpb.Maintenance/Status",
        reason="the apiserver shows etcd's database size among its metrics",
        required=False,
    ),
)

SPECIAL_KEYS = (
    SpecialKey(key=_HEALTH_KEY, reason="read by the apiserver's health checks"),
    SpecialKey(key=_COMPACT_KEY, reason=_COMPACTOR),
)

SPECIAL_RESOURCES = (
    SpecialResource(
        name="services",
        reason="specs, endpoints and allocations of services lie below one another",
        has_subresource=True,
        example=(
            "/registry/services/specs/default/web",
            "/registry/services/{subresource}/{namespace}/{name}",
        ),
    ),
    SpecialResource(
        name="masterleases",
        reason="addresses of the apiservers, kept under a lease of 15 s",
        example=("/registry/masterleases/192.168.32.1", "/registry/masterleases/{name}"),
    ),
    SpecialResource(
        name="events",
        reason="kept under leases that many events share",
        example=("/registry/events/default/web.17f0", "/registry/events/{namespace}/{name}"),
    ),
)
