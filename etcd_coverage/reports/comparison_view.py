"""Comparisons -> every number, sum, share and order that reports show of one, and what they leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.comparing import compare
from etcd_coverage.comparing.compare import COVERED, NEW, ComparedRow
from etcd_coverage.reports.figures import Share
from etcd_coverage.reports.view import by_method, split_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from etcd_coverage.comparing.compare import Comparison, Coverage
    from etcd_coverage.judging.usage import Shape


class ComparedLine(Struct, frozen=True):
    """A row of either usage, its calls as shares of the gRPC method's in each."""

    row: ComparedRow
    reference: Share
    subject: Share


class ComparedLeftOut(Struct, frozen=True):
    """How many rows are not shown, new ones with unknown keys, and their calls in each usage."""

    number: int
    reference: Share
    subject: Share


class ComparedTable(Struct, frozen=True):
    """The rows of a gRPC method in the order of the comparison: missing, covered, new.

    The totals count what is left out too; ``covered`` of ``demanded`` rows of the reference are covered.
    """

    grpc_method: str
    lines: list[ComparedLine]
    left_out: ComparedLeftOut | None
    reference: Share
    subject: Share
    covered: int
    demanded: int


def compared_tables(comparison: Comparison) -> list[ComparedTable]:
    """Return the table of each gRPC method that either usage has rows of, in the order of the comparison."""
    return [_compared_table(method, rows) for method, rows in by_method(comparison.rows)]


def _compared_table(method: str, rows: Sequence[ComparedRow]) -> ComparedTable:
    reference = sum(row.reference_calls for row in rows)
    subject = sum(row.subject_calls for row in rows)
    shown, rest = split_rows(rows)
    return ComparedTable(
        grpc_method=method,
        lines=[
            ComparedLine(row, Share(row.reference_calls, reference), Share(row.subject_calls, subject)) for row in shown
        ],
        left_out=ComparedLeftOut(
            len(rest),
            Share(sum(row.reference_calls for row in rest), reference),
            Share(sum(row.subject_calls for row in rest), subject),
        )
        if rest
        else None,
        reference=Share(reference, reference),
        subject=Share(subject, subject),
        covered=sum(row.status == COVERED for row in rows),
        demanded=sum(row.status != NEW for row in rows),
    )


def missing_shapes(comparison: Comparison) -> list[tuple[Shape, Share]]:
    """Return each call shape that the subject lacks with its share of all of the reference's calls, heaviest first."""
    total = sum(row.reference_calls for row in comparison.rows)
    missing = compare.missing_shapes(comparison.rows, comparison.rows)
    return [(shape, Share(calls, total)) for shape, calls in missing.items()]


def coverage_share(coverage: Coverage) -> Share:
    """Return the reference's calls that are covered, as a share of all of them."""
    return Share(coverage.covered_calls, coverage.reference_calls)


def number_share(coverage: Coverage) -> Share:
    """Return the call shapes or rows that are covered, as a share of all of the reference's, whatever their calls."""
    return Share(coverage.covered, coverage.reference)


def coverage_text(coverage: Coverage) -> str:
    """Return how much is covered: "13 of 16, 98.21% of the reference's calls"."""
    return f"{coverage.covered} of {coverage.reference}, {coverage_share(coverage).percent} of the reference's calls"
