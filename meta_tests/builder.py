"""Tiny dumps, written by hand in OTLP's JSON."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

JSON = dict[str, Any]

TRACE = "0123456789abcdef0123456789abcdef"
RANGE = "etcdserverpb.KV/Range"
RANGE_STREAM = "etcdserverpb.KV/RangeStream"
TXN = "etcdserverpb.KV/Txn"
COMPACT = "etcdserverpb.KV/Compact"
WATCH = "etcdserverpb.Watch/Watch"
LEASE_GRANT = "etcdserverpb.Lease/LeaseGrant"

POD = "/registry/pods/default/web"
PODS = {"range_begin": "/registry/pods/", "range_end": "/registry/pods0"}
GET = {"range_begin": POD, "limit": 1}
PUT = {
    "compare_first_key": POD,
    "compare_len": 1,
    "success_len": 1,
    "success_first_type": "put",
    "success_first_key": POD,
    "success_first_lease": 0,
}
# What no row of the reference expects, whatever rows a contributor adds: etcd has no such method, no key of Kubernetes is
# one letter, and none reads 77 objects of one key, or its keys alone and their number at once.
NO_SUCH_METHOD = "etcdserverpb.KV/NoSuchMethod"
UNEXPECTED_KEY = "k"
UNEXPECTED_RANGE = GET | {"limit": 77, "count_only": True, "keys_only": True}
UNEXPECTED_RANGE_STREAM = GET | {"limit": 77, "rev": 5}
WATCH_PODS = {"key": "/registry/pods/", "range_end": "/registry/pods0", "start_rev": 7, "prev_kv": True}


def value(of: object) -> JSON:
    """Return an AnyValue as Jaeger writes it: integers as strings."""
    if isinstance(of, bool):
        return {"boolValue": of}
    if isinstance(of, int):
        return {"intValue": str(of)}
    return {"stringValue": of}


def attributes(of: JSON) -> list[JSON]:
    return [{"key": key, "value": value(one)} for key, one in of.items()]


def span(span_id: str, parent: str = "", name: str = "range", **more: Any) -> JSON:
    """Return a span of the one trace; ``attributes`` may be a plain dict, ``events`` a list of names."""
    made: JSON = {"traceId": TRACE, "spanId": span_id, "name": name, "kind": 1, "status": {}}
    if parent:
        made["parentSpanId"] = parent
    if isinstance(more.get("attributes"), dict):
        more["attributes"] = attributes(more["attributes"])
    if "events" in more:
        more["events"] = [{"name": event} if isinstance(event, str) else event for event in more["events"]]
    return made | more


def call(number: int, method: str, arguments: JSON, **server: Any) -> list[JSON]:
    """Return the server span of a gRPC method and, with the arguments, the call span under it."""
    server_id, call_id = f"{number:08x}000000aa", f"{number:08x}000000bb"
    return [
        span(server_id, name=method, kind=2, **server),
        span(call_id, server_id, name=method.rpartition("/")[2].lower(), attributes=arguments),
    ]


def resource(spans: list[JSON], service: str = "etcd") -> JSON:
    return {"resource": {"attributes": attributes({"service.name": service})}, "scopeSpans": [{"spans": spans}]}


def dump(*resources: JSON) -> JSON:
    return {"result": {"resourceSpans": list(resources)}}


def etcd(*groups: list[JSON]) -> JSON:
    """Return a dump of etcd's spans alone."""
    return dump(resource([one for group in groups for one in group]))


def complete() -> list[JSON]:
    """Return calls of every method that must be called, with nothing that nobody expects."""
    return [
        *call(1, RANGE, GET),
        *call(2, RANGE_STREAM, PODS),
        *call(3, TXN, PUT | {"success_first_lease": 77}),
        *call(4, COMPACT, {"rev": 5, "is_physical": True}),
        *call(5, WATCH, WATCH_PODS),
        *call(6, LEASE_GRANT, {"id": 77, "ttl": 15}),
    ]


def write(path: Path, content: JSON | str | bytes) -> Path:
    """Write a dump, packed if the name ends in .gz."""
    if isinstance(content, dict):
        content = json.dumps(content)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
