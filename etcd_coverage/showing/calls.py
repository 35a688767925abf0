"""Spans -> the etcd calls that match a row and an origin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.dumps.spans import Span
from etcd_coverage.judging import span_maps
from etcd_coverage.judging.ancestors import Ancestors
from etcd_coverage.judging.classify import KeyPatterns, classify
from etcd_coverage.judging.origins import Caller, origin_text
from etcd_coverage.judging.outcomes import Outcomes
from etcd_coverage.judging.usage import Quality
from etcd_coverage.reference import GRPC_METHODS, short_name
from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from etcd_coverage.judging.span_maps import Call, SpansMap
    from etcd_coverage.judging.usage import Row

UNKNOWN = "unknown"
"""Stands for the call pattern of a call that has none, as in comparisons."""


class Wanted(Struct, frozen=True):
    """Which calls to show: empty texts match every call.

    ``method`` is a gRPC method with or without its package, ``origin`` a component, a role, both as COMPONENT/ROLE, or
    the name of an e2e test.
    """

    method: str = ""
    call_pattern: str = ""
    key_pattern: str = ""
    origin: str = ""


class Shown(Struct, frozen=True):
    """An etcd call: its span, the row that it is in, as printable text, and who made it for which request."""

    span: Span
    row: str
    contract: str
    error: str
    caller: Caller


def row_wanted(text: str, origin: str = "") -> Wanted:
    """Return what a row such as "KV/Range List /registry/events/" wants: method, call pattern, key pattern."""
    method, call_pattern, key_pattern = [*text.split(maxsplit=2), "", "", ""][:3]
    return Wanted(method, call_pattern, key_pattern, origin)


def matching(spans: SpansMap, wanted: Wanted) -> Iterator[Shown]:
    """Yield the calls that match, by gRPC method in the order of the reference, then in the order of the dump."""
    found = span_maps.calls_map(spans, span_maps.grpc_spans(spans), Quality())
    known = [method.name for method in GRPC_METHODS if method.name in found]
    ancestors, outcomes, patterns = Ancestors(spans), Outcomes(spans), KeyPatterns()
    for name in dict.fromkeys([*known, *sorted(found)]):
        if wanted.method and wanted.method not in (name, short_name(name)):
            continue
        for call in found[name]:
            contract, request = ancestors.find(call.span)
            caller = request.caller
            if wanted.origin and wanted.origin not in (
                caller.component,
                caller.role,
                f"{caller.component}/{caller.role}",
                caller.test,
            ):
                continue
            row = _row(name, call, patterns, ancestors, outcomes)
            if row is None:
                if not wanted.call_pattern and not wanted.key_pattern:
                    yield Shown(call.span, escape(short_name(name)), escape(contract), "", caller)
            elif _is_wanted(row, wanted):
                error = ", ".join(row.grpc_errors)
                yield Shown(call.span, row_text(row), escape(contract), error, caller)


def _is_wanted(row: Row, wanted: Wanted) -> bool:
    return wanted.call_pattern in ("", row.call_pattern or UNKNOWN) and wanted.key_pattern in ("", row.key_pattern)


def _row(name: str, call: Call, patterns: KeyPatterns, ancestors: Ancestors, outcomes: Outcomes) -> Row | None:
    method = next((method for method in GRPC_METHODS if method.name == name and method.call_patterns), None)
    if method is None:
        return None
    rows, _ = classify(method, [call], patterns, ancestors, outcomes)
    return rows[0]


def row_text(row: Row) -> str:
    """Return the row as `row_wanted` reads it, and its args: KV/Range List /registry/events/ (limit,rangeEnd)."""
    parts = [short_name(row.grpc_method), row.call_pattern or UNKNOWN, shorten(row.key_pattern, 300)]
    return " ".join([*filter(None, parts), f"({','.join(row.args)})"])


def caller_text(caller: Caller) -> str:
    """Return who made a call for which request, and in which e2e test."""
    return origin_text(caller) + (f" [{caller.test}]" if caller.test else "")
