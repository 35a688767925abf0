"""The same spans give the same usage in every kind of dump and every compression; what is cut is one clear line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from etcd_coverage.dumps import files
from etcd_coverage.dumps.compressions import zstd
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.kinds import KINDS, read_dump
from etcd_coverage.judging.judge import judge
from meta_tests.builder import GET, PODS, RANGE, call, complete, dump, resource, write
from meta_tests.converters import CONVERTERS, JSON, behind_four_bytes, compact, message, requests

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
DEMOS = sorted((HERE.parent / "testdata").glob("kubernetes-1.??.json.gz"))
KINDS_OF_FILE = [pytest.param(convert, id=name) for name, convert in CONVERTERS.items()]


def some_traces(path: Path, most: int) -> JSON:
    """Return the dump with the spans of some of its traces, all over it."""
    found: JSON = msgspec.json.decode(gzip.decompress(path.read_bytes()))
    resources = found["result"]["resourceSpans"]
    ids = list(dict.fromkeys(s["traceId"] for r in resources for c in r["scopeSpans"] for s in c["spans"]))
    kept = set(ids[:: max(len(ids) // most, 1)])
    for one in resources:
        for scope in one["scopeSpans"]:
            scope["spans"] = [span for span in scope["spans"] if span["traceId"] in kept]
    found["result"]["resourceSpans"] = [one for one in resources if any(c["spans"] for c in one["scopeSpans"])]
    return found


@pytest.fixture(scope="module")
def sample() -> JSON:
    return some_traces(DEMOS[-1], 60)


def same_usage(folder: Path, found: JSON, convert: Callable[[JSON], bytes]) -> None:
    expected = judge(write(folder / "expected.json", found))
    assert expected.error is None
    assert expected.calls
    content = convert(found)
    for number, packed in enumerate((content, gzip.compress(content, 1), zstd.compress(content, 1))):
        assert judge(write(folder / str(number), packed)) == expected


@pytest.mark.parametrize("convert", KINDS_OF_FILE)
def test_kind_gives_the_same_usage(tmp_path: Path, sample: JSON, convert: Callable[[JSON], bytes]) -> None:
    same_usage(tmp_path, sample, convert)


@pytest.mark.integration
@pytest.mark.parametrize("convert", KINDS_OF_FILE)
@pytest.mark.parametrize("path", DEMOS, ids=lambda path: path.name)
def test_kind_gives_the_same_usage_of_a_whole_dump(
    tmp_path: Path, path: Path, convert: Callable[[JSON], bytes]
) -> None:
    same_usage(tmp_path, some_traces(path, 10**9), convert)


def test_each_kind_of_the_table_is_converted_to(sample: JSON) -> None:
    recognised = set()
    for convert in CONVERTERS.values():
        data = memoryview(convert(sample))
        recognised.add(next(kind.name for kind in KINDS if kind.is_kind(data)))
    assert recognised == {kind.name for kind in KINDS}


SMALL = dump(resource(complete()), *(resource(call(at, RANGE, GET)) for at in range(20, 40)))
LINES = CONVERTERS["OTLP, lines"](SMALL)
MESSAGES = CONVERTERS["file exporter, protobuf"](SMALL)
VARINTS = CONVERTERS["OTLP, protobuf behind varints"](SMALL)
CUT = {
    "in a line": (LINES[:-30], "is cut: 2 of its lines are whole, the last one ends in the middle"),
    "after a brace": (LINES[: LINES.rindex(b"\n{") + 2], "is cut: 2 of its lines are whole"),
    "in the second line": (LINES[: LINES.index(b"\n") + 9], "is cut: 1 of its lines are whole"),
    "in the only line": (LINES[:200], "is truncated JSON: it ends at byte 200 in the middle"),
    "in a glued answer": (CONVERTERS["jaeger v3, several glued"](SMALL)[:-9], "is cut: 2 of its documents are whole"),
    "in a message": (MESSAGES[:-9], "is cut: 2 of its messages are whole"),
    "in a length": (MESSAGES + b"\0\0", "is cut: 3 of its messages are whole"),
    "in the first message": (MESSAGES[:99], "is cut: 0 of its messages are whole"),
    "in a message behind a varint": (VARINTS[:-9], "is cut: 2 of its messages are whole"),
    "in a request": (message(SMALL["result"])[:-9], "is cut: 20 of its resources are whole"),
    "in a zstd frame of several": (
        zstd.compress(LINES) + zstd.compress(LINES)[:-9],
        f"is a zstd file that was cut off after {len(LINES)} unpacked bytes",
    ),
    "in a gzip member of several": (gzip.compress(LINES) + gzip.compress(LINES)[:-300], "gzip file that was cut off"),
}


@pytest.mark.parametrize(("content", "line"), CUT.values(), ids=CUT.keys())
def test_how_much_of_a_cut_file_is_whole(tmp_path: Path, content: bytes, line: str) -> None:
    path = write(tmp_path / "dump", content)
    with pytest.raises(DumpError) as error:
        read_dump(path)
    assert str(error.value).startswith(line) or line in str(error.value).split(":")[0]
    assert judge(path).error == f"{path}: {error.value}"


def spans_of(path: Path) -> list[tuple[str, str, str]]:
    return [(span.trace_id, span.span_id, span.name) for one in read_dump(path) for span in one.spans]


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress], ids=["gzip", "zstd"])
def test_several_members_or_frames_are_one_file(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    whole = spans_of(write(tmp_path / "plain", LINES))
    parts = b"".join(pack(line) for line in LINES.splitlines(keepends=True))
    assert spans_of(write(tmp_path / "packed", parts)) == whole


BOMBS = {
    "gzip": gzip.compress(b"{" + b" " * (4 << 20)),
    "zstd": zstd.compress(b"{" + b" " * (4 << 20)),
    "zstd in frames": zstd.compress(b"{" + b" " * (1 << 19)) * 4,
    "a message": behind_four_bytes([zstd.compress(b"{" + b" " * (4 << 20))]),
    "messages": behind_four_bytes([zstd.compress(b'{"resourceSpans":[]}' + b" " * (1 << 19))] * 4),
}


@pytest.mark.parametrize("content", BOMBS.values(), ids=BOMBS.keys())
def test_what_unpacks_to_far_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(files, "BOMB", 1 << 20)
    with pytest.raises(DumpError, match="unpacks to over 100 times"):
        read_dump(write(tmp_path / "dump", content))


ONE = requests(SMALL)[0]
WRONG = {
    "error in a line": (LINES + b'{"error":{"message":"boom"}}\n', "line 4: is an error that Jaeger answered"),
    "logs in a line": (LINES + b'{"resourceLogs":[]}\n', 'line 4: is JSON, but not a dump: it holds "resourceLogs"'),
    "a bad line": (LINES + LINES.replace(b'"kind":2', b'"kind":"x"', 1), "line 4: resourceSpans[0]: span "),
    "two envelopes": (compact(ONE | {"result": ONE}), 'has both "result" and "resourceSpans"'),
    "an item": (b'[{"result":null},{"x":1}]', 'item 1: is JSON, but not a dump: it holds "x"'),
    "a list in a list": (b"[[]]", "item 0 of its list is"),
    "UI's error": (b'{"data":null,"total":0,"errors":[{"code":404,"msg":"trace not found"}]}', "error that Jaeger"),
    "UI without a process": (b'{"data":[{"spans":[{"traceID":"1","spanID":"2"}]}]}', "without service.name: data[0]"),
    "a name twice": (b'{"data":[{"spans":[],"spans":[],"processes":{}}]}', '"spans" twice in one object'),
    "broken protobuf": (MESSAGES[:40] + b"\xff" * 40 + MESSAGES[80:], "message 0: resourceSpans[0] is broken protobuf"),
    "a message of another length": (b"\0\0\0\1" + MESSAGES[4:], "is a binary file"),
    "a message that is none": (MESSAGES + b"\0\0\0\2[]", "message 3: "),
    "old spans in protobuf": (b"\x0a\x06\xc2\x3e\x03\x12\x01\x00", "is a binary file"),
    "a cut frame": (
        behind_four_bytes([zstd.compress(compact(ONE))[:-9]]),
        "message 0: is a zstd frame that was cut off",
    ),
    "a text of newlines": (b"\n\n\nHello", 'is plain text, not a dump ("Hello")'),
}


@pytest.mark.parametrize(("content", "line"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, content: bytes, line: str) -> None:
    error = judge(write(tmp_path / "dump", content)).error
    assert error is not None
    assert line in error
    assert error.isprintable()


def test_old_spans_in_protobuf_are_refused_by_name(tmp_path: Path) -> None:
    """A message with a resource, and field 1000 beside it."""
    known = message(dump(resource([]))["result"])
    old = b"\xc2\x3e\x00"
    inside = known[2:] + old
    with pytest.raises(DumpError, match="instrumentation_library_spans, which OTLP dropped in 2022"):
        read_dump(write(tmp_path / "dump.pb", b"\x0a" + bytes([len(inside)]) + inside))


def ui(**span: Any) -> bytes:
    one = {"traceID": "ab", "spanID": "1", "operationName": "range", "processID": "p1", **span}
    return compact({"data": [{"traceID": "ab", "spans": [one], "processes": {"p1": {"serviceName": "etcd"}}}]})


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("string", "a", "a"),
        ("bool", True, True),
        ("bool", "false", False),
        ("int64", 5, 5),
        ("int64", "9223372036854775807", 2**63 - 1),
        ("int64", "-5", -5),
        ("float64", 1.5, None),
        ("binary", "AAE=", None),
        ("", "a", "a"),
        ("", 5, 5),
    ],
)
def test_tag_of_the_ui(tmp_path: Path, kind: str, value: object, read: object) -> None:
    [one] = read_dump(write(tmp_path / "dump", ui(tags=[{"key": "k", "type": kind, "value": value}])))
    assert one.spans[0].attributes() == {"k": read}
    assert (one.spans[0].trace_id, one.spans[0].span_id) == (f"{'ab':0>32}", f"{'1':0>16}")


@pytest.mark.parametrize(
    "wrong",
    [
        {"tags": [{"key": "k", "type": "int64", "value": "x"}]},
        {"tags": [{"key": "k", "type": "int64", "value": 2**63}]},
        {"tags": [{"key": "k", "type": "bool", "value": 1}]},
        {"tags": [{"key": "k", "type": "decimal", "value": 1}]},
        {"tags": [{"key": "span.kind", "type": "string", "value": "boss"}]},
        {"tags": {"k": 1}},
        {"spanID": 5},
        {"references": {}},
    ],
    ids=json.dumps,
)
def test_tag_that_jaeger_does_not_write_is_refused(tmp_path: Path, wrong: JSON) -> None:
    with pytest.raises(DumpError, match="a form that OTLP does not know"):
        [one.attributes() for part in read_dump(write(tmp_path / "dump", ui(**wrong))) for one in part.spans]


@pytest.mark.parametrize(
    ("references", "parent"),
    [
        ([("CHILD_OF", "ab", "2")], "2"),
        ([("FOLLOWS_FROM", "ab", "3"), ("CHILD_OF", "ab", "2")], "2"),
        ([("FOLLOWS_FROM", "ab", "3")], "3"),
        ([("CHILD_OF", "cd", "2")], ""),
        ([], ""),
    ],
)
def test_parent_of_the_ui(tmp_path: Path, references: list[tuple[str, str, str]], parent: str) -> None:
    """As Jaeger's own ParentSpanID() finds it."""
    listed = [{"refType": kind, "traceID": trace, "spanID": span} for kind, trace, span in references]
    [one] = read_dump(write(tmp_path / "dump", ui(references=listed)))
    assert one.spans[0].parent_span_id == (f"{parent:0>16}" if parent else "")


def test_limit_noted_in_one_of_several_answers_counts(tmp_path: Path) -> None:
    noted = compact(dump(resource(call(1, RANGE, PODS))) | {"etcdK8sCoverage": {"tracesLimit": 1}})
    found = judge(write(tmp_path / "dump", compact(dump(resource(complete()))) + b"\n" + noted + b"\n"))
    assert found.quality.traces_limit == 1
    assert found.quality.is_clipped()
