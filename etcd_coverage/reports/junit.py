"""Usages and comparisons -> properties for JUnit XML."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from etcd_coverage.reports.comparison_view import coverage_share
from etcd_coverage.reports.figures import key_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from etcd_coverage.reports.view import DumpLine, Report


def properties(report: Report) -> dict[str, str]:
    """Return the counts and the verdict of each dump, as the properties of JUnit XML: ``DUMP:calls`` and the like."""
    lines = sorted(report.overview(), key=lambda line: line.name)
    return {f"{line.name}:{key}": value for line in lines for key, value in _properties(line, report)}


def _properties(line: DumpLine, report: Report) -> Iterator[tuple[str, str]]:
    usage = report.usages[line.name]
    yield "verdict", line.verdict
    if usage.error is not None:
        return
    yield "spans", str(line.spans)
    yield "traces", str(line.traces)
    yield "calls", str(line.calls)
    yield "rows", str(line.rows)
    yield "findings", str(len(usage.findings))
    for id_, count in sorted(Counter(finding.id for finding in usage.findings).items()):
        yield f"findings:{key_text(id_)}", str(count)
    if line.coverages:
        yield "reference", key_text(report.reference)
        for kind, coverage in zip(("shapes", "rows"), line.coverages, strict=True):
            yield f"{kind}:covered", str(coverage.covered)
            yield f"{kind}:reference", str(coverage.reference)
            yield f"{kind}:percent_of_calls", coverage_share(coverage).percent.rstrip("%")
