"""Spans as they come -> what nobody expected of them, each finding once, long before the dump is whole."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING

from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.spans import Resource
from etcd_coverage.judging.finding_kinds import NEW_CALL_PATTERN, NEW_KEY_PATTERN, UNEXPECTED_METHOD
from etcd_coverage.judging.judge import usage_of
from etcd_coverage.judging.leases import LEASE_GRANT
from etcd_coverage.judging.span_maps import APISERVER
from etcd_coverage.judging.usage import Quality

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.dumps.spans import Span
    from etcd_coverage.judging.usage import Finding

QUIET_SECONDS = 1.0
"""After so long without a new span a trace is judged, if it is whole."""

LATE_SECONDS = 6.0
"""After so long it is judged as it is: exporters send every 5 seconds, if there are few spans
(https://opentelemetry.io/docs/specs/otel/trace/sdk/#batching-processor)."""

MOST_SPANS = 200_000
"""How many spans are kept for those that come later in their traces."""

_IDS = (UNEXPECTED_METHOD, NEW_KEY_PATTERN, NEW_CALL_PATTERN)


class _Trace:
    """The spans of a trace so far."""

    __slots__ = ("changed", "first_change", "ids", "missing", "of_apiserver", "spans")

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.ids: set[str] = set()
        self.missing: set[str] = set()
        """Parents that have not come."""
        self.of_apiserver = False
        self.first_change = 0.0
        """When the first span came that was not judged yet."""
        self.changed = 0.0

    def add(self, span: Span) -> None:
        self.spans.append(span)
        self.ids.add(span.span_id)
        self.missing.discard(span.span_id)
        if span.parent_span_id and span.parent_span_id not in self.ids:
            self.missing.add(span.parent_span_id)
        self.of_apiserver = self.of_apiserver or span.service_name == APISERVER

    def is_due(self, now: float) -> bool:
        quiet = now - self.changed
        if quiet >= QUIET_SECONDS and self.of_apiserver and not self.missing:
            return True
        return quiet >= LATE_SECONDS or now - self.first_change >= 2 * LATE_SECONDS


class LiveFindings:
    """Judges each trace by itself, when nothing more is likely to come of it.

    Of a trace that goes on the spans are kept, within `MOST_SPANS` in all; the traces that were quiet the longest go
    first. What is judged so is for people who wait: a lease and its transactions lie in different traces, and what
    came too late is missing. The times are seconds of any clock that does not go back.
    """

    def __init__(self) -> None:
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        """The trace that changed last is the last."""
        self._changed: dict[str, _Trace] = {}
        """Those that have changed since they were judged."""
        self._spans = 0
        self._apiserver = False
        self._found: set[tuple[str, str, str]] = set()

    def add(self, resources: Iterable[Resource], now: float) -> None:
        """Take spans that have come. What makes a dump one that cannot be judged is left out."""
        for resource in resources:
            if resource.service_name is None:
                continue
            for span in resource.spans:
                if not span.trace_id or not span.span_id:
                    continue
                trace = self._traces.get(span.trace_id)
                if trace is None:
                    trace = self._traces[span.trace_id] = _Trace()
                if span.trace_id not in self._changed:
                    trace.first_change = now
                    self._changed[span.trace_id] = trace
                trace.changed = now
                trace.add(span)
                self._spans += 1
                self._traces.move_to_end(span.trace_id)
            self._apiserver = self._apiserver or (resource.service_name == APISERVER and bool(resource.spans))

    def due(self, now: float) -> list[tuple[Finding, bool]]:
        """Return the findings that are new, and of each whether it counts only if the apiserver sends no spans."""
        due = {trace_id: trace for trace_id, trace in self._changed.items() if trace.is_due(now)}
        for trace_id in due:
            del self._changed[trace_id]
        found = [(finding, False) for finding in self._new(trace for trace in due.values() if trace.of_apiserver)]
        if not self._apiserver:
            found += [(finding, True) for finding in self._new(due.values())]
        while self._spans > MOST_SPANS:
            trace_id, trace = self._traces.popitem(last=False)
            self._spans -= len(trace.spans)
            self._changed.pop(trace_id, None)
        return found

    def _new(self, traces: Iterable[_Trace]) -> list[Finding]:
        by_service: defaultdict[str, list[Span]] = defaultdict(list)
        for trace in traces:
            for span in trace.spans:
                by_service[span.service_name].append(span)
        resources = [Resource(service, spans, "") for service, spans in by_service.items()]
        try:
            findings = usage_of(resources, Quality(), "").findings
        except DumpError:  # no etcd call among these spans, or one that the judgement at the end will report
            return []
        return [finding for finding in findings if self._is_new(finding)]

    def _is_new(self, finding: Finding) -> bool:
        if finding.id not in _IDS or finding.grpc_method == LEASE_GRANT:
            return False
        # Its message has the number of calls.
        message = "" if finding.id == UNEXPECTED_METHOD else finding.message
        key = (finding.id, finding.grpc_method, message)
        is_new = key not in self._found
        self._found.add(key)
        return is_new
