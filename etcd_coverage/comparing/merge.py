"""Usages of several runs -> one usage: counts added up, and for each row in how many of the runs it was seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, TypeVar

import msgspec

from etcd_coverage.comparing.compare import is_same_dump
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging import findings as judged
from etcd_coverage.judging.finding_kinds import (
    CALL_NOT_RECORDED,
    METHOD_NOT_CALLED,
    QUALITY_IDS,
    UNEXPECTED_METHOD,
)
from etcd_coverage.judging.origin_counts import errors, merged_origins
from etcd_coverage.judging.usage import (
    Finding,
    Lease,
    OtherOrigins,
    OtherTests,
    Quality,
    Row,
    SpanCount,
    TestCalls,
    Usage,
    runs_of,
)
from etcd_coverage.reference import GRPC_METHODS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

_Value = TypeVar("_Value")
_Key = TypeVar("_Key", bound="Hashable")


def merge(usages: Sequence[Usage]) -> Usage:
    """Return the usage of all these runs together; one that was merged itself counts as the runs it is of.

    Examples are those of the first run that has the row, lease or finding. Origins and tests that a saved usage does
    not name stay unnamed: how many these are is then an upper bound. Raises `DumpError`, which says what is wrong with
    which of them, counted from 1, for a usage that has an error, is of a clipped dump, or is there twice.
    """
    for number, usage in enumerate(usages, 1):
        if usage.error is not None:
            raise DumpError(f"usage {number} was not judged: {usage.error}")
        if usage.quality.is_clipped():
            raise DumpError(f"usage {number} is of a clipped dump: {usage.quality.clipped_text()}")
        for earlier, other in enumerate(usages[: number - 1], 1):
            if is_same_dump(other, usage):
                raise DumpError(f"usages {earlier} and {number} are of the same dump, whose calls would count twice")
    calls: Counter[str] = Counter()
    for usage in usages:
        calls.update(usage.calls)
    rows = _grouped(((row.shape, row.key_pattern, row.known_key), row) for usage in usages for row in usage.rows)
    by_pattern = _grouped((lease.key_pattern, lease) for usage in usages for lease in usage.leases)
    return Usage(
        calls=dict(sorted(calls.items())),
        rows=sorted(map(_row, rows), key=_order),
        leases=[_lease(same) for same in sorted(by_pattern, key=lambda same: same[0].key_pattern)],
        findings=_findings(usages),
        quality=_quality([usage.quality for usage in usages]),
        runs=sum(runs_of(usage) for usage in usages),
    )


def _grouped(items: Iterable[tuple[_Key, _Value]]) -> list[list[_Value]]:
    found: defaultdict[_Key, list[_Value]] = defaultdict(list)
    for key, value in items:
        found[key].append(value)
    return list(found.values())


def _row(same: Sequence[Row]) -> Row:
    failed = [row.failed for row in same if row.failed is not None]
    unnamed = [row.other_origins for row in same if row.other_origins is not None]
    unnamed_tests = [row.other_tests for row in same if row.other_tests is not None]
    return msgspec.structs.replace(
        same[0],
        calls=sum(row.calls for row in same),
        contract_calls=sum(row.contract_calls for row in same),
        example=_first(row.example for row in same),
        # Of a row that one run did not count failures of, the sum is not known.
        failed=sum(failed) if len(failed) == len(same) else None,
        grpc_errors=_added(row.grpc_errors for row in same),
        api_errors=_added(row.api_errors for row in same),
        origins=merged_origins(row.origins for row in same),
        other_origins=_other_origins(unnamed),
        tests=[
            TestCalls(test=test, calls=calls)
            for test, calls in _added({one.test: one.calls for one in row.tests} for row in same).items()
        ],
        other_tests=OtherTests(
            tests=sum(one.tests for one in unnamed_tests), calls=sum(one.calls for one in unnamed_tests)
        )
        if unnamed_tests
        else None,
        runs=sum(row.runs for row in same),
    )


def _lease(same: Sequence[Lease]) -> Lease:
    return Lease(
        key_pattern=same[0].key_pattern,
        uses=sum(lease.uses for lease in same),
        ttl_seconds=sum(lease.ttl_seconds for lease in same),
        calls=sum(lease.calls for lease in same),
    )


def _findings(usages: Sequence[Usage]) -> list[Finding]:
    """Return the findings of all runs as those of one: a method that one of them called was called.

    Those on data quality are left out: they are made anew from the sums.
    """
    found = []
    for same in _grouped(
        (_identity(finding), finding) for usage in usages for finding in usage.findings if finding.id not in QUALITY_IDS
    ):
        first = same[0]
        called_in = sum(first.grpc_method in usage.calls for usage in usages)
        if first.id == METHOD_NOT_CALLED and called_in:
            continue
        if first.id == CALL_NOT_RECORDED and called_in > len(same):
            continue
        found.append(_finding(same))
    return found


def _identity(finding: Finding) -> tuple[str, str, str]:
    counts = finding.id in (UNEXPECTED_METHOD, CALL_NOT_RECORDED)
    return finding.id, finding.grpc_method, "" if counts else finding.message


def _finding(same: Sequence[Finding]) -> Finding:
    first = same[0]
    count = sum(finding.count for finding in same)
    message = first.message
    if first.id == UNEXPECTED_METHOD:
        message = judged.unexpected_text(first.grpc_method, count)
    elif first.id == CALL_NOT_RECORDED:
        message = judged.not_recorded_text(first.grpc_method, count)
    return msgspec.structs.replace(
        first,
        message=message,
        count=count,
        example=_first(finding.example for finding in same),
        origins=merged_origins(finding.origins for finding in same),
        other_origins=_other_origins([one.other_origins for one in same if one.other_origins is not None]),
    )


def _quality(parts: Sequence[Quality]) -> Quality:
    """Return the sums; texts and spans are the first ones, and lists are put together."""
    merged: dict[str, object] = {}
    for field in Quality.__struct_fields__:
        values = [getattr(part, field) for part in parts]
        given = [value for value in values if value]
        if not given:
            merged[field] = values[0]
        elif isinstance(given[0], SpanCount):
            merged[field] = _span_count(given)
        elif isinstance(given[0], int):
            merged[field] = sum(given)
        elif isinstance(given[0], list):
            merged[field] = [one for value in given for one in value]
        elif isinstance(given[0], dict):
            by_name = _grouped(item for value in given for item in value.items())
            names = dict.fromkeys(name for value in given for name in value)
            merged[field] = dict(sorted(zip(names, map(_span_count, by_name), strict=True)))
        else:
            merged[field] = given[0]
    merged["traces_limit"] = None  # of one download
    return Quality(**merged)  # type: ignore[arg-type]


def _span_count(counts: Sequence[SpanCount]) -> SpanCount:
    return SpanCount(sum(one.count for one in counts), counts[0].example)


def _other_origins(unnamed: Sequence[OtherOrigins]) -> OtherOrigins | None:
    if not unnamed:
        return None
    return OtherOrigins(
        origins=sum(one.origins for one in unnamed),
        calls=sum(one.calls for one in unnamed),
        contract_calls=sum(one.contract_calls for one in unnamed),
    )


def _added(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return errors(total)


def _first(values: Iterable[_Value | None]) -> _Value | None:
    return next((value for value in values if value is not None), None)


_METHODS = {method.name: (number, [arg.name for arg in method.args]) for number, method in enumerate(GRPC_METHODS)}


def _order(row: Row) -> tuple[object, ...]:
    """Order rows as the tables of one run do; those of methods that the reference no longer has come last."""
    number, columns = _METHODS.get(row.grpc_method, (len(_METHODS), list(row.args)))
    marks = "".join("X" if name in row.args else " " for name in columns)
    return number, row.grpc_method, row.key_pattern, row.call_pattern, marks, row.known_key
