"""The files that the suite's options ask for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from etcd_coverage.suite.run import Run


def write(given: argparse.Namespace, run: Run) -> tuple[list[str], bool]:
    """Write the files that were asked for; return what became of each, a line each, and whether one failed.

    Where nothing was judged, files stay as they are.
    """
    from etcd_coverage.text import escape

    lines: list[str] = []
    failed = False
    if not run.usages:
        return lines, failed
    if given.usage_json:
        path = Path(given.usage_json)
        try:
            lines = [f"{escape(given.usage_json)}: {line}" for line in run.save(path, given.origins).lines()]
        except OSError as error:
            reason = error.strerror or error
            lines = [f"{escape(given.usage_json)}: cannot be written, nothing was saved: {reason}"]
            failed = True
    if given.usage_markdown or given.usage_html or given.usage_summary:
        # Here, since a run without a report needs no template engine.
        from etcd_coverage.reports import write as reports

        try:
            written = reports.write(
                run.report(given.jaeger_url), given.usage_markdown, given.usage_html, step_summary=given.usage_summary
            )
            lines += [f"usage report written to {escape(str(path))}" for path in written]
        except OSError as error:
            lines.append(f"{escape(str(error.filename))}: cannot be written: {error.strerror or error}")
            failed = True
    if run.history:
        found, has_failed = _history(given, run)
        lines += found
        failed = failed or has_failed
    return lines, failed


def _history(given: argparse.Namespace, run: Run) -> tuple[list[str], bool]:
    from etcd_coverage.atomic import write_atomically
    from etcd_coverage.dumps.error import DumpError
    from etcd_coverage.reports import history as reports
    from etcd_coverage.text import escape

    try:
        history = run.history_of_all()
        labels = ", ".join(column.label for column in history.columns)
        changes = list(reports.lines(history)) or ["nothing changed"]
        lines = [f"history of {labels}:", *(f"  {line}" for line in changes)]
        if given.history_report:
            path = Path(given.history_report)
            write_atomically(path, reports.FORMS[path.suffix](history).encode())
            lines.append(f"history written to {escape(str(path))}")
    except DumpError as error:
        return [str(error)], True
    except OSError as error:
        return [f"{escape(str(error.filename))}: cannot be written: {error.strerror or error}"], True
    return lines, False
