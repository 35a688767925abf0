"""A long answer in pieces: lists of its ``resourceSpans`` of a MB each, so that memory never holds all of them."""

from __future__ import annotations

import mmap
import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE = 1 << 20
"""Bytes of a piece, more where a resource is longer."""

_HEAD = re.compile(rb'\s*\{\s*"result"\s*:\s*\{\s*"resource(?:S|_s)pans"\s*:\s*\[')
# It cannot be inside of a text, where quotes are escaped. Whether it is between two resources, decoding says.
_BETWEEN = re.compile(rb',\s*(?=\{\s*"(?:resource|scope(?:S|_s)pans)"\s*:)')


class Pieces(Struct, frozen=True):
    """Where the pieces of a text are: ``lists`` of resources with commas between them, then ``rest``.

    Before the lists is ``head``; head and rest together are an answer with the last resources, which is judged as any
    other. A text that is short, or cannot be divided, has no lists.
    """

    head: slice
    lists: list[slice]
    rest: slice

    def document(self, data: memoryview) -> memoryview:
        """Return the text without its lists."""
        if not self.lists:
            return data[self.head.start : self.rest.stop]
        return memoryview(bytes(data[self.head]) + bytes(data[self.rest]))

    def resources(self, data: memoryview) -> Iterator[Raw]:
        """Yield the text of each resource in the lists; memory holds those of one list."""
        for part in self.lists:
            yield from _list_of(data[part])
            release(data)


def divide(data: memoryview, begin: int, end: int) -> Pieces:
    """Return where the pieces of the text from ``begin`` to ``end`` are."""
    head = _HEAD.match(data[begin : min(end, begin + 1000)])
    at = begin + head.end() if head else end
    start, lists, length = at, [], PIECE
    while at + length < end:
        window = data[at : at + length]
        cuts = list(_BETWEEN.finditer(window))
        if cuts and _is_list(window[: cuts[-1].start()]):
            lists.append(slice(at, at + cuts[-1].start()))
            at += cuts[-1].end()
            length = PIECE
        else:
            length *= 2
        release(data)
    return Pieces(slice(begin, start), lists, slice(at if lists else start, end))


def release(data: memoryview) -> None:
    """Let go of what was read of a mapped file; it is read again where it is asked for.

    https://man7.org/linux/man-pages/man2/madvise.2.html
    """
    if isinstance(data.obj, mmap.mmap):
        data.obj.madvise(mmap.MADV_DONTNEED)


def _list_of(text: memoryview) -> list[Raw]:
    return msgspec.json.decode(b"".join((b"[", text, b"]")), type=list[Raw])


def _is_list(text: memoryview) -> bool:
    try:
        _list_of(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
