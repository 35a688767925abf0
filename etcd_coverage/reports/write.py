"""Reports -> files, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from etcd_coverage.atomic import write_atomically
from etcd_coverage.reports.html import html
from etcd_coverage.reports.markdown import append_step_summary, markdown

if TYPE_CHECKING:
    from etcd_coverage.reports.view import Report


def write(report: Report, markdown_path: str | None, html_path: str | None, *, step_summary: bool) -> list[Path]:
    """Write the reports that are wanted, and return where they are."""
    written = []
    for path, content in ((markdown_path, markdown), (html_path, html)):
        if path:
            write_atomically(Path(path), content(report).encode())
            written.append(Path(path))
    if step_summary and (summary := append_step_summary(report)):
        written.append(summary)
    return written
