"""OTLP's ``ResourceSpans`` in JSON -> spans.

Decoding is typed. The Structs have all fields that Jaeger writes, those that nobody reads as they are spelled. What was
decoded is encoded again, at a tenth of the cost of judging it: where that is as long as the text, nothing was left out,
so that no field came twice and none is misspelled. Where it is shorter, `spelling.check_names` looks at every name.
What the typed decoder refuses goes, resource by resource, to `otlp_spelled`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from etcd_coverage.dumps import otlp_attributes, quick_attributes
from etcd_coverage.dumps.error import TOO_DEEP, DumpError, unknown_form
from etcd_coverage.dumps.spans import STATUS_ERROR, Resource, Span, describe, normalise_ids
from etcd_coverage.dumps.spelling import (
    STATUS_CODES,
    any_value,
    check_names,
    enum,
    loads,
    one_line,
)
from etcd_coverage.text import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.attributes import Attributes

NO_ITEMS = Raw(b"[]")
NOTHING = Raw(b"{}")
ABSENT = Raw(b"")

_Enum = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
_Uint32 = Annotated[int, Meta(ge=0, lt=2**32)]

Refused = Annotated[int, Meta(ge=1, le=0)] | UnsetType
"""A field that must not be there: no value is within its bounds."""


class JsonSpan(Span, gc=False, omit_defaults=True):
    """A span whose attributes, events and status are decoded when they are asked for: most never are."""

    trace_id: str = msgspec.field(name="traceId", default="")
    span_id: str = msgspec.field(name="spanId", default="")
    parent_span_id: str = msgspec.field(name="parentSpanId", default="")
    kind: _Enum = 0
    dropped_attributes: _Uint32 = msgspec.field(name="droppedAttributesCount", default=0)
    dropped_events: _Uint32 = msgspec.field(name="droppedEventsCount", default=0)
    # OTLP's spans have none: it is set when their resource is known.
    service_name: str = msgspec.field(name="resource.service.name", default="")
    raw_attributes: Raw = msgspec.field(name="attributes", default=NO_ITEMS)
    raw_events: Raw = msgspec.field(name="events", default=NO_ITEMS)
    raw_status: Raw = msgspec.field(name="status", default=NOTHING)
    flags: Raw = ABSENT
    start: Raw = msgspec.field(name="startTimeUnixNano", default=ABSENT)
    end: Raw = msgspec.field(name="endTimeUnixNano", default=ABSENT)
    snake_trace_id: Refused = msgspec.field(name="trace_id", default=UNSET)
    snake_span_id: Refused = msgspec.field(name="span_id", default=UNSET)
    snake_parent_span_id: Refused = msgspec.field(name="parent_span_id", default=UNSET)
    snake_dropped_attributes: Refused = msgspec.field(name="dropped_attributes_count", default=UNSET)
    snake_dropped_events: Refused = msgspec.field(name="dropped_events_count", default=UNSET)

    def attributes(self) -> Attributes:
        """Return the attributes by key; of several with the same key the first counts.

        Raises `DumpError`, naming span and attribute, for a value that OTLP does not know.
        """
        return {} if self.raw_attributes is NO_ITEMS else otlp_attributes.read(self.raw_attributes, self)

    def some_attributes(self, keys: frozenset[str]) -> Attributes:
        """Return the attributes with these keys, as `attributes` has them; all of them if one is spelled oddly."""
        found = quick_attributes.read(bytes(self.raw_attributes), keys)
        return otlp_attributes.read(self.raw_attributes, self, keys) if found is None else found

    def attributes_key(self) -> bytes:
        """Return something that is equal for spans only if all their attributes are: how they are spelled."""
        return bytes(self.raw_attributes)

    def attributes_text(self) -> bytes:
        """Return a text in which the keys of all attributes stand in quotes, if they are ASCII, or else a backslash."""
        raw = self.raw_attributes
        return b"" if raw is NO_ITEMS else bytes(raw)

    def event_names(self) -> list[str]:
        """Return the names of the events, in order."""
        if self.raw_events is NO_ITEMS:
            return []
        raw = bytes(self.raw_events)
        try:
            names = [event.name for event in _events_decoder.decode(raw)]
        except (msgspec.ValidationError, RecursionError):
            found = _decode_part(raw, _any_events_decoder, f"{describe(self)}: events")
            names = [event.name or "" for event in found or []]
        # Texts that repeat few letters are slow to search for: most have no backslash at all, which is seen at once.
        if (b"\\" in raw and b"\\u" in raw) or raw.count(b'"name"') != len(names):
            loads(raw, describe(self))
        return names

    def first_event(self, prefix: str) -> str:
        """Return the name of the first event whose name starts with ``prefix``; empty without one."""
        # Most spans have none, and each call of a function counts where a hundred thousand are asked.
        return "" if self.raw_events is NO_ITEMS else Span.first_event(self, prefix)

    def failed(self) -> bool:
        """Return whether the span's status is an error."""
        raw = bytes(self.raw_status)
        return raw != b"{}" and _is_error(raw, self)

    def content(self) -> tuple[object, ...]:
        """Return what the suite reads of the span beside its ids, as it is spelled."""
        return (
            self.service_name,
            self.parent_span_id,
            self.name,
            self.kind,
            self.dropped_attributes,
            self.dropped_events,
            bytes(self.raw_attributes),
            bytes(self.raw_events),
            bytes(self.raw_status),
        )


class ScopeSpans(Struct, gc=False, omit_defaults=True):
    """The spans of one instrumentation scope."""

    spans: list[JsonSpan] = []
    scope: Raw = ABSENT
    schema_url: Raw = msgspec.field(name="schemaUrl", default=ABSENT)


class ResourceSpans(Struct, gc=False, rename="camel", omit_defaults=True):
    """The spans of one resource."""

    resource: Raw = NOTHING
    scope_spans: list[ScopeSpans] = []
    schema_url: Raw = ABSENT
    snake_scope_spans: Refused = msgspec.field(name="scope_spans", default=UNSET)
    old_spans: Refused = msgspec.field(name="instrumentationLibrarySpans", default=UNSET)
    snake_old_spans: Refused = msgspec.field(name="instrumentation_library_spans", default=UNSET)


class _RawPair(Struct, gc=False):
    key: str | None = None
    value: Raw = Raw(b"null")


class _Resource(Struct):
    attributes: list[_RawPair] | None = None


class _Event(Struct, gc=False):
    name: str = ""


class _AnyEvent(Struct, gc=False):
    name: str | None = None


class _Status(Struct):
    code: Raw = Raw(b"0")


_encoder = msgspec.json.Encoder()
_resource_decoder = msgspec.json.Decoder(_Resource | None)
_events_decoder = msgspec.json.Decoder(list[_Event])
_any_events_decoder = msgspec.json.Decoder(list[_AnyEvent] | None)
_status_decoder = msgspec.json.Decoder(_Status | None)


def resources_of(decoded: Iterable[ResourceSpans], place: str = "resourceSpans") -> list[Resource]:
    """Return the resources with their spans, normalised, in order; errors name them ``place[number]``."""
    resources = [_resource(one, f"{place}[{number}]") for number, one in enumerate(decoded)]
    normalise_ids([span for resource in resources for span in resource.spans])
    return resources


def resource_of(resource_spans: ResourceSpans, where: str) -> Resource:
    """Return the resource with its spans, normalised; errors name it as ``where`` does."""
    resource = _resource(resource_spans, where)
    normalise_ids(resource.spans)
    return resource


def _resource(resource_spans: ResourceSpans, where: str) -> Resource:
    try:
        service = _service_name(bytes(resource_spans.resource))
    except DumpError as error:
        raise error.within(where) from None
    scopes = resource_spans.scope_spans
    # Nearly all have one.
    one = scopes[0].spans if len(scopes) == 1 else [span for scope in scopes for span in scope.spans]
    return Resource(service, cast("list[Span]", one), where)


def size(decoded: object, buffer: bytearray) -> int:
    """Return how long the text of what was decoded is at least: each field once, and no white space.

    ``buffer`` is overwritten.
    """
    _encoder.encode_into(decoded, buffer)
    return len(buffer)


def list_of(members: dict[str, Raw], name: str, snake: str, where: str) -> list[Raw]:
    """Return the items of a list that may be spelled in two ways; empty if it is absent or null."""
    spelled = [members[key] for key in dict.fromkeys((name, snake)) if key in members]
    if len(spelled) > 1:
        raise unknown_form(f"{where} has both {name} and {snake}")
    return (msgspec.json.decode(spelled[0], type=list[Raw] | None) or []) if spelled else []


@functools.lru_cache(maxsize=1024)  # a dump repeats few resources many thousand times
def _service_name(resource: bytes) -> str | None:
    where = "a resource"
    found = _decode_part(resource, _resource_decoder, where)
    check_names(resource, where)
    for pair in (found and found.attributes) or []:
        if pair.key == "service.name":
            inside = f"{where}: service.name"
            try:
                value = any_value(loads(bytes(pair.value), "its value"))
            except DumpError as error:
                raise error.within(inside) from None
            return value if isinstance(value, str) else ""
    return None


def _is_error(raw: bytes, span: JsonSpan) -> bool:
    status = _decode_part(raw, _status_decoder, f"{describe(span)}: status")
    if raw.count(b'"code"') > 1:
        loads(raw, describe(span))
    code = enum(bytes(status.code), STATUS_CODES) if status else 0
    if code is None:
        raise unknown_form(f"{describe(span)}: the code of its status is {quote(bytes(status.code).decode())}")
    return code == STATUS_ERROR


def _decode_part(raw: bytes, decoder: msgspec.json.Decoder[Any], where: str) -> Any:
    """Decode one field of a message."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise unknown_form(f"{where}: {one_line(str(error))}") from None
    except RecursionError:
        raise DumpError(f"{where}: {TOO_DEEP}") from None
