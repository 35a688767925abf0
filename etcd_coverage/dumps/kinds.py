"""The kinds of dump: the one table of how each is recognised, and who reads it."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.dumps import jaeger_v3
from etcd_coverage.dumps.files import content
from etcd_coverage.dumps.spans import Resource

if TYPE_CHECKING:
    from pathlib import Path


class Kind(Struct, frozen=True):
    """One kind of dump.

    ``is_kind`` recognises its content (unpacked, without a byte order mark); kinds are asked in the order of `KINDS`.
    ``read`` returns its resources, or raises the `DumpError` that says why it is not a whole one. ``traces_limit``
    returns the number of traces at which what made the dump notes that it may be cut; None without such a note.
    """

    name: str
    is_kind: Callable[[memoryview], bool]
    read: Callable[[memoryview], list[Resource]]
    traces_limit: Callable[[memoryview], int | None] = lambda _: None


class Dump(Struct, frozen=True):
    """The resources of a dump with their spans, in file order, and the ``traces_limit`` noted in it, if any."""

    resources: list[Resource]
    traces_limit: int | None


KINDS = (
    # Last: it explains what is wrong with a file that is of no kind.
    Kind("an answer of Jaeger's API v3", lambda _: True, jaeger_v3.read, jaeger_v3.traces_limit),
)


def read_dump(path: Path) -> list[Resource]:
    """Return the resources of the dump at ``path`` with their spans, in file order.

    Raises `DumpError` for anything that is not a whole dump. A dump without spans is no error here.
    """
    return open_dump(path).resources


def open_dump(path: Path) -> Dump:
    """Return the dump at ``path``: as `read_dump` does, with what was noted in it."""
    data = content(path)
    if bytes(data[:3]) == codecs.BOM_UTF8:
        data = data[3:]
    kind = next(kind for kind in KINDS if kind.is_kind(data))
    return Dump(kind.read(data), kind.traces_limit(data))
