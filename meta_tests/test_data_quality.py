"""What makes a dump's numbers wrong: calls lost, doubled, cut, mistyped; each found in a dump that is else complete."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from etcd_coverage.comparing import saved
from etcd_coverage.dumps.kinds import open_dump
from etcd_coverage.dumps.write import HEAD, tail
from etcd_coverage.judging.data_quality import Limits, quality_findings, with_quality_findings
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.usage import Example, SpanCount
from meta_tests.builder import (
    GET,
    JSON,
    LEASE_GRANT,
    PODS,
    PUT,
    RANGE,
    TRACE,
    TXN,
    WATCH,
    call,
    complete,
    dump,
    etcd,
    resource,
    span,
    write,
)
from meta_tests.go_original import its_rows_alone

if TYPE_CHECKING:
    from collections.abc import Callable

    from etcd_coverage.judging.usage import Usage

ROOT = Path(__file__).parents[1]
REAL = [
    *sorted((ROOT / "testdata").glob("*.json.gz")),
    # etcd 3.6 records no calls.
    *sorted((ROOT / "meta_tests" / "dumps").glob("[!e]*.json.gz")),
]
DEMO = ROOT / "testdata" / "kubernetes-1.37.json.gz"
PUT_METHOD = "etcdserverpb.KV/Put"


def found(usage: Usage, limits: Limits | None = None) -> dict[str, int]:
    """Return the counts of the findings on data quality, by id and gRPC method."""
    assert usage.error is None
    return {
        f"{finding.id} {finding.grpc_method}".strip(): finding.count
        for finding in quality_findings(usage, limits or Limits())
    }


def messages(usage: Usage) -> list[str]:
    return [finding.message for finding in quality_findings(usage, Limits())]


def judged(tmp_path: Path, *groups: list[JSON]) -> Usage:
    return judge(write(tmp_path / "dump.json", etcd(*groups)))


@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}-{path.name}")
@pytest.mark.integration
def test_real_dumps_are_within_the_limits_but_the_one_that_was_cut(path: Path) -> None:
    expected = {"clipped-dump": 100} if path.name.startswith("truncated") else {}
    assert found(judge(path)) == expected
    assert found(judge(path), Limits(allow_clipped=True)) == {}


@pytest.fixture(scope="module")
def demo() -> JSON:
    content: JSON = msgspec.json.decode(gzip.decompress(DEMO.read_bytes()))
    return content


def spans_in(resource_spans: JSON) -> list[JSON]:
    return [one for scope in resource_spans["scopeSpans"] for one in scope["spans"]]


def without(content: JSON, gone: Callable[[JSON], bool]) -> JSON:
    return dump(
        *(
            part | {"scopeSpans": [{"spans": [one for one in spans_in(part) if not gone(one)]}]}
            for part in content["result"]["resourceSpans"]
        )
    )


def changed_dump(tmp_path: Path, content: JSON) -> Path:
    return write(tmp_path / "dump.json", msgspec.json.encode(content))


def range_servers(content: JSON) -> list[str]:
    """Return the span ids, which are unique in this dump, of the 721 server spans of KV/Range."""
    spans = [one for part in content["result"]["resourceSpans"] for one in spans_in(part)]
    return [one["spanId"] for one in spans if one["kind"] == 2 and one["name"] == RANGE]


def test_720_of_721_calls_lost(tmp_path: Path, demo: JSON) -> None:
    servers = range_servers(demo)
    assert len(servers) == 721
    lost = set(servers[1:])
    usage = judge(changed_dump(tmp_path, without(demo, lambda one: one.get("parentSpanId") in lost)))
    assert found(usage) == {f"lost-calls {RANGE}": 720}
    assert messages(usage) == [
        f'"{RANGE}" method was called 721 times, 720 of them without a recorded call (99.86%, allowed 1%)'
    ]


def test_40_calls_without_server_span(tmp_path: Path, demo: JSON) -> None:
    servers = range_servers(demo)[:40]
    usage = judge(changed_dump(tmp_path, without(demo, lambda one: one["spanId"] in servers)))
    assert found(usage) == {"orphan-calls": 40}
    # Of 2,160 server spans 2,120 are left: 40 of 2,160 calls.
    assert messages(usage)[0].endswith("(1.85%, allowed 0.1%)")


def test_50_puts_in_traces_that_lost_their_apiserver_spans(tmp_path: Path, demo: JSON) -> None:
    puts = [
        one | {"traceId": f"{number:032x}"}
        for number in range(1, 51)
        for one in call(number, PUT_METHOD, {"key": "/registry/pods/default/web"})
    ]
    usage = judge(changed_dump(tmp_path, dump(*demo["result"]["resourceSpans"], resource(puts))))
    assert found(usage) == {f"left-out-method {PUT_METHOD}": 50}
    assert PUT_METHOD not in usage.calls
    # 50 of 2,160 + 50 server spans.
    assert messages(usage) == [
        f"50 calls to method {PUT_METHOD} in traces without spans of the apiserver (2.26%, allowed 0.1%)"
    ]
    assert found(usage, Limits(max_left_out=2.3)) == {}


def ranges(number: int) -> list[JSON]:
    return [one for at in range(number) for one in call(1000 + at, RANGE, GET)]


def test_lost_calls_are_a_share_of_their_method(tmp_path: Path) -> None:
    lost = call(1, RANGE, GET)[:1]
    assert found(judged(tmp_path, lost, ranges(99))) == {}
    assert found(judged(tmp_path, lost, ranges(98))) == {f"lost-calls {RANGE}": 1}
    assert found(judged(tmp_path, lost, ranges(98)), Limits(max_lost_calls=1.02)) == {}
    assert found(judged(tmp_path, call(1, TXN, PUT)[:1], ranges(99))) == {f"lost-calls {TXN}": 1}
    assert found(judged(tmp_path, lost, ranges(99)), Limits(max_lost_calls=0)) == {f"lost-calls {RANGE}": 1}


@pytest.mark.parametrize("method", [WATCH, "etcdserverpb.Maintenance/Status", PUT_METHOD])
def test_calls_that_may_lack_their_span_are_not_lost(tmp_path: Path, method: str) -> None:
    usage = judged(tmp_path, complete(), call(9, method, {})[:1])
    assert (usage.quality.grpc_spans_without_call, found(usage)) == (1, {})


def test_failed_calls_are_not_lost(tmp_path: Path) -> None:
    usage = judged(tmp_path, complete(), call(9, RANGE, {}, status={"code": 2})[:1])
    assert (usage.quality.failed_without_call, found(usage)) == (1, {})


def test_orphans_have_a_limit_for_dumps_with_and_without_apiserver(tmp_path: Path) -> None:
    """1 of 200 calls: more than 0.1 %, less than 1 %."""
    orphan = [span("00000000000000dd", "00000000000000ee")]
    spans = [*ranges(199), *orphan]
    assert found(judged(tmp_path, spans)) == {}
    assert found(judged(tmp_path, spans), Limits(max_orphan_calls=0.4)) == {"orphan-calls": 1}
    with_apiserver = dump(resource(spans), resource([span("00000000000000ff")], "apiserver"))
    usage = judge(write(tmp_path / "dump.json", with_apiserver))
    assert found(usage) == {"orphan-calls": 1}
    assert quality_findings(usage, Limits())[0].example == Example(TRACE, "00000000000000dd")
    assert found(usage, Limits(max_orphan_calls=0.5)) == {}


def test_left_out_traces_with_expected_methods_are_no_finding(tmp_path: Path) -> None:
    left_out = [one | {"traceId": "f" * 32} for one in call(1, RANGE, GET)]
    usage = judge(write(tmp_path / "dump.json", dump(resource([*complete(), *left_out]), apiserver())))
    assert (usage.quality.skipped_grpc_spans, found(usage)) == (1, {})


def apiserver() -> JSON:
    return resource([span("00000000000000ff")], "apiserver")


@pytest.mark.parametrize("of", [0, 1], ids=["server", "call"])
@pytest.mark.parametrize("field", ["droppedAttributesCount", "dropped_attributes_count"])
@pytest.mark.parametrize("value", [3, "3"], ids=["number", "text"])
def test_dropped_attributes_of_calls_and_their_servers(tmp_path: Path, of: int, field: str, value: object) -> None:
    spans = call(1, RANGE, GET)
    spans[of][field] = value
    usage = judged(tmp_path, complete(), call(7, RANGE, GET), spans)
    assert usage.quality.dropped_attributes == SpanCount(1, Example(TRACE, spans[of]["spanId"]))
    assert found(usage) == {"dropped-attributes": 1}
    assert found(usage, Limits(allow_dropped=True)) == {}


def test_dropped_events_of_a_call_are_a_warning_and_those_of_others_are_not(tmp_path: Path) -> None:
    spans = call(9, RANGE, GET)
    spans[1]["droppedEventsCount"] = 5
    usage = judged(tmp_path, complete(), spans, [span("00000000000000dd", droppedEventsCount=7)])
    assert found(usage) == {}
    (warning,) = [line for line in usage.quality.warnings() if "events" in line]
    assert warning.startswith("1 call lost events to a limit, maybe contract events: see span 00000009000000bb of")


def noted(tmp_path: Path, limit: int | None, traces: int = 3) -> Path:
    groups = [[one | {"traceId": f"{at:032x}"} for one in call(at, RANGE, GET)] for at in range(1, traces + 1)]
    text = HEAD + json.dumps(resource([one for group in groups for one in group])).encode() + tail(limit)
    return write(tmp_path / "dump.json", text)


@pytest.mark.parametrize(("limit", "clipped"), [(None, False), (4, False), (3, True), (2, True)])
def test_number_of_traces_at_the_limit_that_the_download_noted(
    tmp_path: Path, limit: int | None, clipped: bool
) -> None:
    usage = judge(noted(tmp_path, limit))
    assert usage.quality.traces_limit == limit
    assert found(usage) == ({"clipped-dump": 3} if clipped else {})
    warned = [line for line in usage.quality.warnings() if "probably cut" in line]
    assert [f"cut at the limit of {limit} that the download noted" in line for line in warned] == [True] * clipped


@pytest.mark.parametrize("order", ["first", "last"])
def test_noted_limit_is_read_wherever_a_formatter_puts_it(tmp_path: Path, order: str) -> None:
    content = json.loads(noted(tmp_path, 3).read_text())
    if order == "first":
        content = dict(sorted(content.items()))
        assert next(iter(content)) == "etcdK8sCoverage"
    (tmp_path / "pretty.json").write_text(json.dumps(content, indent=4))
    assert open_dump(tmp_path / "pretty.json").traces_limit == 3


@pytest.mark.parametrize("note", [{"tracesLimit": "x"}, [], None, {}, {"tracesLimit": None}])
def test_note_of_another_form_is_no_note(tmp_path: Path, note: object) -> None:
    usage = judge(write(tmp_path / "dump.json", etcd(complete()) | {"etcdK8sCoverage": note}))
    assert (usage.error, usage.quality.traces_limit) == (None, None)


@pytest.mark.parametrize(
    ("method", "arguments", "names"),
    [
        (RANGE, GET | {"limit": "1"}, ["limit"]),
        (RANGE, PODS | {"count_only": "true"}, ["count_only"]),
        (TXN, PUT | {"compare_len": "1", "success_first_lease": "7"}, ["compare_len", "success_first_lease"]),
        (LEASE_GRANT, {"id": "77", "ttl": "15"}, ["id", "ttl"]),
        (RANGE, GET | {"range_end": "1", "more": "1"}, []),
    ],
)
def test_texts_where_numbers_or_bools_are_due(tmp_path: Path, method: str, arguments: JSON, names: list[str]) -> None:
    usage = judged(tmp_path, complete(), call(9, method, arguments))
    assert list(usage.quality.text_arguments) == names
    assert found(usage).get("text-argument", 0) == bool(names)
    assert [f"{name} is a text where a number or bool is due, in 1 call" for name in names] == messages(usage)


def test_text_is_no_false_in_a_new_call_pattern(tmp_path: Path) -> None:
    with its_rows_alone():
        usage = judged(tmp_path, complete(), call(9, RANGE, GET | {"limit": "1", "rev": "0"}))
    (finding,) = usage.findings
    assert finding.message == (
        f"New call pattern detected: {RANGE}(key=/registry/{{resource}}/{{namespace}}/{{name}},"
        "limit=text,rangeEnd=false,rev=text,countOnly=false,keysOnly=false)"
    )


def shared_ids(number: int) -> list[JSON]:
    """Return a call whose server span comes before a client span with the same ids."""
    server, child = call(number, RANGE, GET)
    return [server, server | {"kind": 3}, child]


def test_server_spans_overwritten_by_client_spans_with_their_ids(tmp_path: Path) -> None:
    usage = judged(tmp_path, complete(), shared_ids(8), shared_ids(9))
    assert found(usage) == {"overwritten-server-spans": 2}
    assert usage.calls[RANGE] == 1
    alone = judged(tmp_path, shared_ids(8), shared_ids(9))
    assert alone.error is not None
    assert "has no etcd gRPC spans left: 2 server spans, such as 00000008000000aa of trace" in alone.error
    assert "Zipkin" in alone.error
    assert "--enable-distributed-tracing" not in alone.error
    # The other way round nothing is lost.
    assert found(judged(tmp_path, complete(), [shared_ids(8)[at] for at in (1, 0, 2)])) == {}


def test_doubled_server_spans(tmp_path: Path) -> None:
    server, child = call(9, RANGE, GET)
    inner = server | {"spanId": "00000009000000cc", "parentSpanId": server["spanId"]}
    usage = judged(tmp_path, complete(), [server, inner, child | {"parentSpanId": inner["spanId"]}])
    assert usage.quality.doubled_servers == SpanCount(1, Example(TRACE, "00000009000000aa"))
    assert found(usage) == {"doubled-server-spans": 1}
    other = inner | {"name": TXN}
    nested = judged(tmp_path, complete(), [server, other, child | {"parentSpanId": other["spanId"]}])
    assert found(nested) == {f"lost-calls {RANGE}": 1}


@pytest.mark.parametrize(
    ("service", "spans", "hint"),
    [
        ("kube-apiserver", [span("00000000000000cc", name=RANGE, kind=3)], True),
        ("bystander", [span("00000000000000dd", name=RANGE, kind=3)], False),
    ],
)
def test_apiserver_under_another_service_name(tmp_path: Path, service: str, spans: list[JSON], hint: bool) -> None:
    content = dump(resource(call(1, RANGE, GET, parentSpanId="00000000000000cc")), resource(spans, service))
    warning = judge(write(tmp_path / "dump.json", content)).quality.warnings()[0]
    instead = f': service "{service}" calls etcd in its place, whose service.name must be apiserver' if hint else ""
    assert warning == f"no records of traces from the apiserver{instead}"


def under(prefix: str) -> list[JSON]:
    keys = [f"{prefix}/pods/default/web{at}" for at in range(6)] + [f"{prefix}/leases/kube-system/x"]
    gets = [call(100 + at, RANGE, GET | {"range_begin": key}) for at, key in enumerate(keys)]
    return [*(one for group in gets for one in group), *call(200, RANGE, GET | {"range_begin": "compact_rev_key"})]


@pytest.mark.parametrize("prefix", ["/kubernetes.io", "/a", "/a/b", "/registry/a"])
def test_most_keys_under_another_prefix_name_it(tmp_path: Path, prefix: str) -> None:
    usage = judged(tmp_path, under(prefix))
    assert found(usage) == {"other-prefix": 7}
    assert messages(usage) == [
        f"most keys (7 of 8 calls) are under {prefix}: the apiserver runs with --etcd-prefix={prefix}"
    ]


def test_keys_at_the_root(tmp_path: Path) -> None:
    (message,) = messages(judged(tmp_path, under("")))
    assert message.endswith("are under /: the apiserver runs with --etcd-prefix=/")


KEYS = ["/pods/default/web1", "/pods/default/web2", "/pods/default/"]


@pytest.mark.parametrize(
    ("keys", "prefixes"),
    [
        # A prefix that ends as the usual one does.
        ([f"/custom/registry{key}" for key in KEYS], ["/custom/registry"]),
        (["/custom/registry/nodes/a", "/custom/registry/nodes/b"], ["/custom/registry"]),
        # The key of the health check has no resource.
        ([*(f"/a{key}" for key in KEYS), "/a/health"], ["/a"]),
        (["/a/nodes/a", "/a/nodes/b", "/a/health"], ["/a"]),
        # Keys of one resource: nobody knows.
        ([f"/a{key}" for key in KEYS], ["/a", "/a/pods"]),
        (["/a/nodes/a", "/a/nodes/b"], ["/", "/a", "/a/nodes"]),
        # Several resources, of which one has namespaces.
        (["/a/nodes/a", *(f"/a{key}" for key in KEYS)], ["/a"]),
    ],
)
def test_prefix_of_few_resources_is_named_where_the_keys_leave_one(
    tmp_path: Path, keys: list[str], prefixes: list[str]
) -> None:
    gets = [one for at, key in enumerate(keys) for one in call(100 + at, RANGE, GET | {"range_begin": key})]
    (message,) = messages(judged(tmp_path, gets))
    options = " or ".join(f"--etcd-prefix={prefix}" for prefix in prefixes)
    calls = f"({len(keys)} of {len(keys)} calls)"
    assert message == f"most keys {calls} are under {prefixes[0]}: the apiserver runs with {options}"


@pytest.mark.parametrize("prefix", ["/registry", "registry", "a"])
def test_other_keys_have_no_prefix_to_name(tmp_path: Path, prefix: str) -> None:
    assert found(judged(tmp_path, under(prefix))) == {}


def test_few_keys_under_another_prefix_are_findings_of_their_own(tmp_path: Path) -> None:
    """7 of 14 keys are not most of them."""
    assert found(judged(tmp_path, under("/a"), ranges(6))) == {}
    assert found(judged(tmp_path, under("/a"), ranges(5))) == {"other-prefix": 7}


def test_findings_on_quality_follow_the_limits_of_this_run(tmp_path: Path) -> None:
    usage = judge(noted(tmp_path, 3))
    strict = with_quality_findings(usage, Limits())
    assert [finding.id for finding in strict.findings][-1] == "clipped-dump"
    assert with_quality_findings(strict, Limits()) == strict
    assert with_quality_findings(strict, Limits(allow_clipped=True)) == usage


def test_usage_of_version_0_1_is_loaded(tmp_path: Path) -> None:
    saved.update(tmp_path / "usage.json", {"a.json": judged(tmp_path, complete())})
    content = json.loads((tmp_path / "usage.json").read_text())
    quality = content["dumps"]["a.json"]["quality"]
    later = list(quality)[list(quality).index("traces_limit") :]
    assert len(later) == 11
    for name in later:
        del quality[name]
    (tmp_path / "usage.json").write_text(json.dumps(content))
    assert found(saved.load(tmp_path / "usage.json")["a.json"]) == {}
