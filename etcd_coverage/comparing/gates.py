"""Comparison x gates -> what fails, and what is known and excused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.comparing import compare, origin_gates
from etcd_coverage.comparing.compare import COVERED, MISSING, NEW, ComparedRow, Coverage
from etcd_coverage.comparing.origin_gates import NewCaller
from etcd_coverage.judging.usage import Row, Shape
from etcd_coverage.reference import GRPC_METHODS, GRPC_PREFIX, short_name
from etcd_coverage.text import counted, escape, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from etcd_coverage.comparing.compare import Comparison
    from etcd_coverage.comparing.known_gaps import KnownGap
    from etcd_coverage.judging.usage import Usage


class Gates(Struct, frozen=True, kw_only=True):
    """What is demanded of a comparison. Percentages are of the reference's calls; None demands nothing.

    Rows with fewer than ``min_calls`` calls are left out, and so are those of other methods than ``methods`` (full
    names; empty: all), and rows seen in fewer than ``min_runs`` of the runs that the reference was merged of.
    ``min_contract`` is demanded of each dump by itself: a percentage of its own calls with rows, whatever ``min_calls``
    is.
    """

    min_coverage: float | None = None
    min_shape_coverage: float | None = None
    fail_on_new: bool = False
    fail_on_missing: bool = False
    fail_on_new_caller: bool = False
    min_contract: float | None = None
    min_calls: int = 1
    min_runs: int = 1
    methods: tuple[str, ...] = ()

    @property
    def are_set(self) -> bool:
        """Whether anything is demanded."""
        return self != Gates(min_calls=self.min_calls, min_runs=self.min_runs, methods=self.methods)

    @property
    def need_a_reference(self) -> bool:
        """Whether anything is demanded, or left out, that takes a comparison."""
        alone = self.min_contract is not None
        return self != Gates(min_contract=self.min_contract, methods=self.methods if alone else ())


class Outcome(Struct, frozen=True, kw_only=True):
    """What the gates found on one dump, by itself or compared.

    ``failures`` has a line for each gate that fails. What it failed for is listed in ``missing_rows``,
    ``missing_shapes``, ``new_rows``, ``new_callers`` and ``outside`` (rows with calls outside the interface), the
    heaviest first. ``excused`` are missing rows of known gaps, ``left_out`` those of too few calls, ``volatile`` those
    of too few runs. ``below`` has the coverage that is too low, by the name of the option.
    """

    failures: list[str] = []
    below: dict[str, Coverage] = {}
    missing_rows: list[ComparedRow] = []
    missing_shapes: dict[Shape, int] = {}
    new_rows: list[ComparedRow] = []
    new_callers: list[NewCaller] = []
    outside: list[Row] = []
    excused: list[ComparedRow] = []
    left_out: list[ComparedRow] = []
    volatile: list[ComparedRow] = []


_NOTHING = "nothing to judge here: check --reference, --gate-methods, --min-calls and --min-runs"


def hold(subject: str, comparison: Comparison, gates: Gates, gaps: Sequence[KnownGap] = ()) -> Outcome:
    """Hold the comparison of the subject of that name to the gates: return what fails, and what is excused."""
    rows = _of_methods(comparison, gates)
    seldom = [row for row in rows if row.calls < gates.min_calls]
    volatile = [row for row in rows if _is_volatile(row, gates) and row.calls >= gates.min_calls]
    judged = [row for row in rows if row.calls >= gates.min_calls and not _is_volatile(row, gates)]
    demanded = [row for row in judged if row.status != NEW]
    missing = _heaviest_first(row for row in demanded if row.status == MISSING)
    excused: list[ComparedRow] = []
    unexcused: list[ComparedRow] = []
    for row in missing:
        (excused if any(gap.covers(row, subject) for gap in gaps) else unexcused).append(row)
    new = _heaviest_first(row for row in judged if row.status == NEW)

    failures = []
    listed = []
    shapes: dict[Shape, int] = {}
    below = {}
    rows_covered, shapes_covered = compare.row_coverage(demanded), compare.shape_coverage(demanded, rows)
    if gates.min_coverage is not None and (text := _below(rows_covered, gates.min_coverage, "rows")):
        failures.append(f"--min-coverage={gates.min_coverage:g}: {text}")
        below["--min-coverage"] = rows_covered
        listed = missing
    minimum = gates.min_shape_coverage
    if minimum is not None and (text := _below(shapes_covered, minimum, "call shapes")):
        failures.append(f"--min-shape-coverage={minimum:g}: {text}")
        below["--min-shape-coverage"] = shapes_covered
        shapes = compare.missing_shapes(demanded, rows)
    if gates.fail_on_missing and not demanded:
        failures.append(f"--fail-on-missing: the reference has {_NOTHING}")
    if gates.fail_on_missing and unexcused:
        failures.append(f"--fail-on-missing: {_count(unexcused)} of the reference not seen")
        listed = listed or unexcused
    if gates.fail_on_new and all(row.status == MISSING for row in judged):
        failures.append(f"--fail-on-new: {escape(subject)} has {_NOTHING}")
    if gates.fail_on_new and new:
        failures.append(f"--fail-on-new: {_count(new)} that the reference does not have")
    return Outcome(
        failures=failures,
        below=below,
        missing_rows=listed,
        missing_shapes=shapes,
        new_rows=new if gates.fail_on_new else [],
        excused=excused,
        left_out=seldom,
        volatile=volatile,
    )


def _is_volatile(row: ComparedRow, gates: Gates) -> bool:
    return row.status != NEW and row.reference_runs < gates.min_runs


def hold_origins(
    name: str, subject: Usage, gates: Gates, comparison: Comparison | None = None, reference: Usage | None = None
) -> Outcome:
    """Hold the usage of that name to the gates on who calls, and how: by itself, and as it compares with a reference.

    Returns what `hold` does not look at.
    """
    failures = []
    below = {}
    outside: list[Row] = []
    minimum = gates.min_contract
    if minimum is not None:
        through = origin_gates.contract(subject, gates.methods)
        if text := _below_contract(name, through, minimum):
            failures.append(f"--min-contract={minimum:g}: {text}")
            below["--min-contract"] = through
            outside = origin_gates.outside(subject, gates.methods)
    new: list[NewCaller] = []
    if gates.fail_on_new_caller and comparison is not None and reference is not None:
        rows = _of_methods(comparison, gates)
        judged = [
            row
            for row in rows
            if row.calls >= gates.min_calls and not _is_volatile(row, gates) and row.status == COVERED
        ]
        new, problems = origin_gates.new_callers(judged, reference, subject, name, gates.min_calls)
        if not judged:
            problems = [f"{escape(name)} has {_NOTHING}"]
        failures += [f"--fail-on-new-caller: {problem}" for problem in problems]
        if new:
            calls = counted(sum(one.calls for one in new), "call")
            failures.append(
                f"--fail-on-new-caller: {counted(len(new), 'caller')} ({calls}) of a row that the reference does not "
                "have for it"
            )
    return Outcome(failures=failures, below=below, outside=outside, new_callers=new)


def _of_methods(comparison: Comparison, gates: Gates) -> list[ComparedRow]:
    return [row for row in comparison.rows if not gates.methods or row.grpc_method in gates.methods]


def doubts(methods: Iterable[str], subject: Usage) -> list[str]:
    """Return why the subject may have called the gRPC methods in more ways than its dump shows."""
    quality = subject.quality
    found = []
    if quality.is_clipped():
        found.append(f"exactly {quality.traces:,} traces, so the download was probably cut")
    if quality.calls_without_parent:
        found.append(f"{quality.calls_without_parent} calls without parent")
    for method in sorted(set(methods)):
        recorded = sum(row.calls for row in subject.rows if row.grpc_method == method)
        if lost := subject.calls.get(method, 0) - recorded:
            found.append(f"{lost} {short_name(method)} spans without call")
    return found


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
    return _number(text, "calls")


def number_of_runs(text: str) -> int:
    """Return the number, 1 or more; `ValueError` says what is wrong."""
    return _number(text, "runs")


def _number(text: str, of: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
        raise ValueError(f"{escape(text)!r} is not a number of {of}, 1 or more")
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


def _below(coverage: Coverage, demanded: float, what: str) -> str:
    """Return how the coverage falls short; empty if it does not. No rounding: 99.999% is not 100%."""
    if not coverage.reference:
        return f"the reference has {_NOTHING}"
    numbers = f"{coverage.covered} of {coverage.reference} {what}, "
    return _short_of(coverage, demanded, "the reference's calls are covered", numbers)


def _below_contract(name: str, coverage: Coverage, demanded: float) -> str:
    """Return how the share of the calls through the contract falls short; empty if it does not."""
    if not coverage.reference_calls:
        return f"{escape(name)} has nothing to judge here: check --gate-methods"
    return _short_of(coverage, demanded, "the calls are below a contract event")


def _short_of(coverage: Coverage, demanded: float, what: str, numbers: str = "") -> str:
    if coverage.percent_of_calls >= demanded:
        return ""
    calls = f"{coverage.covered_calls} of {coverage.reference_calls} calls"
    return f"{_shown_below(coverage, demanded)} of {what} ({numbers}{calls})"


def _shown_below(coverage: Coverage, demanded: float) -> str:
    """Return the percentage that is below what is demanded, with as many digits as it takes to read that it is."""
    shown = percent(coverage.covered_calls, coverage.reference_calls)
    digits = 2
    # Nor does it read as nothing, if it is not.
    while float(shown.rstrip("%")) >= demanded or (coverage.covered_calls and not float(shown.rstrip("%"))):
        digits += 1
        shown = f"{coverage.percent_of_calls:.{digits}f}%"
    return shown


def _count(rows: Sequence[ComparedRow]) -> str:
    calls = sum(row.calls for row in rows)
    return f"{counted(len(rows), 'row')} ({counted(calls, 'call')})"


def _heaviest_first(rows: Iterable[ComparedRow]) -> list[ComparedRow]:
    return sorted(rows, key=lambda row: (-row.reference_calls, -row.subject_calls))
