"""Dump file -> spans; the only module that knows file formats.

A dump is Jaeger's answer to ``GET /api/v3/traces``: ``{"result": {"resourceSpans": [...]}}``, the inside being
OTLP's ``ExportTraceServiceRequest`` in the protobuf JSON mapping
(https://protobuf.dev/programming-guides/json/) with ids in hex
(https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).

Decoding is typed and takes only the fields that are needed. What the typed decoder refuses (snake_case names, enums
by name, numbers as strings and other legal spellings) goes, one resource at a time, to protobuf's ``json_format``:
what that accepts is decoded again in its canonical spelling, what that refuses is an error.
"""

from __future__ import annotations

import codecs
import functools
import gzip
import json
import mmap
import os
import re
import stat
import tempfile
import zlib
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, NoReturn, cast

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from etcd_coverage.text import escape, quote, shorten

if TYPE_CHECKING:
    from pathlib import Path

    from google.protobuf.message import Message

AttributeValue = str | int | bool | None
"""An attribute's value; None stands for what no argument has: double, bytes, array, kvlist, no value at all."""

Attributes = dict[str, AttributeValue]

SERVER = 2
"""``SPAN_KIND_SERVER``, https://github.com/open-telemetry/opentelemetry-proto."""

STATUS_ERROR = 2
"""``STATUS_CODE_ERROR``, same source."""

DOWNLOAD = "python -m etcd_coverage.jaeger"


class DumpError(Exception):
    """Why a file cannot be judged: one line that says what is wrong, where, and what to do next."""

    def within(self, place: str) -> DumpError:
        """Return the same error with the place before it."""
        return type(self)(f"{place}: {self}")


_NO_ITEMS = Raw(b"[]")
_NOTHING = Raw(b"{}")

_Enum = Annotated[int, Meta(ge=-(2**31), lt=2**31)]

# A field of this type refuses any value that a dump could hold, which sends its span or resource to json_format.
_OtherSpelling = Literal["\0"] | UnsetType


class Span(Struct, gc=False, rename="camel"):
    """The fields of an OTLP span that the suite reads; ids and name are empty where they are absent.

    ``attributes``, ``events`` and ``status`` are undecoded JSON: see `attributes`, `event_names` and `failed`.
    """

    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    name: str = ""
    kind: _Enum = 0
    attributes: Raw = _NO_ITEMS
    events: Raw = _NO_ITEMS
    status: Raw = _NOTHING
    snake_trace_id: _OtherSpelling = msgspec.field(name="trace_id", default=UNSET)
    snake_span_id: _OtherSpelling = msgspec.field(name="span_id", default=UNSET)
    snake_parent_span_id: _OtherSpelling = msgspec.field(name="parent_span_id", default=UNSET)


class ScopeSpans(Struct, gc=False):
    """The spans of one instrumentation scope."""

    spans: list[Span] = []


class ResourceSpans(Struct, gc=False, rename="camel"):
    """The spans of one resource; see `service_name`."""

    resource: Raw = _NOTHING
    scope_spans: list[ScopeSpans] = []
    snake_scope_spans: _OtherSpelling = msgspec.field(name="scope_spans", default=UNSET)
    old_spans: _OtherSpelling = msgspec.field(name="instrumentationLibrarySpans", default=UNSET)
    snake_old_spans: _OtherSpelling = msgspec.field(name="instrumentation_library_spans", default=UNSET)


class _Result(Struct, rename="camel"):
    resource_spans: list[ResourceSpans]
    snake_resource_spans: _OtherSpelling = msgspec.field(name="resource_spans", default=UNSET)


class _Dump(Struct):
    result: _Result
    error: _OtherSpelling = UNSET


class _KeyValue(Struct, gc=False):
    key: str = ""
    value: dict[str, Any] = {}


class _Resource(Struct):
    attributes: list[_KeyValue] = []


class _Event(Struct, gc=False):
    name: str = ""


class _Status(Struct):
    code: _Enum = 0


_dump_decoder = msgspec.json.Decoder(_Dump)
_resource_spans_decoder = msgspec.json.Decoder(ResourceSpans)
_span_decoder = msgspec.json.Decoder(Span)
_resource_decoder = msgspec.json.Decoder(_Resource)
_attributes_decoder = msgspec.json.Decoder(list[_KeyValue])
_events_decoder = msgspec.json.Decoder(list[_Event])
_status_decoder = msgspec.json.Decoder(_Status)


def read_dump(path: Path) -> list[ResourceSpans]:
    """Return the resources of the dump at ``path`` with their spans, in file order; gzip is told by its content.

    Raises `DumpError` for anything that is not a whole dump. A dump without spans is no error here.
    """
    data = _map(path)
    if bytes(data[:3]) == codecs.BOM_UTF8:
        data = data[3:]
    _check_utf8(data)
    try:
        try:
            return _dump_decoder.decode(data).result.resource_spans
        except msgspec.ValidationError:
            return _read_resource_by_resource(data)
    except RecursionError:
        raise DumpError(_TOO_DEEP) from None
    except msgspec.DecodeError as error:
        _refuse_malformed(data, str(error))


def service_name(resource_spans: ResourceSpans) -> str | None:
    """Return the resource's ``service.name``: None without one, empty if it is not a string.

    Source: https://opentelemetry.io/docs/specs/semconv/resource/#service.
    """
    return _service_name(bytes(resource_spans.resource))


@functools.lru_cache(maxsize=1024)  # a dump repeats few resources many thousand times
def _service_name(resource: bytes) -> str | None:
    where = "a resource"
    for pair in _decode_part(resource, _resource_decoder, "ResourceSpans", "resource", where).attributes:
        if pair.key == "service.name":
            value = pair.value.get("stringValue")
            if not isinstance(value, str):
                canonical = _canonical(msgspec.to_builtins(pair), "KeyValue", f"{where}: service.name")
                value = _value(canonical.get("value", {}), pair.value, f"{where}: service.name")
            return value if isinstance(value, str) else ""
    return None


def attributes(span: Span) -> Attributes:
    """Return the span's attributes by key; of several with the same key the first counts.

    Raises `DumpError`, naming span and attribute, for a value that OTLP does not know.
    """
    found: Attributes = {}
    try:
        for pair in _attributes_decoder.decode(span.attributes):
            key = pair.key
            if key in found:
                continue
            ((member, value),) = pair.value.items()
            if (member == "stringValue" and type(value) is str) or (member == "boolValue" and type(value) is bool):
                found[key] = value
            elif member == "intValue" and type(value) is str and (number := _plain_integer(value)) is not None:
                found[key] = number
            else:
                return _attributes_in_another_spelling(span)
    except (msgspec.ValidationError, ValueError, RecursionError):
        return _attributes_in_another_spelling(span)
    return found


def _plain_integer(text: str) -> int | None:
    """Return the integer that Jaeger wrote; None for other spellings, and beyond 64 bits."""
    if len(text) <= 20 and text.isascii() and text.removeprefix("-").isdecimal():
        number = int(text)
        if -(2**63) <= number < 2**63:
            return number
    return None


def get_int(attributes: Attributes, key: str) -> int:
    """Return the attribute as an int; 0 if it is absent or of another type."""
    value = attributes.get(key)
    return value if type(value) is int else 0


def get_str(attributes: Attributes, key: str) -> str:
    """Return the attribute as a string; empty if it is absent or of another type."""
    value = attributes.get(key)
    return value if type(value) is str else ""


def get_bool(attributes: Attributes, key: str) -> bool:
    """Return the attribute as a bool; False if it is absent or of another type."""
    return attributes.get(key) is True


def event_names(span: Span) -> list[str]:
    """Return the names of the span's events, in order."""
    if span.events is _NO_ITEMS:
        return []
    events = _decode_part(bytes(span.events), _events_decoder, "Span", "events", describe(span))
    return [event.name for event in events]


def failed(span: Span) -> bool:
    """Tell whether the span's status is an error."""
    status: _Status = _decode_part(bytes(span.status), _status_decoder, "Span", "status", describe(span))
    return status.code == STATUS_ERROR


def describe(span: Span) -> str:
    """Return the span's ids, escaped, as errors print them."""
    span_id, trace_id = (escape(shorten(identifier, 80)) or "(no id)" for identifier in (span.span_id, span.trace_id))
    return f"span {span_id} of trace {trace_id}"


# --- one field in a spelling that the typed decoders refuse ---------------------------------------------------------


def _attributes_in_another_spelling(span: Span) -> Attributes:
    pairs = _loads(bytes(span.attributes), describe(span))
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        raise _unknown_form(f"{describe(span)}: attributes are {_excerpt(pairs)}, not a list")
    found: Attributes = {}
    for number, pair in enumerate(pairs):
        key = pair.get("key") if isinstance(pair, dict) else None
        name = quote(key) if isinstance(key, str) else f"number {number}"
        where = f"{describe(span)}: attribute {name}"
        canonical = _canonical(pair, "KeyValue", where)
        if canonical.get("key", "") not in found:
            found[canonical.get("key", "")] = _value(canonical.get("value", {}), pair.get("value"), where)
    return found


def _value(canonical: dict[str, Any], spelled: Any, where: str) -> AttributeValue:
    # What OTLP does not know is dropped, but then nobody has read the value.
    if not canonical and spelled and any(value is not None for value in spelled.values()):
        raise _unknown_form(f"{where} is {_excerpt(spelled)}")
    for member in ("stringValue", "intValue", "boolValue"):
        if member in canonical:
            return cast("AttributeValue", canonical[member])
    return None


def _decode_part(raw: bytes, decoder: msgspec.json.Decoder[Any], message: str, field: str, where: str) -> Any:
    """Decode one field of a message, typed or else by json_format's verdict."""
    try:
        return decoder.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        canonical = _canonical({field: _loads(raw, where)}, message, where)
        empty: dict[str, Any] = {"events": [], "status": {}, "resource": {}}
        return decoder.decode(msgspec.json.encode(canonical.get(field, empty[field])))


# --- a dump in a spelling that the typed decoder refuses ------------------------------------------------------------


def _read_resource_by_resource(data: memoryview) -> list[ResourceSpans]:
    """Return the dump's resources, each by the typed decoder or else by json_format; refuse other shapes by name."""
    try:
        top = msgspec.json.decode(data, type=dict[str, Raw])
    except msgspec.ValidationError:
        raise DumpError(f"is JSON, but not a dump: it starts with {_start(data)}; {_EXPECTED}") from None
    if "error" in top and bytes(top["error"]) != b"null":
        _refuse_jaeger_error(bytes(top["error"]))
    if "result" not in top:
        if "resourceSpans" in top or "resource_spans" in top:
            hint = 'it is OTLP without Jaeger\'s envelope: wrap it as {"result": ...}'
        elif "data" in top:
            hint = "it looks like Jaeger's old /api/traces: ask /api/v3/traces"
        else:
            hint = f"it holds {', '.join(map(quote, list(top)[:5])) or 'nothing'}"
        raise DumpError(f'is JSON without "result": {hint}; {_EXPECTED}')
    try:
        result = msgspec.json.decode(top["result"], type=dict[str, Raw] | None) or {}
        resources = _list(result, "resourceSpans", "resource_spans", "its result")
    except msgspec.ValidationError:
        raise DumpError(f"is JSON of another shape: its result has no list of resourceSpans; {_EXPECTED}") from None
    return [_read_resource(raw, f"resourceSpans[{number}]") for number, raw in enumerate(resources)]


def _read_resource(raw: Raw, where: str) -> ResourceSpans:
    try:
        return _resource_spans_decoder.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        pass
    try:
        members = msgspec.json.decode(raw, type=dict[str, Raw])
        for name in ("instrumentationLibrarySpans", "instrumentation_library_spans"):
            if name in members:
                raise DumpError(
                    f"{where} holds {name}, which OTLP dropped in 2022: export the traces with a newer collector"
                )
        found = ResourceSpans(members.get("resource", _NOTHING))
        for scope in _list(members, "scopeSpans", "scope_spans", where):
            spans = _list(msgspec.json.decode(scope, type=dict[str, Raw]), "spans", "spans", where)
            found.scope_spans.append(ScopeSpans([_read_span(span, where) for span in spans]))
    except msgspec.ValidationError as error:
        raise _unknown_form(f"{where}: {_one_line(str(error))}") from None
    return found


def _read_span(raw: Raw, where: str) -> Span:
    """Return one span; one in another spelling costs a hundred times the time, so it is told from its neighbours."""
    try:
        return _span_decoder.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        spelled = _loads(bytes(raw), where)
        canonical = _canonical(spelled, "Span", f"{where}: {_describe_spelled(spelled)}")
        return _span_decoder.decode(msgspec.json.encode(canonical))


def _describe_spelled(span: Any) -> str:
    if not isinstance(span, dict):
        return "a span"
    trace_id, span_id = (
        span.get(name, span.get(snake)) for name, snake in (("traceId", "trace_id"), ("spanId", "span_id"))
    )
    return describe(Span(str(trace_id or ""), str(span_id or "")))


def _list(members: dict[str, Raw], name: str, snake: str, where: str) -> list[Raw]:
    """Return the items of a list that may be spelled in two ways; empty if it is absent or null."""
    spelled = [members[key] for key in dict.fromkeys((name, snake)) if key in members]
    if len(spelled) > 1:
        raise _unknown_form(f"{where} has both {name} and {snake}")
    return (msgspec.json.decode(spelled[0], type=list[Raw] | None) or []) if spelled else []


def _canonical(value: Any, message: str, where: str) -> dict[str, Any]:
    """Return a message in the canonical spelling of the protobuf JSON mapping; raise `DumpError` if it is none.

    Integers and enums become numbers. Ids stay as they are spelled, since OTLP writes them in hex, which json_format
    would take for base64; fields that OTLP does not know are left out.
    """
    # Imported here: real dumps do not need it, and it would be a tenth of the start-up time.
    from google.protobuf import json_format
    from opentelemetry.proto.common.v1 import common_pb2
    from opentelemetry.proto.trace.v1 import trace_pb2

    types: dict[str, type[Message]] = {
        "KeyValue": common_pb2.KeyValue,
        "ResourceSpans": trace_pb2.ResourceSpans,
        "Span": trace_pb2.Span,
    }
    try:
        canonical: dict[str, Any] = _message(value, types[message].DESCRIPTOR, where)
        without_ids = {name: one for name, one in canonical.items() if name not in _IDS}
        json_format.ParseDict(without_ids, types[message]())
    except RecursionError:
        raise DumpError(f"{where}: {_TOO_DEEP}") from None
    except (json_format.ParseError, TypeError, ValueError) as error:
        raise _unknown_form(f"{where}: {_one_line(str(error))}") from None
    return canonical


_IDS = ("traceId", "spanId", "parentSpanId")


def _message(value: Any, descriptor: Any, where: str) -> dict[str, Any]:
    """Check what json_format is lenient about: a text or a list for an object, and numbers in odd spellings."""
    if not isinstance(value, dict):
        raise _unknown_form(f"{where} is {_excerpt(value)}, not an object")
    canonical = {}
    for field in descriptor.fields:
        # Ids of links: nobody reads them, and they are hex too.
        if field.name == "links":
            continue
        spelled = [value[name] for name in dict.fromkeys((field.json_name, field.name)) if name in value]
        if len(spelled) > 1:
            raise _unknown_form(f"{where} has both {field.json_name} and {field.name}")
        if not spelled or spelled[0] is None:
            continue
        inside = f"{where}: {field.json_name}"
        if not field.is_repeated:
            canonical[field.json_name] = _field(spelled[0], field, inside)
        elif isinstance(spelled[0], list):
            canonical[field.json_name] = [_field(one, field, inside) for one in spelled[0]]
        else:
            raise _unknown_form(f"{inside} is {_excerpt(spelled[0])}, not a list")
    return canonical


def _field(value: Any, field: Any, where: str) -> Any:
    if field.message_type is not None:
        return _message(value, field.message_type, where)
    if field.type == field.TYPE_BYTES and not isinstance(value, str):
        raise _unknown_form(f"{where} is {_excerpt(value)}, not a string")
    if field.type == field.TYPE_ENUM and isinstance(value, str) and value in field.enum_type.values_by_name:
        return field.enum_type.values_by_name[value].number
    if field.type in (field.TYPE_DOUBLE, field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_BOOL):
        return float(value) if isinstance(value, Decimal) else value
    # The rest are integers: as a number or as a number in a string, with a value that is whole.
    number = value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        number = Decimal(value)
    if isinstance(number, Decimal) and number.adjusted() < 20 and number == number.to_integral_value():
        number = int(number)
    if type(number) is not int or (field.type == field.TYPE_ENUM and not -(2**31) <= number < 2**31):
        raise _unknown_form(f"{where} is {_excerpt(value)}")
    return number


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)


def _unknown_form(what: str) -> DumpError:
    return DumpError(f"{what}: a form that OTLP does not know; check what exported these traces")


def _loads(raw: bytes, where: str) -> Any:
    """Return the JSON value, its numbers as exact Decimals."""
    try:
        return json.loads(raw, parse_float=Decimal, parse_int=_integer)
    except RecursionError:
        raise DumpError(f"{where}: {_TOO_DEEP}") from None


def _integer(text: str) -> int | Decimal:
    # int() refuses thousands of digits, https://docs.python.org/3/library/stdtypes.html#int-max-str-digits
    return int(text) if len(text) < 30 else Decimal(text)


# --- files, and why they are none -----------------------------------------------------------------------------------

_TOO_DEEP = "JSON nested too deep to be a dump"
_EXPECTED = f"a dump is what Jaeger's /api/v3/traces answers: make one with {DOWNLOAD}"
_AGAIN = f"download it again with {DOWNLOAD}"
_GZIP = b"\x1f\x8b"
_OTHER_COMPRESSIONS = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
}
_CHUNK = 1 << 18
# Real dumps shrink to a twelfth. A file that unpacks to much more is not worth the disk.
_BOMB = 1 << 28
_BOMB_RATIO = 100


def _map(path: Path) -> memoryview:
    """Return the content of the file, unpacked if it is gzip, as a view on mapped memory."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise DumpError(
                "is a directory, not a dump: move the dumps in it one level up, or judge it with --testdata"
            )
        if not stat.S_ISREG(mode):
            raise DumpError("is not a regular file: put the dump itself there")
        with path.open("rb") as file:
            head = file.read(_CHUNK)
            file.seek(0)
            if head.startswith(_GZIP):
                return _map_gzip(file)
            _check_start(head)
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise DumpError(f"cannot be read: {error.strerror or error}; check the file and its permissions") from None


def _map_gzip(file: BinaryIO) -> memoryview:
    try:
        with gzip.open(file) as unpacked, tempfile.TemporaryFile() as plain:
            most = max(_BOMB, _BOMB_RATIO * os.fstat(file.fileno()).st_size)
            chunk = unpacked.read(_CHUNK)
            _check_start(chunk)
            while chunk:
                plain.write(chunk)
                if plain.tell() > most:
                    raise DumpError(f"is a gzip file that unpacks to over {_BOMB_RATIO} times its size: no dump does")
                chunk = unpacked.read(_CHUNK)
            plain.flush()
            return memoryview(mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ))
    except EOFError:
        raise DumpError(f"is a gzip file that was cut off: {_AGAIN}") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DumpError(f"is a broken gzip file ({error}): {_AGAIN}") from None
    except OSError as error:
        raise DumpError(f"cannot be unpacked: {error.strerror}; free space in {tempfile.gettempdir()}") from None


def _check_start(head: bytes) -> None:
    """Refuse by name what cannot be JSON, from its first bytes."""
    for magic, name in _OTHER_COMPRESSIONS.items():
        if head.startswith(magic):
            raise DumpError(f"is compressed with {name}: unpack it first, only gzip is read directly")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"\0\0\xfe\xff")) or head[:4].count(0) > 1:
        raise DumpError("is UTF-16 or UTF-32 text: save it as UTF-8, as JSON demands")
    start = head.removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n")
    if not start and len(head) < _CHUNK:
        raise DumpError(f"is empty: {_AGAIN}")
    if start[:1] in (b"", b"{", b"["):
        return
    if start.startswith(b"<"):
        raise DumpError(f"is HTML or XML, not a dump ({_start(start)}): some other server answered, check the URL")
    line = start.splitlines()[0][:200]
    if line.decode("utf-8", "replace").isprintable():
        raise DumpError(f"is plain text, not a dump ({_start(start)}): check the URL it was downloaded from")
    raise DumpError(f"is a binary file, not a dump (it starts with {_start(start)}); {_EXPECTED}")


def _check_utf8(data: memoryview) -> None:
    """Refuse invalid UTF-8 anywhere, since the typed decoder only looks at the strings that it keeps."""
    position = 0
    try:
        while position < len(data):
            end = position + _CHUNK
            _, valid = codecs.utf_8_decode(data[position:end], "strict", end >= len(data))
            position += valid
    except UnicodeDecodeError as error:
        at = position + error.start
        raise DumpError(f"is not valid UTF-8: byte {data[at]:#04x} at offset {at}; {_AGAIN}") from None


def _refuse_malformed(data: memoryview, message: str) -> NoReturn:
    for escaped in re.finditer(_ESCAPE, data):
        if escaped["lone"] and escaped.end() + len("\\u0000") <= len(data):
            lone = escaped[0].decode("ascii", "replace")
            at = escaped.start()
            raise DumpError(f"has an unpaired surrogate {lone!r} at byte {at}: no UTF-8 text has one; {_AGAIN}")
    found = re.search(r"\(byte (\d+)\)", message)
    if found is None:
        raise DumpError(f"is truncated JSON: it ends at byte {len(data)} in the middle; {_AGAIN}")
    at = int(found[1])
    if "trailing characters" in message:
        at -= 1  # msgspec counts the character that it stumbled on
        raise DumpError(f"has more after the end of its JSON, at byte {at} ({_start(data[at:])}); {_AGAIN}")
    reason = message.removeprefix("JSON is malformed: ").replace(found[0], "").strip()
    raise DumpError(f"is not JSON: {reason} at byte {at} ({_start(data[at:])}); {_AGAIN}")


# Steps over pairs and other escapes, so that an escaped backslash before a "u" is not taken for one.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def _refuse_jaeger_error(raw: bytes) -> NoReturn:
    """Say what Jaeger answered in place of a dump, and which request would have worked."""
    body = _loads(raw, "an error of Jaeger")
    told = body.get("message") if isinstance(body, dict) else None
    message = escape(shorten(told, 300)) if isinstance(told, str) else _start(raw)
    number = body.get("httpCode") if isinstance(body, dict) else None
    code = f" {number}" if type(number) is int else ""
    hint = next((hint for part, hint in _JAEGER_HINTS.items() if part in message), "mend the request")
    raise DumpError(f"is an error{code} that Jaeger answered, not a dump: {message}; {hint}, or use {DOWNLOAD}")


_JAEGER_HINTS = {
    "No traces found": "ask for a window that holds traces, and check query.service_name",
    "search depth": "ask for query.num_traces above 0 and no more than Jaeger's max_traces",
    "are required": "ask with query.start_time_min and query.start_time_max",
    "malformed parameter": "write times as RFC 3339, such as 2026-08-30T12:00:00Z",
}


def _start(data: bytes | memoryview) -> str:
    return quote(bytes(data[:60]).decode("utf-8", "replace"))


def _excerpt(value: Any) -> str:
    return escape(shorten(json.dumps(value, default=str), 80))


def _one_line(text: str) -> str:
    return shorten(" ".join(escape(line) for line in text.splitlines()), 300)
