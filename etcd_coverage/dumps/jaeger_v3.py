"""Answers of Jaeger's ``GET /api/v3/traces`` -> spans: ``{"result": {"resourceSpans": [...]}}``.

The inside is OTLP's ``ExportTraceServiceRequest`` in JSON, see `otlp_json`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import msgspec
from msgspec import UNSET, Raw, Struct

from etcd_coverage.dumps import resource_lists
from etcd_coverage.dumps.error import DOWNLOAD, DumpError
from etcd_coverage.dumps.files import check_utf8, start_of
from etcd_coverage.dumps.otlp_json import Refused, ResourceSpans, list_of
from etcd_coverage.dumps.resource_lists import Envelope, one_by_one, other_shape
from etcd_coverage.dumps.resource_lists import read_resource_spans as read_resource_spans
from etcd_coverage.dumps.spelling import loads, refuse_misspelled
from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from etcd_coverage.dumps.spans import Resource


class _Result(Struct, rename="camel"):
    resource_spans: list[ResourceSpans]
    snake_resource_spans: Refused = msgspec.field(name="resource_spans", default=UNSET)


class _Dump(Struct, omit_defaults=True):
    result: _Result
    error: Refused = UNSET
    note: Raw = msgspec.field(name="etcdK8sCoverage", default=Raw(b""))


def read(data: memoryview) -> list[Resource]:
    """Return the resources of the answer with their spans, in order; raise `DumpError` if it is not a whole one."""
    return resource_lists.read(data, _ENVELOPE)


def traces_limit(data: memoryview) -> int | None:
    """Return the number of traces at which the dump may be cut, as `write.tail` notes it; None without such a note."""
    ends = bytes(data[:_NOTE_WITHIN]) + bytes(data[-_NOTE_WITHIN:])
    if b'"etcdK8sCoverage"' not in ends:
        return None
    try:
        return msgspec.json.decode(data, type=_Noted).note.traces_limit
    except msgspec.DecodeError:
        return None


class _Note(Struct, rename="camel"):
    traces_limit: int | None = None


class _Noted(Struct):
    note: _Note = msgspec.field(name="etcdK8sCoverage", default_factory=_Note)


# The note stands beside the result, at an end of the file: looking for it in between would cost a second reading.
_NOTE_WITHIN = 4096


def check(data: memoryview) -> None:
    """Raise the `DumpError` that `read` would raise; holds no more than one resource in memory."""
    check_utf8(data)
    for _ in one_by_one(data, _ENVELOPE):
        pass


def _texts(top: dict[str, Raw]) -> list[Raw]:
    """Return the texts of the answer's ``resourceSpans``; raise `DumpError` for an error or another shape."""
    if "error" in top and bytes(top["error"]) != b"null":
        _refuse_error(bytes(top["error"]))
    if "result" not in top:
        raise other_shape("it has no result")
    try:
        result = msgspec.json.decode(top["result"], type=dict[str, Raw] | None) or {}
        refuse_misspelled(result, "its result")
        return list_of(result, "resourceSpans", "resource_spans", "its result")
    except msgspec.ValidationError:
        raise other_shape("its result has no list of resourceSpans") from None


_ENVELOPE = Envelope(
    decoder=msgspec.json.Decoder(_Dump),
    holder=lambda dump: dump.result,
    texts=_texts,
    around=b'{"result":{"resource_spans":]}}',
)


def _refuse_error(raw: bytes) -> NoReturn:
    """Say what Jaeger answered in place of a dump, and which request would have worked."""
    body = loads(raw, "an error of Jaeger")
    text = body.get("message") if isinstance(body, dict) else None
    message = escape(shorten(text, 300)) if isinstance(text, str) else start_of(raw)
    number = body.get("httpCode") if isinstance(body, dict) else None
    code = f" {number}" if type(number) is int else ""
    hint = next((hint for part, hint in _HINTS.items() if part in message), "mend the request")
    raise DumpError(f"is an error{code} that Jaeger answered, not a dump: {message}; {hint}, or use {DOWNLOAD}")


_HINTS = {
    "No traces found": "ask for a window that holds traces, and check query.service_name",
    "search depth": "ask for query.num_traces above 0 and no more than Jaeger's max_traces",
    "are required": "ask with query.start_time_min and query.start_time_max",
    "malformed parameter": "write times as RFC 3339, such as 2026-08-30T12:00:00Z",
}
