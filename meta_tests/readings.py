"""A dump's spans as the suite reads them, and as protobuf's own decoder does."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from etcd_coverage.dumps.kinds import read_dump

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

    from meta_tests.builder import JSON

Reading = tuple[str, list[tuple[str, str, str, str, int, dict[str, object], list[str], bool]]]


def ours(path: Path) -> list[Reading]:
    return [
        (
            resource.service_name or "",
            [
                (
                    one.trace_id,
                    one.span_id,
                    one.parent_span_id,
                    one.name,
                    one.kind,
                    dict(one.attributes()),
                    one.event_names(),
                    one.failed(),
                )
                for one in resource.spans
            ],
        )
        for resource in read_dump(path)
    ]


def protobufs(request: JSON, *, hex_ids: bool = True) -> list[Reading]:
    """Read with json_format, which takes ids for base64: hex ones are brought into that form first."""
    request = json.loads(json.dumps(request))
    for one in all_spans(request):
        # Half of what json_format would read, and nobody compares.
        for key in ("startTimeUnixNano", "endTimeUnixNano", "flags", "links"):
            one.pop(key, None)
    if hex_ids:
        for one in all_spans(request):
            for key in ("traceId", "spanId", "parentSpanId"):
                if key in one:
                    one[key] = base64.b64encode(bytes.fromhex(one[key])).decode()
    parsed = json_format.ParseDict(request, ExportTraceServiceRequest(), ignore_unknown_fields=True)

    def spell(identifier: bytes) -> str:
        return identifier.hex() if hex_ids else base64.b64encode(identifier).decode()

    def read(one: ProtoSpan) -> tuple[str, str, str, str, int, dict[str, object], list[str], bool]:
        found: dict[str, object] = {}
        for pair in one.attributes:
            found.setdefault(pair.key, plain(pair.value))
        events = [event.name for event in one.events]
        # A parent id of zeros is none.
        parent = spell(one.parent_span_id) if any(one.parent_span_id) or not hex_ids else ""
        ids = (spell(one.trace_id), spell(one.span_id), parent)
        return (*ids, one.name, one.kind, found, events, one.status.code == 2)

    def service(pairs: Any) -> str:
        return next((pair.value.string_value for pair in pairs if pair.key == "service.name"), "")

    return [
        (service(one.resource.attributes), [read(each) for scope in one.scope_spans for each in scope.spans])
        for one in parsed.resource_spans
    ]


def plain(one: AnyValue) -> object:
    kind = one.WhichOneof("value")
    return getattr(one, kind) if kind in ("string_value", "int_value", "bool_value") else None


def all_spans(request: JSON) -> Iterator[JSON]:
    for resource_spans in request["resourceSpans"]:
        for scope in resource_spans["scopeSpans"]:
            yield from scope["spans"]


def snake(request: Any) -> Any:
    """Return the request with its field names in snake_case, which the protobuf JSON mapping also takes."""
    if isinstance(request, dict):
        return {"".join(f"_{c.lower()}" if c.isupper() else c for c in key): snake(one) for key, one in request.items()}
    return [snake(one) for one in request] if isinstance(request, list) else request
