"""From and up to which Kubernetes release a row of the reference is expected."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from etcd_coverage.judging import findings, judge
from etcd_coverage.judging.ancestors import Ancestors
from etcd_coverage.judging.finding_kinds import METHOD_NOT_CALLED, NEXT_STEPS, OUTSIDE_RELEASE
from etcd_coverage.judging.usage import Row
from etcd_coverage.reference import GRPC_METHODS, RELEASES
from etcd_coverage.releases import next_release, why_not
from meta_tests.builder import COMPACT, RANGE_STREAM, WATCH, WATCH_PODS, call, complete, etcd, write

if TYPE_CHECKING:
    from etcd_coverage.judging.usage import Finding

TESTDATA = Path(__file__).parents[1] / "testdata"
CACHE_WATCH = WATCH_PODS | {"prev_kv": False, "progress_notify": True}
NOT_BEFORE_1_38 = (
    "etcdserverpb.Watch/Watch WatchWithoutPrevKV(key=/registry/{resource}/) came with Kubernetes 1.38, this dump is of "
)


def outside(path: Path, release: str) -> list[Finding]:
    return [one for one in judge.judge(path, release).findings if one.id == OUTSIDE_RELEASE]


@pytest.mark.parametrize(
    ("release", "messages"),
    [
        ("", []),
        ("1.39", []),
        ("1.38", []),
        ("1.37", [f"{NOT_BEFORE_1_38}1.37"]),
        (
            "1.36",
            [
                "etcdserverpb.KV/RangeStream came with Kubernetes 1.37, this dump is of 1.36",
                f"{NOT_BEFORE_1_38}1.36",
            ],
        ),
    ],
)
def test_what_came_with_a_later_release_is_a_finding(tmp_path: Path, release: str, messages: list[str]) -> None:
    path = write(
        tmp_path / "dump.json", etcd([*complete(), *call(8, WATCH, CACHE_WATCH), *call(9, WATCH, CACHE_WATCH)])
    )
    found = outside(path, release)
    assert [one.message for one in found] == messages
    counts = {RANGE_STREAM: 1, WATCH: 2}
    examples = {RANGE_STREAM: "00000002000000aa", WATCH: "00000008000000bb"}
    for one in found:
        assert one.count == counts[one.grpc_method] == sum(origin.calls for origin in one.origins)
        assert one.example is not None
        assert one.example.span_id == examples[one.grpc_method]


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ("1.36", ""),
        ("1.37", "etcdserverpb.KV/Compact ended with Kubernetes 1.36, this dump is of 1.37"),
        ("1.100", "etcdserverpb.KV/Compact ended with Kubernetes 1.36, this dump is of 1.100"),
        ("", ""),
    ],
)
def test_a_method_that_ended_is_a_finding_where_it_is_called_and_demanded_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, message: str
) -> None:
    ended = tuple(replace(one, until="1.36") if one.name == COMPACT else one for one in GRPC_METHODS)
    monkeypatch.setattr(judge, "GRPC_METHODS", ended)
    with_it = write(tmp_path / "with.json", etcd(complete()))
    found = [one.message for one in outside(with_it, release) if one.grpc_method == COMPACT]
    assert found == ([message] if message else [])
    without = write(
        tmp_path / "without.json", etcd([one for one in complete() if not one["spanId"].startswith("00000004")])
    )
    missed = [one.grpc_method for one in judge.judge(without, release).findings if one.id == METHOD_NOT_CALLED]
    assert (COMPACT in missed) is (not message)


def test_a_call_pattern_that_ended_is_a_finding() -> None:
    method = next(one for one in GRPC_METHODS if one.name == WATCH)
    patterns = tuple(replace(one, until="1.37") if one.name == "Watch" else one for one in method.call_patterns)
    row = Row(
        grpc_method=WATCH, call_pattern="Watch", key_pattern="/registry/events/", args=(), calls=4, contract_calls=0
    )
    (found,) = findings.outside_release(replace(method, call_patterns=patterns), [], [row], Ancestors({}), "1.38")
    assert found.message == (
        "etcdserverpb.Watch/Watch Watch(key=/registry/events/) ended with Kubernetes 1.37, this dump is of 1.38"
    )
    assert found.count == 4


def test_a_real_dump_with_a_wrong_label_is_found() -> None:
    """A dump of 1.37 lists by RangeStream, which 1.35 does not know."""
    (found,) = outside(TESTDATA / "kubernetes-1.37.json.gz", "1.35")
    assert found.message == "etcdserverpb.KV/RangeStream came with Kubernetes 1.37, this dump is of 1.35"


def test_known_releases_are_those_that_the_patches_are_for() -> None:
    series = (Path(__file__).parents[1] / "patches" / "kubernetes" / "series").read_text()
    assert list(RELEASES) == re.findall(r"^(1\.\d+) ", series, re.MULTILINE)


def test_the_finding_says_what_to_do() -> None:
    assert "--kubernetes-version" in NEXT_STEPS[OUTSIDE_RELEASE]
    assert "etcd_coverage/reference.py" in NEXT_STEPS[OUTSIDE_RELEASE]


def test_next_release_follows_the_newest_known() -> None:
    assert next_release() == "1.39"


def test_releases_are_compared_as_numbers() -> None:
    stream = next(method for method in GRPC_METHODS if method.name == RANGE_STREAM)
    assert why_not(stream, "1.9") == "came with Kubernetes 1.37, this dump is of 1.9"
    assert why_not(stream, "1.100") == ""
