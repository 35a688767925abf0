"""OTLP's ``ExportTraceServiceRequest``, or its ``TracesData``, in protobuf -> spans.

The messages: https://github.com/open-telemetry/opentelemetry-proto. A request is read resource by resource: it is
nothing but fields 1, each a ``ResourceSpans`` behind its length
(https://protobuf.dev/programming-guides/encoding/#structure).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from etcd_coverage.dumps.documents import cut
from etcd_coverage.dumps.error import AGAIN, DumpError
from etcd_coverage.dumps.spans import STATUS_ERROR, Resource, Span, normalise_ids
from etcd_coverage.dumps.spelling import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from etcd_coverage.attributes import Attributes, AttributeValue

FIELD = 0x0A
"""The tag of field 1 where it holds bytes behind a length: ``resource_spans``, and a resource in these."""

_IN_RESOURCE_SPANS = (0x0A, 0x12, 0x1A)
"""The tags of what a ``ResourceSpans`` has: resource, scope_spans, schema_url."""

_OLD_SPANS = 1000
"""The field of ``instrumentation_library_spans``, which OTLP dropped in 2022."""


class ProtoSpan(Span, gc=False):
    """A span whose attributes, events and status are taken from its message when they are asked for."""

    message: Any = None

    def attributes(self) -> Attributes:
        """Return the attributes by key; of several with the same key the first counts."""
        found: Attributes = {}
        for pair in self.message.attributes:
            found.setdefault(pair.key, _value(pair.value))
        return found

    def event_names(self) -> list[str]:
        """Return the names of the events, in order."""
        return [event.name for event in self.message.events]

    def failed(self) -> bool:
        """Return whether the span's status is an error."""
        return bool(self.message.status.code == STATUS_ERROR)

    def content(self) -> tuple[object, ...]:
        """Return what the suite reads of the span beside its ids."""
        return self.neutral_content()


def _value(value: Any) -> AttributeValue:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind in ("string_value", "int_value", "bool_value") else None


def is_request(data: memoryview, size: int | None = None) -> bool:
    """Return whether the content starts as a request of ``size`` bytes, or of an unknown number, does."""
    try:
        # Text may start with newlines, which are tags too, but has no control characters.
        if not len(data) or data[0] != FIELD or not _is_no_text(bytes(data[:_START])):
            return False
        length, start = varint(data, 1)
    except EOFError:
        return False
    if size is not None and start + length > size:
        return False
    return length == 0 or (start < len(data) and data[start] in _IN_RESOURCE_SPANS)


def _is_no_text(start: bytes) -> bool:
    return any(tag in start for tag in (0x12, 0x1A))


_START = 1 << 16


def read(data: memoryview) -> list[Resource]:
    """Return the resources of the request with their spans, in order; raise `DumpError` if it is not a whole one."""
    found: list[Resource] = []
    try:
        for text in _fields(data):
            found.append(_resource(text, f"resourceSpans[{len(found)}]"))
    except EOFError:
        raise cut(len(found), "resources") from None
    normalise_ids([span for resource in found for span in resource.spans])
    return found


def varint(data: memoryview, start: int) -> tuple[int, int]:
    """Return the number at ``start`` and where it ends; EOFError if it does not.

    https://protobuf.dev/programming-guides/encoding/#varints
    """
    number = shift = 0
    for at in range(start, start + 10):
        if at >= len(data):
            raise EOFError
        number |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return number, at + 1
        shift += 7
    raise DumpError(f"is a broken protobuf file: byte {start} starts no number; {AGAIN}")


def _fields(data: memoryview) -> Iterator[memoryview]:
    """Return what the fields 1 of a request hold; EOFError where it was cut."""
    at = 0
    while at < len(data):
        # Nobody ever added another field, and what is damaged would be taken for one.
        if data[at] != FIELD:
            raise DumpError(f"is a broken protobuf file: no resource starts at byte {at} of the request; {AGAIN}")
        length, start = varint(data, at + 1)
        at = start + length
        if at > len(data):
            raise EOFError
        yield data[start:at]


def _resource(text: memoryview, place: str) -> Resource:
    # It takes a tenth as long to import as a small dump takes to judge, and most dumps are JSON.
    from google.protobuf.message import DecodeError
    from google.protobuf.unknown_fields import UnknownFieldSet
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

    try:
        message = ResourceSpans.FromString(bytes(text))
    except DecodeError as error:
        raise DumpError(f"{place} is broken protobuf ({one_line(str(error))}): {AGAIN}") from None
    unknown: Any = UnknownFieldSet(message)
    if any(field.field_number == _OLD_SPANS for field in unknown):
        raise DumpError(
            f"{place} holds instrumentation_library_spans, which OTLP dropped in 2022: "
            "export the traces with a newer collector"
        )
    service: str | None = None
    for pair in message.resource.attributes:
        if pair.key == "service.name":
            value = _value(pair.value)
            service = value if isinstance(value, str) else ""
            break
    spans: list[Span] = [
        ProtoSpan(
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_span_id=span.parent_span_id.hex(),
            name=span.name,
            kind=span.kind,
            dropped_attributes=span.dropped_attributes_count,
            dropped_events=span.dropped_events_count,
            message=span,
        )
        for scope in message.scope_spans
        for span in scope.spans
    ]
    return Resource(service, spans, place)
