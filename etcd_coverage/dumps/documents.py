"""Several JSON documents in one body: in an array, one after another, or one in each line.

Lines are what the OpenTelemetry Collector's file exporter writes, see `otlp_request`. One after another is how
gRPC-gateway streams Jaeger's answers: https://grpc-ecosystem.github.io/grpc-gateway/docs/mapping/customizing_your_gateway/
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from etcd_coverage.dumps.error import COLLECT_AGAIN, EXPECTED, TOO_DEEP, DumpError
from etcd_coverage.dumps.files import check_utf8, refuse_malformed, start_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Document(Struct, frozen=True):
    """One document of several: its content, how errors call it, and what they call several of its kind."""

    data: memoryview
    place: str
    noun: str


_FIRST_NAME = re.compile(rb'\s*\{\s*"([A-Za-z_]+)"\s*:')
_START = re.compile(rb"\s*([\[{])")

# No two objects of one document follow each other without a comma. A text cannot hold this: its quotes are escapes, and
# after the quote that ends it no letter comes.
_BETWEEN = re.compile(rb'\}(\s*)(?=\{\s*(?:"[A-Za-z]|"?\Z))')


def first_name(data: memoryview) -> str:
    """Return the name of the first member of the JSON object that the content starts with; empty without one."""
    found = _FIRST_NAME.match(data)
    return found[1].decode() if found else ""


def is_array(data: memoryview) -> bool:
    """Return whether the content starts as a JSON array."""
    return _starts_with(data) == b"["


def is_object(data: memoryview) -> bool:
    """Return whether the content starts as a JSON object."""
    return _starts_with(data) == b"{"


def _starts_with(data: memoryview) -> bytes:
    found = _START.match(data)
    return found[1] if found else b""


def items(data: memoryview) -> Iterator[Document]:
    """Return the items of a JSON array; raise `DumpError` if it is not a whole one of objects."""
    check_utf8(data)
    try:
        texts = msgspec.json.decode(data, type=list[Raw])
    except RecursionError:
        raise DumpError(TOO_DEEP) from None
    except msgspec.DecodeError as error:
        refuse_malformed(data, str(error))
    for number, text in enumerate(texts):
        item = memoryview(text)
        if not is_object(item):
            raise DumpError(f"is JSON, but not a dump: item {number} of its list is {start_of(item)}; {EXPECTED}")
        yield Document(item, f"item {number}", "items")


def one_after_another(data: memoryview) -> list[Document]:
    """Return the documents that follow each other; one if there are no more."""
    cuts = [(found.start() + 1, found.end()) for found in _BETWEEN.finditer(data)]
    noun = "line" if cuts and all(b"\n" in bytes(data[end:start]) for end, start in cuts) else "document"
    starts = [0, *[start for _, start in cuts]]
    ends = [*[end for end, _ in cuts], len(data)]
    return [
        Document(data[start:end], f"{noun} {number}", f"{noun}s")
        for number, (start, end) in enumerate(zip(starts, ends, strict=True), 1)
    ]


def cut(whole: int, noun: str) -> DumpError:
    """Return the error that only so many of something are whole, and the last is not."""
    return DumpError(f"is cut: {whole} of its {noun} are whole, the last one ends in the middle; {COLLECT_AGAIN}")
