"""Usages of several runs made one: sums by hand, a real dump taken apart, the command, and the gate that asks for runs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from etcd_coverage import merge as command
from etcd_coverage.comparing import saved
from etcd_coverage.comparing.compare import compare
from etcd_coverage.comparing.gates import Gates, hold
from etcd_coverage.comparing.merge import merge
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.usage import (
    Example,
    Finding,
    Lease,
    OtherOrigins,
    Quality,
    Row,
    SpanCount,
    Usage,
)
from etcd_coverage.judging.usage import TestCalls as CallsOfTest
from meta_tests.builder import RANGE, RANGE_STREAM, TXN, complete, etcd, write
from meta_tests.test_callers import origin
from meta_tests.test_compare import POD, PODS

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "testdata" / "kubernetes-1.37.json.gz"


def row(calls: int, trace: str, key: str = POD, **more: Any) -> Row:
    fields: dict[str, Any] = {
        "call_pattern": "Get",
        "args": (),
        "contract_calls": 0,
        "example": Example(trace, "s"),
        "failed": 0,
    }
    return Row(grpc_method=RANGE, key_pattern=key, calls=calls, **(fields | more))


def test_counts_are_added_and_a_row_says_how_many_runs_have_it() -> None:
    monday = Usage(
        calls={RANGE: 5, TXN: 2},
        rows=[
            row(3, "a", contract_calls=1, failed=1, grpc_errors={"UNKNOWN": 1}, api_errors={"404": 2},
                origins=[origin("x", 2, 1, role="r")], other_origins=OtherOrigins(origins=1, calls=1, contract_calls=0),
                tests=[CallsOfTest(test="t", calls=1)]),
        ],
        leases=[Lease(key_pattern=POD, uses=4, ttl_seconds=30, calls=2)],
        quality=Quality(
            spans=7, traces=3, lost_calls={RANGE: SpanCount(1, Example("a", "lost"))}, likely_apiserver="api"
        ),
    )  # fmt: skip
    tuesday = Usage(
        calls={RANGE: 9},
        rows=[
            row(4, "b", PODS),
            row(5, "b", contract_calls=5, grpc_errors={"ABORTED": 3, "UNKNOWN": 1}, failed=4,
                origins=[origin("y", 4, 4), origin("x", 1, 1, role="r")], tests=[CallsOfTest(test="u", calls=2)]),
        ],
        leases=[Lease(key_pattern=POD, uses=1, ttl_seconds=-1, calls=1), Lease(key_pattern=PODS, uses=1, ttl_seconds=1, calls=1)],
        quality=Quality(
            spans=10, traces=4, lost_calls={TXN: SpanCount(5, Example("b", "u")), RANGE: SpanCount(2, Example("b", "v"))}
        ),
    )  # fmt: skip
    merged = merge([monday, tuesday])
    assert merged.runs == 2
    assert merged.calls == {RANGE: 14, TXN: 2}
    assert merged.rows == [
        row(4, "b", PODS),
        row(8, "a", contract_calls=6, failed=5, grpc_errors={"ABORTED": 3, "UNKNOWN": 2}, api_errors={"404": 2},
            origins=[origin("y", 4, 4), origin("x", 3, 2, role="r")],
            other_origins=OtherOrigins(origins=1, calls=1, contract_calls=0),
            tests=[CallsOfTest(test="u", calls=2), CallsOfTest(test="t", calls=1)], runs=2),
    ]  # fmt: skip
    assert list(merged.rows[1].grpc_errors) == ["ABORTED", "UNKNOWN"]
    assert merged.leases == [
        Lease(key_pattern=PODS, uses=1, ttl_seconds=1, calls=1),
        Lease(key_pattern=POD, uses=5, ttl_seconds=29, calls=3),
    ]
    assert merged.quality == Quality(
        spans=17,
        traces=7,
        lost_calls={RANGE: SpanCount(3, Example("a", "lost")), TXN: SpanCount(5, Example("b", "u"))},
        likely_apiserver="api",
    )
    third = Usage(calls={RANGE: 1}, rows=[row(1, "c")])
    again = merge([merged, third])
    assert again.runs == 3
    assert [(one.key_pattern, one.calls, one.runs) for one in again.rows] == [(PODS, 4, 1), (POD, 9, 3)]


def test_a_row_whose_failures_one_run_did_not_count_has_no_number_of_them() -> None:
    one, other = (
        Usage(calls={RANGE: 1}, rows=[row(1, trace, failed=failed)]) for trace, failed in (("a", 1), ("b", None))
    )
    assert merge([one, other]).rows[0].failed is None


def finding(kind: str, message: str, count: int, method: str = RANGE) -> Finding:
    return Finding(id=kind, grpc_method=method, message=message, count=count, example=Example(message[:3], "s"))


def test_findings_are_those_of_one_run() -> None:
    one = Usage(
        calls={RANGE: 4, "m": 2},
        findings=[
            finding("unexpected-method", "unexpected 2 calls to method: m", 2, "m"),
            finding("method-not-called", 'expected "TXN" method to be called at least once', 0, TXN),
            finding("call-not-recorded", f'"{RANGE}" method was called 4 times, but no call was recorded', 4),
            finding("new-key-pattern", "New key pattern detected: a", 1),
            finding("clipped-dump", "made anew", 1),
        ],
    )
    other = Usage(
        calls={RANGE: 1, "m": 1, TXN: 6},
        findings=[
            finding("unexpected-method", "unexpected 1 calls to method: m", 1, "m"),
            finding(
                "method-not-called", f'expected "{RANGE_STREAM}" method to be called at least once', 0, RANGE_STREAM
            ),
            finding("call-not-recorded", f'"{RANGE}" method was called 1 time, but no call was recorded', 1),
            finding("new-key-pattern", "New key pattern detected: a", 3),
            finding("new-key-pattern", "New key pattern detected: b", 1),
        ],
    )
    assert [(found.id, found.message, found.count) for found in merge([one, other]).findings] == [
        ("unexpected-method", "unexpected 3 calls to method: m", 3),
        ("call-not-recorded", f'"{RANGE}" method was called 5 times, but no call was recorded', 5),
        ("new-key-pattern", "New key pattern detected: a", 4),
        ("method-not-called", f'expected "{RANGE_STREAM}" method to be called at least once', 0),
        ("new-key-pattern", "New key pattern detected: b", 1),
    ]
    recorded = Usage(calls={RANGE: 1}, rows=[row(1, "x")])
    assert "call-not-recorded" not in [found.id for found in merge([one, recorded]).findings]


@pytest.mark.parametrize(
    ("usages", "problem"),
    [
        ([Usage(error="cut off")], "usage 1 was not judged: cut off"),
        (
            [Usage(calls={RANGE: 1}, rows=[row(1, "a")])] * 2,
            "usages 1 and 2 are of the same dump, whose calls would count twice",
        ),
        (
            [Usage(calls={RANGE: 1}, rows=[row(1, "a")]), Usage(quality=Quality(traces=100))],
            "usage 2 is of a clipped dump: exactly 100 traces: the download was probably cut at a limit "
            "(Jaeger's default is 100)",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_merged(usages: list[Usage], problem: str) -> None:
    with pytest.raises(DumpError) as raised:
        merge(usages)
    assert str(raised.value) == problem


@pytest.mark.integration
def test_a_real_dump_taken_apart_by_traces_adds_up_to_itself(tmp_path: Path) -> None:
    """But for leases and their findings: a lease and its transactions are of different traces."""
    parts: list[list[Any]] = [[], [], []]
    for resource in json.loads(gzip.decompress(DEMO.read_bytes()))["result"]["resourceSpans"]:
        for number, part in enumerate(parts):
            scopes = [
                scope | {"spans": spans}
                for scope in resource["scopeSpans"]
                if (spans := [span for span in scope["spans"] if int(span["traceId"][-4:], 16) % 3 == number])
            ]
            if scopes:
                part.append(resource | {"scopeSpans": scopes})
    usages = [
        judge(write(tmp_path / f"{number}.json", {"result": {"resourceSpans": part}}), "1.37")
        for number, part in enumerate(parts)
    ]
    merged, whole = merge(usages[::-1]), judge(DEMO, "1.37")
    assert merged.calls == whole.calls

    def without_example(of: Usage) -> list[Row]:
        return [replace(one, example=None, runs=1) for one in of.rows]

    assert without_example(merged) == without_example(whole)
    assert merged.quality == replace(whole.quality, orphan=merged.quality.orphan)
    assert {one.runs for one in merged.rows} == {1, 2, 3}


def test_gates_leave_out_rows_that_few_runs_have() -> None:
    reference = merge([Usage(calls={RANGE: 1}, rows=[row(7, "a"), row(1, "a", PODS)]),
                       Usage(calls={RANGE: 1}, rows=[row(2, "b")])])  # fmt: skip
    comparison = compare(reference, Usage(rows=[row(1, "c")]))
    everything = hold("x", comparison, Gates(fail_on_missing=True, min_coverage=100))
    assert everything.failures == [
        "--min-coverage=100: 90.00% of the reference's calls are covered (1 of 2 rows, 9 of 10 calls)",
        "--fail-on-missing: 1 row (1 call) of the reference not seen",
    ]
    in_each = hold("x", comparison, Gates(fail_on_missing=True, min_coverage=100, min_runs=2))
    assert in_each.failures == []
    assert [one.key_pattern for one in in_each.volatile] == [PODS]


@pytest.fixture
def runs(tmp_path: Path) -> Callable[..., list[str]]:
    def saved_usages(*names: str) -> list[str]:
        """Return files with a saved usage each; they differ in the number of gets."""
        paths = []
        for number, name in enumerate(names, 1):
            one = Usage(calls={RANGE: number}, rows=[row(number, f"trace {number}")])
            paths.append(str(tmp_path / f"run-{number}.json"))
            saved.update(Path(paths[-1]), {name: one})
        return paths

    return saved_usages


def test_the_command(runs: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = runs("kubernetes-1.37", "kubernetes-1.37", "other")
    output = tmp_path / "merged.json"
    assert command.main([*files, "-o", str(output)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "kubernetes-1.37: 2 runs, 1 row, 0 not in every run",
        "other: 1 run, 1 row, 0 not in every run",
    ]
    written = json.loads(output.read_bytes())["dumps"]
    assert {name: (one["runs"], one["rows"][0]["calls"]) for name, one in written.items()} == {
        "kubernetes-1.37": (2, 3),
        "other": (1, 3),
    }
    assert command.main([*files, "-o", str(output), "--name", "all"]) == 0
    assert json.loads(output.read_bytes())["dumps"].keys() == {"kubernetes-1.37", "other", "all"}


def test_the_command_lists_what_not_every_run_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Real dumps: 1.36 does not call RangeStream."""
    files = [str(ROOT / "usage" / f"kubernetes-1.{minor}.json") for minor in (36, 37)]
    assert command.main([*files, "-o", str(tmp_path / "merged.json"), "--name", "both"]) == 0
    listed = capsys.readouterr().out.splitlines()
    rows = [
        {(one["grpc_method"], one["call_pattern"], one["key_pattern"], *one["args"]) for one in dump["rows"]}
        for file in files
        for dump in json.loads(Path(file).read_bytes())["dumps"].values()
    ]
    assert listed[0] == f"both: 2 runs, {len(rows[0] | rows[1])} rows, {len(rows[0] ^ rows[1])} not in every run"
    assert len(listed) == 1 + len(rows[0] ^ rows[1])
    assert all(line.startswith("  1 of 2 runs: etcdserverpb.") for line in listed[1:])
    assert any(line.startswith("  1 of 2 runs: etcdserverpb.KV/RangeStream List(rangeEnd) ") for line in listed)


def test_the_command_reads_dumps_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = write(tmp_path / "dump.json", etcd(complete()))
    saved.update(tmp_path / "run.json", {"dump.json": Usage(calls={RANGE: 1}, rows=[row(1, "other")])})
    assert command.main([str(dump), str(tmp_path / "run.json"), "-o", str(tmp_path / "merged.json")]) == 0
    assert capsys.readouterr().out.startswith("dump.json: 2 runs, ")


def test_what_the_command_refuses(
    runs: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = runs("a", "b")
    output = str(tmp_path / "merged.json")
    problems = {
        (one, other): "nothing to merge, each usage has a name of its own (a, b): give one name with --name",
        (
            one,
            one,
        ): f"a: usages 1 and 2 are of the same dump, whose calls would count twice (1 is of {one}, 2 is of {one})",
        (one, str(tmp_path / "gone.json")): f"{tmp_path / 'gone.json'} does not exist",
        (one, str(tmp_path)): f"{tmp_path} is a directory, not a dump or a saved usage",
    }
    for files, problem in problems.items():
        assert command.main([*files, "-o", output]) == 1
        assert capsys.readouterr().err == f"error: {problem}\n"
        assert not Path(output).exists()
    readme = tmp_path / "README.md"
    readme.write_text("# Not a usage")
    assert command.main([one, other, "--name=x", "-o", str(readme)]) == 1
    assert capsys.readouterr().err.endswith("is no saved usage, and would be overwritten: name another file\n")
    assert readme.read_text() == "# Not a usage"


def test_a_gate_on_runs_wants_a_merged_reference(
    runs: Callable[..., list[str]], tmp_path: Path, pytester: pytest.Pytester
) -> None:
    one, other = runs("a", "a")
    merged = str(tmp_path / "merged.json")
    assert command.main([one, other, "-o", merged]) == 0
    write(tmp_path / "dump.json", etcd(complete()))
    options = ["--testdata", str(tmp_path / "dump.json"), str(ROOT / "tests" / "test_coverage.py")]
    refused = pytester.runpytest_inprocess(*options, f"--reference={one}", "--fail-on-missing", "--min-runs=2")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert any(
        line.endswith("--min-runs=2: the reference is of 1 run: merge usages with python -m etcd_coverage.merge")
        for line in refused.errlines
    )
    judged = pytester.runpytest_inprocess(*options, f"--reference={merged}", "--fail-on-missing", "--min-runs=2")
    judged.assert_outcomes(failed=1)
    judged.stdout.fnmatch_lines(["*--fail-on-missing: 1 row (3 calls) of the reference not seen"])
