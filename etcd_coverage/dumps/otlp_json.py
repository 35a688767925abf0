"""OTLP's ``ResourceSpans`` in JSON -> spans.

Decoding is typed and takes only the fields that are needed. What the typed decoder refuses (snake_case names, enums
by name, numbers as strings and other legal spellings) goes, span by span, to `spelling`: what that accepts is decoded
again in its canonical spelling, what that refuses is an error.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from etcd_coverage.dumps import quick_attributes, spelling
from etcd_coverage.dumps.error import DumpError, unknown_form
from etcd_coverage.dumps.spans import STATUS_ERROR, Resource, Span, describe, describe_ids, normalise_ids
from etcd_coverage.dumps.spelling import excerpt, loads, one_line
from etcd_coverage.text import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.attributes import Attributes, AttributeValue

_NO_ITEMS = Raw(b"[]")
_NOTHING = Raw(b"{}")

_Enum = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
_Uint32 = Annotated[int, Meta(ge=0, lt=2**32)]

OtherSpelling = Annotated[int, Meta(ge=1, le=0)] | UnsetType
"""A field that refuses every value, which sends what holds it to `spelling`: no number is within its bounds."""


class JsonSpan(Span, gc=False):
    """A span whose attributes, events and status are decoded when they are asked for: most never are."""

    trace_id: str = msgspec.field(name="traceId", default="")
    span_id: str = msgspec.field(name="spanId", default="")
    parent_span_id: str = msgspec.field(name="parentSpanId", default="")
    kind: _Enum = 0
    dropped_attributes: _Uint32 = msgspec.field(name="droppedAttributesCount", default=0)
    dropped_events: _Uint32 = msgspec.field(name="droppedEventsCount", default=0)
    # OTLP's spans have none: it is set when their resource is known.
    service_name: str = msgspec.field(name="resource.service.name", default="")
    raw_attributes: Raw = msgspec.field(name="attributes", default=_NO_ITEMS)
    raw_events: Raw = msgspec.field(name="events", default=_NO_ITEMS)
    raw_status: Raw = msgspec.field(name="status", default=_NOTHING)
    snake_trace_id: OtherSpelling = msgspec.field(name="trace_id", default=UNSET)
    snake_span_id: OtherSpelling = msgspec.field(name="span_id", default=UNSET)
    snake_parent_span_id: OtherSpelling = msgspec.field(name="parent_span_id", default=UNSET)
    snake_dropped_attributes: OtherSpelling = msgspec.field(name="dropped_attributes_count", default=UNSET)
    snake_dropped_events: OtherSpelling = msgspec.field(name="dropped_events_count", default=UNSET)

    def attributes(self) -> Attributes:
        """Return the attributes by key; of several with the same key the first counts.

        Raises `DumpError`, naming span and attribute, for a value that OTLP does not know.
        """
        return self._attributes(None)

    def _attributes(self, keys: frozenset[str] | None) -> Attributes:
        found: Attributes = {}
        try:
            for pair in _attributes_decoder.decode(self.raw_attributes):
                key = pair.key
                if key in found or (keys is not None and key not in keys):
                    continue
                ((member, value),) = pair.value.items()
                if (member == "stringValue" and type(value) is str) or (member == "boolValue" and type(value) is bool):
                    found[key] = value
                elif member == "intValue" and type(value) is str and (number := _plain_integer(value)) is not None:
                    found[key] = number
                else:
                    return _attributes_in_another_spelling(self)
        except (msgspec.ValidationError, ValueError, RecursionError):
            return _attributes_in_another_spelling(self)
        return found

    def some_attributes(self, keys: frozenset[str]) -> Attributes:
        """Return the attributes with these keys, as `attributes` has them; all of them if one is spelled oddly."""
        found = quick_attributes.read(bytes(self.raw_attributes), keys)
        return self._attributes(keys) if found is None else found

    def attributes_key(self) -> bytes:
        """Return something that is equal for spans only if all their attributes are: how they are spelled."""
        return bytes(self.raw_attributes)

    def attributes_text(self) -> bytes:
        """Return a text in which the keys of all attributes stand, if they are ASCII, or else a backslash."""
        return b"" if self.raw_attributes is _NO_ITEMS else bytes(self.raw_attributes)

    def event_names(self) -> list[str]:
        """Return the names of the events, in order."""
        if self.raw_events is _NO_ITEMS:
            return []
        try:
            events = _events_decoder.decode(self.raw_events)
        except (msgspec.ValidationError, RecursionError):
            events = _decode_part(bytes(self.raw_events), _events_decoder, "Span", "events", describe(self))
        return [event.name for event in events]

    def failed(self) -> bool:
        """Return whether the span's status is an error."""
        status: _Status = _decode_part(bytes(self.raw_status), _status_decoder, "Span", "status", describe(self))
        return status.code == STATUS_ERROR

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


class ScopeSpans(Struct, gc=False):
    """The spans of one instrumentation scope."""

    spans: list[JsonSpan] = []


class ResourceSpans(Struct, gc=False, rename="camel"):
    """The spans of one resource."""

    resource: Raw = _NOTHING
    scope_spans: list[ScopeSpans] = []
    snake_scope_spans: OtherSpelling = msgspec.field(name="scope_spans", default=UNSET)
    old_spans: OtherSpelling = msgspec.field(name="instrumentationLibrarySpans", default=UNSET)
    snake_old_spans: OtherSpelling = msgspec.field(name="instrumentation_library_spans", default=UNSET)


class _KeyValue(Struct, gc=False):
    key: str = ""
    value: dict[str, Any] = {}


class _Resource(Struct):
    attributes: list[_KeyValue] = []


class _Event(Struct, gc=False):
    name: str = ""


class _Status(Struct):
    code: _Enum = 0


_resource_spans_decoder = msgspec.json.Decoder(ResourceSpans)
_span_decoder = msgspec.json.Decoder(JsonSpan)
_resource_decoder = msgspec.json.Decoder(_Resource)
_attributes_decoder = msgspec.json.Decoder(list[_KeyValue])
_events_decoder = msgspec.json.Decoder(list[_Event])
_status_decoder = msgspec.json.Decoder(_Status)


def resources_of(decoded: Iterable[ResourceSpans], place: str = "resourceSpans") -> list[Resource]:
    """Return the resources with their spans, normalised, in order; errors name them ``place[number]``."""
    return [resource_of(resource_spans, f"{place}[{number}]") for number, resource_spans in enumerate(decoded)]


def resource_of(resource_spans: ResourceSpans, where: str) -> Resource:
    """Return the resource with its spans, normalised; errors name it as ``where`` does."""
    try:
        service = _service_name(bytes(resource_spans.resource))
    except DumpError as error:
        raise error.within(where) from None
    spans: list[Span] = [span for scope in resource_spans.scope_spans for span in scope.spans]
    normalise_ids(spans)
    return Resource(service, spans, where)


def read_resource(raw: Raw, where: str) -> ResourceSpans:
    """Return one resource, span by span where the typed decoder refuses it; raise `DumpError` for other shapes."""
    try:
        return _resource_spans_decoder.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        pass
    try:
        members = msgspec.json.decode(raw, type=dict[str, Raw])
        for name in ("instrumentationLibrarySpans", "instrumentation_library_spans"):
            if name in members:
                raise DumpError(
                    f"{where} holds {name}, which OTLP dropped in 2022: export the traces with a newer collector"
                )
        found = ResourceSpans(members.get("resource", _NOTHING))
        for scope in list_of(members, "scopeSpans", "scope_spans", where):
            spans = list_of(msgspec.json.decode(scope, type=dict[str, Raw]), "spans", "spans", where)
            found.scope_spans.append(ScopeSpans([_read_span(span, where) for span in spans]))
    except msgspec.ValidationError as error:
        raise unknown_form(f"{where}: {one_line(str(error))}") from None
    return found


def list_of(members: dict[str, Raw], name: str, snake: str, where: str) -> list[Raw]:
    """Return the items of a list that may be spelled in two ways; empty if it is absent or null."""
    spelled = [members[key] for key in dict.fromkeys((name, snake)) if key in members]
    if len(spelled) > 1:
        raise unknown_form(f"{where} has both {name} and {snake}")
    return (msgspec.json.decode(spelled[0], type=list[Raw] | None) or []) if spelled else []


@functools.lru_cache(maxsize=1024)  # a dump repeats few resources many thousand times
def _service_name(resource: bytes) -> str | None:
    where = "a resource"
    for pair in _decode_part(resource, _resource_decoder, "ResourceSpans", "resource", where).attributes:
        if pair.key == "service.name":
            value = pair.value.get("stringValue")
            if not isinstance(value, str):
                spelled = spelling.canonical(msgspec.to_builtins(pair), "KeyValue", f"{where}: service.name")
                value = _value(spelled.get("value", {}), pair.value, f"{where}: service.name")
            return value if isinstance(value, str) else ""
    return None


def _plain_integer(text: str) -> int | None:
    """Return the integer that Jaeger wrote; None for other spellings, and beyond 64 bits."""
    if len(text) <= 20 and text.isascii() and text.removeprefix("-").isdecimal():
        number = int(text)
        if -(2**63) <= number < 2**63:
            return number
    return None


def _read_span(raw: Raw, where: str) -> JsonSpan:
    """Return one span; one in another spelling costs a hundred times the time, so its neighbours are spared that."""
    try:
        return _span_decoder.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        spelled = loads(bytes(raw), where)
        found = spelling.canonical(spelled, "Span", f"{where}: {_describe_spelled(spelled)}")
        return _span_decoder.decode(msgspec.json.encode(found))


def _describe_spelled(span: Any) -> str:
    if not isinstance(span, dict):
        return "a span"
    trace_id, span_id = (
        span.get(name, span.get(snake)) for name, snake in (("traceId", "trace_id"), ("spanId", "span_id"))
    )
    return describe_ids(str(trace_id or ""), str(span_id or ""))


def _attributes_in_another_spelling(span: JsonSpan) -> Attributes:
    pairs = loads(bytes(span.raw_attributes), describe(span))
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        raise unknown_form(f"{describe(span)}: attributes are {excerpt(pairs)}, not a list")
    found: Attributes = {}
    for number, pair in enumerate(pairs):
        key = pair.get("key") if isinstance(pair, dict) else None
        name = quote(key) if isinstance(key, str) else f"number {number}"
        where = f"{describe(span)}: attribute {name}"
        spelled = spelling.canonical(pair, "KeyValue", where)
        if spelled.get("key", "") not in found:
            found[spelled.get("key", "")] = _value(spelled.get("value", {}), pair.get("value"), where)
    return found


def _value(spelled: dict[str, Any], original: Any, where: str) -> AttributeValue:
    # What OTLP does not know is dropped, but then nobody has read the value.
    if not spelled and original and any(value is not None for value in original.values()):
        raise unknown_form(f"{where} is {excerpt(original)}")
    for member in ("stringValue", "intValue", "boolValue"):
        if member in spelled:
            return cast("AttributeValue", spelled[member])
    return None


def _decode_part(raw: bytes, decoder: msgspec.json.Decoder[Any], message: str, field: str, where: str) -> Any:
    """Decode one field of a message, typed or else by json_format's verdict."""
    try:
        return decoder.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        spelled = spelling.canonical({field: loads(raw, where)}, message, where)
        empty: dict[str, Any] = {"events": [], "status": {}, "resource": {}}
        return decoder.decode(msgspec.json.encode(spelled.get(field, empty[field])))
