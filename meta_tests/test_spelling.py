"""The protobuf JSON mapping: names, values as Go judges them, other spellings and what they cost."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from etcd_coverage.dumps import spelling
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.kinds import read_dump
from etcd_coverage.judging.judge import judge
from meta_tests.builder import GET, JSON, RANGE, call, etcd, span, write
from meta_tests.readings import ours, snake

if TYPE_CHECKING:
    from pathlib import Path

SHORT = (
    '{"result":{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"etcd"}}]},'
    '"scopeSpans":[{"spans":[{"traceId":"aaaa","spanId":"aaa1","name":"etcdserverpb.KV/Range","kind":2,"status":{"code":2}},'
    '{"traceId":"aaaa","spanId":"aaa2","parentSpanId":"aaa1","name":"range","kind":1,'
    '"attributes":[{"key":"limit","value":{"intValue":"1"}}],"events":[{"name":"contract.Get"}]}]}]}]}}'
)
MEMBERS = {
    "result": '{"resourceSpans":[]}',
    "resourceSpans": "[]",
    "resource": '{"attributes":[]}',
    "scopeSpans": "[]",
    "spans": "[]",
    "traceId": '"bbbb"',
    "spanId": '"bbbb"',
    "parentSpanId": '"bbbb"',
    "name": '"other"',
    "kind": "3",
    "attributes": "[]",
    "events": "[]",
    "status": "{}",
    "key": '"other"',
    "value": "{}",
    "intValue": '"2"',
}


@pytest.mark.parametrize("spelled_as", ["as it is", "escaped", "with blanks"])
@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("first", [True, False])
def test_name_twice_in_one_object_is_refused(tmp_path: Path, name: str, spelled_as: str, first: bool) -> None:
    """The protobuf JSON mapping has no such object; decoders let the later one count, without a word."""
    assert judge(write(tmp_path / "dump.json", SHORT)).error is None
    again = name if spelled_as != "escaped" else f"\\u{ord(name[0]):04x}{name[1:]}"
    colon = ":" if spelled_as != "with blanks" else " : "
    before, after = f'"{again}"{colon}{MEMBERS[name]},"{name}":', f'"{name}":'
    places = [found.start() for found in re.finditer(after, SHORT)]
    for at in places:
        rest = SHORT[at + len(after) :]
        value = json.JSONDecoder().raw_decode(rest)[1]
        text = SHORT[:at] + (
            before + rest if first else f'{after}{rest[:value]},"{again}"{colon}{MEMBERS[name]}{rest[value:]}'
        )
        error = judge(write(tmp_path / "dump.json", text)).error
        assert f'"{name}" twice in one object' in (error or ""), text


def test_what_the_short_dump_holds_is_read(tmp_path: Path) -> None:
    ((_, (server, child)),) = ours(write(tmp_path / "dump.json", SHORT))
    assert (server[3:5], server[7], child[5:7]) == (
        ("etcdserverpb.KV/Range", 2),
        True,
        ({"limit": 1}, ["contract.Get"]),
    )


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("scopeSpans", "ScopeSpans"),
        ("scopeSpans", "scopespans"),
        ("scopeSpans", "scope-spans"),
        ("spans", "Spans"),
        ("resourceSpans", "ResourceSpans"),
        ("resourceSpans", "resourcespans"),
    ],
)
def test_misspelled_list_of_spans_is_refused(tmp_path: Path, name: str, wrong: str) -> None:
    with pytest.raises(DumpError, match=f'"{wrong}", where {name} is due: a form that OTLP does not know'):
        read_dump(write(tmp_path / "dump.json", SHORT.replace(f'"{name}"', f'"{wrong}"')))


def test_names_of_others_may_come_twice(tmp_path: Path) -> None:
    """Values that nobody reads are not judged."""
    text = SHORT.replace('"kind":2', '"kind":2,"addedIn2030":1,"addedIn2030":{"x":1,"x":"\\"spans\\":"}')
    assert judge(write(tmp_path / "dump.json", text)).error is None


@pytest.mark.parametrize("second", ['"\\u0000"', '"x"', '""', "1", "null", "[]", "{}", "true"])
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("resourceSpans", "resource_spans"),
        ("scopeSpans", "scope_spans"),
        ("traceId", "trace_id"),
        ("spanId", "span_id"),
        ("parentSpanId", "parent_span_id"),
    ],
)
def test_field_in_both_of_its_spellings_is_refused_whatever_is_in_it(
    tmp_path: Path, name: str, other: str, second: str
) -> None:
    text = SHORT.replace(f'"{name}":', f'"{other}":{second},"{name}":')
    with pytest.raises(DumpError, match=f"both {name} and {other}"):
        read_dump(write(tmp_path / "dump.json", text))


@pytest.mark.parametrize("second", ['"\\u0000"', '"x"', '""', "1", "[]", "{}", "true"])
@pytest.mark.parametrize("name", ["instrumentationLibrarySpans", "instrumentation_library_spans"])
def test_old_list_beside_the_new_is_refused_whatever_is_in_it(tmp_path: Path, name: str, second: str) -> None:
    with pytest.raises(DumpError, match=f"holds {name}, which OTLP dropped"):
        read_dump(write(tmp_path / "dump.json", SHORT.replace('"scopeSpans":', f'"{name}":{second},"scopeSpans":')))


@pytest.mark.parametrize("second", ['"\\u0000"', '"x"', '""', "1", "[]", "{}", "true"])
def test_error_beside_a_result_is_refused_whatever_is_in_it(tmp_path: Path, second: str) -> None:
    with pytest.raises(DumpError, match="that Jaeger answered, not a dump"):
        read_dump(write(tmp_path / "dump.json", f'{SHORT[:-1]},"error":{second}}}'))


@pytest.mark.parametrize("field", ["name", "traceId", "spanId"])
def test_any_text_is_legal_in_a_text(tmp_path: Path, field: str) -> None:
    text = re.sub(rf'"{field}":"[^"]*"', f'"{field}":"\\\\u0000"', SHORT)
    assert {
        one[{"traceId": 0, "spanId": 1, "name": 3}[field]]
        for _, spans in ours(write(tmp_path / "dump.json", text))
        for one in spans
    } == {"\0"}


@pytest.mark.parametrize(
    ("spelled_as", "read"),
    [
        ({"bytesValue": "YQ=="}, True),
        ({"bytesValue": "YQ"}, True),
        ({"bytesValue": "_-8="}, True),
        ({"bytesValue": "YQ\n=="}, False),
        ({"bytesValue": "?"}, False),
        ({"bytesValue": "a"}, False),
        ({"bytesValue": "YQ==="}, False),
        ({"bytesValue": "+_8="}, False),
        ({"doubleValue": True}, False),
        ({"doubleValue": "NaN"}, True),
        ({"doubleValue": "nan"}, False),
        ({"doubleValue": "1e400"}, False),
        ({"doubleValue": "1.7976931348623157e308"}, True),
        ({"intValue": "01"}, False),
        ({"intValue": "-0"}, True),
        ({"intValue": "1."}, False),
        ({"arrayValue": {"values": [None]}}, False),
        ({"arrayValue": {"values": [{"intValue": "01"}]}}, False),
        ({"kvlistValue": {"values": [{"key": 1}]}}, False),
        ({"kvlistValue": {"values": None}}, True),
    ],
    ids=str,
)
def test_value_is_held_to_the_mapping_as_go_does(tmp_path: Path, spelled_as: JSON, read: bool) -> None:
    """As protojson v1.36 judges each; `test_go_original` compares many more."""
    server, child = call(1, RANGE, GET)
    child["attributes"].append({"key": "x", "value": spelled_as})
    error = judge(write(tmp_path / "dump.json", etcd([server, child]))).error
    assert (error is None) == read
    assert read or 'attribute "x"' in (error or "")


@pytest.mark.parametrize("kind", ['"2"', '"server"', "2.5", "true"])
def test_kind_is_a_number_or_a_name(tmp_path: Path, kind: str) -> None:
    error = judge(write(tmp_path / "dump.json", SHORT.replace('"kind":2', f'"kind":{kind}'))).error
    assert "span aaa1 of trace aaaa: kind is" in (error or "")


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The texts that went through Python's JSON decoder."""
    texts: list[bytes] = []
    parse = spelling._parse

    def noted(raw: bytes, *arguments: Any) -> Any:
        texts.append(raw)
        return parse(raw, *arguments)

    monkeypatch.setattr(spelling, "_parse", noted)
    spelling.enum.cache_clear()
    return texts


def test_what_jaeger_writes_never_goes_the_slow_way(tmp_path: Path, slowly: list[bytes]) -> None:
    """Lease ids have 19 digits, or a minus."""
    numbers = {"lease": 7587899250236536563, "most": 2**63 - 1, "none": -1, "least": -(2**63), "zero": 0}
    one = span("00000000000000aa", attributes=numbers | {"a": "b", "c": False})
    one |= {"flags": 257, "startTimeUnixNano": "1", "endTimeUnixNano": "2", "events": [{"name": "a"}, {"name": "b"}]}
    text = json.dumps(etcd([one]), separators=(",", ":"))
    for end in ("", "\n"):
        slowly.clear()
        assert ours(write(tmp_path / "dump.json", text + end))[0][1][0][5] == numbers | {"a": "b", "c": False}
        assert [raw for raw in slowly if b"service.name" not in raw and b"etcd" not in raw] == []


@pytest.mark.parametrize(
    "spell",
    [
        lambda dump: snake(dump),
        lambda dump: json.loads(json.dumps(dump).replace('"kind": 2', '"kind": "SPAN_KIND_SERVER"')),
        lambda dump: json.loads(json.dumps(dump).replace('"status": {}', '"status": null')),
    ],
    ids=["snake_case", "enums by name", "null"],
)
def test_whole_dump_in_another_spelling_is_looked_at_a_few_times_at_most(
    tmp_path: Path, slowly: list[bytes], spell: Any
) -> None:
    """Once for the names around the resources, once for those in them, once for the attributes of calls."""
    calls = [one for number in range(1, 200) for one in call(number, RANGE, GET)]
    expected = judge(write(tmp_path / "dump.json", etcd(calls)))
    slowly.clear()
    path = write(tmp_path / "dump.json", spell(etcd(calls)))
    found = judge(path)
    assert (found.rows, found.calls) == (expected.rows, expected.calls)
    assert found.error is None
    assert sum(map(len, slowly)) < 3 * path.stat().st_size


@pytest.mark.parametrize(
    "odd", [{"doubleValue": 1.5}, {"doubleValue": "NaN"}, {"int_value": "1"}, {"bytesValue": "YQ"}]
)
def test_odd_attribute_costs_one_more_look_at_the_list(tmp_path: Path, slowly: list[bytes], odd: JSON) -> None:
    many = [{"key": f"{number}", "value": {"intValue": "1"}} for number in range(1000)]
    one = span("00000000000000aa", attributes=[*many, {"key": "odd", "value": odd}])
    assert len(ours(write(tmp_path / "dump.json", etcd([one])))[0][1][0][5]) == 1001
    assert len([raw for raw in slowly if raw.startswith(b"[")]) <= 1
