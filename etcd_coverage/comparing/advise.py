"""Failed gates -> what to do where the change is wanted."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from etcd_coverage.comparing import saved
from etcd_coverage.comparing.known_gaps import KNOWN_GAPS
from etcd_coverage.text import counted

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from etcd_coverage.comparing.gates import Gates, Outcome
    from etcd_coverage.comparing.saved import Source
    from etcd_coverage.judging.usage import Usage

OF_EACH_DUMP = ("--min-contract",)
"""The gates that hold a dump by itself: another reference would not meet them."""


def imitates(subject: Usage, reference: Usage) -> bool:
    """Return whether the subject is no dump of Kubernetes, as the reference is: it has no traces of an apiserver."""
    return reference.quality.apiserver_traces > 0 and not subject.quality.apiserver_traces


def to_accept(name: str, subject: Usage, reference: Source, command: Sequence[str]) -> list[str]:
    """Return how the usage of the subject of that name becomes the new reference, a line each.

    The command in there saves it, and its exit code is 0 if it did. That is the reference's own file if a usage of
    that name was saved there. Beside one of another name both would stay, so it gets a file of its own. ``command``
    judges the subject alone.
    """
    if subject.findings:
        findings = counted(len(subject.findings), "finding")
        return [f"to accept the change, see to the {findings} of {name} first: what nobody expects is no reference"]
    path = reference.path
    if reference.is_saved and name in reference.opened.usages:
        return [f"to accept the change: {shlex.join([*command, f'--usage-json={path}'])}"]
    folder = path.parent if reference.is_saved else Path("usage")
    stem = re.sub(r"(\.json)?(\.gz)?$", "", name.rpartition(saved.SEPARATOR)[2])
    path = (folder if folder.is_dir() else Path()) / f"{stem}.json"
    return [
        f"to accept the change: {shlex.join([*command, f'--usage-json={path}'])}",
        f"and compare with it from then on: --reference={shlex.quote(str(path))}",
    ]


def to_accept_imitation(name: str, gates: Gates, outcome: Outcome) -> list[str]:
    """Return what makes sense where the subject imitates the reference, a line each.

    Its usage is never the new reference: it would be compared with itself.
    """
    lines = []
    if outcome.missing_rows and gates.fail_on_missing:
        lines.append(f"    for missing rows, add a [[gap]] to {KNOWN_GAPS}")
    lines += [f"    {line}" for line in to_reach(outcome)]
    if outcome.new_rows:
        lines.append("    for new rows, do without --fail-on-new, or leave out those of few calls with --min-calls")
    if outcome.new_callers:
        lines.append(
            "    for new callers, do without --fail-on-new-caller, or leave out those of few calls with --min-calls"
        )
    if lines:
        lines.insert(0, f"to accept the change ({name} has no traces of an apiserver, so it is no reference itself):")
    return lines


def to_reach(outcome: Outcome, options: Container[str] | None = None) -> list[str]:
    """Return the limits that the dump reaches, in a line if there are any: of these options, or of all."""
    # Down to two decimals, so that the limit is one that was reached.
    limits = [
        f"{option}={math.floor(100 * coverage.percent_of_calls) / 100:g}"
        for option, coverage in outcome.below.items()
        if coverage.reference and (options is None or option in options)
    ]
    return [f"set a limit that it reaches: {' '.join(limits)}"] if limits else []


def compared(outcome: Outcome) -> bool:
    """Return whether a gate failed that another reference would meet."""
    return any(failure.partition("=")[0] not in OF_EACH_DUMP for failure in outcome.failures)
