"""The result of a dump as a value: how Kubernetes used etcd."""

from __future__ import annotations

import gc
import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from etcd_coverage import classify, maps
from etcd_coverage.classify import Finding, Lease, Row
from etcd_coverage.contract import Contracts
from etcd_coverage.maps import Count, Quality
from etcd_coverage.otlp import DOWNLOAD, DumpError, read_dump
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.text import escape

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.reference import GrpcMethod


class Usage(Struct, kw_only=True):
    """How one dump used etcd.

    ``calls`` counts the server spans of each gRPC method, ``rows``, ``leases`` and ``findings`` are in table order.
    ``error`` is the one line that says why the dump could not be judged, in which case all the rest is empty or
    incomplete; None if it was.
    """

    calls: dict[str, Count] = {}
    rows: list[Row] = []
    leases: list[Lease] = []
    findings: list[Finding] = []
    quality: Quality = msgspec.field(default_factory=Quality)
    error: str | None = None


def judge(path: Path, kubernetes_version: str = "") -> Usage:
    """Return what the dump at ``path`` tells; what keeps it from being judged is in the result's ``error``.

    ``kubernetes_version`` ("X.Y", empty: the newest) says which methods could not be called yet.
    """
    quality = Quality()
    # Nothing here makes cycles, and collecting among millions of young objects takes a tenth of the time:
    # https://docs.python.org/3/library/gc.html#gc.disable
    collecting = gc.isenabled()
    gc.disable()
    try:
        spans = maps.spans_map(read_dump(path), quality)
        if not quality.spans:
            raise DumpError(f"has no spans: collect traces again, or ask Jaeger for another window with {DOWNLOAD}")
        grpc_spans = maps.grpc_spans(spans)
        if not grpc_spans:
            raise DumpError(
                "has no etcd gRPC spans: start etcd with --enable-distributed-tracing, "
                f"and download with {DOWNLOAD} --service etcd"
            )
        calls = maps.calls_map(spans, grpc_spans, quality)
        contracts = Contracts(spans)
        patterns = classify.KeyPatterns()
        rows: list[Row] = []
        findings = classify.unexpected_methods(grpc_spans)
        for method in GRPC_METHODS:
            if method.required and not calls.get(method.name) and can_call(method, kubernetes_version):
                findings.append(classify.method_not_called(method))
            if method.call_patterns:
                new_rows, new_findings = classify.classify(method, calls.get(method.name, []), patterns, contracts)
                rows += new_rows
                findings += new_findings
        leases, lease_findings = classify.leases(calls.get(classify.LEASE_GRANT, []), maps.lease_map(calls), patterns)
    except DumpError as error:
        return Usage(quality=quality, error=f"{escape(str(path))}: {error}")
    finally:
        if collecting:
            gc.enable()
    return Usage(
        calls={escape(name): len(grpc_spans[name]) for name in sorted(grpc_spans)},
        rows=rows,
        leases=leases,
        findings=findings + lease_findings,
        quality=quality,
    )


def can_call(method: GrpcMethod, kubernetes_version: str) -> bool:
    """Tell whether the release ("X.Y", empty: the newest) knows the method."""
    return not kubernetes_version or not method.since or _numbers(kubernetes_version) >= _numbers(method.since)


def release_of(name: str) -> str:
    """Return the Kubernetes release that a dump's file name tells, such as "1.36" of kubernetes-1.36.json.gz; or ""."""
    found = re.search(r"kubernetes-(\d+\.\d+)", name)
    return found[1] if found else ""


def encode(usage: Usage) -> str:
    """Return one usage as JSON, for another process of the same version."""
    return msgspec.json.encode(usage).decode()


def decode(text: str) -> Usage:
    """Return the usage that `encode` wrote."""
    return msgspec.json.decode(text, type=Usage)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
