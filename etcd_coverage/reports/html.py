"""Usages and their comparison -> one HTML page, Markdown, and properties for JUnit XML."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections import Counter, defaultdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct

from etcd_coverage.atomic import write_atomically
from etcd_coverage.comparing import compare
from etcd_coverage.comparing.compare import NEW, ComparedRow, Comparison, Shape, shape_text
from etcd_coverage.judging.usage import Row, Usage
from etcd_coverage.reference import GRPC_METHODS, short_name
from etcd_coverage.reports import terminal as tables
from etcd_coverage.reports.figures import ERROR_WIDTH, KEY_WIDTH, MESSAGE_WIDTH, trace_of
from etcd_coverage.reports.grouped_findings import grouped
from etcd_coverage.text import percent, printable, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from etcd_coverage.reports.figures import Trace

HEAT = (1, 10, 100, 1000, 10_000)
"""From how many calls on a cell of the heat map has the levels 1 to 5."""

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
STEP_SUMMARY_BYTES = 1024 * 1024
"""https://docs.github.com/actions/reference/workflow-commands-for-github-actions#step-isolation-and-limits"""

EXPECTED = "as expected"
NO_KEY = "(no key)"
UNKNOWN_KEYS = "(unknown keys)"


class Report(Struct, frozen=True, kw_only=True):
    """What a report is about: usages by the name of their dump, and what is known besides.

    ``releases`` are the Kubernetes releases ("X.Y") that dumps were judged as, ``comparisons`` those with the usage of
    the name ``reference``; ``comparison_notes`` say what a comparison leaves out, ``gate_failures`` which gates fail, a
    line each; all by dump name. ``jaeger_url`` makes example traces links.
    """

    usages: dict[str, Usage]
    releases: dict[str, str] = {}
    reference: str = ""
    comparisons: dict[str, Comparison] = {}
    comparison_notes: dict[str, list[str]] = {}
    gate_failures: dict[str, list[str]] = {}
    jaeger_url: str = ""

    def verdict(self, name: str) -> str:
        """Return what the dump of that name was found to be, in a few words."""
        usage = self.usages[name]
        if usage.error is not None:
            return "not judged"
        faults = [
            _counted(len(usage.findings), "finding"),
            _counted(len(self.gate_failures.get(name, [])), "failed gate"),
        ]
        return ", ".join(filter(None, faults)) or EXPECTED


class Cell(Struct, frozen=True):
    """Calls of a shape with a key pattern: ``level`` is the heat, ``status`` that of a comparison or empty."""

    calls: int
    level: int
    status: str = ""


class HeatMap(Struct, frozen=True):
    """Calls by key pattern (down) and call shape (across); None where there are none.

    ``methods`` are the gRPC methods with how many of the ``shapes`` each has.
    """

    methods: list[tuple[str, int]]
    shapes: list[Shape]
    rows: list[tuple[str, list[Cell | None]]]


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


def heat_map(usage: Usage) -> HeatMap:
    """Return the calls of a usage by key pattern and call shape; unknown keys share a row."""
    return _heat_map((row, row.calls, "") for row in usage.rows)


def coverage_map(comparison: Comparison) -> HeatMap:
    """Return the reference's calls by key pattern and call shape, the subject's where the reference has none."""
    return _heat_map((row, row.reference_calls or row.subject_calls, row.status) for row in comparison.rows)


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


def _heat_map(entries: Iterable[tuple[Row | ComparedRow, int, str]]) -> HeatMap:
    calls: defaultdict[str, Counter[Shape]] = defaultdict(Counter)
    statuses: dict[tuple[str, Shape], str] = {}
    for row, count, status in entries:
        key = (row.key_pattern or NO_KEY) if row.known_key else UNKNOWN_KEYS
        shape = (row.grpc_method, row.call_pattern, row.args)
        calls[key][shape] += count
        statuses[key, shape] = status
    shapes = sorted({shape for counts in calls.values() for shape in counts}, key=_shape_order)
    methods = Counter(method for method, _, _ in shapes)
    rows = [
        (
            key,
            [
                Cell(calls[key][shape], _level(calls[key][shape]), statuses[key, shape])
                if shape in calls[key]
                else None
                for shape in shapes
            ],
        )
        for key in sorted(calls, key=lambda key: (key in (NO_KEY, UNKNOWN_KEYS), key))
    ]
    return HeatMap(list(methods.items()), shapes, rows)


_METHOD_ORDER = {method.name: number for number, method in enumerate(GRPC_METHODS)}
_PATTERN_ORDER = {
    (method.name, pattern.name): number
    for method in GRPC_METHODS
    for number, pattern in enumerate(method.call_patterns)
}


def _shape_order(shape: Shape) -> tuple[object, ...]:
    method, pattern, args = shape
    last = len(_PATTERN_ORDER)
    return _METHOD_ORDER.get(method, last), method, _PATTERN_ORDER.get((method, pattern), last), pattern, args


def _level(calls: int) -> int:
    return sum(calls >= least for least in HEAT)


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
    """Cut the text to the width, and allow it to go on in the next line within keys and lists of args."""
    return Markup("<wbr>").join(re.split("(?<=[/,(])", shorten(printable(text), width)))


def _finalize(value: object) -> object:
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _missing_shapes(comparison: Comparison) -> dict[Shape, int]:
    return compare.missing_shapes(comparison.rows, comparison.rows)


def _by_method(rows: Sequence[_Row]) -> Iterator[tuple[str, list[_Row], list[_Row]]]:
    """Yield each gRPC method with its rows to show and those that are too many."""
    for method in dict.fromkeys(row.grpc_method for row in rows):
        shown, left_out = tables.shown([row for row in rows if row.grpc_method == method])
        yield method, shown, left_out


_Row = TypeVar("_Row", Row, ComparedRow)

_ENVIRONMENT = Environment(
    loader=PackageLoader("etcd_coverage.reports"),
    autoescape=True,
    finalize=_finalize,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals |= {
    "by_method": _by_method,
    "coverage_map": coverage_map,
    "heat_map": heat_map,
    "missing_shapes": _missing_shapes,
    "percent": percent,
    "percent_text": compare.percent_text,
    "shape_text": shape_text,
    "short_name": short_name,
    "trace_of": trace_of,
    "EXPECTED": EXPECTED,
    "HEAT": HEAT,
    "grouped": grouped,
    "methods_by_calls": tables.methods_by_calls,
}
_ENVIRONMENT.filters |= {
    "breakable": _breakable,
    "count": lambda number: f"{number:,}",
    "cut": lambda text: shorten(printable(text), KEY_WIDTH),
    "error": lambda text: _breakable(text, ERROR_WIDTH),
    "message": lambda text: _breakable(text, MESSAGE_WIDTH),
}


def markdown(report: Report, *, with_rows: bool = True) -> str:
    """Return GitHub's Markdown, with the tables of all rows folded away; nothing in it of a dump is markup."""
    return "\n\n".join(_sections(report, with_rows=with_rows)) + "\n"


def append_step_summary(report: Report) -> Path | None:
    """Append the Markdown to the summary of the GitHub Actions step, if this runs in one, and return its path.

    GitHub refuses a summary of more than 1 MiB: the tables of all rows are left out of one that would be longer.
    """
    if not os.environ.get(STEP_SUMMARY):
        return None
    path = Path(os.environ[STEP_SUMMARY])
    room = STEP_SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
    text = markdown(report)
    if len(text.encode()) > room:
        text = markdown(report, with_rows=False)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
    return path


def _sections(report: Report, *, with_rows: bool) -> Iterator[str]:
    yield "# How Kubernetes uses etcd"
    yield _overview(report)
    for name, usage in sorted(report.usages.items()):
        yield f"## {_code(name)}"
        if usage.error is not None:
            yield f"Not judged: {_code(usage.error, ERROR_WIDTH)}"
            continue
        for warning in usage.quality.warnings():
            yield f"Warning: {_code(warning, MESSAGE_WIDTH)}"
        yield from _findings_sections(usage, report.jaeger_url)
        if comparison := report.comparisons.get(name):
            yield from _comparison_sections(name, comparison, report, with_rows=with_rows)
        if with_rows:
            yield from _folded("Calls and call patterns", _usage_tables(usage))
        yield f"Data quality: {tables.quality_line(usage.quality)}."
    if not with_rows:
        yield "The tables of all rows are left out: `--usage-markdown` and `--usage-html` write them."


def _overview(report: Report) -> str:
    if not report.usages:
        return "No dump was judged."
    compared = ["shapes covered", "rows covered"] if report.comparisons else []
    rows = []
    for name, usage in sorted(report.usages.items()):
        verdict = report.verdict(name)
        comparison = report.comparisons.get(name)
        shares = [comparison.shape_coverage, comparison.row_coverage] if comparison else []
        rows.append(
            [
                _code(name),
                f"{'✓' if verdict == EXPECTED else '✗'} {verdict}",
                report.releases.get(name, ""),
                *(f"{one.covered} of {one.reference} ({compare.percent_text(one.percent_of_calls)})" for one in shares),
                *("" for _ in compared[len(shares) :]),
                str(sum(usage.calls.values())),
                str(len(usage.rows)),
                str(usage.quality.spans),
                str(usage.quality.traces),
            ]
        )
    headers = ["dump", "verdict", "Kubernetes", *compared, "calls", "rows", "spans", "traces"]
    table = _table(headers, rows, numbers=4 + len(compared))
    note = f"Percentages are of the calls in the reference, {_code(report.reference)}."
    return f"{table}\n\n{note}" if compared else table


def _findings_sections(usage: Usage, jaeger_url: str) -> Iterator[str]:
    if not usage.findings:
        return
    shown = grouped(usage.findings, jaeger_url)
    yield "### Findings"
    yield _table(
        ["finding", "message", "example trace", "calls"],
        [[line.id, _code(line.message), _trace(line.trace), str(line.calls)] for line in shown.lines],
        numbers=1,
    )
    for left_out in shown.left_out:
        yield _code(left_out.text)
    yield "\n".join(f"- {id_}: {step}" for id_, step in shown.next_steps)


def _comparison_sections(name: str, comparison: Comparison, report: Report, *, with_rows: bool) -> Iterator[str]:
    yield f"### Compared with {_code(report.reference)}"
    for line in report.gate_failures.get(name, []):
        yield f"Gate failed: {_code(line, MESSAGE_WIDTH)}"
    yield (
        f"- call shapes covered: {tables.share_text(comparison.shape_coverage)}\n"
        f"- rows covered: {tables.share_text(comparison.row_coverage)}"
    )
    if missing := _missing_shapes(comparison):
        total = sum(row.reference_calls for row in comparison.rows)
        yield _table(
            ["missing call shape", "", "reference calls", "share of all"],
            [
                [_code(short_name(shape[0])), _code(shape_text(shape)), str(calls), percent(calls, total)]
                for shape, calls in missing.items()
            ],
            numbers=2,
        )
    for note in report.comparison_notes.get(name, []):
        yield f"Note: {_code(note, MESSAGE_WIDTH)}"
    if with_rows:
        yield from _folded(f"Side by side: {len(comparison.rows)} rows", [_compared_table(comparison)])


def _compared_table(comparison: Comparison) -> str:
    body = []
    for method, rows, left_out in _by_method(comparison.rows):
        in_reference = sum(row.reference_calls for row in rows)
        in_subject = sum(row.subject_calls for row in (*rows, *left_out))
        body += [
            [
                row.status,
                *_shape_cells(row),
                str(row.reference_calls),
                percent(row.reference_calls, in_reference),
                str(row.subject_calls),
                percent(row.subject_calls, in_subject),
            ]
            for row in rows
        ]
        if left_out:
            calls = sum(row.subject_calls for row in left_out)
            shares = ["0", "", str(calls), percent(calls, in_subject)]
            body.append([NEW, _code(short_name(method)), "", _more(left_out), *shares])
    return _table(
        ["status", "gRPC method", "call shape", "key pattern", "reference", "share", "subject", "share"],
        body,
        numbers=4,
    )


def _usage_tables(usage: Usage) -> Iterator[str]:
    total = sum(usage.calls.values())
    lines, rest = tables.methods_by_calls(usage)
    if rest:
        lines.append((f"... and {len(rest)} more unexpected methods", sum(calls for _, calls in rest)))
    yield _table(
        ["gRPC method", "calls", "share"],
        [[_code(name, KEY_WIDTH), str(calls), percent(calls, total)] for name, calls in lines],
        numbers=2,
    )
    body = []
    for method, rows, left_out in _by_method(usage.rows):
        calls = sum(row.calls for row in (*rows, *left_out))
        body += [
            [
                *_shape_cells(row),
                percent(row.contract_calls, row.calls),
                str(row.calls),
                percent(row.calls, calls),
            ]
            for row in rows
        ]
        if left_out:
            more = sum(row.calls for row in left_out)
            body.append([_code(short_name(method)), "", _more(left_out), "", str(more), percent(more, calls)])
    if body:
        yield _table(["gRPC method", "call shape", "key pattern", "contract", "calls", "share"], body, numbers=3)
    if usage.leases:
        yield _table(
            ["lease", "transactions a lease", "average TTL, s", "calls"],
            [
                [
                    _code(lease.key_pattern, KEY_WIDTH),
                    f"{lease.uses / lease.calls if lease.calls else 0:.1f}",
                    f"{lease.ttl_seconds / lease.calls if lease.calls else 0:.1f}",
                    str(lease.calls),
                ]
                for lease in usage.leases
            ],
            numbers=3,
        )


def _shape_cells(row: Row | ComparedRow) -> list[str]:
    shape = (row.grpc_method, row.call_pattern, row.args)
    return [_code(short_name(row.grpc_method)), _code(shape_text(shape)), _code(row.key_pattern, KEY_WIDTH)]


def _more(rows: Sequence[Row | ComparedRow]) -> str:
    return f"… and {len(rows)} more unknown keys"


def _folded(title: str, parts: Iterable[str]) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>"
    yield from parts
    yield "</details>"


def _trace(trace: Trace | None) -> str:
    if trace is None:
        return ""
    text = _code(trace.trace_id, KEY_WIDTH)
    return f"[{text}]({_destination(trace.address)})" if trace.address else text


def _destination(url: str) -> str:
    """Percent-encode what would end the destination of a link, or a cell."""
    return quote(url, safe="/:?#@!$&'*+,;=%~")


def _code(text: str, width: int = MESSAGE_WIDTH) -> str:
    """Return the text as code, of which no character is markup, and in which GitHub links nothing."""
    text = shorten(printable(text), width)
    if text == text.strip() and not set(text) & set("`|"):
        return f"`{text}`" if text else ""
    return f"<code>{''.join(char if char.isalnum() or char == ' ' else f'&#{ord(char)};' for char in text)}</code>"


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int) -> str:
    """Return a table, its last ``numbers`` columns to the right."""
    rule = ["---"] * (len(headers) - numbers) + ["--:"] * numbers
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, rule, *rows))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}" if number else ""
