"""A Jaeger v3 answer -> each other kind of dump, by hand and by protobuf's own code: nothing of the readers is used."""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from etcd_coverage.dumps.compressions import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JSON = dict[str, Any]

KINDS_OF_UI = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
STATUS = {1: "OK", 2: "ERROR"}


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def requests(dump: JSON, size: int = 7) -> list[JSON]:
    """Return the dump as requests of some resources each."""
    resources = dump["result"]["resourceSpans"]
    return [{"resourceSpans": resources[at : at + size]} for at in range(0, len(resources), size)]


def snake(value: Any) -> Any:
    if isinstance(value, dict):
        return {"".join(f"_{c.lower()}" if c.isupper() else c for c in key): snake(one) for key, one in value.items()}
    return [snake(one) for one in value] if isinstance(value, list) else value


def spans_of(request: JSON) -> Iterator[JSON]:
    for resource in request["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            yield from scope["spans"]


def with_base64_ids(request: JSON) -> JSON:
    """Return the request with its ids, and those of its links, as the protobuf JSON mapping has bytes."""
    request = json.loads(json.dumps(request))
    for span in spans_of(request):
        for holder in (span, *span.get("links", [])):
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in holder:
                    holder[name] = base64.b64encode(bytes.fromhex(holder[name])).decode()
    return request


def message(request: JSON) -> bytes:
    parsed = json_format.ParseDict(with_base64_ids(request), ExportTraceServiceRequest(), ignore_unknown_fields=True)
    return parsed.SerializeToString()


def tempo(dump: JSON) -> JSON:
    request = with_base64_ids(dump["result"])
    for span in spans_of(request):
        span["kind"] = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")[span.get("kind", 0)]
        span["kind"] = f"SPAN_KIND_{span['kind']}"
    return {"batches": request["resourceSpans"]}


def tag(pair: JSON) -> JSON:
    ((member, value),) = pair["value"].items() or [("stringValue", "")]
    match member:
        case "intValue":
            number = int(value)
            return {"key": pair["key"], "type": "int64", "value": number if abs(number) < 2**53 else str(number)}
        case "boolValue":
            return {"key": pair["key"], "type": "bool", "value": value}
        case "doubleValue":
            return {"key": pair["key"], "type": "float64", "value": value}
        case "stringValue":
            return {"key": pair["key"], "type": "string", "value": value}
    return {"key": pair["key"], "type": "string", "value": json.dumps(value)}


def ui_span(span: JSON, process: str, scope: JSON) -> JSON:
    def text(key: str, value: str) -> JSON:
        return {"key": key, "type": "string", "value": value}

    tags = [text("otel.scope.name", scope["name"])] if scope.get("name") else []
    tags += [tag(pair) for pair in span.get("attributes", [])]
    if span.get("kind"):
        tags.append(text("span.kind", KINDS_OF_UI[span["kind"]]))
    if code := span.get("status", {}).get("code"):
        tags.append(text("otel.status_code", STATUS[code]))
    if code == 2:
        tags.append({"key": "error", "type": "bool", "value": True})
    parent = span.get("parentSpanId")
    return {
        # Jaeger leaves out an upper half of zeros.
        "traceID": span["traceId"].removeprefix("0" * 16),
        "spanID": span["spanId"],
        "operationName": span["name"],
        "references": [{"refType": "CHILD_OF", "traceID": span["traceId"].removeprefix("0" * 16), "spanID": parent}]
        if parent
        else [],
        "startTime": int(span["startTimeUnixNano"]) // 1000,
        "duration": 1,
        "tags": tags,
        "logs": [
            {"timestamp": 1, "fields": [text("event", event["name"]), *map(tag, event.get("attributes", []))]}
            for event in span.get("events", [])
        ],
        "processID": process,
        "warnings": None,
    }


def jaeger_ui(dump: JSON) -> JSON:
    traces: dict[str, JSON] = {}
    for resource in dump["result"]["resourceSpans"]:
        pairs = {pair["key"]: pair for pair in resource["resource"]["attributes"]}
        process = {
            "serviceName": pairs["service.name"]["value"]["stringValue"],
            "tags": [tag(pair) for key, pair in pairs.items() if key != "service.name"],
        }
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                empty = {"traceID": span["traceId"], "spans": [], "processes": {}, "warnings": None}
                trace = traces.setdefault(span["traceId"], empty)
                name = next((name for name, one in trace["processes"].items() if one == process), None)
                name = name or f"p{len(trace['processes']) + 1}"
                trace["processes"][name] = process
                trace["spans"].append(ui_span(span, name, scope.get("scope", {})))
    return {"data": list(traces.values()), "total": 0, "limit": 0, "offset": 0, "errors": None}


def behind_four_bytes(messages: list[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(one)) + one for one in messages)


def answers(dump: JSON) -> list[bytes]:
    return [compact({"result": request}) for request in requests(dump)]


CONVERTERS: dict[str, Callable[[JSON], bytes]] = {
    "jaeger v3": compact,
    "jaeger v3, several glued": lambda dump: b"".join(answers(dump)),
    "jaeger v3, several in lines": lambda dump: b"\n".join(answers(dump)) + b"\n",
    "jaeger v3, an array": lambda dump: b"[" + b",\n".join(answers(dump)) + b"]",
    "OTLP": lambda dump: compact(dump["result"]),
    "OTLP, indented": lambda dump: json.dumps(dump["result"], indent=1).encode(),
    "OTLP, snake_case": lambda dump: compact(snake(dump["result"])),
    "OTLP, lines": lambda dump: b"".join(compact(one) + b"\n" for one in requests(dump)),
    "OTLP, protobuf": lambda dump: message(dump["result"]),
    "OTLP, protobuf behind varints": lambda dump: b"".join(
        _VarintBytes(len(one)) + one for one in map(message, requests(dump))
    ),
    "file exporter, protobuf": lambda dump: behind_four_bytes(list(map(message, requests(dump)))),
    "file exporter, protobuf, zstd each": lambda dump: behind_four_bytes(
        [zstd.compress(message(one)) for one in requests(dump)]
    ),
    "file exporter, JSON, zstd each": lambda dump: behind_four_bytes(
        [zstd.compress(compact(one)) for one in requests(dump)]
    ),
    "jaeger UI": lambda dump: compact(jaeger_ui(dump)),
    "tempo": lambda dump: compact(tempo(dump)),
    "tempo v2": lambda dump: compact({"trace": dump["result"], "metrics": {}}),
}
"""By the name of the kind: from a v3 answer, decoded, to the bytes of a file."""
