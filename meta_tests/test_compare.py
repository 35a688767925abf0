"""Comparison of usages: tiny ones by hand, and what real dumps have taught.

The rows of the real dumps are written down from the golden files, which hold what the Go original counted.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from etcd_coverage.comparing import gates, known_gaps, saved
from etcd_coverage.comparing.compare import (
    compare,
    example_of,
    left_out,
    missing_shapes,
    shape_coverage,
    shape_text,
)
from etcd_coverage.comparing.gates import Gates
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.usage import Example, Quality, Row, Usage
from etcd_coverage.reference import short_name
from etcd_coverage.releases import release_of
from meta_tests.builder import RANGE, RANGE_STREAM, TXN
from meta_tests.go_original import its_rows_alone

ROOT = Path(__file__).parents[1]
DUMPS = {
    "kubernetes-1.36": ROOT / "meta_tests" / "dumps" / "kubernetes-1.36.json.gz",
    "kubernetes-1.37": ROOT / "meta_tests" / "dumps" / "kubernetes-1.37.json.gz",
    "robustness": ROOT / "meta_tests" / "dumps" / "robustness.json.gz",
}
PODS = "/registry/{resource}/"
POD = "/registry/{resource}/{namespace}/{name}"
EXAMPLE = Example("trace", "span")


def row(calls: int, method: str = RANGE, call_pattern: str = "Get", key: str = POD, *args: str) -> Row:
    return Row(
        grpc_method=method, call_pattern=call_pattern, key_pattern=key, args=args,
        calls=calls, contract_calls=0, known_key=key != "key", example=EXAMPLE,
    )  # fmt: skip


def usage(*rows: Row) -> Usage:
    return Usage(calls={one.grpc_method: one.calls for one in rows}, rows=list(rows))


def compared(reference: Usage, subject: Usage) -> list[tuple[str, str, str, int, int, str]]:
    return [
        (one.call_pattern, one.key_pattern, ",".join(one.args), one.reference_calls, one.subject_calls, one.status)
        for one in compare(reference, subject).rows
    ]


def test_rows_are_missing_then_covered_then_new_the_heaviest_first() -> None:
    reference = usage(
        row(1, RANGE, "Get", POD, "limit"),
        row(5, RANGE, "List", PODS, "limit"),
        row(7, RANGE, "List", PODS, "rangeEnd"),
        row(9, RANGE, "List", PODS, "rev"),
    )
    subject = usage(
        row(2, TXN, "OptimisticPut"),
        row(3, RANGE, "Keys", PODS),
        row(4, RANGE, "List", PODS, "rev"),
        row(4, RANGE, "Count", PODS),
    )
    assert compared(reference, subject) == [
        ("List", PODS, "rangeEnd", 7, 0, "missing"),
        ("List", PODS, "limit", 5, 0, "missing"),
        ("Get", POD, "limit", 1, 0, "missing"),
        ("List", PODS, "rev", 9, 4, "covered"),
        ("Count", PODS, "", 0, 4, "new"),
        ("Keys", PODS, "", 0, 3, "new"),
        ("OptimisticPut", POD, "", 0, 2, "new"),
    ]


def test_shares_are_of_rows_and_shapes_and_of_the_calls_behind_them() -> None:
    reference = usage(row(60), row(20, RANGE, "Get", PODS), row(15, RANGE, "List", PODS), row(5, RANGE, "Count", PODS))
    found = compare(reference, usage(row(1), row(1, RANGE, "List", POD)))
    rows, shapes = found.row_coverage, found.shape_coverage
    assert (rows.covered, rows.reference, rows.percent_of_calls) == (1, 4, 60)
    # List is a shape of both, with another key.
    assert (shapes.covered, shapes.reference, shapes.percent_of_calls) == (2, 3, 95)


def test_unknown_rows_are_new_in_a_subject_and_not_demanded_of_one() -> None:
    unknown = [row(2, RANGE, "", PODS), row(3, RANGE, "Get", "key")]
    both = usage(row(1), *unknown)
    assert compared(both, both) == [
        ("Get", POD, "", 1, 1, "covered"),
        ("Get", "key", "", 0, 3, "new"),
        ("", PODS, "", 0, 2, "new"),
    ]
    assert left_out(both) == unknown
    found = compare(both, both)
    assert (found.row_coverage.reference, found.row_coverage.percent_of_calls) == (1, 100)


def test_row_of_a_method_that_the_tables_no_longer_have_can_be_missing() -> None:
    old = usage(row(1), row(2, "etcdserverpb.KV/Old", "Old", "anything"))
    assert compared(old, usage(row(1)))[-1] == ("Old", "anything", "", 2, 0, "missing")


def test_nothing_covers_nothing() -> None:
    found = compare(Usage(), usage(row(1)))
    assert (found.shape_coverage.reference, found.shape_coverage.percent_of_calls, len(found.rows)) == (0, 0, 1)
    assert compare(usage(row(1)), Usage()).shape_coverage.percent_of_calls == 0


def test_example_is_of_the_same_row() -> None:
    reference = usage(row(1), row(2, RANGE, "List", PODS))
    of_list, of_get = compare(reference, Usage()).rows
    assert example_of(of_list, reference) == EXAMPLE
    assert example_of(of_get, usage(row(2, RANGE, "List", PODS))) is None


MOVED_FROM_RANGE = """\
20 List(limit,rangeEnd) /registry/events/{namespace}/
8 List(limit,rangeEnd) /registry/{api-group}/{resource}/
5 List(rangeEnd) /registry/events/{namespace}/
5 List(limit,rangeEnd) /registry/{resource}/
4 List(limit,rangeEnd,rev) /registry/events/{namespace}/{name}
4 List(limit,rangeEnd,rev) /registry/{api-group}/{resource}/
3 List(rangeEnd) /registry/masterleases/
3 List(limit,rangeEnd,rev) /registry/services/{subresource}/
3 List(limit,rangeEnd,rev) /registry/{resource}/
2 List(limit,rangeEnd) /registry/events/
2 List(limit,rangeEnd) /registry/services/{subresource}/
1 List(limit,rangeEnd) /registry/{api-group}/{resource}/{namespace}/"""

MOVED_TO_RANGE_STREAM = """\
29 List(limit,rangeEnd) /registry/events/{namespace}/
9 List(rangeEnd) /registry/{api-group}/{resource}/
4 List(rangeEnd) /registry/events/{namespace}/
4 List(limit,rangeEnd,rev) /registry/{api-group}/{resource}/
4 List(limit,rangeEnd,rev) /registry/{resource}/
3 List(limit,rangeEnd,rev) /registry/events/{namespace}/{name}
3 List(rangeEnd) /registry/masterleases/
3 List(limit,rangeEnd,rev) /registry/services/{subresource}/
3 List(rangeEnd) /registry/{resource}/
2 List(limit,rangeEnd) /registry/events/
2 List(rangeEnd) /registry/services/{subresource}/
2 List(limit,rangeEnd) /registry/{api-group}/{resource}/{namespace}/"""

ROBUSTNESS_LACKS = """\
518 KV/Range Get(limit) /registry/events/{namespace}/{name}
253 KV/Txn OptimisticDelete(getOnFailure) /registry/events/{namespace}/{name}
249 KV/Txn OptimisticPut(lease) /registry/events/{namespace}/{name}
170 KV/Range Get(limit) /registry/{resource}/{name}
157 KV/Txn OptimisticDelete(getOnFailure) /registry/{resource}/{name}
29 KV/RangeStream List(limit,rangeEnd) /registry/events/{namespace}/
21 KV/Range Get(limit) /registry/{api-group}/{resource}/{name}
19 KV/Range Get(limit) /registry/{api-group}/{resource}
16 KV/Txn OptimisticDelete(getOnFailure) /registry/{api-group}/{resource}/{name}
13 Watch/Watch Watch(range_end,start_rev,prev_kv,progress_notify) /registry/{api-group}/{resource}/
12 KV/Txn OptimisticPut(getOnFailure,lease) /registry/events/{namespace}/{name}
9 KV/RangeStream List(rangeEnd) /registry/{api-group}/{resource}/
8 KV/Range Get(limit) /registry/services/{subresource}
8 KV/Range Get(limit) /registry/services/{subresource}/{namespace}/{name}
8 KV/Txn OptimisticPut() /registry/{api-group}/{resource}/{name}
7 KV/Txn OptimisticDelete(getOnFailure) /registry/{api-group}/{resource}/{namespace}/{name}
7 KV/Txn OptimisticPut(getOnFailure) /registry/{resource}/{name}
6 KV/Range Get(limit) /registry/{api-group}/{resource}/{namespace}/{name}
5 KV/Txn OptimisticPut(getOnFailure,lease) /registry/masterleases/{name}
5 KV/Txn OptimisticPut() /registry/{resource}/{name}
4 KV/RangeStream List(rangeEnd) /registry/events/{namespace}/
4 KV/RangeStream List(limit,rangeEnd,rev) /registry/{api-group}/{resource}/
4 KV/RangeStream List(limit,rangeEnd,rev) /registry/{resource}/
4 KV/Txn OptimisticDelete(getOnFailure) /registry/services/{subresource}/{namespace}/{name}
4 KV/Txn OptimisticPut() /registry/{api-group}/{resource}/{namespace}/{name}
4 KV/Txn OptimisticPut(getOnFailure) /registry/{api-group}/{resource}/{name}
4 KV/Txn OptimisticPut(getOnFailure,lease) /registry/{resource}/{name}
4 Watch/Watch Compaction(start_rev) compact_rev_key
3 KV/Range Compaction() compact_rev_key
3 KV/Range Count(rangeEnd,countOnly) /registry/events/
3 KV/Range Get(limit) /registry/masterleases/{name}
3 KV/Range Healthcheck() /registry/health
3 KV/RangeStream List(limit,rangeEnd,rev) /registry/events/{namespace}/{name}
3 KV/RangeStream List(rangeEnd) /registry/masterleases/
3 KV/RangeStream List(limit,rangeEnd,rev) /registry/services/{subresource}/
3 KV/RangeStream List(rangeEnd) /registry/{resource}/
3 KV/Txn OptimisticPut() /registry/services/{subresource}/{namespace}/{name}
3 KV/Txn OptimisticPut(getOnFailure) /registry/services/{subresource}/{namespace}/{name}
3 Watch/Watch Watch(range_end,start_rev,prev_kv,progress_notify) /registry/services/{subresource}/
2 KV/RangeStream List(limit,rangeEnd) /registry/events/
2 KV/RangeStream List(rangeEnd) /registry/services/{subresource}/
2 KV/RangeStream List(limit,rangeEnd) /registry/{api-group}/{resource}/{namespace}/
2 KV/Txn OptimisticPut(getOnFailure) /registry/{api-group}/{resource}/{namespace}/{name}"""

ROBUSTNESS_LACKS_SHAPES = """\
249 KV/Txn OptimisticPut(lease)
33 KV/RangeStream List(limit,rangeEnd)
21 KV/RangeStream List(rangeEnd)
21 KV/Txn OptimisticPut(getOnFailure,lease)
14 KV/RangeStream List(limit,rangeEnd,rev)
4 Watch/Watch Compaction(start_rev)
3 KV/Range Compaction()
3 KV/Range Count(rangeEnd,countOnly)
3 KV/Range Healthcheck()"""

ROBUSTNESS_HAS_BESIDES = """\
155 KV/Range unknown() /registry/{resource}/
135 KV/Range List(limit,rangeEnd) /registry/{resource}/
94 KV/Range List(limit,rangeEnd,rev) /registry/{resource}/{namespace}/{name}
4 KV/Range Get(limit,rev) /registry/{resource}/{namespace}/{name}
3 KV/Range unknown() key
3 KV/Range List(limit,rangeEnd,rev) /registry/{resource}/
3 Watch/Watch unknown(start_rev,progress_notify) \\x00"""


@pytest.fixture(scope="module")
def real() -> dict[str, Usage]:
    with its_rows_alone():
        return {name: judge(path, release_of(name)) for name, path in DUMPS.items()}


def test_lists_moved_from_range_to_range_stream_in_1_37(real: dict[str, Usage]) -> None:
    found = compare(real["kubernetes-1.36"], real["kubernetes-1.37"])
    lines: dict[tuple[str, str], list[str]] = {}
    for one in found.rows:
        if one.status != "covered":
            text = f"{one.reference_calls or one.subject_calls} {shape_text(one.shape)} {one.key_pattern}"
            lines.setdefault((one.status, one.grpc_method), []).append(text)
    assert {key: sorted(of_key) for key, of_key in lines.items()} == {
        ("missing", RANGE): sorted(MOVED_FROM_RANGE.splitlines()),
        ("new", RANGE_STREAM): sorted(MOVED_TO_RANGE_STREAM.splitlines()),
    }
    # 2996 calls in 51 rows; 60 of them in the 12 rows, of 3 of 16 call shapes.
    rows, shapes = found.row_coverage, found.shape_coverage
    assert (rows.covered, rows.reference, rows.percent_of_calls) == (39, 51, 100 * 2936 / 2996)
    assert (shapes.covered, shapes.reference, shapes.percent_of_calls) == (13, 16, 100 * 2936 / 2996)


def test_robustness_tests_lack_leases_and_streams_of_1_37(real: dict[str, Usage]) -> None:
    found = compare(real["kubernetes-1.37"], real["robustness"])

    def lines(status: str) -> list[str]:
        return [
            f"{one.reference_calls or one.subject_calls} {short_name(one.grpc_method)} {shape_text(one.shape)} {one.key_pattern}"
            for one in found.rows
            if one.status == status
        ]

    assert sorted(lines("missing")) == sorted(ROBUSTNESS_LACKS.splitlines())
    assert sorted(lines("new")) == sorted(ROBUSTNESS_HAS_BESIDES.splitlines())
    demanded = [one for one in found.rows if one.status != "new"]
    assert [
        f"{calls} {short_name(shape[0])} {shape_text(shape)}"
        for shape, calls in missing_shapes(demanded, found.rows).items()
    ] == ROBUSTNESS_LACKS_SHAPES.splitlines()
    # 3809 calls in 51 rows; the 43 missing rows stand for 1593, the 9 missing shapes of 16 for 351.
    rows, shapes = found.row_coverage, shape_coverage(demanded, found.rows)
    assert (rows.covered, rows.reference, rows.percent_of_calls) == (8, 51, 100 * 2216 / 3809)
    assert (shapes.covered, shapes.reference, shapes.covered_calls, shapes.reference_calls) == (7, 16, 3458, 3809)
    assert found.shape_coverage.percent_of_calls == 100 * 3458 / 3809


def test_project_knows_the_gaps_of_its_robustness_dump(real: dict[str, Usage]) -> None:
    gaps = known_gaps.read_gaps(ROOT / "known_gaps.toml")
    found = compare(real["kubernetes-1.37"], real["robustness"])
    outcome = gates.hold("robustness.json.gz", found, Gates(fail_on_missing=True), gaps)
    assert (outcome.failures, len(outcome.excused)) == ([], 43)
    assert list(known_gaps.unused(gaps, {"robustness.json.gz": found}, ["robustness.json.gz"])) == []
    of_release = gates.hold("kubernetes-1.38.json", found, Gates(fail_on_missing=True), gaps)
    assert (len(of_release.failures), len(of_release.missing_rows)) == (1, 43)


@pytest.mark.parametrize("path", sorted((ROOT / "usage").iterdir()), ids=lambda path: path.name)
def test_saved_usage_of_the_project_is_the_dumps(path: Path) -> None:
    name = f"{path.name}.gz"
    dump = next(
        folder / name for folder in (ROOT / "testdata", ROOT / "meta_tests" / "dumps") if (folder / name).exists()
    )
    assert saved.load(path) == {name: judge(dump, release_of(name))}, "save it again, as docs/usage-format.md shows"


@pytest.mark.parametrize("minor", [34, 35, 36, 37])
def test_saved_usage_of_the_project_names_every_caller(minor: int) -> None:
    (reference,) = saved.load(ROOT / "usage" / f"kubernetes-1.{minor}.json").values()
    demanded = Gates(fail_on_new_caller=True)

    def failures(subject: Usage) -> list[str]:
        return gates.hold_origins("a.json", subject, demanded, compare(reference, subject), reference).failures

    subject = judge(ROOT / "testdata" / f"kubernetes-1.{minor}.json.gz", f"1.{minor}")
    assert len(reference.rows) > 50
    assert failures(subject) == []
    # Of every row the gate decides: another caller fails, and leaves nothing undecided.
    row = max(subject.rows, key=lambda row: len(row.origins))
    assert len(row.origins) > 10
    for number, row in enumerate(subject.rows):
        other = structs.replace(row.origins[-1], component="another")
        rows = [*subject.rows]
        rows[number] = structs.replace(row, origins=[*row.origins[:-1], other])
        (failure,) = failures(structs.replace(subject, rows=rows))
        assert failure.startswith("--fail-on-new-caller: 1 caller ("), failure


def test_doubts_are_reported_of_a_dump_that_may_have_lost_calls(real: dict[str, Usage]) -> None:
    assert gates.doubts(["etcdserverpb.Watch/Watch", RANGE], real["robustness"]) == [
        "32 calls without parent",
        "18 Watch/Watch spans without call",
    ]
    assert gates.doubts([RANGE], real["kubernetes-1.37"]) == []
    assert gates.doubts([], Usage(quality=Quality(traces=100))) == [
        "exactly 100 traces, so the download was probably cut"
    ]


def test_rows_of_equal_weight_are_ordered_by_method_status_calls_key_pattern_args() -> None:
    """Each row differs from the one above in the next criterion alone, or in one that comes before it."""
    ordered = [
        (row(9, RANGE, "Get", "/registry/z"), None),  # KV/Range comes first in the reference, missing first of it
        (row(8, RANGE, "List", PODS, "limit"), row(1, RANGE, "List", PODS, "limit")),
        (row(5, RANGE, "List", PODS, "rev"), row(3, RANGE, "List", PODS, "rev")),
        (row(5, RANGE, "Count", POD), row(2, RANGE, "Count", POD)),
        (row(5, RANGE, "Get", POD), row(2, RANGE, "Get", POD)),
        (row(5, RANGE, "Get", POD, "limit"), row(2, RANGE, "Get", POD, "limit")),
        (row(5, RANGE, "Get", POD, "rev"), row(2, RANGE, "Get", POD, "rev")),
        (row(5, RANGE, "Count", "/registry/{resource}/{name}"), row(2, RANGE, "Count", "/registry/{resource}/{name}")),
        (None, row(99, RANGE, "Keys", PODS)),
        (row(99, RANGE_STREAM, "List", PODS), None),
        (row(1, TXN, "OptimisticPut", POD), row(1, TXN, "OptimisticPut", POD)),
        # Of another version's reference.
        (row(1, "etcdserverpb.KV/A", "Old", "/registry/b"), None),
        (row(2, "etcdserverpb.KV/B", "Old", "/registry/a"), None),
    ]
    reference, subject = ([pair[side] for pair in reversed(ordered)] for side in (0, 1))
    found = compare(usage(*filter(None, reference)), usage(*filter(None, subject))).rows
    expected = [first or second for first, second in ordered]
    assert [(one.grpc_method, one.call_pattern, one.key_pattern, one.args) for one in found] == [
        (one.grpc_method, one.call_pattern, one.key_pattern, one.args) for one in expected if one
    ]
