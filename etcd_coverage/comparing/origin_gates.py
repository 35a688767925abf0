"""Usages x gates -> calls outside the interface, and callers of a row that the reference does not have for it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.comparing.compare import COVERED, ComparedRow, Coverage, is_known
from etcd_coverage.judging.origins import caller_name
from etcd_coverage.judging.usage import Shape
from etcd_coverage.text import counted, escape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.judging.usage import Row, Usage

SAVE_AGAIN = "save it again from its dump with --usage-json and --origins=all"


class NewCaller(Struct, frozen=True):
    """A component and role, COMPONENT/ROLE, that the reference does not have for the row, and its calls of it."""

    row: ComparedRow
    name: str
    calls: int


def contract(usage: Usage, methods: tuple[str, ...]) -> Coverage:
    """Return how many of the calls with rows are below a contract event, as ``covered_calls`` of ``reference_calls``.

    ``methods`` are full names of gRPC methods, empty for all. The other fields count the rows that have such calls.
    """
    rows = _of(usage, methods)
    calls, below = sum(row.calls for row in rows), sum(row.contract_calls for row in rows)
    return Coverage(
        covered=sum(row.contract_calls > 0 for row in rows),
        reference=len(rows),
        percent_of_calls=100 * below / calls if calls else 0.0,
        covered_calls=below,
        reference_calls=calls,
    )


def outside(usage: Usage, methods: tuple[str, ...]) -> list[Row]:
    """Return the rows with calls outside the interface, those with the most of these first."""
    rows = [row for row in _of(usage, methods) if row.contract_calls < row.calls]
    return sorted(rows, key=lambda row: row.contract_calls - row.calls)


def new_callers(
    rows: Iterable[ComparedRow], reference: Usage, subject: Usage, name: str, min_calls: int
) -> tuple[list[NewCaller], list[str]]:
    """Return the new callers of the covered ones of these rows, the heaviest first, and why others are not known.

    ``name`` is the subject's. Callers with fewer than ``min_calls`` calls of a row are left out. What was saved with
    the heaviest origins alone does not name them all: a caller that may be one of those left out is not new.
    """
    of_reference, of_subject = _callers(reference), _callers(subject)
    covered = [row for row in rows if row.status == COVERED]
    problems = []
    for who, callers in (("the reference", of_reference), (escape(name), of_subject)):
        if any(not callers[_key(row)].calls for row in covered):
            problems.append(f"{who} has no origins: {SAVE_AGAIN}")
    if problems:
        return [], problems
    found = []
    undecided: Counter[str] = Counter()
    for row in covered:
        before, now = of_reference[_key(row)], of_subject[_key(row)]
        new = {
            caller: calls for caller, calls in now.calls.items() if caller not in before.calls and calls >= min_calls
        }
        if before.others:
            undecided["the reference"] += bool(new)
        else:
            found += [NewCaller(row, caller, calls) for caller, calls in new.items()]
        # What is not named may be several calls of one caller.
        undecided[escape(name)] += now.others >= min_calls
    problems = [
        f"{counted(count, 'row')} cannot be judged, of which {who} names the heaviest origins alone: {SAVE_AGAIN}"
        for who, count in undecided.items()
        if count
    ]
    return sorted(found, key=lambda one: (-one.calls, one.name)), problems


class _Callers:
    """The calls of a row by caller, and those whose caller is not named."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.others = 0


_Key = tuple[Shape, str]


def _key(row: Row | ComparedRow) -> _Key:
    return row.shape, row.key_pattern


def _callers(usage: Usage) -> dict[_Key, _Callers]:
    found: dict[_Key, _Callers] = defaultdict(_Callers)
    for row in filter(is_known, usage.rows):
        callers = found[_key(row)]
        for origin in row.origins:
            callers.calls[caller_name(origin)] += origin.calls
        callers.others += max(row.calls - sum(origin.calls for origin in row.origins), 0)
    return found


def _of(usage: Usage, methods: tuple[str, ...]) -> list[Row]:
    return [row for row in usage.rows if not methods or row.grpc_method in methods]
