"""Measure what sampling does to the verdict: how many rows and findings are left of a dump whose traces are sampled.

    python -m benchmarks.sampling testdata/kubernetes-1.37.json.gz

A trace is kept as OpenTelemetry's ``TraceIDRatioBased`` of Go does, by its id:
https://pkg.go.dev/go.opentelemetry.io/otel/sdk/trace#TraceIDRatioBased.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.kinds import read_dump
from etcd_coverage.dumps.spans import Resource
from etcd_coverage.judging.judge import usage_of
from etcd_coverage.judging.usage import Quality
from etcd_coverage.text import counted

RATIOS = (1.0, 0.5, 0.1, 0.01, 0.001)


def is_kept(trace_id: str, ratio: float) -> bool:
    """Return whether a sampler of this ratio keeps the trace."""
    return int(trace_id[16:], 16) >> 1 < ratio * 2**63


def main() -> None:
    """Print a line for each ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling", description="Measure what sampling does.")
    parser.add_argument("dump", type=Path)
    options = parser.parse_args()
    resources = list(read_dump(options.dump))
    for ratio in RATIOS:
        sampled = [
            Resource(one.service_name, [span for span in one.spans if is_kept(span.trace_id, ratio)], one.place)
            for one in resources
        ]
        try:
            usage = usage_of(sampled, Quality(), "")
        except DumpError as error:
            print(f"{ratio:.1%}: {error}")
            continue
        calls = sum(usage.calls.values())
        found = ", ".join(f"{finding.id} {finding.grpc_method}" for finding in usage.findings) or "no finding"
        print(f"{ratio:.1%}: {counted(calls, 'call')}, {counted(len(usage.rows), 'row')}, {found}")


if __name__ == "__main__":
    main()
