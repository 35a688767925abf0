"""The kinds of dump: the one table of how each is recognised, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.dumps import documents, framed, jaeger_ui, jaeger_v3, otlp_proto, otlp_request, tempo
from etcd_coverage.dumps.error import EXPECTED, CutError, DumpError, MoreError
from etcd_coverage.dumps.files import check_utf8, content, refuse_other
from etcd_coverage.dumps.resource_lists import members
from etcd_coverage.dumps.spans import Resource
from etcd_coverage.text import quote

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.dumps.documents import Document


class Kind(Struct, frozen=True):
    """One kind of dump.

    ``content`` says how it is recognised, ``files`` which names such files have by custom: names count for nothing.
    ``is_kind`` recognises it (unpacked, without a byte order mark); kinds are asked in the order of `KINDS`. ``read``
    returns its resources, or raises the `DumpError` that says why it is not a whole one. ``traces_limit`` returns the
    number of traces at which what made the dump notes that it may be cut; None without such a note.
    """

    name: str
    content: str
    files: str
    is_kind: Callable[[memoryview], bool]
    read: Callable[[memoryview], list[Resource]]
    traces_limit: Callable[[memoryview], int | None] = lambda _: None


class Dump(Struct, frozen=True):
    """The resources of a dump with their spans, in order, and the ``traces_limit`` noted in it, if any."""

    resources: Iterable[Resource]
    traces_limit: int | None


def _has(*names: str) -> Callable[[memoryview], bool]:
    """Return whether content is a JSON object with one of these members; the first of all decides, if it is known."""
    return lambda data: (
        (name := documents.first_name(data)) in names
        or (name not in _NAMES and any(known in names for known in _members(data)))
    )


def _members(data: memoryview) -> Iterable[str]:
    if not documents.is_object(data):
        return ()
    try:
        return members(data)
    except DumpError:
        return ()


_NAMES = frozenset(("result", "resourceSpans", "resource_spans", "batches", "data"))


def _read_items(data: memoryview) -> list[Resource]:
    return _of_each(list(documents.items(data)))[0]


JSON_KINDS = (
    Kind(
        "an answer of Jaeger's API v3, as `python -m etcd_coverage.jaeger` writes it",
        '`{"result": {"resourceSpans": [...]}}`',
        "`.json`",
        _has("result", "error"),
        jaeger_v3.read,
        jaeger_v3.traces_limit,
    ),
    Kind(
        "an OTLP request in JSON; the OpenTelemetry Collector's file exporter writes one in each line",
        '`{"resourceSpans": [...]}`',
        "`.json`, `.jsonl`, `.ndjson`",
        _has("resourceSpans", "resource_spans"),
        otlp_request.read,
    ),
    Kind(
        "an answer of Jaeger's UI: `/api/traces`, or downloaded from it",
        '`{"data": [{"traceID": ..., "spans": [...], "processes": {...}}]}`',
        "`.json`",
        _has("data"),
        jaeger_ui.read,
    ),
    Kind(
        "a trace of Grafana Tempo",
        '`{"batches": [...]}`, `{"trace": {"resourceSpans": [...]}}`',
        "`.json`",
        _has("batches", "trace"),
        tempo.read,
    ),
)
"""The kinds of which several may be in one body, one after another or in an array."""

KINDS = (
    *JSON_KINDS,
    Kind("several of these in an array", "`[{...}, {...}]`", "`.json`", documents.is_array, _read_items),
    Kind(
        "messages of the OpenTelemetry Collector's file exporter, in protobuf or JSON, each alone packed with zstd",
        "four bytes, a big-endian length, before each",
        "`.pb`, `.binpb`, `.zst`",
        framed.is_of_file_exporter,
        framed.read_of_file_exporter,
    ),
    Kind(
        "OTLP requests in protobuf, one after another",
        "a varint, the length, before each",
        "`.pb`, `.binpb`",
        framed.is_behind_varints,
        framed.read_behind_varints,
    ),
    Kind("an OTLP request in protobuf", "the message alone", "`.pb`, `.binpb`", otlp_proto.is_request, otlp_proto.read),
)


def read_dump(path: Path) -> Iterable[Resource]:
    """Return the resources of the dump at ``path`` with their spans, in file order.

    Raises `DumpError` for anything that is not a whole dump. A dump without spans is no error here.
    """
    return open_dump(path).resources


def open_dump(path: Path) -> Dump:
    """Return the dump at ``path``: as `read_dump` does, with what was noted in it."""
    return dump_of(content(path))


def dump_of(data: memoryview) -> Dump:
    """Return the dump that the content is, as `open_dump` does."""
    kind = kind_of(data)
    try:
        return Dump(kind.read(data), kind.traces_limit(data))
    except MoreError:
        several = documents.one_after_another(data)
        if kind not in JSON_KINDS or len(several) == 1:
            raise
    return Dump(*_of_each(several))


def read(data: memoryview) -> Iterable[Resource]:
    """Return the resources of a dump's content, as `read_dump` does."""
    return dump_of(data).resources


def kind_of(data: memoryview) -> Kind:
    """Return the kind that the content is of; raise the `DumpError` that says why it is of none."""
    for kind in KINDS:
        if kind.is_kind(data):
            return kind
    refuse_other(data)
    check_utf8(data)
    names = list(members(data))
    raise DumpError(f"is JSON, but not a dump: it holds {', '.join(map(quote, names[:5])) or 'nothing'}; {EXPECTED}")


def _of_each(several: list[Document]) -> tuple[list[Resource], int | None]:
    """Return the resources of documents, each of which may be of another kind, and the lowest limit noted in them."""
    found: list[Resource] = []
    limits = []
    for number, document in enumerate(several):
        try:
            kind = next((kind for kind in JSON_KINDS if kind.is_kind(document.data)), None) or kind_of(document.data)
            resources = kind.read(document.data)
        except CutError:
            raise documents.cut(number, document.noun) from None
        except DumpError as error:
            raise error.within(document.place) from None
        for resource in resources:
            resource.place = f"{document.place}: {resource.place}"
        found += resources
        limits.append(kind.traces_limit(document.data))
    return found, min((limit for limit in limits if limit is not None), default=None)
