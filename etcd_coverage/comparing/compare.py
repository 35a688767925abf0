"""Reference usage x subject usage -> which rows are covered, missing or new."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from etcd_coverage.judging.usage import Count, Positive, Text
from etcd_coverage.reference import GRPC_METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.judging.usage import Example, Row, Shape, Usage

COVERED: Literal["covered"] = "covered"
MISSING: Literal["missing"] = "missing"
NEW: Literal["new"] = "new"


def shape_text(shape: Shape) -> str:
    """Return call pattern and set args: List(limit,rangeEnd)."""
    _, call_pattern, args = shape
    return f"{call_pattern or 'unknown'}({','.join(args)})"


class ComparedRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of either usage, with the calls in both.

    ``status`` is "covered" if both have it, "missing" if the reference alone has it, "new" if it is not in the
    reference. Without a call pattern or with an unknown key, a subject's row is always new. ``reference_runs`` is in
    how many of the reference's runs, if that was merged, the row was seen.
    """

    grpc_method: Text
    call_pattern: Text
    key_pattern: Text
    args: tuple[Text, ...]
    reference_calls: Count
    subject_calls: Count
    status: Literal["covered", "missing", "new"]
    known_key: bool = True
    reference_runs: Positive = 1

    @property
    def shape(self) -> Shape:
        """The row without its key pattern."""
        return self.grpc_method, self.call_pattern, self.args

    @property
    def calls(self) -> int:
        """The calls in the reference if the row is in there, else the subject's."""
        return self.reference_calls or self.subject_calls


class Coverage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many of the reference's rows or call shapes are covered, and of how many of its calls.

    ``percent_of_calls`` is 100 x ``covered_calls`` / ``reference_calls``, 0 where the reference has none, and not
    rounded; `etcd_coverage.text.percent` of the two numbers is how it is shown.
    """

    covered: Count
    reference: Count
    percent_of_calls: Annotated[float, Meta(ge=0, le=100)]
    # Files saved by earlier versions have no numbers of calls.
    covered_calls: Count = 0
    reference_calls: Count = 0


class Comparison(
    Struct, frozen=True, kw_only=True, rename={"shape_coverage": "shapes", "row_coverage": "key_patterns"}
):
    """How a subject covers the reference: each row of both, and how many call shapes and rows are covered.

    ``rows`` are by gRPC method, in each the missing, then the covered, then the new ones, the heaviest first. The
    fields are renamed to what format 1 calls them: docs/usage-format.md.
    """

    rows: list[ComparedRow]
    shape_coverage: Coverage
    row_coverage: Coverage


def compare(reference: Usage, subject: Usage) -> Comparison:
    """Return what of the reference's known rows the subject has, and what it has besides."""
    demanded = _calls(row for row in reference.rows if is_known(row))
    seen = _calls(row for row in subject.rows if is_known(row))
    unknown = _calls(row for row in subject.rows if not is_known(row))
    runs = {_key(row): row.runs for row in reference.rows}
    rows = [
        _compared(key, calls, seen.get(key, 0), COVERED if key in seen else MISSING, runs[key])
        for key, calls in demanded.items()
    ]
    rows += [_compared(key, 0, calls, NEW) for key, calls in seen.items() if key not in demanded]
    rows += [_compared(key, 0, calls, NEW) for key, calls in unknown.items()]
    rows.sort(key=_order)
    of_reference = [row for row in rows if row.status != NEW]
    return Comparison(
        rows=rows,
        shape_coverage=shape_coverage(of_reference, rows),
        row_coverage=row_coverage(of_reference),
    )


def is_same_dump(reference: Usage, subject: Usage) -> bool:
    """Return whether both are usages of one dump: their rows have the same examples."""
    examples = [{row.example for row in usage.rows if row.example is not None} for usage in (reference, subject)]
    return examples[0] == examples[1] != set()


def is_known(row: Row) -> bool:
    """Return whether the row has a call pattern and a known key pattern, so that it can be demanded of others."""
    return bool(row.call_pattern) and row.known_key


def row_coverage(demanded: Iterable[ComparedRow]) -> Coverage:
    """Return how many of the reference's rows are covered."""
    rows = list(demanded)
    covered = [row for row in rows if row.status == COVERED]
    return _coverage(
        len(covered),
        len(rows),
        sum(row.reference_calls for row in covered),
        sum(row.reference_calls for row in rows),
    )


def shape_coverage(demanded: Iterable[ComparedRow], rows: Iterable[ComparedRow]) -> Coverage:
    """Return how many call shapes of the reference's rows ``demanded`` are found among ``rows``, with whatever key."""
    shapes = _shapes(demanded)
    missing = _unseen(shapes, rows)
    calls = sum(shapes.values())
    return _coverage(len(shapes) - len(missing), len(shapes), calls - sum(missing.values()), calls)


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
    return next((of_usage.example for of_usage in usage.rows if _key(of_usage) == key), None)


def _coverage(covered: int, reference: int, covered_calls: int, reference_calls: int) -> Coverage:
    return Coverage(
        covered=covered,
        reference=reference,
        percent_of_calls=100 * covered_calls / reference_calls if reference_calls else 0.0,
        covered_calls=covered_calls,
        reference_calls=reference_calls,
    )


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
    key: _Key,
    reference_calls: int,
    subject_calls: int,
    status: Literal["covered", "missing", "new"],
    reference_runs: int = 1,
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
        reference_runs=reference_runs,
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
