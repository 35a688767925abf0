"""Comparison x gates -> what fails, and what is known and excused."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from etcd_coverage import compare
from etcd_coverage.compare import MISSING, NEW, ComparedRow, Shape
from etcd_coverage.maps import GRPC_PREFIX, JAEGER_DEFAULT_TRACES
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.text import escape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from etcd_coverage.compare import Comparison, Coverage
    from etcd_coverage.usage import Usage

KNOWN_GAPS = "known_gaps.toml"


class Gates(Struct, frozen=True, kw_only=True):
    """What is demanded of a comparison. Percentages are of the reference's calls; None demands nothing.

    Rows with fewer than ``min_calls`` calls are left out, and so are those of other methods than ``methods`` (full
    names; empty: all).
    """

    min_coverage: float | None = None
    min_shape_coverage: float | None = None
    fail_on_new: bool = False
    fail_on_missing: bool = False
    min_calls: int = 1
    methods: tuple[str, ...] = ()

    @property
    def are_set(self) -> bool:
        """Whether anything is demanded."""
        return self != Gates(min_calls=self.min_calls, methods=self.methods)


class KnownGap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of the reference that a subject is known to lack.

    ``shape`` is a call pattern with its set args, such as ``List(limit,rangeEnd)``; ``key_patterns`` narrows it to
    those, ``subject`` to dumps whose name fits (``*`` and ``?`` as in a shell; several may be given as a list).
    """

    method: str
    shape: str
    reason: str
    link: str
    key_patterns: tuple[str, ...] = ()
    subject: str | tuple[str, ...] = "*"

    def covers(self, row: ComparedRow, subject: str) -> bool:
        """Tell whether the row is one of the gap's, where ``subject`` lacks it."""
        return (
            row.status == MISSING
            and short_name(row.grpc_method) == self.method
            and shape_text(row.shape) == self.shape
            and (not self.key_patterns or row.key_pattern in self.key_patterns)
            and self.is_about(subject)
        )

    def is_about(self, subject: str) -> bool:
        """Tell whether the dump's name fits."""
        patterns = (self.subject,) if isinstance(self.subject, str) else self.subject
        return any(fnmatch.fnmatchcase(subject, pattern) for pattern in patterns)


class GapsError(Exception):
    """Why a file of known gaps cannot be used, in one line."""


class _Gaps(Struct, frozen=True, forbid_unknown_fields=True):
    gap: list[KnownGap] = []


class Outcome(Struct, frozen=True, kw_only=True):
    """What the gates found on one comparison.

    ``failures`` has a line for each gate that fails. What it failed for is listed in ``missing_rows``,
    ``missing_shapes`` and ``new_rows``, the heaviest first. ``excused`` are missing rows of known gaps, ``left_out``
    those that were seen too seldom.
    """

    failures: list[str] = []
    missing_rows: list[ComparedRow] = []
    missing_shapes: dict[Shape, int] = {}
    new_rows: list[ComparedRow] = []
    excused: list[ComparedRow] = []
    left_out: list[ComparedRow] = []


def _calls(row: ComparedRow) -> int:
    return row.reference_calls or row.subject_calls


def judge(subject: str, comparison: Comparison, gates: Gates, gaps: Sequence[KnownGap] = ()) -> Outcome:
    """Return everything that the gates find in the comparison of the subject of that name."""
    rows = [row for row in comparison.rows if not gates.methods or row.grpc_method in gates.methods]
    seldom = [row for row in rows if _calls(row) < gates.min_calls]
    counted = [row for row in rows if _calls(row) >= gates.min_calls]
    demanded = [row for row in counted if row.status != NEW]
    missing = _heaviest_first(row for row in demanded if row.status == MISSING)
    excused: list[ComparedRow] = []
    unexcused: list[ComparedRow] = []
    for row in missing:
        (excused if any(gap.covers(row, subject) for gap in gaps) else unexcused).append(row)
    new = _heaviest_first(row for row in counted if row.status == NEW)

    failures = []
    listed = []
    shapes: dict[Shape, int] = {}
    if gates.min_coverage is not None and (text := _below(compare.row_coverage(demanded), gates.min_coverage, "rows")):
        failures.append(f"--min-coverage={gates.min_coverage:g}: {text}")
        listed = missing
    if gates.min_shape_coverage is not None:
        coverage = compare.shape_coverage(demanded, rows)
        if text := _below(coverage, gates.min_shape_coverage, "call shapes"):
            failures.append(f"--min-shape-coverage={gates.min_shape_coverage:g}: {text}")
            shapes = compare.missing_shapes(demanded, rows)
    if gates.fail_on_missing and unexcused:
        failures.append(f"--fail-on-missing: {_count(unexcused)} of the reference not seen")
        listed = listed or unexcused
    if gates.fail_on_new and new:
        failures.append(f"--fail-on-new: {_count(new)} that the reference does not have")
    return Outcome(
        failures=failures,
        missing_rows=listed,
        missing_shapes=shapes,
        new_rows=new if gates.fail_on_new else [],
        excused=excused,
        left_out=seldom,
    )


def doubts(methods: Iterable[str], subject: Usage) -> list[str]:
    """Return why the subject may have called the gRPC methods in more ways than its dump shows."""
    quality = subject.quality
    found = []
    if quality.traces == JAEGER_DEFAULT_TRACES:
        found.append(f"exactly {JAEGER_DEFAULT_TRACES} traces, so the download was probably cut")
    if quality.calls_without_parent:
        found.append(f"{quality.calls_without_parent} calls without parent")
    for method in sorted(set(methods)):
        recorded = sum(row.calls for row in subject.rows if row.grpc_method == method)
        if lost := subject.calls.get(method, 0) - recorded:
            found.append(f"{lost} {short_name(method)} spans without call")
    return found


# --- options --------------------------------------------------------------------------------------------------------


def percentage(text: str) -> float:
    """Return the number from 0 to 100; `ValueError` says what is wrong."""
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 100:
        raise ValueError(f"{escape(text)!r} is not a percentage from 0 to 100")
    return number


def number_of_calls(text: str) -> int:
    """Return the number, 1 or more; `ValueError` says what is wrong."""
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
        raise ValueError(f"{escape(text)!r} is not a number of calls, 1 or more")
    return int(text)


def method_names(text: str) -> tuple[str, ...]:
    """Return the full names of gRPC methods written as KV/Txn,KV/Range; `ValueError` names the one that is unknown."""
    known = [method.name for method in GRPC_METHODS if method.call_patterns]
    found = []
    for part in text.split(","):
        name = GRPC_PREFIX + part.strip().removeprefix(GRPC_PREFIX)
        if name not in known:
            choices = ", ".join(map(short_name, known))
            raise ValueError(f"{escape(part.strip())!r} is no method with call patterns: {choices}")
        found.append(name)
    return tuple(dict.fromkeys(found))


# --- known gaps -----------------------------------------------------------------------------------------------------


def read_gaps(path: Path) -> list[KnownGap]:
    """Return the known gaps in the file; `GapsError` says which entry is wrong and how."""
    # Imported here: most runs have no gaps to read.
    import tomllib

    try:
        gaps = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), type=_Gaps).gap
    except OSError as error:
        raise GapsError(f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise GapsError("is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise GapsError(f"is not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise GapsError(f"has an entry that is none: {escape(str(error))}; see docs/coverage.md") from None
    shapes = {method.name: [pattern.name for pattern in method.call_patterns] for method in GRPC_METHODS}
    args = {method.name: [arg.name for arg in method.args] for method in GRPC_METHODS}
    for number, gap in enumerate(gaps, 1):
        where = f"[[gap]] number {number}"
        name = GRPC_PREFIX + gap.method
        parts = _SHAPE.fullmatch(gap.shape)
        if name not in shapes:
            raise GapsError(f"{where}: no method {gap.method!r}, but {', '.join(map(short_name, shapes))}")
        if parts is None or parts[1] not in shapes[name]:
            raise GapsError(f"{where}: {gap.method} has no call pattern as in {gap.shape!r}: {', '.join(shapes[name])}")
        named = parts[2].split(",") if parts[2] else []
        if wrong := [arg for arg in named if arg not in args[name]]:
            raise GapsError(f"{where}: {gap.method} has no arg {wrong[0]!r}, but {', '.join(sorted(args[name]))}")
        if named != (ordered := [arg for arg in args[name] if arg in named]):
            raise GapsError(f"{where}: write the args of {gap.shape!r} as {parts[1]}({','.join(ordered)})")
        if not gap.reason.strip() or not gap.link.startswith(("https://", "http://")):
            raise GapsError(f"{where}: a reason and a link (https://...) are needed")
    return gaps


def unused(gaps: Iterable[KnownGap], comparisons: Mapping[str, Comparison], subjects: Collection[str]) -> Iterator[str]:
    """Yield each gap, or each of its key patterns, that matches nothing any more.

    ``comparisons`` are those of this run, ``subjects`` the names of all dumps that could have been compared: a gap is
    only told of when every dump that it is about was, with a reference that calls its method.
    """
    for gap in gaps:
        about = [subject for subject in subjects if gap.is_about(subject)]
        if not about or any(subject not in comparisons for subject in about):
            continue
        compared = [row for subject in about for row in comparisons[subject].rows]
        if not any(row.status != NEW and short_name(row.grpc_method) == gap.method for row in compared):
            continue  # the reference is of a release that does not call the method
        rows = [row for subject in about for row in comparisons[subject].rows if gap.covers(row, subject)]
        if not rows:
            yield f"{gap.method} {gap.shape}"
            continue
        lacking = {row.key_pattern for row in rows}
        for key_pattern in gap.key_patterns:
            if key_pattern not in lacking:
                yield f"{gap.method} {gap.shape} {key_pattern}"


_SHAPE = re.compile(r"(\w+)\(([\w,]*)\)")


# --- text -----------------------------------------------------------------------------------------------------------


def short_name(method: str) -> str:
    """Return the gRPC method without its package: KV/Range."""
    return method.removeprefix(GRPC_PREFIX)


def shape_text(shape: Shape) -> str:
    """Return call pattern and set args: List(limit,rangeEnd)."""
    _, call_pattern, args = shape
    return f"{call_pattern or 'unknown'}({','.join(args)})"


def _below(coverage: Coverage, demanded: float, what: str) -> str:
    """Return how the coverage falls short; empty if it does not. No rounding: 99.999% is not 100%."""
    if not coverage.reference:
        return "the reference has nothing to cover here: check --reference, --gate-methods and --min-calls"
    if 100 * coverage.covered_calls >= demanded * coverage.reference_calls:
        return ""
    share = coverage.share
    return (
        f"{compare.percent_text(share.percent_of_calls)} of the reference's calls are covered "
        f"({share.covered} of {share.reference} {what}, {coverage.covered_calls} of {coverage.reference_calls} calls)"
    )


def _count(rows: Sequence[ComparedRow]) -> str:
    calls = sum(row.reference_calls or row.subject_calls for row in rows)
    return f"{len(rows)} row{'s' * (len(rows) != 1)} ({calls} calls)"


def _heaviest_first(rows: Iterable[ComparedRow]) -> list[ComparedRow]:
    return sorted(rows, key=lambda row: (-row.reference_calls, -row.subject_calls))
