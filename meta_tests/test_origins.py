"""Who made each call: on real dumps, user agent by user agent, and in generated traces by a plain second program.

The files beside the dumps, ``NAME.origins.json``, hold what another program found in them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etcd_coverage.dumps.kinds import read_dump
from etcd_coverage.dumps.otlp_json import JsonSpan
from etcd_coverage.judging import span_maps, user_agents
from etcd_coverage.judging.ancestors import Ancestors
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.origin_counts import with_heaviest_origins
from etcd_coverage.judging.usage import Origin, OtherOrigins, OtherTests, Quality
from etcd_coverage.reference import GRPC_METHODS
from meta_tests.builder import GET, JSON, RANGE, TRACE, TXN, WATCH, WATCH_PODS, call, dump, resource, span, write

if TYPE_CHECKING:
    from etcd_coverage.dumps.spans import Span
    from etcd_coverage.judging.usage import Usage

DUMPS = Path(__file__).parent / "dumps"
SHARED = Path(__file__).parents[2] / "shared"
FULL = SHARED / "dumps" / "kubernetes-1.37-full.json.gz"

with_shared = [
    pytest.mark.integration,
    pytest.mark.skipif(not FULL.exists(), reason="the larger dumps are not part of the project"),
]
REAL = [
    *(
        pytest.param(DUMPS / f"{name}.json.gz", DUMPS / f"{name}.origins.json", id=name)
        for name in ("kubernetes-1.36", "kubernetes-1.37", "robustness")
    ),
    *(
        pytest.param(
            SHARED / "dumps" / f"{name}.json.gz", SHARED / "origins" / f"{name}.json", id=name, marks=with_shared
        )
        for name in ("kubernetes-1.37-full", "kubernetes-1.38-beta")
    ),
]

Numbers = dict[tuple[str, ...], tuple[int, int]]


@pytest.mark.parametrize(("path", "expected"), REAL)
def test_real_dumps(path: Path, expected: Path) -> None:
    wanted = json.loads(expected.read_text())
    origins = {key(row): (row["calls"], row["contract_calls"]) for row in wanted["origins"]}
    tests = {(row["grpc_method"], row["test"]): row["calls"] for row in wanted["tests"]}
    spans = span_maps.spans_map(read_dump(path), Quality())
    calls = span_maps.calls_map(spans, span_maps.grpc_spans(spans), Quality())
    ancestors = Ancestors(spans)
    made: Counter[tuple[str, ...]] = Counter()
    by_contract: Counter[tuple[str, ...]] = Counter()
    of_tests: Counter[tuple[str, str]] = Counter()
    for method, of_method in calls.items():
        for one in of_method:
            contract, request = ancestors.find(one.span)
            caller = request.caller
            made[method, caller.component, caller.role, caller.verb, caller.resource] += 1
            by_contract[method, caller.component, caller.role, caller.verb, caller.resource] += bool(contract)
            of_tests[method, caller.test] += bool(caller.test)
    assert {origin: (number, by_contract[origin]) for origin, number in made.items()} == origins
    assert +of_tests == tests

    usage = judge(path)
    in_rows = {method.name for method in GRPC_METHODS if method.call_patterns}
    assert of_rows(usage) == {origin: numbers for origin, numbers in origins.items() if origin[0] in in_rows}
    assert by_test(usage) == {test: number for test, number in tests.items() if test[0] in in_rows}
    few = with_heaviest_origins(usage, 2)
    assert max(len(row.origins) for row in few.rows) <= 2
    for row, cut in zip(usage.rows, few.rows, strict=True):
        rest = cut.other_origins or OtherOrigins(origins=0, calls=0, contract_calls=0)
        assert row.calls == sum(one.calls for one in cut.origins) + rest.calls
        assert row.contract_calls == sum(one.contract_calls for one in cut.origins) + rest.contract_calls
        assert len(row.origins) == len(cut.origins) + rest.origins
        other_tests = cut.other_tests or OtherTests(tests=0, calls=0)
        assert sum(one.calls for one in row.tests) == sum(one.calls for one in cut.tests) + other_tests.calls


def key(row: JSON) -> tuple[str, ...]:
    return row["grpc_method"], row["component"], row["role"], row["verb"], row["resource"]


def of_rows(usage: Usage) -> Numbers:
    made: Counter[tuple[str, ...]] = Counter()
    by_contract: Counter[tuple[str, ...]] = Counter()
    for row in usage.rows:
        assert [one.calls for one in row.origins] == sorted((one.calls for one in row.origins), reverse=True)
        for one in row.origins:
            origin = (row.grpc_method, one.component, one.role, one.verb, one.resource)
            made[origin] += one.calls
            by_contract[origin] += one.contract_calls
    return {origin: (number, by_contract[origin]) for origin, number in made.items()}


def by_test(usage: Usage) -> dict[tuple[str, str], int]:
    made: Counter[tuple[str, str]] = Counter()
    for row in usage.rows:
        for one in row.tests:
            made[row.grpc_method, one.test] += one.calls
    return dict(made)


ACCOUNT = "system:serviceaccount:kube-system:replicaset-controller"
AGENTS = {
    "kubectl/v1.37.0 (linux/amd64) kubernetes/4cb5f07": ("kubectl", "", ""),
    "kube-scheduler/v1.37.0 (linux/amd64) kubernetes/$Format/leader-election": (
        "kube-scheduler",
        "leader-election",
        "",
    ),
    f"kube-controller-manager/v0.0.0 (linux/amd64) kubernetes/$Format/{ACCOUNT}": (
        "kube-controller-manager",
        "replicaset-controller",
        "",
    ),
    "e2e.test/v0 (linux/amd64) kubernetes/$Format -- [sig-apps] A / B -- C [Conformance]": (
        "e2e.test",
        "",
        "[sig-apps] A / B -- C [Conformance]",
    ),
    "e2e.test/v0 (linux/amd64) kubernetes/1/a/b role -- t": ("e2e.test", "a/b role", "t"),
    "kubelet/v1 (linux/amd64) kubernetes/1/system:serviceaccount:ns": ("kubelet", "system:serviceaccount:ns", ""),
    "kubelet/v1 (linux/amd64) kubernetes/1/": ("kubelet", "", ""),
    "kwok/v0.8.0 (linux/amd64)": ("kwok", "", ""),
    "kubectl/v1 (linux/amd64) kubernetes/": ("kubectl", "", ""),
    "Go-http-client/2.0": ("Go-http-client", "", ""),
    "curl 8 -- test": ("curl", "", ""),
    "Mozilla": ("Mozilla", "", ""),
    "/v1 (linux/amd64) kubernetes/1/role": ("", "", ""),
    "": ("", "", ""),
}


@pytest.mark.parametrize(("text", "parts"), AGENTS.items())
def test_user_agent(text: str, parts: tuple[str, str, str]) -> None:
    assert tuple(user_agents.parse(text)) == parts


def chain(*attributes: JSON, kinds: str = "") -> JSON:
    """Return a dump of a call with spans above it, the nearest first; ``kinds`` are their kinds, a digit each."""
    server, child = call(1, RANGE, GET)
    ids = [f"{number:016x}" for number in range(1, len(attributes) + 1)]
    server["parentSpanId"] = ids[0]
    above = [
        span(own, parent, name=f"above {own[-1]}", attributes=of, kind=int(kinds[number]) if kinds else 1)
        for number, (own, parent, of) in enumerate(zip(ids, [*ids[1:], ""], attributes, strict=True))
    ]
    return dump(resource([server, child]), resource(above, service="apiserver"))


def origin_of(tmp_path: Path, content: JSON) -> Origin:
    (row,) = judge(write(tmp_path / "dump.json", content)).rows
    (origin,) = row.origins
    return origin


KUBECTL = "kubectl/v1 (linux/amd64) kubernetes/1"
PODS = {"verb": "LIST", "api-group": "", "resource": "pods", "subresource": ""}


@pytest.mark.parametrize(
    ("attributes", "kinds", "expected"),
    [
        ([PODS | {"user-agent": KUBECTL}], "1", ("kubectl", "", "LIST", "pods")),
        (
            [{"verb": "UPDATE", "api-group": "apps", "resource": "deployments", "subresource": "status"}, {}],
            "12",
            ("", "", "UPDATE", "apps/deployments/status"),
        ),
        ([PODS, {}, {"user_agent.original": KUBECTL}], "112", ("kubectl", "", "LIST", "pods")),
        ([PODS, {"http.user_agent": "a"}, {"user_agent.original": "b"}], "112", ("a", "", "LIST", "pods")),
        ([PODS | {"user-agent": ""}, {"http.user_agent": KUBECTL}], "12", ("kubectl", "", "LIST", "pods")),
        ([PODS | {"user-agent": "own"}, {"http.user_agent": KUBECTL}], "12", ("own", "", "LIST", "pods")),
        ([{"http.method": "GET", "http.user_agent": "curl/8"}], "2", ("curl", "", "GET", "")),
        ([{"http.request.method": "PUT", "user_agent.original": "curl/8"}], "2", ("curl", "", "PUT", "")),
        ([{"http.request.method": "PUT", "http.method": "GET"}], "2", ("", "", "PUT", "")),
        ([{"http.method": "GET"}, PODS | {"user-agent": KUBECTL}], "31", ("kubectl", "", "LIST", "pods")),
        ([{"http.method": "GET"}, PODS | {"user-agent": KUBECTL}], "21", ("", "", "GET", "")),
        ([{"verb": "LIST"}, PODS | {"user-agent": KUBECTL}], "11", ("kubectl", "", "LIST", "pods")),
        ([{"verb": "", "resource": "a"}, PODS | {"user-agent": "k"}], "11", ("k", "", "LIST", "pods")),
        ([{"verb": 5, "resource": "a"}, {}], "11", ("apiserver", "above 2", "", "")),
        ([{"verb": "GET", "resource": 5}, {}], "11", ("apiserver", "above 2", "", "")),
        ([{"verb": "GET", "resource": ""}, {}], "11", ("", "", "GET", "")),
        ([{}, {}], "11", ("apiserver", "above 2", "", "")),
    ],
)
def test_request_above_a_call(
    tmp_path: Path, attributes: list[JSON], kinds: str, expected: tuple[str, str, str, str]
) -> None:
    found = origin_of(tmp_path, chain(*attributes, kinds=kinds))
    assert (found.component, found.role, found.verb, found.resource) == expected


def test_attributes_spelled_with_escapes_are_found(tmp_path: Path) -> None:
    text = json.dumps(chain(PODS | {"user-agent": KUBECTL})).replace('"verb"', '"\\u0076erb"')
    (row,) = judge(write(tmp_path / "dump.json", text)).rows
    assert [(one.component, one.verb) for one in row.origins] == [("kubectl", "LIST")]


def test_names_are_printable_and_of_bounded_length(tmp_path: Path) -> None:
    found = origin_of(tmp_path, chain({"verb": "\x1b[31m", "resource": "r" * 10_000, "user-agent": "\u202e/x"}))
    assert (found.component, found.verb) == ("\\u202e", "\\x1b[31m")
    assert len(found.resource) == 300


def test_topmost_span_of_a_dump_without_requests(tmp_path: Path) -> None:
    server, child = call(1, RANGE, GET)
    found = origin_of(tmp_path, dump(resource([server, child])))
    assert (found.component, found.role) == ("etcd", RANGE)
    lost = origin_of(tmp_path, dump(resource([server | {"parentSpanId": "00000000000000ff"}, child])))
    assert lost == found


def test_walks_of_many_calls_share_a_long_chain_and_a_long_cycle() -> None:
    """Walked anew by each call, these 30,000 calls would take 900 million steps."""
    length = 30_000
    for first_parent in ("", f"{length:016x}"):
        spans: dict[str, Span] = {
            f"{number:016x}": JsonSpan(TRACE, f"{number:016x}", f"{number - 1:016x}" if number > 1 else first_parent)
            for number in range(1, length + 1)
        }
        for number, one in enumerate(spans.values(), 1):
            one.name = str(number)
        ancestors = Ancestors({TRACE: spans})
        found = [ancestors.find(one)[1].caller.role for one in reversed(spans.values())]
        topmost = [str(number + 1) if number < length else "1" for number in range(length, 0, -1)]
        assert found == (topmost if first_parent else ["1"] * length)


def plain(spans: dict[str, JSON], start: str) -> tuple[str, tuple[str, ...], int]:
    """Return contract, origin with test, and status code: a second program, as simple as can be."""

    def upward(own: str) -> list[JSON]:
        path: list[JSON] = []
        while own in spans and spans[own] not in path:
            path.append(spans[own])
            own = path[-1].get("parentSpanId", "")
        return path

    path = upward(start)
    contract = ""
    for one in path:
        events = [event for event in one["events"] if event.startswith("contract.")]
        contract = contract or (events[0] if events else "")
    for one in path:
        found = one["attributes"]
        is_request = isinstance(found.get("verb"), str) and found["verb"] and isinstance(found.get("resource"), str)
        method = found.get("http.request.method") or found.get("http.method")
        if is_request or (one["kind"] == 2 and method):
            above = upward(one["spanId"])
            agents = [found.get("user-agent")] if is_request else []
            agents += [
                each["attributes"].get(name) for each in above for name in ("user_agent.original", "http.user_agent")
            ]
            codes = [
                each["attributes"].get(name)
                for each in above
                if each["kind"] == 2
                for name in ("http.response.status_code", "http.status_code")
            ]
            agent = next(filter(None, agents), "")
            parts = [found.get(name) for name in ("api-group", "resource", "subresource")]
            return (
                contract,
                (
                    *plain_agent(agent),
                    *((found["verb"], "/".join(filter(None, parts))) if is_request else (method, "")),
                ),
                next(filter(None, codes), 0),
            )
    return contract, (path[-1]["service"], path[-1]["name"], "", "", ""), 0


def plain_agent(text: str) -> tuple[str, str, str]:
    component = re.match(r"[^/ ]*", text)[0]  # type: ignore[index]
    words = text.split(" ", 2)
    if len(words) < 3 or not component or not words[2].startswith("kubernetes/") or "(" not in words[1]:
        return component, "", ""
    form, _, test = words[2].partition(" -- ")
    _, _, role = form.removeprefix("kubernetes/").partition("/")
    return component, role.split(":")[3] if role.startswith("system:serviceaccount:") else role, test


agents = st.sampled_from(
    ["", "a", "curl/8", KUBECTL, f"{KUBECTL}/{ACCOUNT}", f"{KUBECTL} -- a test", f"{KUBECTL}/r -- t"]
)
request_attributes = st.fixed_dictionaries(
    {},
    optional={
        "verb": st.sampled_from(["", "GET", "LIST", 5]),
        "resource": st.sampled_from(["", "pods"]),
        "api-group": st.sampled_from(["", "apps"]),
        "subresource": st.sampled_from(["", "status"]),
        "user-agent": agents,
        "user_agent.original": agents,
        "http.user_agent": agents,
        "http.method": st.sampled_from(["", "PUT"]),
        "http.request.method": st.sampled_from(["", "POST"]),
        "http.status_code": st.sampled_from([0, 404]),
        "http.response.status_code": st.sampled_from([200, 409]),
        "other": st.just("verb http. user_agent"),
    },
)
generated_spans = st.integers(1, 7).flatmap(
    lambda size: st.lists(
        st.fixed_dictionaries(
            {
                "parent": st.integers(0, size + 1),
                "kind": st.sampled_from([1, 2, 3]),
                "events": st.lists(st.sampled_from(["other", "contract.Get", "contract.List", "contract"]), max_size=2),
                "attributes": st.one_of(st.just({}), request_attributes),
                "service": st.sampled_from(["apiserver", "etcd"]),
            }
        ),
        min_size=size,
        max_size=size,
    )
)


@settings(deadline=None)
@given(drawn=generated_spans, order=st.randoms(use_true_random=False))
def test_generated_traces(tmp_path_factory: pytest.TempPathFactory, drawn: list[dict[str, Any]], order: Any) -> None:
    """Parents may be missing, of a cycle or the span itself; requests may stand above requests."""
    spans = {
        f"{number:016x}": {"spanId": f"{number:016x}", "parentSpanId": f"{one['parent']:016x}", "name": f"n{number}"}
        | one
        for number, one in enumerate(drawn, 1)
    }
    content = dump(
        *(
            resource(
                [
                    span(
                        own,
                        one["parentSpanId"],
                        name=one["name"],
                        kind=one["kind"],
                        events=one["events"],
                        attributes=dict(one["attributes"]),
                    )
                ],
                service=one["service"],
            )
            for own, one in spans.items()
        )
    )
    read = read_dump(write(tmp_path_factory.getbasetemp() / "generated.json", content))
    found = {one.span_id: one for of_resource in read for one in of_resource.spans}
    ancestors = Ancestors({TRACE: dict(found)})
    asked = list(spans)
    order.shuffle(asked)
    for own in asked:
        contract, request = ancestors.find(found[own])
        caller = request.caller
        origin = (caller.component, caller.role, caller.test, caller.verb, caller.resource)
        assert (contract, origin, request.status_code) == plain(spans, own)


def status(**attributes: object) -> JSON:
    """Return the attributes of a server span: dots in their names stand as double underscores."""
    return {"attributes": {name.replace("__", "."): value for name, value in attributes.items()}}


@pytest.mark.parametrize(
    ("method", "server", "errors"),
    [
        (RANGE, status(rpc__response__status_code="OK"), {}),
        (RANGE, status(rpc__grpc__status_code=0), {}),
        (RANGE, status(), {}),
        (RANGE, status(rpc__response__status_code="UNAVAILABLE"), {"UNAVAILABLE": 1}),
        (RANGE, status(rpc__response__status_code="DeadlineExceeded"), {"DEADLINE_EXCEEDED": 1}),
        (RANGE, status(rpc__response__status_code="Canceled"), {"CANCELLED": 1}),
        (RANGE, status(rpc__response__status_code="14"), {"UNAVAILABLE": 1}),
        (RANGE, status(rpc__grpc__status_code=14), {"UNAVAILABLE": 1}),
        (RANGE, status(rpc__grpc__status_code=17), {"17": 1}),
        (RANGE, status(rpc__response__status_code="odd\x1b"), {"odd\\x1b": 1}),
        (RANGE, status(rpc__response__status_code="OK", rpc__grpc__status_code=5), {}),
        (RANGE, {"status": {"code": 2}}, {"ERROR": 1}),
        (RANGE, status(rpc__response__status_code="CANCELLED"), {"CANCELLED": 1}),
        (WATCH, status(rpc__response__status_code="CANCELLED"), {}),
        (WATCH, status(rpc__grpc__status_code=4), {}),
        (WATCH, status(rpc__response__status_code="UNAVAILABLE"), {"UNAVAILABLE": 1}),
    ],
)
def test_grpc_errors(tmp_path: Path, method: str, server: JSON, errors: dict[str, int]) -> None:
    arguments = WATCH_PODS if method == WATCH else GET
    (row,) = judge(write(tmp_path / "dump.json", dump(resource(call(1, method, arguments, **server))))).rows
    assert (row.failed, row.grpc_errors) == (sum(errors.values()), errors)


@pytest.mark.parametrize(
    ("attributes", "kinds", "errors"),
    [
        ([PODS, {"http.response.status_code": 409}], "12", {"409": 1}),
        ([PODS, {"http.status_code": 404}], "12", {"404": 1}),
        ([PODS, {"http.status_code": 201}], "12", {}),
        ([PODS, {"http.status_code": 500}], "13", {}),
        ([{}, {"http.status_code": 500}], "12", {}),
    ],
)
def test_api_errors(tmp_path: Path, attributes: list[JSON], kinds: str, errors: dict[str, int]) -> None:
    """A client's span tells what another server answered, and below no request nothing was answered."""
    (row,) = judge(write(tmp_path / "dump.json", chain(*attributes, kinds=kinds))).rows
    assert (row.failed, row.api_errors) == (0, errors)


def test_finding_names_its_origins_and_the_attributes_of_its_example(tmp_path: Path) -> None:
    unknown = {"compare_first_key": "/other/\x00", "compare_len": 1, "success_len": 1, "success_first_type": "put"}
    usage = judge(write(tmp_path / "dump.json", dump(resource([*call(1, TXN, unknown), *call(2, TXN, unknown)]))))
    (finding,) = [one for one in usage.findings if one.id == "new-key-pattern"]
    assert [(one.component, one.role, one.calls) for one in finding.origins] == [("etcd", TXN, 2)]
    assert finding.attributes == (
        '{"compare_first_key": "/other/\\x00", "compare_len": 1, "success_len": 1, "success_first_type": "put"}'
    )
