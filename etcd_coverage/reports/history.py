"""History -> Markdown, HTML, JSON, and lines for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from etcd_coverage.comparing.compare import shape_text
from etcd_coverage.comparing.history import SELDOM
from etcd_coverage.reference import short_name
from etcd_coverage.reports.figures import key_text
from etcd_coverage.reports.markdown_parts import as_code, as_table
from etcd_coverage.text import percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from etcd_coverage.comparing.history import History, HistoryRow

THRESHOLDS = (
    f"A row that never had {SELDOM} calls, that comes and goes, or that only some runs of one release have, is "
    "volatile, not new or gone, unless it moved; counts and shares that differ are no change."
)
"""What is not taken for a change."""


def lines(history: History) -> Iterator[str]:
    """Yield what moved, came and went in each column, a line each."""
    for number, column in enumerate(history.columns):
        if not number:
            continue
        for one in history.moves:
            if one.label == column.label:
                yield f"{column.label}: moved: {one.move.text()}"
        for word, rows in zip(("new", "gone"), history.changed(column.label), strict=True):
            for row in rows:
                yield f"{column.label}: {word}: {_name(row)}"


def markdown(history: History) -> str:
    """Return what changed as a list, and the matrix of rows and columns: calls, and their share of the column's."""
    found = [f"- {_as_item(line)}" for line in lines(history)] or ["- nothing"]
    table = as_table(
        ["gRPC method", "call", "key pattern", "new in", "gone since", *(column.label for column in history.columns)],
        [
            [
                short_name(row.grpc_method),
                as_code(shape_text((row.grpc_method, row.call_pattern, row.args))),
                as_code(row.key_pattern),
                row.new_in or ("volatile" if row.is_volatile else ""),
                row.gone_since,
                *cells,
            ]
            for row, cells in _rows(history)
        ],
        numbers=len(history.columns),
    )
    return "\n".join([*found, "", THRESHOLDS, "", table])


def html(history: History) -> str:
    """Return what `markdown` says as one HTML page that needs nothing else."""
    return _ENVIRONMENT.get_template("history.html.j2").render(
        columns=history.columns,
        changes=list(lines(history)),
        thresholds=THRESHOLDS,
        rows=[
            (
                short_name(row.grpc_method),
                key_text(shape_text((row.grpc_method, row.call_pattern, row.args))),
                row,
                cells,
            )
            for row, cells in _rows(history)
        ],
    )


def json(history: History) -> str:
    """Return the history as JSON: the fields of `etcd_coverage.comparing.history.History`."""
    return msgspec.json.format(msgspec.json.encode(history), indent=1).decode() + "\n"


FORMS = {".md": markdown, ".html": html, ".json": json}
"""How a history is written, by the end of the file's name."""


def _rows(history: History) -> Iterator[tuple[HistoryRow, list[str]]]:
    for row in history.rows:
        yield (
            row,
            [
                f"{calls} ({percent(calls, column.calls)})" if calls else ""
                for calls, column in zip(row.calls, history.columns, strict=True)
            ],
        )


def _name(row: HistoryRow) -> str:
    shape = shape_text((row.grpc_method, row.call_pattern, row.args))
    return f"{short_name(row.grpc_method)} {shape} {row.key_pattern}"


def _as_item(line: str) -> str:
    label, _, rest = line.partition(": ")
    word, _, what = rest.partition(": ")
    return f"{label}, {word}: {as_code(what)}"


_ENVIRONMENT = Environment(
    loader=PackageLoader("etcd_coverage.reports"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
