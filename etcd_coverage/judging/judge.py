"""Dump -> usage: the stages of the suite in order."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from etcd_coverage.dumps.error import DOWNLOAD, DumpError
from etcd_coverage.dumps.parts import open_dump
from etcd_coverage.judging import findings, losses, span_maps
from etcd_coverage.judging.ancestors import Ancestors
from etcd_coverage.judging.classify import KeyPatterns, classify
from etcd_coverage.judging.finding_kinds import OVERWRITTEN_STEP
from etcd_coverage.judging.leases import LEASE_GRANT, leases
from etcd_coverage.judging.outcomes import Outcomes
from etcd_coverage.judging.usage import Finding, Quality, Row, Usage
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.releases import can_call
from etcd_coverage.text import counted, escape

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from etcd_coverage.dumps.spans import Resource


def judge(path: Path, kubernetes_version: str = "") -> Usage:
    """Return what the dump at ``path`` shows, a file or a folder of parts; its ``error`` is what keeps it from that.

    ``kubernetes_version`` ("X.Y", empty: the newest) says which methods could not be called yet.
    """
    quality = Quality()
    # Nothing here makes cycles, and collecting among millions of young objects takes a tenth of the time:
    # https://docs.python.org/3/library/gc.html#gc.disable
    collecting = gc.isenabled()
    gc.disable()
    try:
        dump = open_dump(path)
        quality.traces_limit = dump.traces_limit
        return usage_of(dump.resources, quality, kubernetes_version)
    except DumpError as error:
        return Usage(quality=quality, error=f"{escape(str(path))}: {error}")
    finally:
        if collecting:
            gc.enable()


def usage_of(resources: Iterable[Resource], quality: Quality, kubernetes_version: str) -> Usage:
    """Return what the resources of one dump tell, ``quality`` filled in; raise `DumpError` if they cannot be judged."""
    spans = span_maps.spans_map(resources, quality)
    if not quality.spans:
        raise DumpError(f"has no spans: collect traces again, or ask Jaeger for another window with {DOWNLOAD}")
    grpc_spans = span_maps.grpc_spans(spans)
    if not grpc_spans and (overwritten := quality.overwritten_servers):
        raise DumpError(
            f"has no etcd gRPC spans left: {counted(overwritten.count, 'server span')}, such as "
            f"{overwritten.example.span_id} of trace {overwritten.example.trace_id}, came again as a span of another "
            f"kind with the same ids, as Zipkin's shared ids do; {OVERWRITTEN_STEP}"
        )
    if not grpc_spans:
        raise DumpError(
            "has no etcd gRPC spans: start etcd with --enable-distributed-tracing, "
            f"and download with {DOWNLOAD} --service etcd"
        )
    calls = span_maps.calls_map(spans, grpc_spans, quality)
    losses.count_faulty_calls(spans, calls, quality)
    ancestors = Ancestors(spans)
    outcomes = Outcomes(spans)
    patterns = KeyPatterns()
    rows: list[Row] = []
    found: list[Finding] = findings.unexpected_methods(grpc_spans, ancestors)
    for method in GRPC_METHODS:
        if method.required and not calls.get(method.name):
            if method.name in grpc_spans:
                found.append(findings.call_not_recorded(method, grpc_spans[method.name], ancestors))
            elif can_call(method, kubernetes_version):
                found.append(findings.method_not_called(method))
        if method.call_patterns:
            new_rows, new_findings = classify(method, calls.get(method.name, []), patterns, ancestors, outcomes)
            rows += new_rows
            found += new_findings
    by_pattern, lease_findings = leases(calls.get(LEASE_GRANT, []), span_maps.lease_map(calls), patterns, ancestors)
    return Usage(
        calls={escape(name): len(grpc_spans[name]) for name in sorted(grpc_spans)},
        rows=rows,
        leases=by_pattern,
        findings=found + lease_findings,
        quality=quality,
    )
