"""What Jaeger's UI shows, and downloads as JSON, -> spans: ``{"data": [{"traceID", "spans", "processes"}, ...]}``.

It is what Jaeger's ``GET /api/traces`` answers: the types are those of
https://github.com/jaegertracing/jaeger/blob/main/internal/uimodel/model.go. How OTLP's fields become its tags, logs and
references: https://opentelemetry.io/docs/specs/otel/trace/sdk_exporters/jaeger/. Counts of dropped attributes and
events are lost in it, and lists in attributes become texts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from etcd_coverage.dumps import jaeger_tags
from etcd_coverage.dumps.error import DOWNLOAD, EXPECTED, TOO_DEEP, DumpError, unknown_form
from etcd_coverage.dumps.files import check_utf8, refuse_malformed, start_of
from etcd_coverage.dumps.jaeger_tags import TaggedSpan
from etcd_coverage.dumps.otlp_json import ABSENT
from etcd_coverage.dumps.resource_lists import members
from etcd_coverage.dumps.spans import Resource, Span, describe_ids, normalise_ids
from etcd_coverage.dumps.spelling import one_line
from etcd_coverage.text import quote, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Reference(Struct, gc=False, omit_defaults=True):
    kind: str | UnsetType = msgspec.field(name="refType", default=UNSET)
    trace_id: str | UnsetType = msgspec.field(name="traceID", default=UNSET)
    span_id: str | UnsetType = msgspec.field(name="spanID", default=UNSET)


class _Process(Struct, gc=False, omit_defaults=True, rename="camel"):
    service_name: str | UnsetType = UNSET
    tags: Raw = ABSENT


class _Span(Struct, gc=False, omit_defaults=True, rename="camel"):
    trace_id: str | UnsetType = msgspec.field(name="traceID", default=UNSET)
    span_id: str | UnsetType = msgspec.field(name="spanID", default=UNSET)
    parent_span_id: str | UnsetType = msgspec.field(name="parentSpanID", default=UNSET)
    flags: Raw = ABSENT
    operation_name: str | UnsetType = UNSET
    references: list[_Reference] | UnsetType | None = UNSET
    start_time: Raw = ABSENT
    duration: Raw = ABSENT
    tags: Raw = ABSENT
    logs: Raw = ABSENT
    process_id: str | UnsetType = msgspec.field(name="processID", default=UNSET)
    process: _Process | UnsetType | None = UNSET
    warnings: Raw = ABSENT


class _Trace(Struct, gc=False, omit_defaults=True):
    trace_id: Raw = msgspec.field(name="traceID", default=ABSENT)
    spans: list[_Span] | UnsetType | None = UNSET
    processes: dict[str, _Process] | UnsetType | None = UNSET
    warnings: Raw = ABSENT


class _Answer(Struct, omit_defaults=True):
    data: list[_Trace] | None
    total: Raw = ABSENT
    limit: Raw = ABSENT
    offset: Raw = ABSENT
    errors: Raw = ABSENT


_decoder = msgspec.json.Decoder(_Answer)


def read(data: memoryview) -> list[Resource]:
    """Return the spans of the traces by process, in order; raise `DumpError` if it is not a whole answer."""
    check_utf8(data)
    try:
        answer = _decoder.decode(data)
    except RecursionError:
        raise DumpError(TOO_DEEP) from None
    except msgspec.ValidationError as error:
        members(data)
        raise unknown_form(f"Jaeger's answer: {one_line(str(error))}") from None
    except msgspec.DecodeError as error:
        refuse_malformed(data, str(error))
    if bytes(answer.errors) not in (b"", b"null", b"[]"):
        raise DumpError(
            f"is an error that Jaeger answered, not a dump: {start_of(bytes(answer.errors))}; use {DOWNLOAD}"
        )
    if len(msgspec.json.encode(answer)) != len(data):
        _refuse_twice(data)
    resources = [resource for number, trace in enumerate(answer.data or []) for resource in _resources(trace, number)]
    normalise_ids([span for resource in resources for span in resource.spans])
    return resources


def _resources(trace: _Trace, number: int) -> Iterator[Resource]:
    """Yield the spans of a trace, those that follow each other and are of one process together."""
    processes = trace.processes or {}
    spans: list[Span] = []
    of: _Process | None = None
    place = f"data[{number}]"
    for span in trace.spans or []:
        process = span.process or processes.get(span.process_id or "")
        if spans and process is not of:
            yield Resource(_service(of), spans, place)
            spans = []
        of = process
        spans.append(_span(span, place))
    if spans:
        yield Resource(_service(of), spans, place)


def _service(process: _Process | None) -> str | None:
    return None if process is None else process.service_name or ""


def _span(span: _Span, place: str) -> TaggedSpan:
    trace_id, span_id = _full(span.trace_id or "", 32), _full(span.span_id or "", 16)
    try:
        kind = jaeger_tags.kind_of(span.tags, describe_ids(trace_id, span_id))
    except DumpError as error:
        raise error.within(place) from None
    return TaggedSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=_full(_parent(span), 16),
        name=span.operation_name or "",
        kind=kind,
        raw_tags=span.tags,
        raw_logs=span.logs,
    )


def _parent(span: _Span) -> str:
    """Return the id of the parent, as Jaeger finds it: the first reference of the first kind within the trace.

    https://github.com/jaegertracing/jaeger-idl/blob/main/model/v1/span.go
    """
    for kind in ("CHILD_OF", "FOLLOWS_FROM"):
        for reference in span.references or []:
            if reference.kind == kind and reference.trace_id == span.trace_id:
                return reference.span_id or ""
    return span.parent_span_id or ""


def _full(identifier: str, digits: int) -> str:
    """Return the id with the zeros that Jaeger leaves out: those of the upper half of a trace id, once all."""
    return identifier.zfill(digits) if identifier else ""


def _refuse_twice(data: memoryview) -> None:
    """Raise `DumpError` where an object has a name twice: one of the two would vanish."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise unknown_form(f"{quote(twice)} twice in one object")

    try:
        json.loads(bytes(data), object_pairs_hook=check, parse_float=len, parse_int=len, strict=False)
    except RecursionError:
        raise DumpError(TOO_DEEP) from None
    except ValueError as error:
        raise DumpError(f"is not JSON: {shorten(one_line(str(error)), 200)}; {EXPECTED}") from None
