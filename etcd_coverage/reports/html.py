"""Usages and comparisons -> one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from etcd_coverage.comparing.saved import MESSAGE_WIDTH
from etcd_coverage.reference import short_name
from etcd_coverage.reports import by_test, callers, comparison_view, heat, view
from etcd_coverage.reports.by_caller import by_caller, origins_of
from etcd_coverage.reports.figures import ERROR_WIDTH, KEY_WIDTH, key_text, trace_of
from etcd_coverage.reports.finding_details import origins_text
from etcd_coverage.reports.grouped_findings import grouped
from etcd_coverage.text import counted, printable, shorten_middle

if TYPE_CHECKING:
    from etcd_coverage.reports.by_caller import CallerShares, RestOfOrigins
    from etcd_coverage.reports.view import Report


def html(report: Report) -> str:
    """Return one page that needs nothing else: style and script are in it, and it may load nothing."""
    style, script = _template("report.css"), _template("report.js")
    return _ENVIRONMENT.get_template("report.html.j2").render(
        report=report,
        style=Markup(style),
        script=Markup(script),
        policy=(
            f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        ),
    )


def _template(name: str) -> str:
    return resources.files("etcd_coverage.reports").joinpath("templates", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _breakable(text: str, width: int = KEY_WIDTH) -> Markup:
    """Cut the text to the width, and allow it to go on in the next line within keys, names and lists of args."""
    return Markup("<wbr>").join(re.split(r"(?<=[/,(])|(?=\.)", shorten_middle(printable(text), width)))


def _finalize(value: object) -> object:
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _shares(by_caller: dict[int, CallerShares]) -> dict[int, list[str]]:
    """Return the texts of the cells contract, calls, percent and origins for each caller."""
    return {
        caller: [one.contract.percent, f"{one.share.calls:,}", one.share.percent, f"{one.origins:,}"]
        for caller, one in by_caller.items()
    }


def _cells(by_caller: dict[int, heat.Cell]) -> dict[int, list[str]]:
    """Return the text and the class of the heat map's cell for each caller."""
    return {caller: [f"{one.calls:,}", f"heat-{one.level}"] for caller, one in by_caller.items()}


def _rest_text(rest: RestOfOrigins) -> str:
    return f"… and {counted(rest.origins, 'more origin')}: {counted(rest.calls, 'call')}"


def _rests(by_caller: dict[int, RestOfOrigins]) -> dict[int, list[str]]:
    return {caller: [_rest_text(rest)] for caller, rest in by_caller.items()}


_ENVIRONMENT = Environment(
    loader=PackageLoader("etcd_coverage.reports"),
    autoescape=True,
    finalize=_finalize,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
_ENVIRONMENT.globals |= {
    "by_caller": by_caller,
    "by_test": by_test,
    "callers": callers,
    "comparison_view": comparison_view,
    "grouped": grouped,
    "heat": heat,
    "origins_of": origins_of,
    "origins_text": origins_text,
    "short_name": short_name,
    "trace_of": trace_of,
    "view": view,
}
_ENVIRONMENT.filters |= {
    "breakable": _breakable,
    "caller_cells": _cells,
    "caller_shares": _shares,
    "count": lambda number: f"{number:,}",
    "cut": key_text,
    "error": lambda text: _breakable(text, ERROR_WIDTH),
    "more_origins": _rest_text,
    "more_origins_by_caller": _rests,
    "message": lambda text: _breakable(text, MESSAGE_WIDTH),
}
