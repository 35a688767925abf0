"""Maps: what is kept of a dump, what counts as a call, and the data quality beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.kinds import read_dump
from etcd_coverage.judging import span_maps
from etcd_coverage.judging.usage import Example, Quality
from meta_tests.builder import (
    GET,
    JSON,
    LEASE_GRANT,
    PUT,
    RANGE,
    TRACE,
    TXN,
    attributes,
    call,
    dump,
    etcd,
    resource,
    span,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.judging.span_maps import Call, SpansMap

OTHER = "f" * 32


def read(tmp_path: Path, content: JSON) -> tuple[SpansMap, dict[str, list[Call]], Quality]:
    quality = Quality()
    spans = span_maps.spans_map(read_dump(write(tmp_path / "dump.json", content)), quality)
    return spans, span_maps.calls_map(spans, span_maps.grpc_spans(spans), quality), quality


def counts(calls: dict[str, list[Call]]) -> dict[str, int]:
    return {method: len(found) for method, found in calls.items()}


def in_trace(trace: str, spans: list[JSON]) -> list[JSON]:
    return [one | {"traceId": trace} for one in spans]


def test_call_is_the_child_of_a_server_span(tmp_path: Path) -> None:
    client = span("00000000000000cc", name=RANGE, kind=3)
    below_client = span("00000000000000dd", "00000000000000cc")
    below_call = span("00000000000000ee", "00000001000000bb")
    other_grpc = span("00000000000000ff", name="grpc.health.v1.Health/Check", kind=2)
    below_other = span("0000000000000011", "00000000000000ff")
    _, calls, quality = read(
        tmp_path, etcd(call(1, RANGE, GET), [client, below_client, below_call, other_grpc, below_other])
    )
    assert counts(calls) == {RANGE: 1}
    assert calls[RANGE][0].attributes == GET
    assert quality.grpc_spans_without_call == 0


def test_server_span_below_a_server_span_is_no_call(tmp_path: Path) -> None:
    """As in gRPC calls that etcd makes to itself."""
    inner = span("00000000000000cc", "00000001000000aa", name=TXN, kind=2)
    spans, calls, quality = read(tmp_path, etcd(call(1, RANGE, GET), [inner]))
    assert counts(calls) == {RANGE: 1}
    assert {name: len(found) for name, found in span_maps.grpc_spans(spans).items()} == {RANGE: 1, TXN: 1}
    assert quality.grpc_spans_without_call == 1


def test_several_calls_below_one_server_span_all_count(tmp_path: Path) -> None:
    _, calls, _ = read(tmp_path, etcd(call(1, RANGE, GET), [span("00000000000000cc", "00000001000000aa")]))
    assert counts(calls) == {RANGE: 2}


def test_call_may_come_before_its_server_span_and_from_another_resource(tmp_path: Path) -> None:
    server, child = call(1, RANGE, GET)
    _, calls, _ = read(tmp_path, dump(resource([child], service="helper"), resource([server])))
    assert counts(calls) == {RANGE: 1}


def test_same_span_id_in_another_trace_is_another_span(tmp_path: Path) -> None:
    _, calls, quality = read(tmp_path, etcd(call(1, RANGE, GET), in_trace(OTHER, call(1, TXN, PUT))))
    assert counts(calls) == {RANGE: 1, TXN: 1}
    assert (quality.traces, quality.duplicate_spans) == (2, 0)


def test_hex_ids_compare_without_regard_to_case(tmp_path: Path) -> None:
    server, child = call(0xABCDEF, RANGE, GET)
    server["spanId"] = server["spanId"].upper()
    child["traceId"] = TRACE.upper()
    spans, calls, quality = read(tmp_path, etcd([server, child]))
    assert counts(calls) == {RANGE: 1}
    assert list(spans) == [TRACE]
    assert quality.traces == 1


def test_other_ids_compare_as_they_are(tmp_path: Path) -> None:
    server, child = call(1, RANGE, GET)
    server["spanId"], child["parentSpanId"] = "q80AAAA=", "Q80AAAA="
    _, calls, quality = read(tmp_path, etcd([server, child]))
    assert counts(calls) == {}
    assert (quality.calls_without_parent, quality.grpc_spans_without_call) == (1, 1)


def test_only_traces_of_the_apiserver_are_kept_if_there_are_any(tmp_path: Path) -> None:
    """A trace is kept whole, wherever in the dump its span of the apiserver is."""
    _, calls, quality = read(
        tmp_path,
        dump(
            resource(call(1, RANGE, GET)),
            resource(in_trace(OTHER, call(2, TXN, PUT))),
            resource([span("00000000000000cc")], service="apiserver"),
        ),
    )
    assert counts(calls) == {RANGE: 1}
    assert (quality.spans, quality.traces, quality.skipped_spans, quality.apiserver_traces) == (5, 2, 2, 1)
    assert quality.warnings() == ["skipped 2 spans without traces in apiserver"]


def test_all_is_kept_without_an_apiserver(tmp_path: Path) -> None:
    _, calls, quality = read(tmp_path, etcd(call(1, RANGE, GET), in_trace(OTHER, call(2, TXN, PUT))))
    assert counts(calls) == {RANGE: 1, TXN: 1}
    assert quality.warnings() == ["no records of traces from the apiserver"]


def test_resource_without_service_name_is_fatal(tmp_path: Path) -> None:
    for pairs in ([], attributes({"service.Name": "etcd"})):
        nameless = resource(call(1, RANGE, GET)) | {"resource": {"attributes": pairs}}
        with pytest.raises(DumpError, match=r"service\.name: resourceSpans\[1\]"):
            read(tmp_path, dump(resource([]), nameless))


def test_service_name_of_another_type_is_a_name(tmp_path: Path) -> None:
    odd = resource(call(1, RANGE, GET)) | {"resource": {"attributes": attributes({"service.name": 5})}}
    _, calls, _ = read(tmp_path, dump(odd))
    assert counts(calls) == {RANGE: 1}


@pytest.mark.parametrize(("field", "told"), [("spanId", "without a span id"), ("traceId", "without a trace id")])
def test_kept_span_without_id_is_fatal(tmp_path: Path, field: str, told: str) -> None:
    nameless = span("00000000000000cc")
    del nameless[field]
    with pytest.raises(DumpError, match=told):
        read(tmp_path, etcd(call(1, RANGE, GET), [nameless]))


def test_skipped_span_without_id_is_not(tmp_path: Path) -> None:
    nameless = span("") | {"traceId": OTHER}
    kept = resource([span("00000000000000cc"), *call(1, RANGE, GET)], service="apiserver")
    _, calls, quality = read(tmp_path, dump(kept, resource([nameless])))
    assert counts(calls) == {RANGE: 1}
    assert quality.skipped_spans == 1


def test_exact_duplicate_is_counted(tmp_path: Path) -> None:
    _, calls, quality = read(tmp_path, etcd(call(1, RANGE, GET), call(1, RANGE, GET)))
    assert counts(calls) == {RANGE: 1}
    assert (quality.spans, quality.duplicate_spans, quality.skipped_spans) == (4, 2, 0)
    assert quality.conflicting_spans == []


def test_later_span_with_the_same_ids_replaces_the_earlier_and_is_told(tmp_path: Path) -> None:
    later = call(1, RANGE, GET | {"limit": 5})
    _, calls, quality = read(tmp_path, etcd(call(1, RANGE, GET), later))
    assert [one.attributes["limit"] for one in calls[RANGE]] == [5]
    assert quality.duplicate_spans == 2
    assert quality.conflicting_spans == [Example(TRACE, "00000001000000bb")]
    assert [line for line in quality.warnings() if "00000001000000bb" in line and TRACE in line]


@pytest.mark.parametrize(("conflicts", "more"), [(10, []), (11, ["1 more spans came again with another content"])])
def test_each_of_ten_conflicts_has_a_warning_and_the_rest_are_counted(
    tmp_path: Path, conflicts: int, more: list[str]
) -> None:
    spans = [one for at in range(conflicts) for one in (call(at, RANGE, GET)[0], call(at, TXN, PUT)[0])]
    warnings = read(tmp_path, etcd(spans))[2].warnings()
    assert sum("the later one counts" in line for line in warnings) == 10
    assert [line for line in warnings if "more spans" in line] == more


def test_call_without_parent_is_told_and_not_counted(tmp_path: Path) -> None:
    lost = span("00000000000000cc", "00000000000000dd", attributes=GET)
    _, calls, quality = read(tmp_path, etcd(call(1, RANGE, GET), [lost]))
    assert counts(calls) == {RANGE: 1}
    assert quality.calls_without_parent == 1


def test_server_span_or_apiserver_span_without_parent_is_no_lost_call(tmp_path: Path) -> None:
    server, child = call(1, RANGE, GET)
    lost = span("00000000000000cc", "00000000000000dd")
    _, _, quality = read(
        tmp_path,
        dump(resource([server | {"parentSpanId": "00000000000000ee"}, child]), resource([lost], service="apiserver")),
    )
    assert quality.calls_without_parent == 0


def test_server_span_without_call_is_told_and_whether_it_failed(tmp_path: Path) -> None:
    failed = call(1, RANGE, GET, status={"code": 2})[:1]
    fine = call(2, RANGE, GET)[:1]
    by_name = call(3, RANGE, GET, status={"code": "STATUS_CODE_ERROR"})[:1]
    failed_with_call = call(4, RANGE, GET, status={"code": 2})
    _, calls, quality = read(tmp_path, etcd(failed, fine, by_name, failed_with_call))
    assert counts(calls) == {RANGE: 1}
    assert (quality.grpc_spans_without_call, quality.failed_without_call) == (3, 2)


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("attributes", attributes(GET | {"rev": 1})),
        ("events", [{"name": "x"}]),
        ("status", {"code": 2}),
        ("kind", 3),
        ("name", "other"),
        ("parentSpanId", "00000000000000ff"),
    ],
)
def test_copy_that_differs_in_any_field_that_is_read_is_told(tmp_path: Path, field: str, other: object) -> None:
    server, child = call(1, RANGE, GET)
    _, _, quality = read(tmp_path, etcd([server, child, child | {field: other}]))
    assert quality.conflicting_spans == [Example(TRACE, child["spanId"])]


def test_many_conflicting_copies_have_few_warnings(tmp_path: Path) -> None:
    copies = [span(f"{number:016x}", name=name) for number in range(1, 31) for name in "aba"]
    _, _, quality = read(tmp_path, etcd(copies))
    assert len(quality.conflicting_spans) == 30
    assert [line for line in quality.warnings() if "again" in line][10:] == [
        "20 more spans came again with another content"
    ]


def test_duplicates_among_skipped_spans_do_not_count(tmp_path: Path) -> None:
    kept = resource([span("00000000000000cc"), *call(1, RANGE, GET)], service="apiserver")
    skipped = in_trace(OTHER, call(2, RANGE, GET))
    _, _, quality = read(tmp_path, dump(kept, resource(skipped), resource(skipped)))
    assert (quality.spans, quality.skipped_spans, quality.duplicate_spans) == (7, 4, 0)


def test_lost_call_counts_once_however_often_it_came(tmp_path: Path) -> None:
    lost = span("00000000000000cc", "00000000000000dd")
    _, _, quality = read(tmp_path, etcd(call(1, RANGE, GET), [lost, lost, lost]))
    assert quality.calls_without_parent == 1
    found = lost | {"parentSpanId": "00000001000000aa"}
    _, _, quality = read(tmp_path, etcd(call(1, RANGE, GET), [lost, found]))
    assert quality.calls_without_parent == 0


def test_span_without_parent_of_a_service_that_answers_no_call_is_none(tmp_path: Path) -> None:
    lost = resource([span("00000000000000cc", "00000000000000dd")], service="kubelet")
    _, _, quality = read(tmp_path, dump(resource(call(1, RANGE, GET)), lost))
    assert quality.calls_without_parent == 0


def test_long_ids_are_cut_where_they_are_told(tmp_path: Path) -> None:
    long = "x" * 100_000
    _, _, quality = read(tmp_path, etcd([span(long, name="a"), span(long, name="b")]))
    assert max(map(len, quality.warnings())) < 300


@pytest.mark.parametrize("traces", [100, 1_000, 1_500, 10_000, 100_000])
def test_round_number_of_traces_is_a_warning(traces: int) -> None:
    assert [line for line in Quality(traces=traces).warnings() if line.startswith(f"exactly {traces:,} traces")]
    assert not [line for line in Quality(traces=traces + 1).warnings() if "exactly" in line]


@pytest.mark.parametrize(("traces", "warned"), [(99, False), (100, True), (101, False)])
def test_exactly_a_hundred_traces_are_a_warning(tmp_path: Path, traces: int, warned: bool) -> None:
    _, _, quality = read(tmp_path, etcd(*(in_trace(f"{n:032x}", call(1, RANGE, GET)) for n in range(1, traces + 1))))
    assert any("query.num_traces" in line for line in quality.warnings()) is warned


def test_lease_map_takes_the_transactions_of_each_lease(tmp_path: Path) -> None:
    big = 2**63 - 1
    leases = [big, 7, big, -1, 0]
    transactions = [call(n, TXN, PUT | {"success_first_lease": lease}) for n, lease in enumerate(leases)]
    without = {key: of for key, of in PUT.items() if key != "success_first_lease"}
    _, calls, _ = read(tmp_path, etcd(*transactions, call(8, TXN, without), call(9, LEASE_GRANT, {"id": big})))
    assert {lease: len(found) for lease, found in span_maps.lease_map(calls).items()} == {big: 2, 7: 1, -1: 1, 0: 1}
