"""Values and forms in OTLP: what they are read as, and what OTLP does not know, named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.kinds import read_dump
from etcd_coverage.judging.judge import judge
from meta_tests.builder import GET, JSON, RANGE, TRACE, call, dump, etcd, resource, span, value, write
from meta_tests.readings import ours

if TYPE_CHECKING:
    from pathlib import Path


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
