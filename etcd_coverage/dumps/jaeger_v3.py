"""Answers of Jaeger's ``GET /api/v3/traces`` -> spans: ``{"result": {"resourceSpans": [...]}}``.

The inside is OTLP's ``ExportTraceServiceRequest`` in JSON, see `otlp_json`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import msgspec
from msgspec import UNSET, Raw, Struct

from etcd_coverage.dumps.error import DOWNLOAD, EXPECTED, TOO_DEEP, DumpError
from etcd_coverage.dumps.files import check_utf8, newlines, refuse_malformed, start_of
from etcd_coverage.dumps.otlp_json import Refused, ResourceSpans, list_of, resource_of, resources_of, size
from etcd_coverage.dumps.otlp_spelled import read_resource
from etcd_coverage.dumps.pieces import divide, release
from etcd_coverage.dumps.spelling import check_names, loads, refuse_misspelled
from etcd_coverage.text import escape, quote, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from etcd_coverage.dumps.spans import Resource


class _Result(Struct, rename="camel"):
    resource_spans: list[ResourceSpans]
    snake_resource_spans: Refused = msgspec.field(name="resource_spans", default=UNSET)


class _Dump(Struct, omit_defaults=True):
    result: _Result
    error: Refused = UNSET
    note: Raw = msgspec.field(name="etcdK8sCoverage", default=Raw(b""))


_decoder = msgspec.json.Decoder(_Dump)


def read(data: memoryview) -> list[Resource]:
    """Return the resources of the answer with their spans, in order; raise `DumpError` if it is not a whole one."""
    check_utf8(data)
    try:
        dump = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return list(_one_by_one(data))
    resources = dump.result.resource_spans
    if not _is_all(data, dump):
        return list(_one_by_one(data))
    return resources_of(resources)


def _is_all(data: memoryview, dump: _Dump) -> bool:
    """Return whether the text is as long as that of what was decoded, but for newlines: nothing was left out."""
    resources = dump.result.resource_spans
    buffer = bytearray()
    dump.result.resource_spans = []
    expected = size(dump, buffer)
    dump.result.resource_spans = resources
    batches = [resources[start : start + _BATCH] for start in range(0, len(resources), _BATCH)]
    # Each list has the brackets of one, which stand for the comma between it and the next.
    expected += sum([size(batch, buffer) - 1 for batch in batches]) - bool(batches)
    more = len(data) - expected
    # Between the resources; in a text a newline is an escape.
    return not more or (0 < more <= len(resources) + 1 and newlines(data) == more)


# To encode few at once costs less than each alone, whose buffer shrinks and grows with each; more would take memory.
_BATCH = 64


def traces_limit(data: memoryview) -> int | None:
    """Return the number of traces at which the dump may be cut, as `write.tail` notes it; None without such a note."""
    ends = bytes(data[:_NOTE_WITHIN]) + bytes(data[-_NOTE_WITHIN:])
    if b'"etcdK8sCoverage"' not in ends:
        return None
    try:
        return msgspec.json.decode(data, type=_Noted).note.traces_limit
    except msgspec.ValidationError:
        return None


class _Note(Struct, rename="camel"):
    traces_limit: int | None = None


class _Noted(Struct):
    note: _Note = msgspec.field(name="etcdK8sCoverage", default_factory=_Note)


# The note stands beside the result, at an end of the file: looking for it in between would cost a second reading.
_NOTE_WITHIN = 4096


def check(data: memoryview) -> None:
    """Raise the `DumpError` that `read` would raise; holds no more than some MB in memory."""
    pieces = divide(data, 0, len(data))
    try:
        for part in pieces.lists:
            check_utf8(data[part])
            release(data)
        for number, raw in enumerate(pieces.resources(data)):
            read_resource_spans(raw, f"resourceSpans[{number}]")
        _check(pieces.document(data))
    except DumpError:
        # Where it is in the whole text.
        _check(data)
        raise


def _check(data: memoryview) -> None:
    check_utf8(data)
    for _ in _one_by_one(data):
        pass


def read_resource_spans(raw: Raw, where: str) -> Resource:
    """Return one of the answer's ``resourceSpans`` as `read` does; errors name it as ``where`` does."""
    try:
        return resource_of(read_resource(raw, where), where)
    except RecursionError:
        raise DumpError(TOO_DEEP) from None


def _one_by_one(data: memoryview) -> Iterator[Resource]:
    """Return the resources, each by the typed decoder or else span by span; refuse other shapes by name."""
    try:
        resources = _resource_spans(data)
    except RecursionError:
        raise DumpError(TOO_DEEP) from None
    except msgspec.DecodeError as error:
        refuse_malformed(data, str(error))
    around = len(data) - sum([len(memoryview(raw)) + 1 for raw in resources])
    # No place for a field beside these, with or without a newline after each resource and at the end.
    if around - len(_AROUND) not in (-1, 0) and around - newlines(data) - len(_AROUND) not in (-1, 0):
        check_names(bytes(data), "the answer")
    for number, raw in enumerate(resources):
        yield read_resource_spans(raw, f"resourceSpans[{number}]")


_AROUND = b'{"result":{"resource_spans":]}}'


def _resource_spans(data: memoryview) -> list[Raw]:
    """Return the texts of the answer's ``resourceSpans``; raise `DumpError` for JSON of other shapes."""
    try:
        top = msgspec.json.decode(data, type=dict[str, Raw])
    except msgspec.ValidationError:
        raise DumpError(f"is JSON, but not a dump: it starts with {start_of(data)}; {EXPECTED}") from None
    if "error" in top and bytes(top["error"]) != b"null":
        _refuse_error(bytes(top["error"]))
    if "result" not in top:
        if "resourceSpans" in top or "resource_spans" in top:
            hint = 'it is OTLP without Jaeger\'s envelope: wrap it as {"result": ...}'
        elif "data" in top:
            hint = "it looks like Jaeger's old /api/traces: ask /api/v3/traces"
        else:
            hint = f"it holds {', '.join(map(quote, list(top)[:5])) or 'nothing'}"
        raise DumpError(f'is JSON without "result": {hint}; {EXPECTED}')
    try:
        result = msgspec.json.decode(top["result"], type=dict[str, Raw] | None) or {}
        refuse_misspelled(result, "its result")
        return list_of(result, "resourceSpans", "resource_spans", "its result")
    except msgspec.ValidationError:
        raise DumpError(f"is JSON of another shape: its result has no list of resourceSpans; {EXPECTED}") from None


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
