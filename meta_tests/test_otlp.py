"""Reading dumps: the typed decoder against protobuf's own, other spellings, and files that are no dumps."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from etcd_coverage.dumps import files, otlp_json
from etcd_coverage.dumps.compressions import zstd
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.kinds import read_dump
from etcd_coverage.judging.judge import judge
from meta_tests.builder import GET, JSON, RANGE, TRACE, call, dump, etcd, resource, span, value, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

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

Reading = tuple[str, list[tuple[str, str, str, str, int, dict[str, object], list[str], bool]]]


def ours(path: Path) -> list[Reading]:
    return [
        (
            resource.service_name or "",
            [
                (
                    one.trace_id,
                    one.span_id,
                    one.parent_span_id,
                    one.name,
                    one.kind,
                    dict(one.attributes()),
                    one.event_names(),
                    one.failed(),
                )
                for one in resource.spans
            ],
        )
        for resource in read_dump(path)
    ]


def protobufs(request: JSON, *, hex_ids: bool = True) -> list[Reading]:
    """Read with json_format, which takes ids for base64: hex ones are brought into that form first."""
    request = json.loads(json.dumps(request))
    for one in all_spans(request):
        # Half of what json_format would read, and nobody compares.
        for key in ("startTimeUnixNano", "endTimeUnixNano", "flags", "links"):
            one.pop(key, None)
    if hex_ids:
        for one in all_spans(request):
            for key in ("traceId", "spanId", "parentSpanId"):
                if key in one:
                    one[key] = base64.b64encode(bytes.fromhex(one[key])).decode()
    parsed = json_format.ParseDict(request, ExportTraceServiceRequest(), ignore_unknown_fields=True)

    def spell(identifier: bytes) -> str:
        return identifier.hex() if hex_ids else base64.b64encode(identifier).decode()

    def read(one: ProtoSpan) -> tuple[str, str, str, str, int, dict[str, object], list[str], bool]:
        found: dict[str, object] = {}
        for pair in one.attributes:
            found.setdefault(pair.key, plain(pair.value))
        events = [event.name for event in one.events]
        # A parent id of zeros is none.
        parent = spell(one.parent_span_id) if any(one.parent_span_id) or not hex_ids else ""
        ids = (spell(one.trace_id), spell(one.span_id), parent)
        return (*ids, one.name, one.kind, found, events, one.status.code == 2)

    def service(pairs: Any) -> str:
        return next((pair.value.string_value for pair in pairs if pair.key == "service.name"), "")

    return [
        (service(one.resource.attributes), [read(each) for scope in one.scope_spans for each in scope.spans])
        for one in parsed.resource_spans
    ]


def plain(one: AnyValue) -> object:
    kind = one.WhichOneof("value")
    return getattr(one, kind) if kind in ("string_value", "int_value", "bool_value") else None


def all_spans(request: JSON) -> Iterator[JSON]:
    for resource_spans in request["resourceSpans"]:
        for scope in resource_spans["scopeSpans"]:
            yield from scope["spans"]


@pytest.mark.parametrize("path", REAL)
@pytest.mark.parametrize(
    "every", [pytest.param(20, id="a-twentieth"), pytest.param(1, id="whole", marks=pytest.mark.integration)]
)
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


def snake(request: Any) -> Any:
    """Return the request with its field names in snake_case, which the protobuf JSON mapping also takes."""
    if isinstance(request, dict):
        return {"".join(f"_{c.lower()}" if c.isupper() else c for c in key): snake(one) for key, one in request.items()}
    return [snake(one) for one in request] if isinstance(request, list) else request


scratch = pytest.fixture(scope="module")(lambda tmp_path_factory: tmp_path_factory.mktemp("generated") / "dump.json")


@given(request=requests(hex_id))
@settings(deadline=None)
def test_generated_request_reads_as_protobuf_reads_it(scratch: Path, request: JSON) -> None:
    assert ours(write(scratch, {"result": request})) == protobufs(request)


@given(request=requests(hex_id))
@settings(deadline=None, max_examples=50)
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


@pytest.mark.parametrize(
    ("spelled", "read"),
    [
        ({"intValue": "9223372036854775807"}, 2**63 - 1),
        ({"intValue": 9223372036854775807}, 2**63 - 1),
        ({"intValue": "-1"}, -1),
        ({"intValue": -1}, -1),
        ({"intValue": "9007199254740993"}, 2**53 + 1),
        ({"intValue": 1.0}, 1),
        ({"int_value": "5"}, 5),
        ({"string_value": "a"}, "a"),
        ({"boolValue": False}, False),
        ({"stringValue": "\x00"}, "\x00"),
        ({"doubleValue": 1.5}, None),
        ({"stringValue": None}, None),
        ({}, None),
        (None, None),
    ],
)
def test_attribute_value(tmp_path: Path, spelled: JSON | None, read: object) -> None:
    one = span("00000000000000aa", attributes=[{"key": "k", "value": spelled}, {"key": "k", "value": value("later")}])
    ((_, [found]),) = ours(write(tmp_path / "dump.json", etcd([one])))
    assert found[5] == {"k": read}


def test_integer_of_a_float_beyond_2_53_is_exact(tmp_path: Path) -> None:
    text = json.dumps(etcd([span("00000000000000aa", attributes={"k": 1})])).replace('"1"', "9007199254740993.0")
    ((_, [found]),) = ours(write(tmp_path / "dump.json", text))
    assert found[5] == {"k": 9007199254740993}


@pytest.mark.parametrize(
    "wrong",
    [
        {"intValue": "abc"},
        {"intValue": "9223372036854775808"},
        {"intValue": 9223372036854775808},
        {"intValue": 10**30},
        {"intValue": 1.5},
        {"intValue": True},
        {"boolValue": "true"},
        {"boolValue": 1},
        {"stringValue": 5},
        {"stringValue": "a", "intValue": "1"},
        {"addedIn2030": 1},
        {"addedIn2030": {"deep": [1]}},
        {"intValue": "1_000"},
        {"intValue": "\u0661"},
        {"intValue": "+1"},
        {"intValue": "1\n"},
        {"kvlistValue": {"values": ["abc"]}},
        {"arrayValue": "abc"},
        {"intValue": "1", "int_value": "1"},
        "a",
        5,
        ["a"],
    ],
    ids=json.dumps,
)
def test_attribute_that_otlp_does_not_know_is_named(tmp_path: Path, wrong: object) -> None:
    attributes = [{"key": "fine", "value": value(1)}, {"key": "limit", "value": wrong}]
    path = write(tmp_path / "dump.json", etcd([span("00000000000000aa", attributes=attributes)]))
    with pytest.raises(DumpError, match=r'span 00000000000000aa of trace .* attribute "limit"'):
        ours(path)


@pytest.mark.parametrize(
    "wrong",
    ["SPAN_KIND_OTHER", "server", "1099511627776", 2**40, 1.5, [2], {"a": 2}, True, False, " 2", "0_2"],
    ids=json.dumps,
)
def test_kind_that_otlp_does_not_know_is_an_error(tmp_path: Path, wrong: object) -> None:
    path = write(tmp_path / "dump.json", etcd([span("00000000000000aa", kind=wrong)]))
    with pytest.raises(DumpError, match=rf"resourceSpans\[0\]: span 00000000000000aa of trace {TRACE}: kind is"):
        read_dump(path)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"traceId": 5}, "traceId is 5, not a string"),
        ({"spanId": ["a"]}, "spanId is"),
        ({"name": 5}, "name"),
        ({"trace_id": TRACE}, "both traceId and trace_id"),
        ({"kind": "SPAN_KIND_SERVER", "spanId": None, "span_id": "1"}, "both spanId and span_id"),
    ],
)
def test_span_that_is_none_is_an_error(tmp_path: Path, wrong: JSON, told: str) -> None:
    path = write(tmp_path / "dump.json", dump(resource([]), resource([span("00000000000000aa") | wrong])))
    with pytest.raises(DumpError, match=r"resourceSpans\[1\]") as error:
        read_dump(path)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("number", "read"),
    [
        ("9223372036854775807.0", 2**63 - 1),
        ("9.223372036854775807e18", 2**63 - 1),
        ("1e3", 1000),
        ("-0.0", 0),
        ('"1e3"', 1000),
        ("1.0000000000000000000001", None),
        ("9223372036854775808.0", None),
        ("1e999999999", None),
        ("9" * 5000, None),
    ],
)
def test_integers_are_exact_in_every_spelling(tmp_path: Path, number: str, read: int | None) -> None:
    text = json.dumps(etcd([span("00000000000000aa", attributes={"k": 1})])).replace('"1"', number)
    path = write(tmp_path / "dump.json", text)
    if read is None:
        with pytest.raises(DumpError, match='attribute "k"'):
            ours(path)
    else:
        assert ours(path)[0][1][0][5] == {"k": read}


def test_number_of_thousands_of_digits_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    text = json.dumps(etcd([span("00000000000000aa", kind="SPAN_KIND_SERVER", x="DIGITS")]))
    assert len(ours(write(tmp_path / "dump.json", text.replace('"DIGITS"', "9" * 5000)))) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"scopeSpans": ["abc"]},
        {"scopeSpans": [[]]},
        {"scopeSpans": {}},
        {"scopeSpans": [{"spans": ["abc"]}]},
        {"scopeSpans": [{"spans": [[]]}]},
        {"scopeSpans": [{"spans": [None]}]},
        {"scopeSpans": [{"spans": "abc"}]},
        {"scopeSpans": [], "scope_spans": []},
        {"resource": "abc", "scopeSpans": []},
        {"resource": {"attributes": ["abc"]}, "scopeSpans": []},
        {"resource": {"attributes": [None]}, "scopeSpans": []},
        {"resource": {"attributes": [{"key": "service.name", "value": ["etcd"]}]}, "scopeSpans": []},
        {"resource": {"attributes": [{"key": "service.name", "value": {"intValue": "x"}}]}, "scopeSpans": []},
        {"scopeSpans": [], "instrumentationLibrarySpans": []},
    ],
    ids=json.dumps,
)
def test_resource_in_a_form_that_otlp_does_not_know_is_an_error(tmp_path: Path, wrong: JSON) -> None:
    judged = judge(write(tmp_path / "dump.json", dump(resource(call(1, RANGE, GET)), resource([]) | wrong)))
    assert judged.error is not None
    assert "resourceSpans[1]" in judged.error


@pytest.mark.parametrize(
    "wrong",
    [
        {"attributes": [None]},
        {"attributes": ["abc"]},
        {"attributes": "abc"},
        {"events": ["contract.Get"]},
        {"events": [[]]},
        {"events": {}},
        {"events": [{"name": 5}]},
    ],
    ids=json.dumps,
)
def test_call_in_a_form_that_otlp_does_not_know_is_an_error(tmp_path: Path, wrong: JSON) -> None:
    server, child = call(1, RANGE, GET)
    judged = judge(write(tmp_path / "dump.json", etcd([server, child | wrong])))
    assert judged.error is not None
    assert f"span {child['spanId']} of trace {TRACE}" in judged.error


@pytest.mark.parametrize(
    "wrong", ["STATUS_CODE_ERROR", [], {"code": "x"}, {"code": True}, {"code": 2.5}, {"code": 2**40}]
)
def test_status_in_a_form_that_otlp_does_not_know_is_an_error(tmp_path: Path, wrong: object) -> None:
    judged = judge(write(tmp_path / "dump.json", etcd(call(1, RANGE, GET, status=wrong)[:1])))
    assert judged.error is not None
    assert "a form that OTLP does not know" in judged.error


def test_null_stands_for_the_default(tmp_path: Path) -> None:
    fields = ("parentSpanId", "attributes", "events", "status", "kind", "name")
    nulls = span("00000000000000aa") | dict.fromkeys(fields)
    content = dump(resource([nulls]), {"resource": None, "scopeSpans": None})
    (_, [read]), (_, none) = ours(write(tmp_path / "dump.json", content))
    assert read == (TRACE, "00000000000000aa", "", "", 0, {}, [], False)
    assert none == []


@pytest.mark.parametrize("name", ["instrumentationLibrarySpans", "instrumentation_library_spans"])
def test_old_spelling_of_scopes_is_refused_by_name(tmp_path: Path, name: str) -> None:
    old = resource([])
    old[name] = old.pop("scopeSpans")
    with pytest.raises(DumpError, match=name):
        read_dump(write(tmp_path / "dump.json", dump(old)))


GOOD = json.dumps(etcd(call(1, RANGE, GET))).encode()


@pytest.mark.parametrize("name", ["dump.json", "dump.json.gz", "gzip-by-content-alone"])
def test_good_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(GOOD) if "gz" in name else GOOD)
    assert [len(spans) for _, spans in ours(path)] == [2]


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbf" + GOOD, b"\n \t" + GOOD + b"\n\n", gzip.compress(b"\xef\xbb\xbf" + GOOD)]
)
def test_byte_order_mark_and_space_are_accepted(tmp_path: Path, content: bytes) -> None:
    assert [len(spans) for _, spans in ours(write(tmp_path / "dump.json", content))] == [2]


def deep(levels: int) -> bytes:
    return GOOD[:-1] + b',"x":' + b"[" * levels + b"]" * levels + b"}"


def in_name(text: bytes) -> bytes:
    return GOOD.replace(b'"name": "range"', b'"name": "' + text + b'"')


BAD = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n", "is empty"),
    "only a byte-order mark": (b"\xef\xbb\xbf", "is empty"),
    "truncated": (GOOD[: len(GOOD) // 2], "truncated"),
    "without its last byte": (GOOD[:-1], "truncated"),
    "HTML": (b"<!doctype html><html><body>404</body></html>", "is HTML"),
    "plain text": (b"404 page not found\n", 'is plain text, not a dump ("404 page not found'),
    "git lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 1493816\n",
        "is a Git LFS pointer, not the dump itself: fetch that with git lfs pull",
    ),
    "null": (b"null", "is plain text"),
    "list": (b"[1, 2]", "not a dump"),
    "empty object": (b"{}", "it holds nothing"),
    "another object": (b'{"spans": []}', '"spans"'),
    "result of another type": (b'{"result": 5}', "another shape"),
    "resourceSpans of another type": (b'{"result": {"resourceSpans": {}}}', "another shape"),
    "both spellings": (b'{"result": {"resourceSpans": [], "resource_spans": []}}', "both"),
    "resource of another type": (b'{"result": {"resourceSpans": [5]}}', "resourceSpans[0]"),
    "text glued on": (GOOD + GOOD + b"x", "has more after the end of its JSON"),
    "error glued on": (GOOD + b'{"error":{"message":"x"}}', "document 2: is an error that Jaeger answered"),
    "error beside a result": (GOOD[:-1] + b',"error":{"httpCode":500,"message":"boom"}}', "boom"),
    "error in half a body": (GOOD[: len(GOOD) // 2] + b'{"error":{"code":2}}', "is not JSON"),
    "cut gzip": (gzip.compress(GOOD)[:-20], "gzip file that was cut off"),
    "broken gzip": (gzip.compress(GOOD)[:30] + b"\xff" * 40, "broken gzip"),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "gzip with a wrong checksum": (gzip.compress(GOOD)[:-8] + b"\0" * 8, "broken gzip"),
    "gzip of HTML": (gzip.compress(b"<html>"), "is HTML"),
    "cut zstd": (zstd.compress(GOOD)[:-20], "zstd file that was cut off"),
    "broken zstd": (zstd.compress(GOOD)[:9] + b"\xff" * 400, "broken zstd"),
    "zstd of nothing": (zstd.compress(b""), "is empty"),
    "zstd with a wrong checksum": (
        zstd.compress(GOOD, options={zstd.CompressionParameter.checksum_flag: 1})[:-4] + b"\0" * 4,
        "broken zstd",
    ),
    "zstd of HTML": (zstd.compress(b"<html>"), "is HTML"),
    "zstd that asks for 2 GB": (b"\x28\xb5\x2f\xfd\x00\xa8" + zstd.compress(GOOD)[6:], "broken zstd"),
    "bytes after the frame": (zstd.compress(GOOD) + b"more", "broken zstd"),
    "gzip in zstd": (zstd.compress(gzip.compress(GOOD)), "packed twice"),
    "zip": (b"PK\x03\x04\x00", "compressed with zip"),
    "binary": (b"\x7fELF\x02\x01\x01" + bytes(100), "is a binary file"),
    "UTF-16": (GOOD.decode().encode("utf-16"), "UTF-16"),
    "UTF-16 without a mark": (GOOD.decode().encode("utf-16-le"), "UTF-16"),
    "UTF-32": (GOOD.decode().encode("utf-32"), "UTF-16 or UTF-32"),
    "invalid UTF-8 in a name": (in_name(b"a\xffb"), "not valid UTF-8: byte 0xff at offset"),
    "invalid UTF-8 in a field that nobody reads": (GOOD[:-1] + b',"x": "\xc3"}', "not valid UTF-8: byte 0xc3"),
    "UTF-8 cut in a character": (GOOD[:-1] + b',"x": "\xc3', "not valid UTF-8: byte 0xc3"),
    "lone surrogate": (in_name(b"\\\\\\ud800"), "unpaired surrogate '\\\\ud800'"),
    "lone low surrogate": (in_name(b"\\udc00"), "unpaired surrogate"),
    "lone surrogate after a pair": (in_name(b"\\ud83d\\ude00\\ud83d x"), "unpaired surrogate"),
    "NaN": (GOOD.replace(b'"kind": 1', b'"kind": NaN'), "is not JSON: invalid character at byte"),
    "nested deep": (deep(100_000), "nested too deep"),
    "control character": (in_name(b"a\x1b[31mb"), "is not JSON"),
    "integer beyond int64": (GOOD.replace(b'"kind": 1', b'"kind": 9223372036854775808'), "resourceSpans[0]"),
}


@pytest.mark.parametrize(("content", "told"), BAD.values(), ids=BAD.keys())
def test_bad_file_is_told_in_one_printable_line(tmp_path: Path, content: bytes, told: str) -> None:
    with pytest.raises(DumpError) as error:
        ours(write(tmp_path / "dump.json", content))
    line = str(error.value)
    assert told in line
    assert line.isprintable()
    assert len(line) < 500


def test_file_cut_inside_a_surrogate_pair_is_truncated(tmp_path: Path) -> None:
    start = GOOD[: GOOD.index(b'"name": "range"')]
    for end in (b'"name": "\\ud83d', b'"name": "\\ud83d\\u', b'"name": "\\ud83d\\ude0'):
        with pytest.raises(DumpError, match="truncated"):
            read_dump(write(tmp_path / "dump.json", start + end))


def test_characters_may_lie_across_chunks(tmp_path: Path) -> None:
    for shift in range(4):
        text = GOOD.decode()[:-1] + f', "x": "{"a" * shift}{"😀é" * 100_000}"}}'
        assert len(ours(write(tmp_path / "dump.json", text))) == 1


def test_more_white_space_than_a_chunk_is_no_empty_file(tmp_path: Path) -> None:
    blank = b" " * (1 << 20)
    assert len(ours(write(tmp_path / "dump.json", blank + GOOD))) == 1
    assert len(ours(write(tmp_path / "dump.json.gz", blank + GOOD))) == 1


def test_rest_after_the_end_is_shown_from_its_first_character(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match=rf'at byte {len(GOOD)} \("xyz"\)'):
        read_dump(write(tmp_path / "dump.json", GOOD + b"xyz"))


def test_null_error_beside_a_result_is_none(tmp_path: Path) -> None:
    assert len(ours(write(tmp_path / "dump.json", GOOD[:-1] + b',"error":null}'))) == 1


def test_gzip_that_unpacks_to_far_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BOMB", 1 << 20)
    with pytest.raises(DumpError, match="unpacks to over 100 times its size"):
        read_dump(write(tmp_path / "dump.json.gz", b"{" + b" " * (4 << 20)))


def test_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: open("/dev/full", "wb", buffering=0))  # noqa: PTH123, SIM115
    with pytest.raises(DumpError, match="cannot be unpacked: No space left on device; free space in"):
        read_dump(write(tmp_path / "dump.json.gz", GOOD))


def test_surrogate_pair_is_no_lone_one(tmp_path: Path) -> None:
    content = in_name(b"\\ud83d\\ude00 \\\\ud800") + b"x"
    with pytest.raises(DumpError, match="has more after the end"):
        read_dump(write(tmp_path / "dump.json", content))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("bad_time.body", ("400", "query.start_time_min", "RFC 3339")),
        ("depth_zero.body", ("500", "search depth must be greater than 0", "max_traces")),
        ("empty_range.body", ("404", "No traces found", "window")),
        ("no_times.body", ("400", "query.startTimeMin and query.startTimeMax", "query.start_time_min")),
    ],
)
def test_error_that_jaeger_answered_is_told(body: str, told: tuple[str, ...]) -> None:
    with pytest.raises(DumpError) as error:
        read_dump(HERE / "jaeger_errors" / body)
    assert [part for part in told if part not in str(error.value)] == []


def test_unusual_error_of_jaeger_is_told_in_one_line(tmp_path: Path) -> None:
    numbers = '{"error": {"httpCode": true}}', '{"error": {"httpCode": %s, "message": "x"}}' % ("1" * 5000)
    for body in ('{"error": "text"}', '{"error": {"message": ["\\u001b[31m"]}}', '{"error": 5}', *numbers):
        with pytest.raises(DumpError, match="Jaeger answered") as error:
            read_dump(write(tmp_path / "dump.json", body))
        assert str(error.value).isprintable()


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="is a directory"):
        read_dump(tmp_path)


def test_missing_file(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "gone.json")
    with pytest.raises(DumpError, match="cannot be read: No such file"):
        read_dump(tmp_path / "link.json")


def test_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DumpError, match="not a regular file"):
        read_dump(tmp_path / "pipe")


def test_unreadable_file(tmp_path: Path) -> None:
    """In a process of its own, since root may read everything."""
    path = write(tmp_path / "dump.json", GOOD)
    path.chmod(0)
    code = f"""
import os
from pathlib import Path
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.kinds import read_dump
from etcd_coverage.judging.judge import judge
if os.getuid() == 0:
    os.setuid(65534)
try:
    read_dump(Path({str(path.name)!r}))
except DumpError as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.startswith("cannot be read: Permission denied")


def test_no_spans_is_no_error_of_the_format(tmp_path: Path) -> None:
    for content in ('{"result": null}', '{"result": {}}', '{"result": {"resourceSpans": []}}'):
        assert read_dump(write(tmp_path / "dump.json", content)) == []


HUGE = "1e999999999999999999999"


@pytest.mark.parametrize("number", [HUGE, f"-{HUGE}", "1e-999999999999999999999", "9" * 5000])
def test_huge_number_is_one_line_where_it_is_read_and_nothing_elsewhere(tmp_path: Path, number: str) -> None:
    """Python's decimal and int refuse such numbers, each with an exception of its own."""
    read = write(tmp_path / "read.json", _with_number(f'{{"key": "limit", "value": {{"intValue": {number}}}}}'))
    assert not (error := judge(read).error) or "a form that OTLP does not know" in error
    assert error or number.startswith("1e-")
    for unread in (f'"limit": {number}', f'"endTimeUnixNano": {number}', f'"links": [{number}]'):
        path = write(tmp_path / "unread.json", _with_number("", f", {unread}"))
        assert judge(path).error is None
    for answer in (f'{{"httpCode": {number}}}', f'{{"message": "no", "httpCode": {number}}}', number):
        path = write(tmp_path / "error.json", f'{{"error": {answer}}}'.encode())
        assert "that Jaeger answered, not a dump" in (judge(path).error or "")


def _with_number(attribute: str, field: str = "") -> bytes:
    """Return a dump with one call, written as text: no JSON encoder writes such numbers."""
    ids = f'"traceId": "{TRACE}", "spanId"'
    server = f'{{{ids}: "00000000000000aa", "kind": 2, "name": "{RANGE}"}}'
    child = f'{{{ids}: "00000000000000bb", "parentSpanId": "00000000000000aa", "attributes": [{attribute}]{field}}}'
    named = '{"attributes": [{"key": "service.name", "value": {"stringValue": "etcd"}}]}'
    inside = f'{{"resource": {named}, "scopeSpans": [{{"spans": [{server}, {child}]}}]}}'
    return f'{{"result": {{"resourceSpans": [{inside}]}}}}'.encode()


def test_resources_that_alternate_are_read_once_each(tmp_path: Path) -> None:
    """Counted, since nothing else shows: a dump has a resource for nearly every trace, of two services."""
    resources = [resource([span(f"{at:016x}")], service) for at in range(1, 51) for service in ("etcd", "apiserver")]
    otlp_json._service_name.cache_clear()
    assert [one.service_name for one in read_dump(write(tmp_path / "dump.json", dump(*resources)))] == [
        "etcd", "apiserver",
    ] * 50  # fmt: skip
    assert otlp_json._service_name.cache_info().misses == 2
