"""Spans -> the span map, the calls by gRPC method, the transactions by lease."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from etcd_coverage import otlp
from etcd_coverage.otlp import SERVER, Attributes, DumpError, ResourceSpans, Span
from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GRPC_PREFIX = "etcdserverpb."
APISERVER = "apiserver"
TXN = "etcdserverpb.KV/Txn"
LEASE = "success_first_lease"

JAEGER_DEFAULT_TRACES = 100
"""How many traces Jaeger answers at most unless asked for more with ``query.num_traces``."""

MOST_CONFLICTS = 10
"""How many spans with several contents have a warning of their own."""

SpansMap = dict[str, dict[str, Span]]
"""Trace id -> span id -> span; ids are unique only within a trace."""


Count = Annotated[int, Meta(ge=0)]
"""A number of something; checked when a usage is loaded."""


class Call(Struct, gc=False):
    """One call of an etcd gRPC method: the child span of its server span, whose attributes are the arguments."""

    span: Span
    attributes: Attributes


class Example(Struct, frozen=True):
    """The ids of one span, by which it is found in Jaeger."""

    trace_id: str
    span_id: str


class Quality(Struct, kw_only=True):
    """How complete a dump is: counts of spans and traces, and what they leave uncertain.

    ``spans`` and ``traces`` count the whole dump, all other numbers what was kept of it. ``duplicate_spans`` counts
    spans that came again, ``conflicting_spans`` names those that came again with another content (of what the suite
    reads). ``failed_without_call`` counts those of ``grpc_spans_without_call`` whose status is an error.
    """

    spans: Count = 0
    traces: Count = 0
    skipped_spans: Count = 0
    apiserver_traces: Count = 0
    duplicate_spans: Count = 0
    conflicting_spans: list[Example] = []
    calls_without_parent: Count = 0
    grpc_spans_without_call: Count = 0
    failed_without_call: Count = 0

    def warnings(self) -> list[str]:
        """Return what makes the dump doubtful, a line each."""
        found = []
        if not self.apiserver_traces:
            found.append("no records of traces from the apiserver")
        elif self.skipped_spans:
            found.append(f"skipped {self.skipped_spans} spans without traces in apiserver")
        if self.traces == JAEGER_DEFAULT_TRACES:
            found.append(
                f"exactly {JAEGER_DEFAULT_TRACES} traces: the download was probably cut at Jaeger's default; "
                f"ask for more with query.num_traces, or use {otlp.DOWNLOAD}"
            )
        found += [
            f"span {span.span_id} of trace {span.trace_id} came again with another content: the later one counts"
            for span in self.conflicting_spans[:MOST_CONFLICTS]
        ]
        if len(self.conflicting_spans) > MOST_CONFLICTS:
            found.append(f"{len(self.conflicting_spans) - MOST_CONFLICTS} more spans came again with another content")
        return found


def spans_map(resources: Iterable[ResourceSpans], quality: Quality) -> SpansMap:
    """Return the spans to judge, and count in ``quality`` what was found.

    If the apiserver has spans, only its traces are kept. Raises `DumpError` for a resource without service.name and
    for a kept span without an id.
    """
    spans: SpansMap = {}
    apiserver: set[str] = set()
    without_id: list[tuple[Span, int]] = []
    again: list[tuple[Span, Span]] = []
    by_service: defaultdict[str, list[list[Span]]] = defaultdict(list)
    for number, resource in enumerate(resources):
        try:
            service = otlp.service_name(resource)
        except DumpError as error:
            raise error.within(f"resourceSpans[{number}]") from None
        if service is None:
            raise DumpError(f"has a resource without service.name: resourceSpans[{number}]; {_EXPORTER}")
        for scope in resource.scope_spans:
            by_service[service].append(scope.spans)
            spelled = None
            for span in scope.spans:
                if span.trace_id != spelled:
                    spelled = span.trace_id
                    trace_id = same_id(spelled)
                    trace = spans.setdefault(trace_id, {})
                    if service == APISERVER:
                        apiserver.add(trace_id)
                span.trace_id = trace_id
                span_id = span.span_id
                if not span_id.islower():
                    span_id = span.span_id = same_id(span_id)
                parent = span.parent_span_id
                if parent and not parent.islower():
                    span.parent_span_id = same_id(parent) if parent.strip("0") else ""
                if not span_id or not trace_id:
                    without_id.append((span, number))
                    continue
                if span_id in trace:
                    again.append((trace[span_id], span))
                trace[span_id] = span
            quality.spans += len(scope.spans)
    quality.traces = len(spans)
    quality.apiserver_traces = len(apiserver)
    kept = {trace_id: trace for trace_id, trace in spans.items() if trace_id in apiserver} if apiserver else spans
    for span, number in without_id:
        if span.trace_id in kept:
            missing = "a span id" if span.trace_id else "a trace id"
            where = f"{otlp.describe(span)} in resourceSpans[{number}]"
            raise DumpError(f"has a span without {missing}: {where}; {_EXPORTER}")
    again = [(first, later) for first, later in again if later.trace_id in kept]
    quality.duplicate_spans = len(again)
    conflicts = [example_of(later) for first, later in again if _content(first) != _content(later)]
    quality.conflicting_spans = list(dict.fromkeys(conflicts))
    quality.skipped_spans = quality.spans - sum(map(len, kept.values())) - len(again)
    quality.calls_without_parent = sum(
        _lost_calls(scopes, kept) for service, scopes in by_service.items() if service != APISERVER
    )
    return kept


def _lost_calls(scopes: list[list[Span]], kept: SpansMap) -> int:
    """Count a service's spans whose parent is not in the dump; such spans are calls if the service answers gRPC."""
    lost = 0
    answers = False
    for scope in scopes:
        for span in scope:
            trace = kept.get(span.trace_id)
            # Of several copies of a span the one in the map counts.
            if trace is None or trace.get(span.span_id) is not span:
                continue
            if is_grpc_span(span):
                answers = True
            elif span.parent_span_id and span.parent_span_id not in trace:
                lost += 1
    return lost if answers else 0


_EXPORTER = "OTLP demands it: check what exported these traces"


def same_id(text: str) -> str:
    """Return the id so that equal ids are equal texts: hex of 16 or 32 digits in lower case, others as they are."""
    # Nearly all ids are lower case, which is told in a fraction of the time.
    return text if text.islower() or not _HEX_ID.fullmatch(text) else text.lower()


_HEX_ID = re.compile(r"[0-9a-fA-F]{16}|[0-9a-fA-F]{32}")


def is_grpc_span(span: Span) -> bool:
    """Tell whether the span is an etcd gRPC method, seen by the server."""
    return span.kind == SERVER and span.name.startswith(GRPC_PREFIX)


def grpc_spans(spans: SpansMap) -> dict[str, list[Span]]:
    """Return the server spans of each etcd gRPC method, by its name."""
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for trace in spans.values():
        for span in trace.values():
            if span.kind == SERVER and is_grpc_span(span):
                found[span.name].append(span)
    return dict(found)


def calls_map(spans: SpansMap, grpc_spans: Mapping[str, list[Span]], quality: Quality) -> dict[str, list[Call]]:
    """Return the calls of each gRPC method, and count in ``quality`` the server spans that have none."""
    servers: defaultdict[str, dict[str, Span]] = defaultdict(dict)
    for of_method in grpc_spans.values():
        for span in of_method:
            servers[span.trace_id][span.span_id] = span
    calls: defaultdict[str, list[Call]] = defaultdict(list)
    for trace_id, in_trace in servers.items():
        called = set()
        for span in spans[trace_id].values():
            parent = span.parent_span_id
            if parent in in_trace and span.span_id not in in_trace:
                calls[in_trace[parent].name].append(Call(span, otlp.attributes(span)))
                called.add(parent)
        if len(called) < len(in_trace):
            idle = [server for span_id, server in in_trace.items() if span_id not in called]
            quality.grpc_spans_without_call += len(idle)
            quality.failed_without_call += sum(map(otlp.failed, idle))
    return dict(calls)


def lease_map(calls: dict[str, list[Call]]) -> dict[int, list[Call]]:
    """Return the transactions that put their first key under a lease, by the lease's id."""
    leases: defaultdict[int, list[Call]] = defaultdict(list)
    for call in calls.get(TXN, []):
        if LEASE in call.attributes:
            leases[otlp.get_int(call.attributes, LEASE)].append(call)
    return dict(leases)


def _content(span: Span) -> tuple[object, ...]:
    return (
        span.parent_span_id,
        span.name,
        span.kind,
        bytes(span.attributes),
        bytes(span.events),
        bytes(span.status),
    )


def example_of(span: Span) -> Example:
    """Return the ids of the span, escaped; an id is 16 or 32 characters, so more than 80 are cut."""
    return Example(escape(shorten(span.trace_id, 80)), escape(shorten(span.span_id, 80)))
