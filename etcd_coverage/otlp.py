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
import math
import mmap
import re
import shutil
import stat
import tempfile
import zlib
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, NoReturn, cast

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from etcd_coverage.text import escape, shorten

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


_NO_ITEMS = Raw(b"[]")

# A field of this type refuses any value that a dump could hold, which sends its resource to json_format.
_OtherSpelling = Literal["\0"] | UnsetType


class Span(Struct, gc=False, rename="camel"):
    """The fields of an OTLP span that the suite reads; ids and name are empty where they are absent.

    ``attributes``, ``events`` and ``status`` are undecoded JSON: see `attributes`, `event_names` and `failed`.
    """

    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    name: str = ""
    kind: Annotated[int, Meta(ge=-(2**31), lt=2**31)] = 0
    attributes: Raw = _NO_ITEMS
    events: Raw = _NO_ITEMS
    status: Raw = Raw(b"{}")
    snake_trace_id: _OtherSpelling = msgspec.field(name="trace_id", default=UNSET)
    snake_span_id: _OtherSpelling = msgspec.field(name="span_id", default=UNSET)
    snake_parent_span_id: _OtherSpelling = msgspec.field(name="parent_span_id", default=UNSET)


class ScopeSpans(Struct, gc=False):
    """The spans of one instrumentation scope."""

    spans: list[Span] = []


class ResourceSpans(Struct, gc=False, rename="camel"):
    """The spans of one resource; see `service_name`."""

    resource: Raw = Raw(b"{}")
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
    code: int = 0


_dump_decoder = msgspec.json.Decoder(_Dump)
_resource_spans_decoder = msgspec.json.Decoder(ResourceSpans)
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
    pairs = _decode_part(resource, _resource_decoder, "Resource", "a resource").attributes
    for pair in pairs:
        if pair.key == "service.name":
            value = _value(pair.value, "service.name of a resource")
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
            # 18 digits always fit into 64 bits.
            elif member == "intValue" and type(value) is str and len(value) <= 18 and value.isdecimal():
                found[key] = int(value)
            else:
                return _attributes_in_another_spelling(span)
    except (msgspec.ValidationError, ValueError, RecursionError):
        return _attributes_in_another_spelling(span)
    return found


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
    events = _decode_field(span, "events", span.events, _events_decoder)
    return [event.name for event in events]


def failed(span: Span) -> bool:
    """Tell whether the span's status is an error."""
    status: _Status = _decode_field(span, "status", span.status, _status_decoder)
    return status.code == STATUS_ERROR


def describe(span: Span) -> str:
    """Return the span's ids, escaped, as errors print them."""
    return f"span {escape(shorten(span.span_id, 80))} of trace {escape(shorten(span.trace_id, 80))}"


# --- one value in a spelling that the typed decoders refuse ---------------------------------------------------------


def _attributes_in_another_spelling(span: Span) -> Attributes:
    pairs = _loads(bytes(span.attributes), describe(span))
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        raise _unknown_form(f"{describe(span)}: attributes are {_excerpt(pairs)}, not a list")
    found: Attributes = {}
    for number, pair in enumerate(pairs):
        key = pair.get("key") if isinstance(pair, dict) else None
        name = f'"{escape(shorten(key, 80))}"' if isinstance(key, str) else f"number {number}"
        where = f"{describe(span)}: attribute {name}"
        key = _canonical(pair, "KeyValue", where).get("key", "")
        if key not in found:
            found[key] = _value(pair.get("value"), where)
    return found


def _value(spelled: Any, where: str) -> AttributeValue:
    """Return the value of any spelling that the protobuf JSON mapping knows, by json_format's verdict."""
    canonical = _canonical(spelled, "AnyValue", where)
    if "stringValue" in canonical:
        return cast("str", canonical["stringValue"])
    if "intValue" in canonical:
        return int(canonical["intValue"])
    if "boolValue" in canonical:
        return cast("bool", canonical["boolValue"])
    # json_format ignores members that it does not know, but then nobody has read the value.
    if not canonical and spelled and any(value is not None for value in spelled.values()):
        raise _unknown_form(f"{where} is {_excerpt(spelled)}")
    return None


def _decode_field(span: Span, field: str, raw: Raw, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        value = _loads(bytes(raw), describe(span))
        empty: dict[str, Any] = {"events": [], "status": {}}
        canonical = _canonical({field: value}, "Span", describe(span)).get(field, empty[field])
        return decoder.decode(msgspec.json.encode(canonical))


def _decode_part(raw: bytes, decoder: msgspec.json.Decoder[Any], message: str, where: str) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        canonical = _canonical(_loads(raw, where), message, where)
        return decoder.decode(msgspec.json.encode(canonical))


# --- a dump in a spelling that the typed decoder refuses ------------------------------------------------------------


def _read_resource_by_resource(data: memoryview) -> list[ResourceSpans]:
    """Return the dump's resources, each by the typed decoder or else by json_format; refuse other shapes by name."""
    try:
        top = msgspec.json.decode(data, type=dict[str, Raw])
    except msgspec.ValidationError:
        raise DumpError(f"is JSON, but not a dump: it starts with {_start(data)}; {_EXPECTED}") from None
    if "error" in top:
        _refuse_jaeger_error(bytes(top["error"]))
    if "result" not in top:
        if "resourceSpans" in top or "resource_spans" in top:
            hint = 'it is OTLP without Jaeger\'s envelope: wrap it as {"result": ...}'
        elif "data" in top:
            hint = "it looks like Jaeger's old /api/traces: ask /api/v3/traces"
        else:
            names = ", ".join(f'"{escape(shorten(name, 40))}"' for name in list(top)[:5]) or "nothing"
            hint = f"it holds {names}"
        raise DumpError(f'is JSON without "result": {hint}; {_EXPECTED}')
    try:
        result = msgspec.json.decode(top["result"], type=dict[str, Raw] | None) or {}
        spelled = [result[name] for name in ("resourceSpans", "resource_spans") if name in result]
        if len(spelled) > 1:
            raise _unknown_form("its result has both resourceSpans and resource_spans")
        resources = (msgspec.json.decode(spelled[0], type=list[Raw] | None) or []) if spelled else []
    except msgspec.ValidationError:
        raise DumpError(f"is JSON of another shape: its result has no list of resourceSpans; {_EXPECTED}") from None
    return [_read_resource(raw, f"resourceSpans[{number}]") for number, raw in enumerate(resources)]


def _read_resource(raw: Raw, where: str) -> ResourceSpans:
    try:
        return _resource_spans_decoder.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        pass
    value = _loads(bytes(raw), where)
    ids = _take_ids(value, where)
    canonical = _canonical(value, "ResourceSpans", where)
    spans = [span for scope in canonical.get("scopeSpans", []) for span in scope.get("spans", [])]
    for span, (own_ids, kind) in zip(spans, ids, strict=True):
        # json_format drops names that it does not know, and cuts fractions off.
        dropped = kind not in (None, 0, "0", "SPAN_KIND_UNSPECIFIED") and "kind" not in span
        if dropped or isinstance(kind, float):
            identifier = escape(own_ids.get("spanId", ""))
            raise _unknown_form(f"{where}: span {identifier} has the kind {_excerpt(kind)}")
        span.update(own_ids)
    return _resource_spans_decoder.decode(msgspec.json.encode(canonical))


def _take_ids(resource: Any, where: str) -> list[tuple[dict[str, str], Any]]:
    """Remove and return each span's ids (json_format would read hex as base64), and return its kind beside them.

    Shapes that are not OTLP's are left for json_format to refuse.
    """
    taken: list[tuple[dict[str, str], Any]] = []
    if not isinstance(resource, dict):
        return taken
    for name in ("instrumentationLibrarySpans", "instrumentation_library_spans"):
        if name in resource:
            raise DumpError(
                f"{where} holds {name}, which OTLP dropped in 2022: export the traces with a newer collector"
            )
    for scope in _children(resource, "scopeSpans", "scope_spans", where):
        for span in _children(scope, "spans", "spans", where):
            ids: dict[str, str] = {}
            for name, snake in (
                ("traceId", "trace_id"),
                ("spanId", "span_id"),
                ("parentSpanId", "parent_span_id"),
            ):
                spelled = [span.pop(key) for key in (name, snake) if key in span]
                if len(spelled) > 1:
                    raise _unknown_form(f"{where} has a span with both {name} and {snake}")
                if spelled and spelled[0] is not None:
                    if not isinstance(spelled[0], str):
                        raise _unknown_form(f"{where} has a span whose {name} is {_excerpt(spelled[0])}, not a string")
                    ids[name] = spelled[0]
            taken.append((ids, span.get("kind")))
    return taken


def _children(parent: dict[str, Any], name: str, snake: str, where: str) -> list[dict[str, Any]]:
    if name != snake and name in parent and snake in parent:
        raise _unknown_form(f"{where} has both {name} and {snake}")
    children = parent.get(name, parent.get(snake))
    if not isinstance(children, list):
        return []
    return [child for child in children if isinstance(child, dict)]


def _canonical(value: Any, message: str, where: str) -> dict[str, Any]:
    """Return ``value`` in the canonical spelling of the protobuf JSON mapping; raise `DumpError` if it is none."""
    # Imported here: real dumps do not need it, and it would be a tenth of the start-up time.
    from google.protobuf import json_format
    from opentelemetry.proto.common.v1 import common_pb2
    from opentelemetry.proto.resource.v1 import resource_pb2
    from opentelemetry.proto.trace.v1 import trace_pb2

    types: dict[str, type[Message]] = {
        "AnyValue": common_pb2.AnyValue,
        "KeyValue": common_pb2.KeyValue,
        "Resource": resource_pb2.Resource,
        "ResourceSpans": trace_pb2.ResourceSpans,
        "Span": trace_pb2.Span,
    }
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _unknown_form(f"{where} is {_excerpt(value)}, not an object")
    try:
        parsed = json_format.ParseDict(value, types[message](), ignore_unknown_fields=True)
    except RecursionError:
        raise DumpError(f"{where}: {_TOO_DEEP}") from None
    except (json_format.ParseError, TypeError, ValueError, AttributeError) as error:
        raise _unknown_form(f"{where}: {_one_line(str(error))}") from None
    return json_format.MessageToDict(parsed, use_integers_for_enums=True)


def _unknown_form(what: str) -> DumpError:
    return DumpError(f"{what}: a form that OTLP does not know; check what exported these traces")


def _loads(raw: bytes, where: str) -> Any:
    """Return the JSON value, strictly: no NaN, no integer through a float, no key twice in an object."""
    try:
        return json.loads(raw, parse_float=_exact_number, object_pairs_hook=functools.partial(_unique, where))
    except RecursionError:
        raise DumpError(f"{where}: {_TOO_DEEP}") from None


def _exact_number(text: str) -> int | float:
    number = float(text)
    return int(Decimal(text)) if math.isfinite(number) and number.is_integer() and abs(number) < 2**64 else number


def _unique(where: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _unknown_form(f"{where} has an object with the same key twice")
    return found


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
            head = unpacked.read(_CHUNK)
            _check_start(head)
            plain.write(head)
            shutil.copyfileobj(unpacked, plain, _CHUNK)
            plain.flush()
            return memoryview(mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ))
    except EOFError:
        raise DumpError(f"is a gzip file that was cut off: {_AGAIN}") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DumpError(f"is a broken gzip file ({error}): {_AGAIN}") from None


def _check_start(head: bytes) -> None:
    """Refuse by name what cannot be JSON, from its first bytes."""
    for magic, name in _OTHER_COMPRESSIONS.items():
        if head.startswith(magic):
            raise DumpError(f"is compressed with {name}: unpack it first, only gzip is read directly")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DumpError("is UTF-16 text: save it as UTF-8, as JSON demands")
    start = head.removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n")
    if not start:
        raise DumpError(f"is empty: {_AGAIN}")
    if start[:1] in b"{[":
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
        if escaped["lone"]:
            lone = escaped[0].decode("ascii", "replace")
            at = escaped.start()
            raise DumpError(f"has an unpaired surrogate {lone!r} at byte {at}: no UTF-8 text has one; {_AGAIN}")
    found = re.search(r"\(byte (\d+)\)", message)
    if found is None:
        raise DumpError(f"is truncated JSON: it ends at byte {len(data)} in the middle; {_AGAIN}")
    at = int(found[1])
    if "trailing characters" in message:
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
    body = json.loads(raw) if len(raw) < _CHUNK else None
    message = (
        escape(shorten(str(body.get("message", body)), 300)) if isinstance(body, dict) else _start(memoryview(raw))
    )
    code = f" {body['httpCode']}" if isinstance(body, dict) and isinstance(body.get("httpCode"), int) else ""
    hints = {
        "No traces found": "ask for a window that holds traces, and check query.service_name",
        "search depth": "ask for query.num_traces above 0 and no more than Jaeger's max_traces",
        "are required": "ask with query.start_time_min and query.start_time_max",
        "malformed parameter": "write times as RFC 3339, such as 2026-08-30T12:00:00Z",
    }
    hint = next((hint for part, hint in hints.items() if part in message), "mend the request")
    raise DumpError(f"is an error{code} that Jaeger answered, not a dump: {message}; {hint}, or use {DOWNLOAD}")


def _start(data: bytes | memoryview) -> str:
    return f'"{escape(bytes(data[:60]).decode("utf-8", "replace"))}"'


def _excerpt(value: Any) -> str:
    return escape(shorten(json.dumps(value, default=str), 80))


def _one_line(text: str) -> str:
    return shorten(" ".join(escape(line) for line in text.splitlines()), 300)
