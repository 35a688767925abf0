"""Usage as a value: one dump judged, and the public JSON format."""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Any

import pytest

from etcd_coverage.comparing.saved import update
from etcd_coverage.judging.judge import judge
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.releases import can_call, release_of
from meta_tests.builder import LEASE_GRANT, RANGE, TRACE, TXN, call, complete, dump, etcd, resource, span, write

if TYPE_CHECKING:
    from pathlib import Path


def origin(method: str) -> dict[str, Any]:
    """Return where a call comes from that nothing stands above but its server span."""
    return {"component": "etcd", "role": method, "verb": "", "resource": "", "calls": 1, "contract_calls": 0}


def test_saved_json_is_the_documented_format(tmp_path: Path) -> None:
    calls = [*call(1, RANGE, {"range_begin": "k\x00", "limit": 1}), *call(2, LEASE_GRANT, {"id": 7, "ttl": 15})]
    put = {"compare_first_key": "compact_rev_key", "success_first_key": "compact_rev_key", "success_first_lease": 7}
    good = write(tmp_path / "good.json", etcd(calls, call(3, TXN, put)))
    usages = {"z.json": judge(good, "1.36"), "a.json": judge(write(tmp_path / "bad.json", "{}"))}
    update(tmp_path / "usage.json", usages)
    saved = json.loads((tmp_path / "usage.json").read_text())
    example = {"trace_id": TRACE, "span_id": "00000001000000bb"}
    findings = [
        {
            "id": "new-key-pattern",
            "grpc_method": RANGE,
            "message": "New key pattern detected: k\\x00",
            "count": 1,
            "example": example,
            "attributes": '{"range_begin": "k\\x00", "limit": 1}',
            "origins": [origin(RANGE)],
            "other_origins": None,
        },
        *(
            {
                "id": "method-not-called",
                "grpc_method": method,
                "message": f'expected "{method}" method to be called at least once',
                "count": 0,
                "example": None,
                "attributes": "",
                "origins": [],
                "other_origins": None,
            }
            for method in ("etcdserverpb.KV/Compact", "etcdserverpb.Watch/Watch")
        ),
    ]
    quality = {
        "spans": 6,
        "traces": 1,
        "skipped_spans": 0,
        "apiserver_traces": 0,
        "duplicate_spans": 0,
        "conflicting_spans": [],
        "calls_without_parent": 0,
        "grpc_spans_without_call": 0,
        "failed_without_call": 0,
        "traces_limit": None,
        "likely_apiserver": "",
        "orphan": None,
        "lost_calls": {},
        "skipped_grpc_spans": 0,
        "skipped_unexpected": {},
        "dropped_attributes": None,
        "dropped_events": None,
        "text_arguments": {},
        "overwritten_servers": None,
        "doubled_servers": None,
    }
    assert saved["format"] == 1
    assert list(saved["dumps"]) == ["a.json", "z.json"]
    assert saved["dumps"]["z.json"] == {
        "calls": {RANGE: 1, TXN: 1, LEASE_GRANT: 1},
        "rows": [
            {
                "grpc_method": RANGE,
                "call_pattern": "Get",
                "key_pattern": "k\\x00",
                "args": ["limit"],
                "calls": 1,
                "contract_calls": 0,
                "known_key": False,
                "example": example,
                "failed": 0,
                "origins": [origin(RANGE)],
            },
            {
                "grpc_method": TXN,
                "call_pattern": "Compaction",
                "key_pattern": "compact_rev_key",
                "args": ["lease"],
                "calls": 1,
                "contract_calls": 0,
                "example": {"trace_id": TRACE, "span_id": "00000003000000bb"},
                "failed": 0,
                "origins": [origin(TXN)],
            },
        ],
        "leases": [{"key_pattern": "compact_rev_key", "uses": 1, "ttl_seconds": 15, "calls": 1}],
        "findings": findings,
        "quality": quality,
        "error": None,
    }
    bad = saved["dumps"]["a.json"]
    assert bad["error"].startswith(f"{tmp_path}/bad.json: is JSON, but not a dump")
    assert (bad["calls"], bad["rows"], bad["leases"], bad["findings"]) == ({}, [], [], [])


def test_same_dump_gives_the_same_file(tmp_path: Path) -> None:
    path = write(tmp_path / "dump.json", etcd(complete()))
    for name in ("a", "b"):
        update(tmp_path / name, {"dump.json": judge(path)})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"result": None}, "has no spans"),
        (dump(), "has no spans"),
        (dump(resource([])), "has no spans"),
        (etcd([span("00000000000000aa")]), "has no etcd gRPC spans"),
        (etcd([span("00000000000000aa", name=RANGE, kind=3)]), "has no etcd gRPC spans"),
        (
            dump(
                resource(call(1, RANGE, {})),
                resource([span("00000000000000cc") | {"traceId": "f" * 32}], service="apiserver"),
            ),
            "has no etcd gRPC spans",
        ),
    ],
)
def test_dump_without_calls_is_one_error(tmp_path: Path, content: dict[str, object], told: str) -> None:
    judged = judge(write(tmp_path / "dump.json", content))
    assert judged.error is not None
    assert told in judged.error
    assert judged.error.startswith(f"{tmp_path}/dump.json: ")
    assert judged.findings == []


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("content", [etcd(complete()), "{}"], ids=["dump", "no dump"])
def test_garbage_collection_is_as_it_was(tmp_path: Path, collects: bool, content: dict[str, object] | str) -> None:
    path = write(tmp_path / "dump.json", content)
    try:
        (gc.enable if collects else gc.disable)()
        judge(path)
        assert gc.isenabled() is collects
    finally:
        gc.enable()


def test_quality_is_told_of_a_dump_that_could_not_be_judged(tmp_path: Path) -> None:
    assert judge(write(tmp_path / "dump.json", etcd([span("00000000000000aa")]))).quality.spans == 1


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("kubernetes-1.36.json.gz", "1.36"),
        ("kubernetes-1.37-full.json.gz", "1.37"),
        ("my-kubernetes-1.4.2.json", "1.4"),
        ("traces.json", ""),
        ("kubernetes.json", ""),
        ("kubernetes-1.json", ""),
    ],
)
def test_release_is_told_by_the_file_name(name: str, release: str) -> None:
    assert release_of(name) == release


@pytest.mark.parametrize(
    ("version", "known"), [("1.36", False), ("1.9", False), ("1.37", True), ("1.100", True), ("2.0", True), ("", True)]
)
def test_release_tells_which_methods_can_be_called(version: str, known: bool) -> None:
    stream = next(method for method in GRPC_METHODS if method.since == "1.37")
    assert can_call(stream, version) is known
    assert can_call(GRPC_METHODS[0], version)
