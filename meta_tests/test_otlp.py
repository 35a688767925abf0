"""OTLP in JSON against protobuf's own decoder: real dumps, generated requests, other spellings."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etcd_coverage.dumps import otlp_json
from etcd_coverage.dumps.kinds import read_dump
from meta_tests.builder import JSON, TRACE, dump, etcd, resource, span, write
from meta_tests.readings import all_spans, ours, protobufs, snake

HERE = Path(__file__).parent
DEMO = max((HERE.parent / "testdata").glob("kubernetes-1.??.json.gz"))
DUMPS = [*sorted(HERE.glob("dumps/*.json.gz")), *sorted((HERE.parent / "testdata").glob("kubernetes-1.??.json.gz"))]
# protobuf's decoder takes ten seconds for a large one: of those the default suite reads the newest alone.
REAL = [
    pytest.param(
        path,
        marks=pytest.mark.integration if "kubernetes" in path.name and path != DEMO else (),
        id="/".join(path.parts[-2:]),
    )
    for path in DUMPS
]


@pytest.mark.parametrize("path", REAL)
@pytest.mark.parametrize(
    "every", [pytest.param(20, id="a-twentieth"), pytest.param(1, id="whole", marks=pytest.mark.integration)]
)
@pytest.mark.integration
def test_real_dump_reads_as_protobuf_reads_it(tmp_path: Path, path: Path, every: int) -> None:
    """json_format takes ten seconds for a whole dump."""
    request = msgspec.json.decode(gzip.decompress(path.read_bytes()))["result"]
    if len(request["resourceSpans"]) >= every:
        request["resourceSpans"] = request["resourceSpans"][::every]
    else:
        (resource_spans,) = request["resourceSpans"]
        (scope,) = resource_spans["scopeSpans"]
        scope["spans"] = scope["spans"][::every]
    assert sum(1 for _ in all_spans(request)) > 0
    assert ours(write(tmp_path / "dump.json", {"result": request})) == protobufs(request)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
int64 = st.integers(-(2**63), 2**63 - 1)
any_value = st.one_of(
    texts.map(lambda one: {"stringValue": one}),
    int64.map(lambda one: {"intValue": str(one)}),
    int64.map(lambda one: {"intValue": one}),
    st.booleans().map(lambda one: {"boolValue": one}),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda one: {"doubleValue": one}),
    st.just({"arrayValue": {"values": [{"stringValue": "x"}]}}),
    st.just({"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "1"}}]}}),
    st.just({"bytesValue": "AAEC"}),
    st.just({}),
    st.just({"stringValue": None, "intValue": "7"}),
)
key_value = st.fixed_dictionaries({"key": texts, "value": any_value})
# A field that OTLP does not have today: readers must ignore it.
unknown = st.dictionaries(st.just("addedIn2030"), st.recursive(texts, st.lists, max_leaves=3), max_size=1)


def spans(identifiers: Any) -> Any:
    known = st.fixed_dictionaries(
        {"traceId": identifiers(16), "spanId": identifiers(8)},
        optional={
            "parentSpanId": identifiers(8),
            "name": texts,
            "kind": st.integers(0, 5)
            | st.sampled_from(["SPAN_KIND_SERVER", "SPAN_KIND_CLIENT", "SPAN_KIND_UNSPECIFIED"]),
            "startTimeUnixNano": st.integers(0, 2**64 - 1).map(str),
            "flags": st.integers(0, 2**32 - 1),
            "attributes": st.lists(key_value, max_size=4),
            "events": st.lists(st.fixed_dictionaries({}, optional={"name": texts}), max_size=3),
            "status": st.sampled_from([{}, {"code": 2}, {"code": "STATUS_CODE_ERROR", "message": "no"}, {"code": 1}]),
            "links": st.just([]),
        },
    )
    return st.tuples(known, unknown).map(lambda both: both[0] | both[1])


def requests(identifiers: Any) -> Any:
    scope = st.fixed_dictionaries({"spans": st.lists(spans(identifiers), max_size=4)})
    resource = st.fixed_dictionaries({}, optional={"attributes": st.lists(key_value, max_size=2)})
    one = st.fixed_dictionaries({"resource": resource, "scopeSpans": st.lists(scope, max_size=3)})
    return st.fixed_dictionaries({"resourceSpans": st.lists(one, max_size=3)})


def hex_id(size: int) -> Any:
    return st.binary(min_size=size, max_size=size).map(bytes.hex)


def base64_id(size: int) -> Any:
    # One byte more: the text of 8 or 16 bytes in base64 is never 16 or 32 hex digits, but nobody has to see why.
    return st.binary(min_size=size + 1, max_size=size + 1).map(lambda one: base64.b64encode(one).decode())


scratch = pytest.fixture(scope="module")(lambda tmp_path_factory: tmp_path_factory.mktemp("generated") / "dump.json")


@given(request=requests(hex_id))
@settings(deadline=None)
def test_generated_request_reads_as_protobuf_reads_it(scratch: Path, request: JSON) -> None:
    assert ours(write(scratch, {"result": request})) == protobufs(request)


@given(request=requests(hex_id))
@settings(deadline=None, max_examples=50)
@pytest.mark.integration
def test_snake_case_reads_the_same(scratch: Path, request: JSON) -> None:
    assert ours(write(scratch, {"result": snake(request)})) == protobufs(request)


@given(request=requests(base64_id))
@settings(deadline=None, max_examples=50)
def test_base64_ids_stay_as_they_are(scratch: Path, request: JSON) -> None:
    assert ours(write(scratch, {"result": request})) == protobufs(request, hex_ids=False)


@pytest.mark.parametrize("name", ["traceId", "spanId", "parentSpanId"])
def test_one_id_in_snake_case_is_not_lost(tmp_path: Path, name: str) -> None:
    one = span("00000000000000aa", "00000000000000bb")
    one[snake({name: 0}).popitem()[0]] = one.pop(name)
    ((_, [read]),) = ours(write(tmp_path / "dump.json", etcd([one])))
    assert read[:3] == (TRACE, "00000000000000aa", "00000000000000bb")


def test_odd_ids_read_the_same_in_every_spelling(tmp_path: Path) -> None:
    """Ids are only compared, so they are kept even where json_format could not read them."""
    one = span("not base64!", "ABCDE")
    typed = ours(write(tmp_path / "a.json", etcd([one])))
    by_protobuf = ours(write(tmp_path / "b.json", etcd([one | {"kind": "SPAN_KIND_SERVER"}])))
    assert typed[0][1][0][:3] == by_protobuf[0][1][0][:3] == (TRACE, "not base64!", "ABCDE")


def test_resources_that_alternate_are_read_once_each(tmp_path: Path) -> None:
    """Counted, since nothing else shows: a dump has a resource for nearly every trace, of two services."""
    resources = [resource([span(f"{at:016x}")], service) for at in range(1, 51) for service in ("etcd", "apiserver")]
    otlp_json._service_name.cache_clear()
    assert [one.service_name for one in read_dump(write(tmp_path / "dump.json", dump(*resources)))] == [
        "etcd", "apiserver",
    ] * 50  # fmt: skip
    assert otlp_json._service_name.cache_info().misses == 2
