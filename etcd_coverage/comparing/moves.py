"""Usage x later usage -> rows that went over to another gRPC method or other args, and are neither missing nor new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.judging.usage import Count, Text
from etcd_coverage.reference import GRPC_METHODS, short_name
from etcd_coverage.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.judging.usage import Row, Usage

RowKey = tuple[str, str, str, tuple[str, ...]]
"""gRPC method, call pattern, key pattern and set args of a row with a known key."""


class MovedRow(Struct, frozen=True, kw_only=True):
    """One row of the earlier usage, and the row of the later one that took its place: set args and calls of both."""

    key_pattern: Text
    args: tuple[Text, ...]
    to_args: tuple[Text, ...]
    calls: Count
    to_calls: Count


class Move(Struct, frozen=True, kw_only=True):
    """Rows that went from one gRPC method and call pattern to another, by key pattern."""

    grpc_method: Text
    call_pattern: Text
    to_method: Text
    to_call_pattern: Text
    rows: list[MovedRow]

    @property
    def left(self) -> set[RowKey]:
        """The rows of the earlier usage."""
        return {(self.grpc_method, self.call_pattern, row.key_pattern, row.args) for row in self.rows}

    @property
    def came(self) -> set[RowKey]:
        """The rows of the later usage."""
        return {(self.to_method, self.to_call_pattern, row.key_pattern, row.to_args) for row in self.rows}

    def text(self) -> str:
        """Return the move in a line: both names, the args that all rows lost or got, rows and calls."""
        names = [
            f"{short_name(method)} {pattern or 'unknown'}"
            for method, pattern in ((self.grpc_method, self.call_pattern), (self.to_method, self.to_call_pattern))
        ]
        lost = set.intersection(*(set(row.args) - set(row.to_args) for row in self.rows))
        got = set.intersection(*(set(row.to_args) - set(row.args) for row in self.rows))
        change = [f"{word} {', '.join(sorted(args))}" for word, args in (("without", lost), ("with", got)) if args]
        calls = [sum(row.calls for row in self.rows), sum(row.to_calls for row in self.rows)]
        return (
            f"{' -> '.join(names)}{''.join(f' {part}' for part in change)}: {counted(len(self.rows), 'row')} "
            f"({counted(calls[0], 'call')}, now {calls[1]})"
        )


def moves(earlier: Usage, later: Usage) -> list[Move]:
    """Return what of the earlier usage's rows is done in another way in the later one, in the order of the methods.

    A row that is gone and one that came are a move if they have the key pattern and a caller in common, and either the
    call pattern with another gRPC method, or the gRPC method with other args. Of several the one with the most alike
    args is taken, then the one of the same call pattern, then the heaviest; each row moves once.
    """
    before, after = _by_key(earlier.rows), _by_key(later.rows)
    gone = [row for key, row in before.items() if key not in after]
    came = [row for key, row in after.items() if key not in before]
    pairs = sorted(
        ((old, new) for old in gone for new in came if _is_move(old, new)),
        key=lambda pair: (
            len(set(pair[0].args) ^ set(pair[1].args)),
            pair[0].call_pattern != pair[1].call_pattern,
            -pair[0].calls,
            -pair[1].calls,
            *(key_of(row) for row in pair),
        ),
    )
    found: dict[tuple[str, str, str, str], list[MovedRow]] = {}
    used: set[RowKey] = set()
    for old, new in pairs:
        keys = {key_of(old), key_of(new)}
        if keys & used:
            continue
        used |= keys
        found.setdefault((old.grpc_method, old.call_pattern, new.grpc_method, new.call_pattern), []).append(
            MovedRow(key_pattern=old.key_pattern, args=old.args, to_args=new.args, calls=old.calls, to_calls=new.calls)
        )
    return [
        Move(
            grpc_method=old_method,
            call_pattern=old_pattern,
            to_method=new_method,
            to_call_pattern=new_pattern,
            rows=sorted(rows, key=lambda row: (row.key_pattern, row.args)),
        )
        for (old_method, old_pattern, new_method, new_pattern), rows in sorted(
            found.items(), key=lambda item: (_ORDER.get(item[0][0], len(_ORDER)), item[0])
        )
    ]


def key_of(row: Row) -> RowKey:
    """Return what makes the row the same in another usage."""
    return row.grpc_method, row.call_pattern, row.key_pattern, row.args


def _by_key(rows: Iterable[Row]) -> dict[RowKey, Row]:
    # Keys without a pattern are never the same from run to run.
    return {key_of(row): row for row in rows if row.known_key}


def _is_move(old: Row, new: Row) -> bool:
    if old.key_pattern != new.key_pattern or not _callers(old) & _callers(new):
        return False
    if old.grpc_method != new.grpc_method:
        return old.call_pattern == new.call_pattern != ""
    return old.args != new.args


def _callers(row: Row) -> set[tuple[str, str]]:
    """Return component and role of the row's origins; of those without a request, whose role is a span, the component.

    A usage of an early version names none: every row then has the caller that is not known.
    """
    return {(origin.component, origin.role if origin.verb else "") for origin in row.origins} or {("", "")}


_ORDER = {method.name: number for number, method in enumerate(GRPC_METHODS)}
