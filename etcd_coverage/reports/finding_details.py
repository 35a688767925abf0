"""A finding -> who made its calls, what its example looks like, how to see it, and the row that would expect it."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from etcd_coverage.judging.finding_kinds import REFERENCE
from etcd_coverage.judging.origins import origin_text
from etcd_coverage.judging.reference_rows import row_to_paste
from etcd_coverage.reports.figures import key_text
from etcd_coverage.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from etcd_coverage.judging.usage import Example, Origin, OtherOrigins
    from etcd_coverage.reports.grouped_findings import FindingLine

ORIGINS = 3
"""How many origins of a finding are named."""

DETAILED = 3
"""How many findings of a failure are shown with everything; the others with who made the calls, and an example."""

SHOW = "python -m etcd_coverage.show"


def details(line: FindingLine, place: str, dump: str, rows: set[str], *, whole: bool) -> Iterator[str]:
    """Yield what there is to know of a finding, without indentation.

    ``place`` says where its example is, ``dump`` where the dump is, empty if that is not known. ``rows`` are the rows
    to paste so far, without their examples: none is shown twice. Only ``whole``
    details have attributes, command and row.
    """
    calls = counted(line.calls, "call")
    if line.origins:
        yield f"{calls}, from {origins_text(line.origins, line.first.other_origins)}"
        yield f"for example {place}"
    else:
        yield f"{calls}, for example {place}"
    if not whole:
        return
    where, row = row_to_paste(line.first)
    if line.first.attributes:
        yield f"its attributes: {printable(line.first.attributes)}"
    if dump and line.first.example and (command := show_command(dump, line.first.example)):
        yield f"see it: {command}"
    # Rows that differ in their example alone expect the same.
    expected, _, _ = row.partition("example=")
    if row and expected not in rows:
        rows.add(expected)
        yield f"to expect it, add to {where} in {REFERENCE}:"
        yield from (f"    {part}" for part in row.splitlines())


def origins_text(origins: Sequence[Origin], others: OtherOrigins | None) -> str:
    """Return the heaviest origins with their calls, and how many more there are."""
    named = [f"{key_text(origin_text(origin))} ({origin.calls})" for origin in origins[:ORIGINS]]
    more = len(origins[ORIGINS:]) + (others.origins if others else 0)
    return ", ".join(named) + (f", ... and {more} more" if more else "")


def show_command(dump: str, example: Example) -> str:
    """Return the command that shows a span, to be copied; empty if the dump has ids that were not kept as they are."""
    if not all(re.fullmatch(r"[\w+/=-]{1,80}", text, re.ASCII) for text in (example.trace_id, example.span_id)):
        return ""
    if not dump.isprintable():
        return ""
    return f"{SHOW} {shlex.quote(dump)} --trace={example.trace_id} --span={example.span_id}"
