"""Usages and comparisons -> properties for JUnit XML."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from etcd_coverage.comparing import compare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from etcd_coverage.reports.view import Report


def properties(report: Report) -> dict[str, str]:
    """Return the counts and the verdict of each dump, as the properties of JUnit XML: ``DUMP:calls`` and the like."""
    return {f"{name}:{key}": value for name in sorted(report.usages) for key, value in _properties(name, report)}


def _properties(name: str, report: Report) -> Iterator[tuple[str, str]]:
    usage = report.usages[name]
    yield "verdict", report.verdict(name)
    if usage.error is not None:
        return
    yield "spans", str(usage.quality.spans)
    yield "traces", str(usage.quality.traces)
    yield "calls", str(sum(usage.calls.values()))
    yield "rows", str(len(usage.rows))
    yield "findings", str(len(usage.findings))
    for id_, count in sorted(Counter(finding.id for finding in usage.findings).items()):
        yield f"findings:{id_}", str(count)
    if comparison := report.comparisons.get(name):
        yield "reference", report.reference
        for kind, share in (("shapes", comparison.shape_coverage), ("rows", comparison.row_coverage)):
            yield f"{kind}:covered", str(share.covered)
            yield f"{kind}:reference", str(share.reference)
            yield f"{kind}:percent_of_calls", compare.percent_text(share.percent_of_calls).rstrip("%")
