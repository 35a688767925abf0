"""Usages of several releases -> which rows each has, what came and went, and what moved."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from etcd_coverage.comparing.moves import Move, RowKey, key_of, moves
from etcd_coverage.comparing.saved import usage_of
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging.usage import Count, Text, Usage
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.releases import release_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from etcd_coverage.comparing.saved import Source

SELDOM = 5
"""A row that never had this many calls may be there by chance: its coming and going is no change of a release."""


class Column(Struct, frozen=True, kw_only=True):
    """A usage in the history: its label, the Kubernetes release it is of ("" if its name says none), its calls."""

    label: Text
    release: Text
    calls: Count


class HistoryRow(Struct, frozen=True, kw_only=True):
    """A row, its calls in each column, and what became of it.

    ``new_in`` and ``gone_since`` are labels of columns, "" if it was there at the start and is at the end.
    ``is_volatile`` if it came or went without being a change: it is seldom (`SELDOM`), comes and goes, or only some
    runs of one release have it.
    """

    grpc_method: Text
    call_pattern: Text
    key_pattern: Text
    args: tuple[Text, ...]
    calls: list[Count]
    new_in: Text = ""
    gone_since: Text = ""
    is_volatile: bool = False


class Moved(Struct, frozen=True, kw_only=True):
    """What moved from the column before to the one of that label."""

    label: Text
    move: Move


class History(Struct, frozen=True, kw_only=True):
    """How rows came and went: columns from the oldest release on, rows in table order, moves in order."""

    format: Literal[1] = 1
    columns: list[Column]
    rows: list[HistoryRow]
    moves: list[Moved]

    def changed(self, label: str) -> tuple[list[HistoryRow], list[HistoryRow]]:
        """Return the rows that are new in the column of that label, and those gone since: without what moved."""
        moved = [one.move for one in self.moves if one.label == label]
        came = set[RowKey]().union(*(move.came for move in moved))
        left = set[RowKey]().union(*(move.left for move in moved))
        return (
            [row for row in self.rows if row.new_in == label and _key(row) not in came],
            [row for row in self.rows if row.gone_since == label and _key(row) not in left],
        )


def read(sources: Iterable[Source]) -> dict[str, Usage]:
    """Return the usages of the sources by name; raise `DumpError`, a whole line, if one cannot be judged."""
    found = {}
    for source in sources:
        name = name_of(source)
        found[name] = usage_of(source, release_of(name))
        if found[name].error is not None:
            raise DumpError(f"--history: {found[name].error}")
    return found


def name_of(source: Source) -> str:
    """Return the name of the source's dump: of a saved usage, the one that it was saved under."""
    if source.is_saved and not source.entry:
        try:
            return next(iter(source.opened.usages))
        except DumpError:
            pass
    return source.entry or source.name


def history(usages: Mapping[str, Usage]) -> History:
    """Return the history of the usages, by name; those that could not be judged must not be among them."""
    names = sorted(usages, key=lambda name: (_numbers(release_of(name)), name))
    releases = [release_of(name) for name in names]
    labels = [
        release if release and releases.count(release) == 1 else name
        for name, release in zip(names, releases, strict=True)
    ]
    in_order = [usages[name] for name in names]
    moved = [
        Moved(label=label, move=move)
        for label, earlier, later in zip(labels[1:], in_order, in_order[1:], strict=False)
        for move in moves(earlier, later)
    ]
    calls: dict[RowKey, list[int]] = {}
    for column, usage in enumerate(in_order):
        for row in usage.rows:
            if row.known_key:
                calls.setdefault(key_of(row), [0] * len(names))[column] += row.calls
    came = {(one.label, key) for one in moved for key in one.move.came}
    left = {(one.label, key) for one in moved for key in one.move.left}
    return History(
        columns=[
            Column(label=label, release=release, calls=sum(row.calls for row in usage.rows))
            for label, release, usage in zip(labels, releases, in_order, strict=True)
        ],
        rows=[_row(key, calls[key], labels, releases, came, left) for key in sorted(calls, key=_order)],
        moves=moved,
    )


def _row(
    key: RowKey,
    calls: list[int],
    labels: Sequence[str],
    releases: Sequence[str],
    came: set[tuple[str, RowKey]],
    left: set[tuple[str, RowKey]],
) -> HistoryRow:
    there = [column for column, number in enumerate(calls) if number]
    first, last = there[0], there[-1]
    comes_and_goes = len(there) != last - first + 1
    is_seldom = max(calls) < SELDOM

    def changes(column: int, moved: set[tuple[str, RowKey]]) -> bool:
        if (labels[column], key) in moved:
            return True
        same_release = releases[column] != "" and releases[column] == releases[column - 1]
        return not (is_seldom or comes_and_goes or same_release)

    new = first > 0 and changes(first, came)
    gone = last + 1 < len(calls) and changes(last + 1, left)
    return HistoryRow(
        grpc_method=key[0],
        call_pattern=key[1],
        key_pattern=key[2],
        args=key[3],
        calls=calls,
        new_in=labels[first] if new else "",
        gone_since=labels[last + 1] if gone else "",
        is_volatile=comes_and_goes or (first > 0 and not new) or (last + 1 < len(calls) and not gone),
    )


def _key(row: HistoryRow) -> RowKey:
    return row.grpc_method, row.call_pattern, row.key_pattern, row.args


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release))


_METHODS = {method.name: number for number, method in enumerate(GRPC_METHODS)}


def _order(key: RowKey) -> tuple[object, ...]:
    return _METHODS.get(key[0], len(_METHODS)), key[0], key[2], key[1], key[3]
