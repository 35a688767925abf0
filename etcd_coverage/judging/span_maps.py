"""Spans -> the span map, the calls by gRPC method, the transactions by lease."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.attributes import Attributes, get_int
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.spans import SERVER, Resource, Span, describe
from etcd_coverage.judging import losses
from etcd_coverage.judging.server_spans import example_of, is_grpc_span

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from etcd_coverage.judging.usage import Quality

APISERVER = "apiserver"
TXN = "etcdserverpb.KV/Txn"
LEASE = "success_first_lease"

SpansMap = dict[str, dict[str, Span]]
"""Trace id -> span id -> span; ids are unique only within a trace."""


class Call(Struct, gc=False):
    """One call of an etcd gRPC method: the child span of its server span, whose attributes are the arguments.

    Calls with equal arguments share one object: what depends on the arguments alone may be remembered by its id.
    """

    span: Span
    attributes: Attributes


def spans_map(resources: Iterable[Resource], quality: Quality) -> SpansMap:
    """Return the spans to judge, and count in ``quality`` what was found.

    If the apiserver has spans, only its traces are kept. Raises `DumpError` for a resource without service.name and
    for a kept span without an id.
    """
    spans: SpansMap = {}
    apiserver: set[str] = set()
    without_id: list[tuple[Span, str]] = []
    again: list[tuple[Span, Span]] = []
    by_service: defaultdict[str, list[list[Span]]] = defaultdict(list)
    for resource in resources:
        service = resource.service_name
        if service is None:
            raise DumpError(f"has a resource without service.name: {resource.place}; {_EXPORTER}")
        by_service[service].append(resource.spans)
        trace_id = None
        for span in resource.spans:
            if span.trace_id != trace_id:
                trace_id = span.trace_id
                trace = spans.setdefault(trace_id, {})
                if service == APISERVER:
                    apiserver.add(trace_id)
            span_id = span.span_id
            if not span_id or not trace_id:
                without_id.append((span, resource.place))
                continue
            if span_id in trace:
                again.append((trace[span_id], span))
            trace[span_id] = span
        quality.spans += len(resource.spans)
    quality.traces = len(spans)
    quality.apiserver_traces = len(apiserver)
    kept = {trace_id: trace for trace_id, trace in spans.items() if trace_id in apiserver} if apiserver else spans
    for span, place in without_id:
        if span.trace_id in kept:
            missing = "a span id" if span.trace_id else "a trace id"
            where = f"{describe(span)} in {place}"
            raise DumpError(f"has a span without {missing}: {where}; {_EXPORTER}")
    again = [(first, later) for first, later in again if later.trace_id in kept]
    quality.duplicate_spans = len(again)
    conflicts = [example_of(later) for first, later in again if not later.has_content_of(first)]
    quality.conflicting_spans = list(dict.fromkeys(conflicts))
    quality.skipped_spans = quality.spans - sum(map(len, kept.values())) - len(again)
    losses.count_overwritten(again, quality)
    if apiserver:
        losses.count_left_out((trace for trace_id, trace in spans.items() if trace_id not in apiserver), quality)
    else:
        quality.likely_apiserver = losses.likely_apiserver(by_service, kept)
    orphans = [
        span
        for service, scopes in by_service.items()
        if service != APISERVER
        for span in _calls_without_parent(scopes, kept)
    ]
    quality.calls_without_parent = len(orphans)
    quality.orphan = example_of(orphans[0]) if orphans else None
    return kept


def _calls_without_parent(scopes: list[list[Span]], kept: SpansMap) -> list[Span]:
    """Return a service's spans whose parent is not in the dump; such spans are calls if the service answers gRPC."""
    orphans = []
    answers = False
    for scope in scopes:
        for span in scope:
            trace = kept.get(span.trace_id)
            # Of several copies of a span the one in the map counts.
            if trace is None or trace.get(span.span_id) is not span:
                continue
            if span.kind == SERVER and is_grpc_span(span):
                answers = True
            elif span.parent_span_id and span.parent_span_id not in trace:
                orphans.append(span)
    return orphans if answers else []


_EXPORTER = "OTLP demands it: check what exported these traces"


def grpc_spans(spans: SpansMap) -> dict[str, list[Span]]:
    """Return the server spans of each etcd gRPC method, by its name."""
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for trace in spans.values():
        for span in trace.values():
            # The kind is asked first, without a call of a function: most spans are internal.
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
    # Of 22,000 calls of a long run 6,000 have attributes that no other has.
    known: dict[Hashable, Attributes] = {}
    for trace_id, in_trace in servers.items():
        called = set()
        for span in spans[trace_id].values():
            parent = span.parent_span_id
            if parent in in_trace and span.span_id not in in_trace:
                key = span.attributes_key()
                attributes = known.get(key)
                if attributes is None:
                    attributes = known[key] = span.attributes()
                calls[in_trace[parent].name].append(Call(span, attributes))
                called.add(parent)
        if len(called) < len(in_trace):
            idle = [server for span_id, server in in_trace.items() if span_id not in called]
            losses.count_idle(idle, in_trace, quality)
    quality.lost_calls = dict(sorted(quality.lost_calls.items()))
    return dict(calls)


def lease_map(calls: dict[str, list[Call]]) -> dict[int, list[Call]]:
    """Return the transactions that put their first key under a lease, by the lease's id."""
    leases: defaultdict[int, list[Call]] = defaultdict(list)
    for call in calls.get(TXN, []):
        if LEASE in call.attributes:
            leases[get_int(call.attributes, LEASE)].append(call)
    return dict(leases)
