"""Reference usage x subject usage -> which rows are covered, missing or new."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from etcd_coverage.reference import GRPC_METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.judging.usage import Example, Row, Usage

COVERED: Literal["covered"] = "covered"
MISSING: Literal["missing"] = "missing"
NEW: Literal["new"] = "new"

Shape = tuple[str, str, tuple[str, ...]]
"""gRPC method, call pattern and set args: how a call looks, whatever its key."""


def shape_text(shape: Shape) -> str:
    """Return call pattern and set args: List(limit,rangeEnd)."""
    _, call_pattern, args = shape
    return f"{call_pattern or 'unknown'}({','.join(args)})"


class ComparedRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of either usage, with the calls in both.

    ``status`` is "covered" if both have it, "missing" if the reference alone has it, "new" if it is not in the
    reference. Without a call pattern or with an unknown key, a subject's row is always new.
    """

    grpc_method: str
    call_pattern: str
    key_pattern: str
    args: tuple[str, ...]
    reference_calls: int
    subject_calls: int
    status: Literal["covered", "missing", "new"]
    known_key: bool = True

    @property
    def shape(self) -> Shape:
        """The row without its key pattern."""
        return self.grpc_method, self.call_pattern, self.args


class Share(Struct, frozen=True, kw_only=True):
    """How many of the reference's rows or shapes are covered, and the percentage of its calls that they stand for.

    The percentage is not rounded; see `percent_text`.
    """

    covered: int
    reference: int
    percent_of_calls: float


class Comparison(Struct, frozen=True, kw_only=True):
    """How a subject covers the reference: each row of both, and the shares of call shapes and of rows.

    ``rows`` are by gRPC method, in each the missing, then the covered, then the new ones, the heaviest first.
    """

    rows: list[ComparedRow]
    shapes: Share
    key_patterns: Share


class Coverage(Struct, frozen=True, kw_only=True):
    """Covered and all, exactly: numbers of rows or shapes, and the reference calls that they stand for."""

    covered: int
    reference: int
    covered_calls: int
    reference_calls: int

    @property
    def share(self) -> Share:
        """The numbers as they are told."""
        percent = 100 * self.covered_calls / self.reference_calls if self.reference_calls else 0.0
        return Share(covered=self.covered, reference=self.reference, percent_of_calls=percent)


def compare(reference: Usage, subject: Usage) -> Comparison:
    """Return what of the reference's known rows the subject has, and what it has besides."""
    demanded = _calls(row for row in reference.rows if is_known(row))
    seen = _calls(row for row in subject.rows if is_known(row))
    unknown = _calls(row for row in subject.rows if not is_known(row))
    rows = [
        _compared(key, calls, seen.get(key, 0), COVERED if key in seen else MISSING) for key, calls in demanded.items()
    ]
    rows += [_compared(key, 0, calls, NEW) for key, calls in seen.items() if key not in demanded]
    rows += [_compared(key, 0, calls, NEW) for key, calls in unknown.items()]
    rows.sort(key=_order)
    of_reference = [row for row in rows if row.status != NEW]
    return Comparison(
        rows=rows,
        shapes=shape_coverage(of_reference, rows).share,
        key_patterns=row_coverage(of_reference).share,
    )


def is_known(row: Row) -> bool:
    """Tell whether the row has a call pattern and a known key pattern, so that it can be demanded of others."""
    return bool(row.call_pattern) and row.known_key


def row_coverage(demanded: Iterable[ComparedRow]) -> Coverage:
    """Return how many of the reference's rows are covered."""
    rows = list(demanded)
    covered = [row for row in rows if row.status == COVERED]
    return Coverage(
        covered=len(covered),
        reference=len(rows),
        covered_calls=sum(row.reference_calls for row in covered),
        reference_calls=sum(row.reference_calls for row in rows),
    )


def shape_coverage(demanded: Iterable[ComparedRow], rows: Iterable[ComparedRow]) -> Coverage:
    """Return how many call shapes of the reference's rows ``demanded`` are found among ``rows``, with whatever key."""
    shapes = _shapes(demanded)
    missing = _unseen(shapes, rows)
    calls = sum(shapes.values())
    return Coverage(
        covered=len(shapes) - len(missing),
        reference=len(shapes),
        covered_calls=calls - sum(missing.values()),
        reference_calls=calls,
    )


def missing_shapes(demanded: Iterable[ComparedRow], rows: Iterable[ComparedRow]) -> dict[Shape, int]:
    """Return the reference's calls of each call shape that the subject lacks, the heaviest first."""
    missing = _unseen(_shapes(demanded), rows)
    return dict(sorted(missing.items(), key=lambda item: (-item[1], item[0])))


def left_out(usage: Usage) -> list[Row]:
    """Return the rows that a reference cannot demand: those without call pattern or with an unknown key."""
    return [row for row in usage.rows if not is_known(row)]


def example_of(row: ComparedRow, usage: Usage) -> Example | None:
    """Return the ids of a call of the row in the usage; None if it has none, or if it was not saved."""
    key = (row.grpc_method, row.call_pattern, row.key_pattern, row.args, row.known_key)
    return next((one.example for one in usage.rows if _key(one) == key), None)


def percent_text(percent: float) -> str:
    """Return the percentage with two decimals, cut and not rounded: what is shown was reached.

    100.00% is all of it, 0.00% nothing.
    """
    if percent in (0, 100):
        return f"{percent:.2f}%"
    # Rounded to more digits first, since 0.29 * 100 is a little less than 29.
    cut = math.floor(round(percent * 100, 6)) / 100
    return f"{min(max(cut, 0.01), 99.99):.2f}%"


_Key = tuple[str, str, str, tuple[str, ...], bool]

_METHOD_ORDER = {method.name: number for number, method in enumerate(GRPC_METHODS)}
_STATUS_ORDER = {MISSING: 0, COVERED: 1, NEW: 2}


def _key(row: Row) -> _Key:
    return row.grpc_method, row.call_pattern, row.key_pattern, row.args, row.known_key


def _calls(rows: Iterable[Row]) -> Counter[_Key]:
    found: Counter[_Key] = Counter()
    for row in rows:
        found[_key(row)] += row.calls
    return found


def _shapes(rows: Iterable[ComparedRow]) -> Counter[Shape]:
    found: Counter[Shape] = Counter()
    for row in rows:
        found[row.shape] += row.reference_calls
    return found


def _unseen(shapes: dict[Shape, int], rows: Iterable[ComparedRow]) -> dict[Shape, int]:
    seen = {row.shape for row in rows if row.subject_calls}
    return {shape: calls for shape, calls in shapes.items() if shape not in seen}


def _compared(
    key: _Key, reference_calls: int, subject_calls: int, status: Literal["covered", "missing", "new"]
) -> ComparedRow:
    method, call_pattern, key_pattern, args, known_key = key
    return ComparedRow(
        grpc_method=method,
        call_pattern=call_pattern,
        key_pattern=key_pattern,
        args=args,
        reference_calls=reference_calls,
        subject_calls=subject_calls,
        status=status,
        known_key=known_key,
    )


def _order(row: ComparedRow) -> tuple[object, ...]:
    return (
        _METHOD_ORDER.get(row.grpc_method, len(_METHOD_ORDER)),
        row.grpc_method,
        _STATUS_ORDER[row.status],
        -row.reference_calls,
        -row.subject_calls,
        row.key_pattern,
        row.call_pattern,
        row.args,
        not row.known_key,
    )
