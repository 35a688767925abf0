"""What a receiver left that was killed -> a dump: what of a request was still being written is cut off, and counted."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from etcd_coverage.atomic import write_atomically
from etcd_coverage.dumps.compressions import ZSTD_MAGIC, zstd
from etcd_coverage.dumps.parts import INDEX
from etcd_coverage.sources.parts import Index, Part, index_text, unpack
from etcd_coverage.sources.trace_requests import RequestError, read_request
from etcd_coverage.text import printable

if TYPE_CHECKING:
    from pathlib import Path


class Recovered(NamedTuple):
    """How many requests and spans are whole, and how many bytes were cut off which part."""

    requests: int
    spans: int
    cut: dict[str, int]


def recover(folder: Path) -> Recovered:
    """Cut off what is not whole at the end of the parts in the folder, and write their index.

    Only the part that was written last can have such an end; it stays beside the part, in a file that is no dump as
    its name starts with a dot. Raises `RequestError`, before anything is changed, if a part holds something else than
    a receiver wrote, and OSError.
    """
    services: Counter[str] = Counter()
    parts = {path: _read(path, services) for path in sorted(folder.glob("part-*"))}
    cut = {}
    for path, part in parts.items():
        data = path.read_bytes()
        if left := data[part.bytes :]:
            write_atomically(folder / f".{path.name}.cut", left)
            cut[path.name] = len(left)
            write_atomically(path, data[: part.bytes])
        if not part.requests:
            path.unlink()
    index = Index(
        complete=True,
        requests=sum(part.requests for part in parts.values()),
        spans=sum(part.spans for part in parts.values()),
        bytes=sum(part.bytes for part in parts.values()),
        refused={},
        services=dict(sorted(services.items())),
        parts=[part for part in parts.values() if part.requests],
        cut=sum(cut.values()),
    )
    write_atomically(folder / INDEX, index_text(index))
    return Recovered(index.requests, index.spans, cut)


def _read(path: Path, services: Counter[str]) -> Part:
    """Return what is whole in a part, and count the services of its requests."""
    data = path.read_bytes()
    part = Part(name=path.name)
    for start, end in _frames(data):
        request = read_request(unpack(data[start:end]), len(data))
        part.requests += 1
        part.spans += request.spans
        part.bytes = end
        services.update(request.services)
    if not ZSTD_MAGIC.startswith(data[part.bytes : part.bytes + len(ZSTD_MAGIC)]):
        raise RequestError(f"no request starts at byte {part.bytes} of {printable(path.name)}")
    part.sha256 = hashlib.sha256(data[: part.bytes]).hexdigest()
    return part


def _frames(data: bytes) -> list[tuple[int, int]]:
    """Return where each whole frame starts and ends."""
    view = memoryview(data)
    found = []
    start = 0
    while start < len(data):
        try:
            size = zstd.get_frame_size(view[start:])
        except zstd.ZstdError:
            break
        found.append((start, start + size))
        start += size
    return found
