"""Findings while spans still come: each once, with its origin, when its trace is whole or late."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from etcd_coverage.dumps import kinds
from etcd_coverage.judging import live
from etcd_coverage.judging.live import LATE_SECONDS, QUIET_SECONDS, LiveFindings
from etcd_coverage.sources.live_judge import line_of
from meta_tests.builder import GET, RANGE, call, dump, resource, span

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from etcd_coverage.dumps.spans import Resource
    from etcd_coverage.judging.usage import Finding
    from meta_tests.builder import JSON

DELETE = "etcdserverpb.KV/DeleteRange"
UNKNOWN_KEY = GET | {"range_begin": "/elsewhere/a"}
UNKNOWN_CALL = GET | {"limit": 7}
REQUEST = "000000000000000a"
CLIENT = "000000000000000b"


def resources(*parts: JSON) -> Iterable[Resource]:
    return kinds.read(memoryview(json.dumps(dump(*parts)).encode()))


def in_trace(number: int, spans: list[JSON]) -> list[JSON]:
    return [one | {"traceId": f"{number:032x}"} for one in spans]


def below(parent: str, spans: list[JSON]) -> list[JSON]:
    """Return the spans with the first one, the server span of a call, below a parent."""
    return [spans[0] | {"parentSpanId": parent}, *spans[1:]]


def of_apiserver() -> list[JSON]:
    """Return a request to the API, and the client span of a call of etcd that it makes."""
    request = {"verb": "GET", "api-group": "", "resource": "pods", "user-agent": "kubectl/v1.37.0"}
    return [
        span(REQUEST, name="GET", kind=2, attributes=request),
        span(CLIENT, REQUEST, name=RANGE, kind=3),
    ]


def messages(found: list[tuple[Finding, bool]]) -> list[str]:
    return [finding.message for finding, _ in found]


def test_a_whole_trace_is_judged_when_it_is_quiet() -> None:
    findings = LiveFindings()
    calls = below(CLIENT, call(1, RANGE, UNKNOWN_KEY))
    findings.add(resources(resource(calls)), 100.0)
    findings.add(resources(resource(of_apiserver(), "apiserver")), 103.0)
    assert findings.due(103.0 + QUIET_SECONDS - 0.01) == []
    [(finding, counts_only_without_apiserver)] = findings.due(103.0 + QUIET_SECONDS)
    assert not counts_only_without_apiserver
    assert line_of(finding) == (
        "etcdserverpb.KV/Range: New key pattern detected: /elsewhere/a, 1 call from kubectl GET pods; "
        "see span 00000001000000bb of trace 0123456789abcdef0123456789abcdef"
    )


def test_a_call_whose_parent_comes_later_waits() -> None:
    findings = LiveFindings()
    server, called = below(CLIENT, call(1, RANGE, UNKNOWN_CALL))
    findings.add(resources(resource([called])), 0.0)
    findings.add(resources(resource(of_apiserver(), "apiserver")), 1.0)
    assert findings.due(1.0 + LATE_SECONDS) == []
    findings.add(resources(resource([server])), 20.0)
    assert len(findings.due(20.0 + QUIET_SECONDS)) == 1


def test_a_trace_whose_parents_never_come_is_judged_late() -> None:
    findings = LiveFindings()
    findings.add(resources(resource(of_apiserver()[1:], "apiserver")), 0.0)
    findings.add(resources(resource(below(CLIENT, call(1, RANGE, UNKNOWN_KEY)))), 0.0)
    assert findings.due(LATE_SECONDS - 0.01) == []
    assert messages(findings.due(LATE_SECONDS)) == ["New key pattern detected: /elsewhere/a"]


def test_a_trace_that_is_never_quiet_is_judged_too() -> None:
    findings = LiveFindings()
    findings.add(resources(resource(of_apiserver(), "apiserver")), 0.0)
    found = []
    for second in range(20):
        spans = below(CLIENT, call(second, RANGE, UNKNOWN_KEY | {"range_begin": f"/elsewhere/{second}"}))
        findings.add(resources(resource(spans)), float(second))
        found += findings.due(second + 0.5)
    assert "New key pattern detected: /elsewhere/0" in messages(found)


def test_each_finding_comes_once() -> None:
    findings = LiveFindings()
    found = []
    for number in range(3):
        spans = [
            resource(in_trace(number, of_apiserver()), "apiserver"),
            resource(in_trace(number, [*below(CLIENT, call(1, RANGE, UNKNOWN_KEY)), *call(2, DELETE, {})])),
        ]
        findings.add(resources(*spans), 10.0 * number)
        found += messages(findings.due(10.0 * number + 5))
    assert sorted(found) == [
        "New key pattern detected: /elsewhere/a",
        "unexpected 1 calls to method: etcdserverpb.KV/DeleteRange",
    ]


def test_without_spans_of_the_apiserver_it_is_not_sure() -> None:
    findings = LiveFindings()
    findings.add(resources(resource(call(1, RANGE, UNKNOWN_KEY))), 0.0)
    assert [counts_only_without for _, counts_only_without in findings.due(LATE_SECONDS)] == [True]


def test_traces_without_the_apiserver_do_not_count_beside_its_traces() -> None:
    findings = LiveFindings()
    findings.add(resources(resource(in_trace(1, of_apiserver()), "apiserver")), 0.0)
    findings.add(resources(resource(in_trace(2, call(1, RANGE, UNKNOWN_KEY)))), 0.0)
    assert findings.due(LATE_SECONDS) == []


def test_what_cannot_be_judged_keeps_nothing_else_from_it() -> None:
    findings = LiveFindings()
    nameless = {"resource": {}, "scopeSpans": [{"spans": call(5, RANGE, GET)}]}
    without_id = [one | {"spanId": ""} for one in call(6, RANGE, GET)]
    findings.add(resources(nameless, resource(without_id), resource(call(1, RANGE, UNKNOWN_KEY))), 0.0)
    assert messages(findings.due(LATE_SECONDS)) == ["New key pattern detected: /elsewhere/a"]


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_SPANS", 100)
    findings = LiveFindings()
    for number in range(1000):
        findings.add(resources(resource(in_trace(number, call(1, RANGE, GET)))), 0.0)
        findings.due(0.0)
    assert sum(len(trace.spans) for trace in vars(findings)["_traces"].values()) == 100
    # The newest are kept.
    findings.add(resources(resource(in_trace(999, call(2, RANGE, UNKNOWN_KEY)))), 0.0)
    assert messages(findings.due(LATE_SECONDS)) == ["New key pattern detected: /elsewhere/a"]


def test_text_of_a_dump_is_escaped() -> None:
    findings = LiveFindings()
    findings.add(resources(resource(call(1, RANGE, GET | {"range_begin": "\x1b[31m/elsewhere"}))), 0.0)
    [(finding, _)] = findings.due(LATE_SECONDS)
    assert r"New key pattern detected: \x1b[31m/elsewhere, " in line_of(finding)
