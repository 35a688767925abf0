"""Data quality x limits -> what makes a dump's numbers wrong, as findings of their own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from etcd_coverage.judging.finding_kinds import (
    CLIPPED_DUMP,
    DOUBLED_SERVERS,
    DROPPED_ATTRIBUTES,
    LEFT_OUT_METHOD,
    LOST_CALLS,
    ORPHAN_CALLS,
    OTHER_PREFIX,
    OVERWRITTEN_SERVERS,
    QUALITY_IDS,
    TEXT_ARGUMENT,
)
from etcd_coverage.judging.usage import Finding, SpanCount, Usage
from etcd_coverage.key_pattern import PREFIX, key_pattern
from etcd_coverage.reference import SPECIAL_KEYS, SPECIAL_RESOURCES
from etcd_coverage.text import counted, percent, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from etcd_coverage.judging.usage import Row


class Limits(Struct, frozen=True, kw_only=True):
    """What of a dump may be lost, in percent.

    ``max_lost_calls`` of a gRPC method's server spans may lack their call; ``max_orphan_calls`` of all calls their
    server span (None: 0.1 where the dump has spans of the apiserver, else 1: an etcd that is killed, as robustness
    tests do, loses more); ``max_left_out`` of all server spans may be of unexpected methods in traces left out.
    """

    max_lost_calls: float = 1.0
    max_orphan_calls: float | None = None
    max_left_out: float = 0.1
    allow_clipped: bool = False
    allow_dropped: bool = False


def with_quality_findings(usage: Usage, limits: Limits) -> Usage:
    """Return the usage with the findings on data quality that these limits make, and no others of that kind."""
    if usage.error is not None:
        return usage
    others = [finding for finding in usage.findings if finding.id not in QUALITY_IDS]
    return replace(usage, findings=[*others, *quality_findings(usage, limits)])


def quality_findings(usage: Usage, limits: Limits) -> list[Finding]:
    """Return a finding for each way in which the dump is beyond the limits."""
    return [*_lost(usage, limits), *_faulty(usage, limits), *_other_prefix(usage)]


def _lost(usage: Usage, limits: Limits) -> Iterator[Finding]:
    quality = usage.quality
    for method, lost in quality.lost_calls.items():
        called = usage.calls.get(method, lost.count)
        if _exceeds(lost.count, called, limits.max_lost_calls):
            times = counted(called, "time")
            what = f'"{method}" method was called {times}, {lost.count} of them without a recorded call'
            yield _finding(LOST_CALLS, what + _share(lost.count, called, limits.max_lost_calls), lost, method)
    servers = sum(usage.calls.values())
    orphans = quality.calls_without_parent
    most = limits.max_orphan_calls
    if most is None:
        most = 0.1 if quality.apiserver_traces else 1.0
    if _exceeds(orphans, servers + orphans, most):
        what = f"{counted(orphans, 'call')} without server span, so of an unknown gRPC method"
        share = _share(orphans, servers + orphans, most)
        yield Finding(id=ORPHAN_CALLS, grpc_method="", message=what + share, count=orphans, example=quality.orphan)
    left_out = sum(found.count for found in quality.skipped_unexpected.values())
    if _exceeds(left_out, servers + quality.skipped_grpc_spans, limits.max_left_out):
        for method, found in quality.skipped_unexpected.items():
            what = f"{counted(found.count, 'call')} to method {method} in traces without spans of the apiserver"
            share = _share(left_out, servers + quality.skipped_grpc_spans, limits.max_left_out)
            yield _finding(LEFT_OUT_METHOD, what + share, found, method)


def _faulty(usage: Usage, limits: Limits) -> Iterator[Finding]:
    quality = usage.quality
    if quality.is_clipped() and not limits.allow_clipped:
        yield Finding(id=CLIPPED_DUMP, grpc_method="", message=quality.clipped_text(), count=quality.traces)
    if (dropped := quality.dropped_attributes) and not limits.allow_dropped:
        what = f"{counted(dropped.count, 'call or server span')} lost attributes to a limit (droppedAttributesCount)"
        yield _finding(DROPPED_ATTRIBUTES, what, dropped)
    for name, texts in quality.text_arguments.items():
        what = f"{name} is a text where a number or bool is due, in {counted(texts.count, 'call')}"
        yield _finding(TEXT_ARGUMENT, what, texts)
    if overwritten := quality.overwritten_servers:
        what = f"{counted(overwritten.count, 'server span')} replaced by a span of another kind with the same ids"
        yield _finding(OVERWRITTEN_SERVERS, f"{what}, as Zipkin's shared ids do: calls are lost", overwritten)
    if doubled := quality.doubled_servers:
        what = f"{counted(doubled.count, 'server span')} with one of the same method right below: calls count twice"
        yield _finding(DOUBLED_SERVERS, what, doubled)


def _other_prefix(usage: Usage) -> Iterator[Finding]:
    """Find the prefix in place of /registry that gives most of the calls a known key."""
    keyed = sum(row.calls for row in usage.rows if row.key_pattern)
    unknown = [row for row in usage.rows if not row.known_key]
    known: Counter[str] = Counter()
    for row in unknown:
        for prefix, rest in _cuts(row.key_pattern):
            if key_pattern(f"{PREFIX}/{rest}", SPECIAL_KEYS, SPECIAL_RESOURCES):
                known[prefix] += row.calls
    calls = max(known.values(), default=0)
    if 2 * calls > keyed:
        prefixes = _likely([prefix for prefix in known if known[prefix] == calls], unknown)
        shown = [shorten(prefix, 80) or "/" for prefix in prefixes]
        what = f"most keys ({calls} of {counted(keyed, 'call')}) are under {shown[0]}"
        message = f"{what}: the apiserver runs with {' or '.join(f'--etcd-prefix={one}' for one in shown)}"
        example = next(row.example for row in unknown if row.key_pattern.startswith(f"{prefixes[0]}/"))
        yield Finding(id=OTHER_PREFIX, grpc_method="", message=message, count=calls, example=example)


def _likely(prefixes: list[str], rows: list[Row]) -> list[str]:
    """Return the prefix that an apiserver runs with; all of them, the shortest first, where the keys leave it open.

    They do where all are of one resource, or short: /a/nodes/x is a key of nodes under /a, or of a under /.
    """
    keys = {row.key_pattern for row in rows}
    special = {key.key.removeprefix(PREFIX) for key in SPECIAL_KEYS if key.key.startswith(PREFIX)}
    with_special = [prefix for prefix in prefixes if any(f"{prefix}{key}" in keys for key in special)]
    usual = [prefix for prefix in prefixes if prefix.endswith(PREFIX)]
    return sorted(with_special or usual or prefixes, key=len)


def _cuts(key: str) -> Iterator[tuple[str, str]]:
    """Yield each short prefix that an apiserver may have put before the key, and the rest of the key."""
    segments = key.split("/")
    if segments[0]:
        return
    for depth in range(1, min(len(segments), _DEEPEST)):
        # Right at the root a segment with a dot would be an API group, but is more often a prefix: /kubernetes.io.
        if depth > 1 or "." not in segments[1]:
            yield "/".join(segments[:depth]), "/".join(segments[depth:])


_DEEPEST = 5
"""Up to how many segments, counting the empty one before the first slash, a prefix is looked for."""


def _finding(identifier: str, message: str, spans: SpanCount, method: str = "") -> Finding:
    return Finding(id=identifier, grpc_method=method, message=message, count=spans.count, example=spans.example)


def _exceeds(part: int, whole: int, limit: float) -> bool:
    return 100 * part > limit * whole


def _share(part: int, whole: int, limit: float) -> str:
    return f" ({percent(part, whole)}, allowed {limit:g}%)"
