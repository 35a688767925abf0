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
from etcd_coverage.reports import comparison_view, heat, view
from etcd_coverage.reports.figures import ERROR_WIDTH, KEY_WIDTH, key_text, trace_of
from etcd_coverage.reports.grouped_findings import grouped
from etcd_coverage.text import printable, shorten_middle

if TYPE_CHECKING:
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


_ENVIRONMENT = Environment(
    loader=PackageLoader("etcd_coverage.reports"),
    autoescape=True,
    finalize=_finalize,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals |= {
    "comparison_view": comparison_view,
    "grouped": grouped,
    "heat": heat,
    "short_name": short_name,
    "trace_of": trace_of,
    "view": view,
}
_ENVIRONMENT.filters |= {
    "breakable": _breakable,
    "count": lambda number: f"{number:,}",
    "cut": key_text,
    "error": lambda text: _breakable(text, ERROR_WIDTH),
    "message": lambda text: _breakable(text, MESSAGE_WIDTH),
}
