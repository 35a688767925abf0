"""Maps and contract walk again, written as plainly as spec and README say it, against the real ones on random traces.

Ids are drawn from so few that parents are missing, double, cyclic, roots of themselves, or of another trace.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etcd_coverage.dumps.kinds import read_dump
from etcd_coverage.judging import span_maps
from etcd_coverage.judging.ancestors import Ancestors
from etcd_coverage.judging.usage import Quality
from meta_tests.builder import JSON, LEASE_GRANT, RANGE, TXN, dump, resource, span, write

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.dumps.spans import Span

TRACES = [character * 32 for character in "abc"]
IDS = [f"{number:016x}" for number in range(1, 7)]

spans = st.builds(
    lambda trace, own, parent, name, kind, lease, events: (
        span(own, parent, name, kind=kind, events=events, attributes={"success_first_lease": lease} if lease else {})
        | {"traceId": trace}
    ),
    trace=st.sampled_from(TRACES),
    own=st.sampled_from(IDS),
    parent=st.sampled_from(["", *IDS]),
    name=st.sampled_from([RANGE, TXN, LEASE_GRANT, "range", "etcdserverpb", "grpc.health.v1.Health/Check"]),
    kind=st.integers(1, 3),
    lease=st.sampled_from([0, 7, 8]),
    events=st.lists(st.sampled_from(["contract.Get", "contract.List", "other", "wrong.contract"]), max_size=2),
)
services = st.sampled_from(["etcd", "etcd", "apiserver", "other"])
resources = st.lists(st.tuples(services, st.lists(spans, max_size=8)), max_size=5)

Key = tuple[str, str]


class Plain:
    """The second implementation, on the JSON itself."""

    def __init__(self, read: list[tuple[str, list[JSON]]]) -> None:
        apiserver = {one["traceId"] for service, found in read for one in found if service == "apiserver"}
        everything = [(service, one) for service, found in read for one in found]
        kept = [(service, one) for service, one in everything if not apiserver or one["traceId"] in apiserver]
        self.by_id = {key(one): one for _, one in kept}
        self.servers = {id_: one for id_, one in self.by_id.items() if is_server(one)}
        self.calls = {
            id_: self.servers[parent_key(one)]["name"]
            for id_, one in self.by_id.items()
            if id_ not in self.servers and parent_key(one) in self.servers
        }
        counted = {
            service
            for service, one in kept
            if service != "apiserver" and self.by_id[key(one)] is one and is_server(one)
        }
        orphans = [
            one
            for service, one in kept
            if service in counted and self.by_id[key(one)] is one and not is_server(one)
            if one.get("parentSpanId") and parent_key(one) not in self.by_id
        ]
        with_call = {parent_key(self.by_id[id_]) for id_ in self.calls}
        self.quality = {
            "spans": len(everything),
            "traces": len({one["traceId"] for _, one in everything}),
            "apiserver_traces": len(apiserver),
            "skipped_spans": len(everything) - len(kept),
            "duplicate_spans": len(kept) - len(self.by_id),
            "calls_without_parent": len(orphans),
            "grpc_spans_without_call": len(self.servers.keys() - with_call),
        }

    def contract(self, call: Key) -> str:
        for _ in range(len(self.by_id) + 1):
            one = self.by_id.get(call)
            if one is None:
                return ""
            for event in one["events"]:
                if event["name"].startswith("contract."):
                    return str(event["name"])
            call = parent_key(one)
        return ""


def key(one: JSON) -> Key:
    return one["traceId"], one["spanId"]


def parent_key(one: JSON) -> Key:
    return one["traceId"], one.get("parentSpanId", "")


def is_server(one: JSON) -> bool:
    return one["kind"] == 2 and str(one["name"]).startswith("etcdserverpb.")


def lease_of(one: JSON) -> int:
    return int(one["attributes"][0]["value"]["intValue"]) if one["attributes"] else 0


scratch = pytest.fixture(scope="module")(lambda tmp_path_factory: tmp_path_factory.mktemp("generated") / "dump.json")


@given(read=resources)
@settings(deadline=None, max_examples=120)
def test_maps_and_walk_are_as_written_plainly(scratch: Path, read: list[tuple[str, list[JSON]]]) -> None:
    plain = Plain(read)
    quality = Quality()
    content = dump(*(resource(found, service) for service, found in read))
    spans = span_maps.spans_map(read_dump(write(scratch, content)), quality)
    servers = span_maps.grpc_spans(spans)
    calls = span_maps.calls_map(spans, servers, quality)

    def keys(found: list[Span]) -> list[Key]:
        return [(one.trace_id, one.span_id) for one in found]

    assert {id_ for trace in spans.values() for id_ in keys(list(trace.values()))} == plain.by_id.keys()
    assert sorted(id_ for found in servers.values() for id_ in keys(found)) == sorted(plain.servers)
    assert {id_: name for name, found in calls.items() for id_ in keys([one.span for one in found])} == plain.calls
    assert {name: getattr(quality, name) for name in plain.quality} == plain.quality
    leases: dict[int, set[Key]] = {}
    for id_, name in plain.calls.items():
        if name == TXN and lease_of(plain.by_id[id_]):
            leases.setdefault(lease_of(plain.by_id[id_]), set()).add(id_)
    found_leases = span_maps.lease_map(calls)
    assert {lease: set(keys([one.span for one in found])) for lease, found in found_leases.items()} == leases
    # In both orders, since what one walk found is remembered for the others.
    forward = list(itertools.chain.from_iterable(trace.values() for trace in spans.values()))
    for order in (forward, forward[::-1]):
        ancestors = Ancestors(spans)
        walked: dict[Any, str] = {(one.trace_id, one.span_id): ancestors.contract(one) for one in order}
        assert walked == {id_: plain.contract(id_) for id_ in plain.by_id}
