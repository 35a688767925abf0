"""What a run prints in the end: tables, comparisons, and last a line for each dump."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from etcd_coverage.reference import short_name
from etcd_coverage.reports import by_test, terminal
from etcd_coverage.reports import comparison as comparison_text
from etcd_coverage.reports.layout import terminal_width
from etcd_coverage.reports.view import quality_line
from etcd_coverage.text import counted, escape, shorten_middle, some

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from etcd_coverage.comparing.compare import Comparison
    from etcd_coverage.judging.usage import Finding
    from etcd_coverage.suite.ledger import Ledger
    from etcd_coverage.suite.run import Run


def summary(run: Run, ledger: Ledger, verbosity: int) -> Iterator[tuple[str, str]]:
    """Yield what was found: kind ("section", "line" or "warning") and text.

    Tables are shown from ``verbosity`` 1 on, and of what failed: those last, nearest to the end.
    """
    judged = {name: usage for name, usage in sorted(run.usages.items()) if usage.error is None}
    with_tables = {name for name, usage in judged.items() if usage.findings or verbosity > 0}
    if judged.keys() - with_tables and verbosity == 0:
        yield "section", "etcd coverage (-v shows the tables)"
    comparisons = run.comparisons()
    for name in sorted(judged, key=lambda name: (name in ledger.failed, name)):
        usage = judged[name]
        if name in with_tables:
            yield "section", f"etcd coverage: {name}"
            for title, table in terminal.tables(usage, terminal_width()):
                yield "line", f"{title}\n{table}\n"
            yield "line", f"data quality: {quality_line(usage.quality)}"
        elif verbosity == 0:
            yield "line", f"{name}: {quality_line(usage.quality)}"
        if run.by_test:
            yield "section", f"etcd coverage by e2e test: {name}"
            for text in by_test.texts(by_test.by_test(usage), terminal_width()):
                yield "line", text
        for warning in usage.quality.warnings():
            yield "warning", f"warning: {warning}" if verbosity >= 0 else f"warning: {name}: {warning}"
    for name in sorted(comparisons, key=lambda name: (name in ledger.failed, name)):
        assert run.reference is not None
        yield "section", f"etcd coverage: {name} against {run.reference.name}"
        for line in _comparison_lines(run, name, comparisons[name], verbose=verbosity > 0):
            yield "line", line
    for gap in run.unused_gaps():
        yield "warning", f"known gap that matches nothing any more, remove it: {gap}"


def _comparison_lines(run: Run, name: str, comparison: Comparison, *, verbose: bool) -> Iterator[str]:
    """Yield the comparison's tables if asked for or if a gate fails, then its summary."""
    outcome = run.outcome(name, comparison)
    if verbose or outcome.failures:
        for title, table in comparison_text.comparison_tables(comparison, terminal_width()):
            yield f"{title}\n{table}\n"
    yield from comparison_text.comparison_summary(comparison, run.reference_usage(), run.usages[name])
    yield from comparison_text.gates_notes(outcome, run.gates)


def verdict_lines(run: Run, ledger: Ledger) -> Iterator[tuple[bool, str]]:
    """Yield whether a dump failed and its verdict in a line, the failed ones last."""
    for name in sorted(ledger.judged(), key=lambda name: (name in ledger.failed, name)):
        if name in ledger.failed:
            yield True, f"FAIL {name}: {_what_failed(run, ledger, name)}"
        else:
            compared = f"compared with {run.reference.name}" if run.reference and name in ledger.compared else ""
            expected = "as expected" if name in ledger.findings else ""
            gated = "" if run.gates.min_contract is None or name not in ledger.gated else "--min-contract is met"
            yield False, f"PASS {name}: {', '.join(filter(None, (expected, compared, gated)))}"


def _what_failed(run: Run, ledger: Ledger, name: str) -> str:
    usage = run.usages.get(name)
    if usage is not None and usage.error is not None:
        return usage.error.removeprefix(f"{escape(str(run.sources[name].path))}: ")
    counts = [count for count in ledger.findings.get(name, {}).values() if count]
    parts = []
    if counts:
        where = _methods(usage.findings) if usage is not None else ""
        parts.append(f"{counted(sum(counts), 'finding')} in {counted(len(counts), 'test')}{where}")
    if usage is not None and name in ledger.gated:
        failures = run.outcome(name, run.comparison(name)).failures
        parts += list(dict.fromkeys(failure.partition(":")[0] for failure in failures))
    return ", ".join(parts) or "a test failed, see above"


def _methods(findings: Sequence[Finding]) -> str:
    """Return the gRPC methods with the most calls that nobody expected."""
    calls: Counter[str] = Counter()
    for finding in findings:
        if finding.grpc_method:
            calls[shorten_middle(short_name(finding.grpc_method), 40)] += finding.count
    return f": {some([name for name, _ in calls.most_common()])}" if calls else ""
