"""Contracts: the first contract.* event of a call or its nearest ancestor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from etcd_coverage.dumps.otlp_json import ResourceSpans, resources_of
from etcd_coverage.judging.ancestors import Ancestors
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.span_maps import spans_map
from etcd_coverage.judging.usage import Quality
from meta_tests.builder import GET, JSON, RANGE, TRACE, call, etcd, resource, span, write

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.judging.span_maps import SpansMap


def spans_of(*spans: JSON) -> SpansMap:
    decoded = msgspec.json.decode(msgspec.json.encode(resource(list(spans))), type=ResourceSpans)
    return spans_map(resources_of([decoded]), Quality())


CALL = "000000000000000c"
SERVER = "000000000000000a"
CLIENT = "0000000000000002"
ROOT = "0000000000000001"


@pytest.mark.parametrize(
    ("events", "contract"),
    [
        ({}, ""),
        ({CALL: ["contract.Get"]}, "contract.Get"),
        ({SERVER: ["contract.Get"]}, "contract.Get"),
        ({ROOT: ["contract.List"]}, "contract.List"),
        ({ROOT: ["other", "contract.Count", "contract.Get"]}, "contract.Count"),
        ({CLIENT: ["contract.OptimisticPut"], ROOT: ["contract.Get"]}, "contract.OptimisticPut"),
        ({CALL: ["Send raft proposal"], CLIENT: ["contract.OptimisticDelete"]}, "contract.OptimisticDelete"),
        ({ROOT: ["wrong.contract"]}, ""),
        ({ROOT: ["contractWrong"]}, ""),
        ({ROOT: ["contract"]}, ""),
        ({ROOT: ["Contract.Get"]}, ""),
        ({ROOT: ["contract."]}, "contract."),
        ({CALL: [{"timeUnixNano": "1"}, {"name": None}], ROOT: ["contract.Get"]}, "contract.Get"),
    ],
)
def test_contract_of_a_chain(events: dict[str, list[str]], contract: str) -> None:
    chain = [(ROOT, ""), (CLIENT, ROOT), (SERVER, CLIENT), (CALL, SERVER)]
    spans = spans_of(*(span(own, parent, events=events.get(own, [])) for own, parent in chain))
    ancestors = Ancestors(spans)
    assert ancestors.contract(spans[TRACE][CALL]) == contract
    assert ancestors.contract(spans[TRACE][CALL]) == contract


def test_contract_event_may_be_spelled_with_escapes(tmp_path: Path) -> None:
    server, child = call(1, RANGE, GET, events=["contract.Get"])
    text = json.dumps(etcd([server, child])).replace("contract.Get", "\\u0063ontract\\u002eGet")
    (row,) = judge(write(tmp_path / "dump.json", text)).rows
    assert row.contract_calls == 1


def test_missing_parent_ends_the_walk() -> None:
    spans = spans_of(span(CALL, SERVER), span(ROOT, events=["contract.Get"]))
    assert Ancestors(spans).contract(spans[TRACE][CALL]) == ""


@pytest.mark.parametrize("zeros", ["0000000000000000", "0", "00000000"])
def test_parent_of_zeros_is_a_root_even_if_a_span_has_that_id(zeros: str) -> None:
    spans = spans_of(span(CALL, zeros), span(zeros, events=["contract.Get"]))
    assert Ancestors(spans).contract(spans[TRACE][CALL]) == ""


@pytest.mark.parametrize(
    "parents", [{CALL: CALL}, {CALL: SERVER, SERVER: CALL}, {CALL: SERVER, SERVER: ROOT, ROOT: SERVER}]
)
def test_cycle_ends_the_walk(parents: dict[str, str]) -> None:
    spans = spans_of(*(span(own, parent) for own, parent in parents.items()))
    assert Ancestors(spans).contract(spans[TRACE][CALL]) == ""


def test_contract_in_a_cycle_is_found_from_each_of_its_spans() -> None:
    spans = spans_of(span(CALL, SERVER), span(SERVER, ROOT, events=["contract.Get"]), span(ROOT, CALL))
    ancestors = Ancestors(spans)
    assert [ancestors.contract(spans[TRACE][one]) for one in (ROOT, CALL, SERVER)] == ["contract.Get"] * 3


@pytest.mark.integration
def test_walks_of_many_calls_share_a_long_chain() -> None:
    """Walked anew by each call, these 100,000 calls would take five billion steps."""
    length = 100_000
    spans = spans_of(
        span(f"{1:016x}", events=["contract.Get"]),
        *(span(f"{number:016x}", f"{number - 1:016x}") for number in range(2, length + 1)),
    )
    ancestors = Ancestors(spans)
    assert {ancestors.contract(one) for one in reversed(spans[TRACE].values())} == {"contract.Get"}


def test_link_is_no_parent() -> None:
    linked = span(CALL, links=[{"traceId": TRACE, "spanId": ROOT}])
    spans = spans_of(linked, span(ROOT, events=["contract.Get"]))
    assert Ancestors(spans).contract(spans[TRACE][CALL]) == ""


def test_parent_of_another_trace_is_none() -> None:
    other = span(SERVER, events=["contract.Get"]) | {"traceId": "f" * 32}
    spans = spans_of(span(CALL, SERVER), other)
    assert Ancestors(spans).contract(spans[TRACE][CALL]) == ""
