"""What nobody expected of the gRPC methods, as findings, and findings that are made one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from etcd_coverage.judging.finding_kinds import CALL_NOT_RECORDED, METHOD_NOT_CALLED, UNEXPECTED_METHOD
from etcd_coverage.judging.origin_counts import OriginCounts, merged_origins
from etcd_coverage.judging.server_spans import example_of
from etcd_coverage.judging.usage import Finding, Origin
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.text import counted, escape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.dumps.spans import Span
    from etcd_coverage.judging.ancestors import Ancestors
    from etcd_coverage.reference import GrpcMethod


def unexpected_methods(grpc_spans: dict[str, list[Span]], ancestors: Ancestors) -> list[Finding]:
    """Return a finding for each gRPC method with server spans that is not in the reference, by name."""
    allowed = {method.name for method in GRPC_METHODS}
    return [
        Finding(
            id=UNEXPECTED_METHOD,
            grpc_method=escape(name),
            message=unexpected_text(escape(name), len(spans)),
            count=len(spans),
            example=example_of(spans[0]),
            origins=_origins(spans, ancestors),
        )
        for name, spans in sorted(grpc_spans.items())
        if name not in allowed
    ]


def _origins(spans: Iterable[Span], ancestors: Ancestors) -> list[Origin]:
    counts = OriginCounts()
    for span in spans:
        contract, request = ancestors.find(span)
        counts.add(request, contract)
    return counts.origins()


def method_not_called(method: GrpcMethod) -> Finding:
    """Return the finding that a required method was never called."""
    return Finding(
        id=METHOD_NOT_CALLED,
        grpc_method=method.name,
        message=f'expected "{method.name}" method to be called at least once',
        count=0,
    )


def call_not_recorded(method: GrpcMethod, spans: list[Span], ancestors: Ancestors) -> Finding:
    """Return the finding that a required method has server spans, but none of them a call."""
    return Finding(
        id=CALL_NOT_RECORDED,
        grpc_method=method.name,
        message=not_recorded_text(method.name, len(spans)),
        count=len(spans),
        example=example_of(spans[0]),
        origins=_origins(spans, ancestors),
    )


def unexpected_text(method: str, calls: int) -> str:
    """Return what is said of so many calls of a method, by its printable name, that is not in the reference."""
    return f"unexpected {calls} calls to method: {method}"


def not_recorded_text(method: str, calls: int) -> str:
    """Return what is said of a method that has so many server spans, but no call."""
    return f'"{method}" method was called {counted(calls, "time")}, but no call was recorded'


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with equal ones made one: their counts added up, the first one's example."""
    by_message: defaultdict[tuple[str, str], list[Finding]] = defaultdict(list)
    for found in findings:
        by_message[found.id, found.message].append(found)
    return [
        replace(
            same[0],
            count=sum(found.count for found in same),
            origins=merged_origins(finding.origins for finding in same),
        )
        if len(same) > 1
        else same[0]
        for same in by_message.values()
    ]
