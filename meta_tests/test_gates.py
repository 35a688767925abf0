"""Gates: what fails, what is excused, what a file of known gaps may say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from etcd_coverage.comparing import gates, known_gaps
from etcd_coverage.comparing.compare import ComparedRow, compare
from etcd_coverage.comparing.gates import Gates
from etcd_coverage.comparing.known_gaps import GapsError, KnownGap
from etcd_coverage.judging.origin_counts import with_heaviest_origins
from meta_tests.builder import RANGE, RANGE_STREAM, TXN
from meta_tests.test_callers import origin
from meta_tests.test_compare import PODS, row, usage

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.comparing.compare import Comparison
    from etcd_coverage.judging.usage import Origin, Row, Usage

LINK = "https://example.com/1"


def found() -> Comparison:
    """100 calls of the reference: 90 covered, 7 and 3 missing, of which 3 are the only ones of their shape."""
    reference = usage(row(90), row(7, RANGE, "Get", PODS), row(3, TXN, "OptimisticPut", "compact_rev_key", "lease"))
    return compare(reference, usage(row(1), row(4, RANGE, "Count", PODS), row(2, TXN, "OptimisticPut", PODS)))


def names(rows: list[ComparedRow]) -> list[str]:
    return [f"{one.call_pattern} {one.key_pattern}" for one in rows]


MISSING = ["Get /registry/{resource}/", "OptimisticPut compact_rev_key"]
NEW = ["Count /registry/{resource}/", "OptimisticPut /registry/{resource}/"]
SHORT = "90.00% of the reference's calls are covered (1 of 3 rows, 90 of 100 calls)"


@pytest.mark.parametrize(
    ("demanded", "failures", "missing", "new"),
    [
        (Gates(), [], [], []),
        (Gates(min_coverage=90), [], [], []),
        (Gates(min_coverage=90.0001), [f"--min-coverage=90.0001: {SHORT}"], MISSING, []),
        (Gates(min_shape_coverage=97), [], [], []),
        (
            Gates(min_shape_coverage=98),
            [
                "--min-shape-coverage=98: 97.00% of the reference's calls are covered "
                "(1 of 2 call shapes, 97 of 100 calls)"
            ],
            [],
            [],
        ),
        (Gates(fail_on_missing=True), ["--fail-on-missing: 2 rows (10 calls) of the reference not seen"], MISSING, []),
        (Gates(fail_on_new=True), ["--fail-on-new: 2 rows (6 calls) that the reference does not have"], [], NEW),
        (
            Gates(fail_on_new=True, fail_on_missing=True, min_coverage=100, min_calls=4),
            [
                "--min-coverage=100: 92.78% of the reference's calls are covered (1 of 2 rows, 90 of 97 calls)",
                "--fail-on-missing: 1 row (7 calls) of the reference not seen",
                "--fail-on-new: 1 row (4 calls) that the reference does not have",
            ],
            MISSING[:1],
            NEW[:1],
        ),
        (
            Gates(fail_on_new=True, fail_on_missing=True, methods=(TXN,)),
            [
                "--fail-on-missing: 1 row (3 calls) of the reference not seen",
                "--fail-on-new: 1 row (2 calls) that the reference does not have",
            ],
            MISSING[1:],
            NEW[1:],
        ),
        (
            Gates(min_coverage=0, min_calls=1000),
            [
                "--min-coverage=0: the reference has nothing to judge here: "
                "check --reference, --gate-methods, --min-calls and --min-runs"
            ],
            [],
            [],
        ),
    ],
)
def test_gate_fails_with_all_that_it_found(
    demanded: Gates, failures: list[str], missing: list[str], new: list[str]
) -> None:
    outcome = gates.hold("a.json", found(), demanded)
    assert outcome.failures == failures
    assert names(outcome.missing_rows) == missing
    assert names(outcome.new_rows) == new
    assert bool(outcome.missing_shapes) is (demanded.min_shape_coverage == 98)


def test_counts_never_fail_a_gate() -> None:
    """A row that was seen once covers one that was seen often, also where rows seen seldom are left out."""
    strict = Gates(min_coverage=100, min_shape_coverage=100, fail_on_new=True, fail_on_missing=True, min_calls=5)
    assert gates.hold("a.json", compare(usage(row(900)), usage(row(1))), strict).failures == []
    assert (
        gates.hold("a.json", compare(usage(row(900), row(1, TXN)), usage(row(1), row(900, TXN))), strict).failures == []
    )


def test_full_share_is_not_rounded() -> None:
    reference = usage(row(10_000_000), row(1, RANGE, "Get", PODS))
    (failure,) = gates.hold("a.json", compare(reference, usage(row(1))), Gates(min_coverage=100)).failures
    assert failure.startswith("--min-coverage=100: 99.99% of")


@pytest.mark.parametrize(
    ("covered", "missing", "minimum", "shown"),
    [
        (979_996, 20_004, 98, "97.9996%"),
        (2, 1, 66.67, "66.667%"),
        (2, 1, 66.667, "66.6667%"),
        (1, 1, 50.01, "50.00%"),
        (1, 9_999_999, 0.001, "0.00001%"),
        (999_999, 1, 99.9999999, "99.99%"),
    ],
)
def test_share_below_the_minimum_reads_below_it(covered: int, missing: int, minimum: float, shown: str) -> None:
    reference = usage(row(covered), row(missing, RANGE, "Get", PODS))
    (failure,) = gates.hold("a.json", compare(reference, usage(row(1))), Gates(min_coverage=minimum)).failures
    assert failure.partition(": ")[2].startswith(f"{shown} of the reference's calls are covered")


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("100", 100), ("97.5", 97.5)])
def test_percentage(text: str, number: float) -> None:
    assert gates.percentage(text) == number


@pytest.mark.parametrize("text", ["", "-1", "100.1", "nan", "inf", "9%", "\x1b"])
def test_no_percentage(text: str) -> None:
    with pytest.raises(ValueError, match="is not a percentage from 0 to 100") as error:
        gates.percentage(text)
    assert str(error.value).isprintable()


def test_number_of_calls() -> None:
    assert gates.number_of_calls("5") == 5
    for text in ("0", "-1", "5.0", "", "9" * 5000):
        with pytest.raises(ValueError, match="is not a number of calls"):
            gates.number_of_calls(text)


def test_method_names() -> None:
    assert gates.method_names("KV/Txn, etcdserverpb.KV/Range,KV/Txn") == (TXN, RANGE)
    for text in ("", "KV/NoSuchMethod", "KV/Txn,", "Lease/LeaseGrant"):
        with pytest.raises(
            ValueError, match=r"is no method with call patterns: .*KV/Range, KV/RangeStream, KV/Txn, KV/Com"
        ):
            gates.method_names(text)


def called(calls: int, contract_calls: int, *origins: Origin, method: str = RANGE) -> Row:
    return replace(row(calls, method), contract_calls=contract_calls, origins=list(origins))


SHARES = usage(called(8, 6), called(2, 0, method=TXN))


@pytest.mark.parametrize(
    ("demanded", "failure", "outside"),
    [
        (Gates(min_contract=60, min_calls=1000), "", []),
        (
            Gates(min_contract=60.1),
            "--min-contract=60.1: 60.00% of the calls are below a contract event (6 of 10 calls)",
            [2, 2],
        ),
        (Gates(min_contract=75, methods=(RANGE,)), "", []),
        (
            Gates(min_contract=0.5, methods=(TXN,)),
            "--min-contract=0.5: 0.00% of the calls are below a contract event (0 of 2 calls)",
            [2],
        ),
        (Gates(min_contract=0, methods=(TXN,)), "", []),
        (
            Gates(min_contract=0, methods=(RANGE_STREAM,)),
            "--min-contract=0: a.json has nothing to judge here: check --gate-methods",
            [],
        ),
    ],
)
def test_calls_outside_the_interface_fail_a_dump_by_itself(demanded: Gates, failure: str, outside: list[int]) -> None:
    outcome = gates.hold_origins("a.json", SHARES, demanded)
    assert outcome.failures == [failure] * bool(failure)
    assert [one.calls - one.contract_calls for one in outcome.outside] == outside


def test_share_of_the_contract_is_not_rounded() -> None:
    demanded = Gates(min_contract=100)
    (failure,) = gates.hold_origins("a.json", usage(called(10_000_000, 9_999_999)), demanded).failures
    assert failure.startswith("--min-contract=100: 99.99% of the calls")


def new_callers(reference: Usage, subject: Usage, **more: Any) -> tuple[list[str], list[tuple[str, int]]]:
    demanded = Gates(fail_on_new_caller=True, **more)
    outcome = gates.hold_origins("a.json", subject, demanded, compare(reference, subject), reference)
    failures = [failure.removeprefix("--fail-on-new-caller: ") for failure in outcome.failures]
    return failures, [(one.name, one.calls) for one in outcome.new_callers]


SAVE_AGAIN = "save it again from its dump with --usage-json and --origins=all"
BEFORE = usage(called(9, 0, origin("a", 9, role="r")), called(9, 0, origin("b", 9), method=TXN))


def test_new_callers_are_those_of_a_row_whatever_they_ask_for() -> None:
    now = usage(
        called(9, 0, origin("a", 1, role="r", verb="LIST"), origin("b", 5, verb="GET"), origin("b", 3)),
        called(3, 0, origin("a", 2), origin("b", 1), method=TXN),
        # A new row has no caller in the reference: it is new itself.
        replace(row(7, RANGE, "Count", PODS), origins=[origin("c", 7)]),
    )
    both = ["2 callers (10 calls) of a row that the reference does not have for it"]
    assert new_callers(BEFORE, now) == (both, [("b", 8), ("a", 2)])
    one = ["1 caller (8 calls) of a row that the reference does not have for it"]
    assert new_callers(BEFORE, now, min_calls=3) == (one, [("b", 8)])
    assert new_callers(BEFORE, now, methods=(RANGE,)) == (one, [("b", 8)])
    assert new_callers(BEFORE, now, min_calls=9) == ([], [])
    assert new_callers(BEFORE, BEFORE) == ([], [])


def test_callers_of_nothing_are_no_pass() -> None:
    nothing = ["a.json has nothing to judge here: check --reference, --gate-methods, --min-calls and --min-runs"]
    assert new_callers(BEFORE, BEFORE, min_calls=10) == (nothing, [])
    assert new_callers(BEFORE, usage(row(1, RANGE, "Count", PODS))) == (nothing, [])


def test_callers_that_were_not_saved_are_no_pass() -> None:
    earlier = usage(called(9, 0), called(9, 0, method=TXN))
    assert new_callers(earlier, BEFORE) == ([f"the reference has no origins: {SAVE_AGAIN}"], [])
    assert new_callers(BEFORE, earlier) == ([f"a.json has no origins: {SAVE_AGAIN}"], [])
    named = usage(called(9, 0, origin("a", 9)), called(9, 0, origin("b", 9), method=TXN))
    two = usage(called(9, 0, origin("a", 8), origin("b", 1)), called(9, 0, origin("b", 9), method=TXN))
    heaviest = with_heaviest_origins(two, 1)
    line = "1 row cannot be judged, of which {} names the heaviest origins alone: " + SAVE_AGAIN
    assert new_callers(heaviest, two) == ([line.format("the reference")], [])
    assert new_callers(heaviest, named) == ([], [])
    assert new_callers(named, heaviest) == ([line.format("a.json")], [])
    assert new_callers(named, heaviest, min_calls=2) == ([], [])


def gap(shape: str, method: str = "KV/Range", **more: object) -> KnownGap:
    return KnownGap(method=method, shape=shape, reason="known", link=LINK, **more)  # type: ignore[arg-type]


def test_known_gap_excuses_its_rows_from_fail_on_missing_alone() -> None:
    known = [gap("Get()", key_patterns=(PODS,)), gap("OptimisticPut(lease)", "KV/Txn", subject="rob*")]
    strict = Gates(fail_on_missing=True, min_coverage=100)
    outcome = gates.hold("robustness.json", found(), strict, known)
    assert outcome.failures == [f"--min-coverage=100: {SHORT}"]
    assert (names(outcome.missing_rows), names(outcome.excused)) == (MISSING, MISSING)
    outcome = gates.hold("other.json", found(), Gates(fail_on_missing=True), known)
    assert outcome.failures == ["--fail-on-missing: 1 row (3 calls) of the reference not seen"]
    assert (names(outcome.missing_rows), names(outcome.excused)) == (MISSING[1:], MISSING[:1])


def test_gap_that_matches_nothing_is_reported_once_all_its_dumps_were_compared() -> None:
    known = [
        gap("Get()", key_patterns=(PODS, "/registry/health")),
        gap("List(limit)"),
        gap("Get()", subject="b*"),
        gap("Keys()", subject="c*"),
    ]
    same = compare(usage(row(1)), usage(row(1)))
    assert list(known_gaps.unused(known, {"a": found(), "b": same}, ["a", "b"])) == [
        "KV/Range Get() /registry/health",
        "KV/Range List(limit)",
        "KV/Range Get()",
    ]
    assert list(known_gaps.unused(known, {"a": found()}, ["a", "b"])) == []


def write_gaps(path: Path, **fields: object) -> Path:
    entry = {"method": "KV/Range", "shape": "Get(limit)", "reason": "known", "link": LINK} | fields
    path.write_text("[[gap]]\n" + "".join(f"{key} = {value!r}\n" for key, value in entry.items() if value is not None))
    return path


def test_gaps_are_read(tmp_path: Path) -> None:
    path = write_gaps(tmp_path / "gaps.toml", key_patterns=["/registry/{resource}"], subject="a*")
    assert known_gaps.read_gaps(path) == [gap("Get(limit)", key_patterns=("/registry/{resource}",), subject="a*")]
    (tmp_path / "none.toml").touch()
    assert known_gaps.read_gaps(tmp_path / "none.toml") == []


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"method": "KV/NoSuchMethod"}, "[[gap]] number 1: no method 'KV/NoSuchMethod', but *KV/Range, KV/RangeStream"),
        ({"shape": "Get"}, "[[gap]] number 1: KV/Range has no call pattern as in 'Get': Healthcheck, Compaction, Get"),
        ({"shape": "Put()"}, "[[gap]] number 1: KV/Range has no call pattern as in 'Put()'"),
        ({"shape": "Get(lease)"}, "[[gap]] number 1: KV/Range has no arg 'lease', but countOnly, keysOnly"),
        (
            {"shape": "List(rangeEnd,limit)"},
            "[[gap]] number 1: write the args of 'List(rangeEnd,limit)' as List(limit,rangeEnd)",
        ),
        ({"link": "see there"}, "[[gap]] number 1: a reason and a link (https://...) are needed"),
        ({"reason": " "}, "[[gap]] number 1: a reason and a link"),
        ({"link": None}, "has an entry that is none: Object missing required field `link` - at `$.gap[0]`"),
        ({"Method": "KV/Range"}, "has an entry that is none: Object contains unknown field `Method`"),
        ({"shape": 7}, "has an entry that is none: Expected `str`, got `int`"),
        ({"shape": True}, "is not TOML: Invalid value"),
    ],
)
def test_wrong_gap_is_one_line(tmp_path: Path, fields: dict[str, object], line: str) -> None:
    with pytest.raises(GapsError) as error:
        known_gaps.read_gaps(write_gaps(tmp_path / "gaps.toml", **fields))
    start, _, inside = line.partition("*")
    assert str(error.value).startswith(start)
    assert inside in str(error.value)
    assert "\n" not in str(error.value)


def test_gaps_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "gaps.toml").write_bytes(b"\xff")
    for path, line in ((tmp_path, "cannot be read"), (tmp_path / "gaps.toml", "is not UTF-8 text")):
        with pytest.raises(GapsError, match=line):
            known_gaps.read_gaps(path)


def test_file_that_is_no_list_of_gaps_is_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GapsError, match="is no regular file"):
        known_gaps.read_gaps(tmp_path / "pipe")
    for content, message in ((b"#" * 2_000_000, "has more than 1,000,000 bytes"), (b"a=" + b"[" * 9_000, "too deep")):
        (tmp_path / "gaps.toml").write_bytes(content)
        with pytest.raises(GapsError, match=message):
            known_gaps.read_gaps(tmp_path / "gaps.toml")
