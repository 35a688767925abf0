"""Findings as they are shown: alike ones grouped where they are many, the heaviest first, the rest counted."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.judging.finding_kinds import NEW_CALL_PATTERN, NEW_KEY_PATTERN, NEXT_STEPS, UNEXPECTED_METHOD
from etcd_coverage.judging.origin_counts import merged_origins
from etcd_coverage.judging.usage import Finding, Origin
from etcd_coverage.reference import short_name
from etcd_coverage.reports.figures import MOST_SHOWN, Trace, key_text, message_text, trace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class FindingLine(Struct, frozen=True):
    """One finding, or several of a kind that look alike: ``findings`` says how many, ``calls`` how many they cover.

    ``origins`` made these calls, the heaviest first; ``first`` is the finding that ``trace`` is the example of.
    """

    id: str
    grpc_method: str
    message: str
    findings: int
    calls: int
    trace: Trace | None
    origins: list[Origin]
    first: Finding


class FindingsLeftOut(Struct, frozen=True):
    """Findings of a kind that are not shown."""

    id: str
    findings: int
    calls: int

    @property
    def text(self) -> str:
        """How many they are, and where they are."""
        return f"... and {self.findings} more of {self.id} (calls: {self.calls}): --usage-json PATH saves every finding"


class Findings(Struct, frozen=True):
    """The findings to show, those that are not, and what to do about each kind (id and text)."""

    lines: list[FindingLine]
    left_out: list[FindingsLeftOut]
    next_steps: list[tuple[str, str]]


def grouped(findings: Sequence[Finding], jaeger_url: str = "") -> Findings:
    """Return the findings by kind and gRPC method, in the order in which these come first.

    Up to `MOST_SHOWN` of a kind stand for themselves. Of more, those are one line whose keys have the same first
    segment and as many segments, and the heaviest lines are shown.
    """
    kinds: defaultdict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        kinds[finding.id, "" if finding.id == UNEXPECTED_METHOD else finding.grpc_method].append(finding)
    lines: list[FindingLine] = []
    left_out = []
    for (identifier, _), of_kind in kinds.items():
        if len(of_kind) <= MOST_SHOWN:
            groups = [[finding] for finding in of_kind]
        else:
            groups = sorted(_alike(of_kind), key=lambda group: -_calls(group))
        lines += [_line(group, jaeger_url) for group in groups[:MOST_SHOWN]]
        if rest := [finding for group in groups[MOST_SHOWN:] for finding in group]:
            left_out.append(FindingsLeftOut(key_text(identifier), len(rest), _calls(rest)))
    steps = [
        (key_text(identifier), NEXT_STEPS.get(identifier, ""))
        for identifier in dict.fromkeys(identifier for identifier, _ in kinds)
    ]
    return Findings(lines, left_out, steps)


_KEY_IN_MESSAGE = {
    NEW_KEY_PATTERN: re.compile(r"(.*?detected: )(.*)()", re.DOTALL),
    NEW_CALL_PATTERN: re.compile(r"(.*?\(key=)(.*?)((?:,\w+=(?:true|false|text))*\))", re.DOTALL),
}


def _parts(finding: Finding) -> tuple[str, str, str]:
    """Return what stands before the key or method that the finding is about, itself, and what stands after it."""
    if finding.id == UNEXPECTED_METHOD:
        return "unexpected calls to methods: ", finding.grpc_method, ""
    pattern = _KEY_IN_MESSAGE.get(finding.id)
    found = pattern.fullmatch(finding.message) if pattern else None
    return (found[1], found[2], found[3]) if found else (finding.message, "", "")


def _alike(findings: Iterable[Finding]) -> list[list[Finding]]:
    groups: defaultdict[tuple[str, str, str, int], list[Finding]] = defaultdict(list)
    for finding in findings:
        before, key, after = _parts(finding)
        segments = key.split("/")
        first = "/".join(segments[: 1 + key.startswith("/")])
        groups[before, first, after, len(segments)].append(finding)
    return list(groups.values())


def _line(group: Sequence[Finding], jaeger_url: str) -> FindingLine:
    first = group[0]
    methods = {finding.grpc_method for finding in group}
    return FindingLine(
        id=key_text(first.id),
        grpc_method=key_text(short_name(first.grpc_method)) if len(methods) == 1 else "",
        message=message_text(first.message if len(group) == 1 else _common(group)),
        findings=len(group),
        calls=_calls(group),
        trace=trace_of(first.example, jaeger_url),
        origins=merged_origins(finding.origins for finding in group),
        first=first,
    )


def _common(group: Sequence[Finding]) -> str:
    """Return the message of several findings: segments that differ are stars."""
    before, _, after = _parts(group[0])
    columns = zip(*(_parts(finding)[1].split("/") for finding in group), strict=True)
    key = "/".join(column[0] if len(set(column)) == 1 else "*" for column in columns)
    what = "methods" if group[0].id == UNEXPECTED_METHOD else "keys"
    return f"{before}{key}{after} ({len(group)} {what})"


def _calls(findings: Iterable[Finding]) -> int:
    return sum(finding.count for finding in findings)
