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
    ``read`` returns its resources, or raises the `DumpError` that says why it is not a whole one.
    """

    name: str
    is_kind: Callable[[memoryview], bool]
    read: Callable[[memoryview], list[Resource]]


KINDS = (
    # Last: it explains what is wrong with a file that is of no kind.
    Kind("an answer of Jaeger's API v3", lambda _: True, jaeger_v3.read),
)


def read_dump(path: Path) -> list[Resource]:
    """Return the resources of the dump at ``path`` with their spans, in file order.

    Raises `DumpError` for anything that is not a whole dump. A dump without spans is no error here.
    """
    data = content(path)
    if bytes(data[:3]) == codecs.BOM_UTF8:
        data = data[3:]
    kind = next(kind for kind in KINDS if kind.is_kind(data))
    return kind.read(data)
