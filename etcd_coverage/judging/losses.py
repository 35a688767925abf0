"""Spans -> what a dump lost or got twice, counted in its `usage.Quality`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from etcd_coverage.attributes import Attributes, AttributeValue
from etcd_coverage.judging.leases import LEASE_GRANT
from etcd_coverage.judging.server_spans import example_of, is_grpc_span
from etcd_coverage.judging.usage import SpanCount
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from etcd_coverage.dumps.spans import Span
    from etcd_coverage.judging.span_maps import Call, SpansMap
    from etcd_coverage.judging.usage import Quality
    from etcd_coverage.reference import GrpcMethod

_EXPECTED = {method.name for method in GRPC_METHODS}
_WITH_CALLS = {
    method.name for method in GRPC_METHODS if (method.required or method.call_patterns) and method.always_recorded
}


def count_overwritten(again: Iterable[tuple[Span, Span]], quality: Quality) -> None:
    """Count the server spans that a later span of the same ids replaced, as Zipkin's shared ids do."""
    quality.overwritten_servers = _counted(
        first for first, later in again if is_grpc_span(first) and not is_grpc_span(later)
    )


def count_left_out(traces: Iterable[Mapping[str, Span]], quality: Quality) -> None:
    """Count the server spans in the traces that were left out."""
    found = [span for trace in traces for span in trace.values() if is_grpc_span(span)]
    quality.skipped_grpc_spans = len(found)
    quality.skipped_unexpected = _by_name(span for span in found if span.name not in _EXPECTED)


def count_idle(idle: Sequence[Span], servers: Mapping[str, Span], quality: Quality) -> None:
    """Count the server spans of a trace that have no call; ``servers`` are all of that trace, by id."""
    quality.grpc_spans_without_call += len(idle)
    doubled = {span.parent_span_id for span in servers.values() if _is_doubled(span, servers)}
    for span in idle:
        if span.failed():
            quality.failed_without_call += 1
        elif span.span_id in doubled:
            quality.doubled_servers = _one_more(quality.doubled_servers, span)
        elif span.name in _WITH_CALLS:
            quality.lost_calls[span.name] = _one_more(quality.lost_calls.get(span.name), span)


def _is_doubled(span: Span, servers: Mapping[str, Span]) -> bool:
    above = servers.get(span.parent_span_id)
    return above is not None and above.name == span.name


def likely_apiserver(by_service: Mapping[str, list[list[Span]]], spans: SpansMap) -> str:
    """Return the service whose spans are the most often right above etcd's server spans; empty without one."""
    servers = [span for trace in spans.values() for span in trace.values() if is_grpc_span(span)]
    above = {(span.trace_id, span.parent_span_id) for span in servers}
    callers: Counter[str] = Counter()
    for service, scopes in by_service.items():
        of_service = [span for scope in scopes for span in scope]
        if not any(map(is_grpc_span, of_service)):
            callers[service] += sum((span.trace_id, span.span_id) in above for span in of_service)
    callers += Counter()  # without zeros
    return escape(shorten(callers.most_common(1)[0][0], 80)) if callers else ""


def count_faulty_calls(spans: SpansMap, calls: Mapping[str, list[Call]], quality: Quality) -> None:
    """Count the calls that lack what a limit dropped, and those with texts where numbers or bools are due."""
    all_calls = [call for of_method in calls.values() for call in of_method]
    dropped: list[Span] = []
    for call in all_calls:
        span = call.span
        server = spans[span.trace_id][span.parent_span_id]
        if span.dropped_attributes or server.dropped_attributes:
            dropped += [one for one in (span, server) if one.dropped_attributes]
    quality.dropped_attributes = _counted(dropped)
    quality.dropped_events = _counted(call.span for call in all_calls if call.span.dropped_events)
    texts: dict[str, SpanCount] = {}
    for method, of_method in calls.items():
        typed = TYPED_ARGUMENTS.get(method, {})
        known: dict[int, list[str]] = {}  # by id(attributes): the calls keep them alive
        for call in of_method:
            attributes = call.attributes
            names = known.get(id(attributes))
            if names is None:
                names = known[id(attributes)] = [name for name in typed if is_text(attributes, name)]
            for name in names:
                texts[name] = _one_more(texts.get(name), call.span)
    quality.text_arguments = dict(sorted(texts.items()))


def is_text(attributes: Attributes, name: str) -> bool:
    """Return whether the attribute is there, as a text."""
    return type(attributes.get(name)) is str


def _typed_arguments(method: GrpcMethod) -> dict[str, str]:
    """Return the attributes that are numbers or bools by args and examples of the method, each with its arg if any."""
    examples = [item for pattern in method.call_patterns for item in pattern.example.items()]
    found = {name: "" for name, value in examples if type(value) is not str}
    for arg in method.args:
        asked = _Asked()
        arg.is_set(asked)
        found |= {name: arg.name for name in asked.names if not arg.is_set({name: "text"})}
    return found


class _Asked(Attributes):
    """No attributes, and the names of those that were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def get(self, key: str, default: AttributeValue = None) -> AttributeValue:  # type: ignore[override]
        self.names.append(key)
        return default


TYPED_ARGUMENTS = {method.name: _typed_arguments(method) for method in GRPC_METHODS} | {
    # Whose attributes are in no table.
    LEASE_GRANT: {"id": "", "ttl": ""}
}
"""By gRPC method: the attributes that are numbers or bools, each with the arg of the method's table, if any."""


def _by_name(spans: Iterable[Span]) -> dict[str, SpanCount]:
    found: dict[str, SpanCount] = {}
    for span in spans:
        name = escape(span.name)
        found[name] = _one_more(found.get(name), span)
    return dict(sorted(found.items()))


def _counted(spans: Iterable[Span]) -> SpanCount | None:
    found = None
    for span in spans:
        found = _one_more(found, span)
    return found


def _one_more(found: SpanCount | None, span: Span) -> SpanCount:
    return SpanCount(1, example_of(span)) if found is None else SpanCount(found.count + 1, found.example)
