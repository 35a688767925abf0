"""``ResourceSpans`` in legal but unusual spellings: snake_case names, enums by name, null for a default.

Decoding is typed as in `otlp_json`, so that a whole dump in such a spelling takes a few times as long, not fifty.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from etcd_coverage.dumps.error import TOO_DEEP, DumpError, unknown_form
from etcd_coverage.dumps.otlp_json import (
    ABSENT,
    NO_ITEMS,
    NOTHING,
    JsonSpan,
    Refused,
    ResourceSpans,
    ScopeSpans,
    list_of,
    size,
)
from etcd_coverage.dumps.spans import describe_ids
from etcd_coverage.dumps.spelling import SPAN_KINDS, check_names, enum, excerpt, loads, one_line, spelled, uint32

_Text = str | UnsetType | None


class _Span(Struct, gc=False, rename="camel"):
    trace_id: _Text = UNSET
    span_id: _Text = UNSET
    parent_span_id: _Text = UNSET
    snake_trace_id: _Text = msgspec.field(name="trace_id", default=UNSET)
    snake_span_id: _Text = msgspec.field(name="span_id", default=UNSET)
    snake_parent_span_id: _Text = msgspec.field(name="parent_span_id", default=UNSET)
    name: str | None = None
    kind: Raw = Raw(b"0")
    dropped_attributes: Raw = msgspec.field(name="droppedAttributesCount", default=ABSENT)
    dropped_events: Raw = msgspec.field(name="droppedEventsCount", default=ABSENT)
    snake_dropped_attributes: Raw = msgspec.field(name="dropped_attributes_count", default=ABSENT)
    snake_dropped_events: Raw = msgspec.field(name="dropped_events_count", default=ABSENT)
    attributes: Raw = NO_ITEMS
    events: Raw = NO_ITEMS
    status: Raw = NOTHING


class _ScopeSpans(Struct, gc=False):
    spans: list[_Span] | None = None


class _ResourceSpans(Struct, gc=False, rename="camel"):
    resource: Raw = NOTHING
    scope_spans: list[_ScopeSpans] | UnsetType | None = UNSET
    snake_scope_spans: list[_ScopeSpans] | UnsetType | None = msgspec.field(name="scope_spans", default=UNSET)
    old_spans: Refused = msgspec.field(name="instrumentationLibrarySpans", default=UNSET)
    snake_old_spans: Refused = msgspec.field(name="instrumentation_library_spans", default=UNSET)


_decoder = msgspec.json.Decoder(ResourceSpans)
_spelled_decoder = msgspec.json.Decoder(_ResourceSpans)
_span_decoder = msgspec.json.Decoder(_Span)


def read_resource(raw: Raw, where: str) -> ResourceSpans:
    """Return one resource, in the usual spelling or in another; raise `DumpError` for other shapes."""
    try:
        found = _decoder.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        pass
    else:
        if size(found, bytearray()) != len(memoryview(raw)):
            check_names(bytes(raw), where)
        return found
    check_names(bytes(raw), where)
    try:
        resource = _spelled_decoder.decode(raw)
        if resource.scope_spans is UNSET or resource.snake_scope_spans is UNSET:
            scopes = resource.scope_spans or resource.snake_scope_spans or []
            return ResourceSpans(
                resource.resource, [ScopeSpans([_span(span) for span in scope.spans or []]) for scope in scopes]
            )
    except (msgspec.ValidationError, RecursionError, ValueError):
        pass
    return _span_by_span(raw, where)


def _span(span: _Span) -> JsonSpan:
    """Return the span in the usual spelling; ValueError where it has none."""
    kind = enum(bytes(span.kind), SPAN_KINDS)
    if kind is None:
        raise ValueError
    return JsonSpan(
        trace_id=_either(span.trace_id, span.snake_trace_id),
        span_id=_either(span.span_id, span.snake_span_id),
        parent_span_id=_either(span.parent_span_id, span.snake_parent_span_id),
        name=span.name or "",
        kind=kind,
        dropped_attributes=_count(span.dropped_attributes, span.snake_dropped_attributes),
        dropped_events=_count(span.dropped_events, span.snake_dropped_events),
        raw_attributes=span.attributes,
        raw_events=span.events,
        raw_status=span.status,
    )


def _either(camel: _Text, snake: _Text) -> str:
    if camel is UNSET:
        return snake or ""
    if snake is UNSET:
        return camel or ""
    raise ValueError


def _count(camel: Raw, snake: Raw) -> int:
    """Return the number in either spelling, 0 if it is absent; ValueError for what is no uint32."""
    if camel is not ABSENT and snake is not ABSENT:
        raise ValueError
    text = bytes(camel if snake is ABSENT else snake)
    found = uint32(text) if text else 0
    if found is None:
        raise ValueError
    return found


def _span_by_span(raw: Raw, where: str) -> ResourceSpans:
    """Raise the `DumpError` that names the span, or the list, which cannot be read."""
    try:
        members = msgspec.json.decode(raw, type=dict[str, Raw])
        for name in ("instrumentationLibrarySpans", "instrumentation_library_spans"):
            if name in members:
                raise DumpError(
                    f"{where} holds {name}, which OTLP dropped in 2022: export the traces with a newer collector"
                )
        found = ResourceSpans(members.get("resource", NOTHING))
        for scope in list_of(members, "scopeSpans", "scope_spans", where):
            spans = list_of(msgspec.json.decode(scope, type=dict[str, Raw]), "spans", "spans", where)
            found.scope_spans.append(ScopeSpans([_one_span(span, where) for span in spans]))
    except msgspec.ValidationError as error:
        raise unknown_form(f"{where}: {one_line(str(error))}") from None
    except RecursionError:
        raise DumpError(f"{where}: {TOO_DEEP}") from None
    return found


def _one_span(raw: Raw, where: str) -> JsonSpan:
    try:
        return _span(_span_decoder.decode(raw))
    except (msgspec.ValidationError, ValueError):
        pass
    span = loads(bytes(raw), where)
    if not isinstance(span, dict):
        raise unknown_form(f"{where}: a span is {excerpt(span)}, not an object")
    ids = [span.get(name, span.get(snake)) for name, snake in (("traceId", "trace_id"), ("spanId", "span_id"))]
    where = f"{where}: {describe_ids(*(str(text or '') for text in ids))}"
    for name in ("traceId", "spanId", "parentSpanId", "name"):
        text = spelled(span, name, where)
        if not isinstance(text, str | None):
            raise unknown_form(f"{where}: {name} is {excerpt(text)}, not a string")
    for name in ("droppedAttributesCount", "droppedEventsCount"):
        number = spelled(span, name, where)
        if uint32(msgspec.json.encode(number)) is None:
            raise unknown_form(f"{where}: {name} is {excerpt(number)}")
    raise unknown_form(f"{where}: kind is {excerpt(span.get('kind'))}")
