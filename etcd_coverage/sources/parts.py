"""Requests -> a dump in parts: files of zstd frames, a request in each frame, behind its length; and their index.

A frame is written by one call, and after it the request may be acknowledged: what a killed process leaves is a sequence
of whole frames, at most the last one is cut. The form of a file, unpacked, is that of
https://protobuf.dev/programming-guides/techniques/#streaming with varints as lengths.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from etcd_coverage.atomic import write_atomically
from etcd_coverage.dumps.compressions import zstd
from etcd_coverage.dumps.parts import INDEX

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.sources.trace_requests import Request

NOT_WRITABLE = "not writable"
"""Why a request was refused that may come again; for all other reasons to send it again would not help."""

_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 3,
    zstd.CompressionParameter.checksum_flag: 1,
}


class Place(NamedTuple):
    """Where a request was written: the file, the first byte of its frame, and how many there are."""

    path: Path
    start: int
    size: int


class Part(msgspec.Struct, rename="camel"):
    """A part in the index; ``sha256`` is that of the file."""

    name: str
    requests: int = 0
    spans: int = 0
    bytes: int = 0
    sha256: str = ""


class Index(msgspec.Struct, rename="camel"):
    """What was received so far. ``complete`` once the receiver has ended in good order.

    ``cut`` are the bytes of a request that was still being written when the receiver was killed.
    """

    complete: bool
    requests: int
    spans: int
    bytes: int
    refused: dict[str, int]
    services: dict[str, int]
    parts: list[Part]
    cut: int = 0


class _IndexFile(msgspec.Struct):
    index: Index = msgspec.field(name="etcdK8sCoverageIndex")


class Parts:
    """Writes requests into an empty folder. Each method may be called by any thread; OSError goes to the caller."""

    def __init__(self, folder: Path, part_size: int) -> None:
        """Make the index; raise OSError if the folder cannot be written, FileExistsError if it has an index."""
        self.folder = folder
        self.requests = 0
        self.spans = 0
        self.bytes = 0
        self.services: Counter[str] = Counter()
        """How many requests have spans of each service."""
        self.refused: Counter[str] = Counter()
        """How many requests were not taken, by the reason."""
        self._part_size = part_size
        self._parts: list[Part] = []
        self._hash = hashlib.sha256()
        self._descriptor = -1
        self._lock = threading.Lock()
        self._indexed: bytes = b""
        with (folder / INDEX).open("xb"):
            pass
        self.write_index()

    def add(self, request: Request) -> Place:
        """Write a request, and return where it is. Raises OSError, after which nothing of it is in the file."""
        frame = zstd.compress(_varint(len(request.data)) + request.data, options=_OPTIONS)
        with self._lock:
            if self._descriptor < 0:
                self._open()
            part = self._parts[-1]
            place = Place(self.folder / part.name, part.bytes, len(frame))
            self._append(frame, part.bytes)
            self._hash.update(frame)
            part.bytes += len(frame)
            part.requests += 1
            part.spans += request.spans
            self.bytes += len(frame)
            self.requests += 1
            self.spans += request.spans
            self.services.update(request.services)
            if part.bytes >= self._part_size:
                self._close()
        return place

    def refuse(self, reason: str) -> None:
        """Count a request that was not taken."""
        with self._lock:
            self.refused[reason] += 1

    def _open(self) -> None:
        name = f"part-{len(self._parts) + 1:05}.pb.zst"
        self._descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._parts.append(Part(name=name))
        self._hash = hashlib.sha256()

    def _append(self, frame: bytes, start: int) -> None:
        """Write the frame whole, or leave the file as it was."""
        try:
            rest = memoryview(frame)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            os.ftruncate(self._descriptor, start)
            os.lseek(self._descriptor, start, os.SEEK_SET)
            raise

    def _close(self) -> None:
        """End the part: it is on the disk, and the next request opens another."""
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        self._parts[-1].sha256 = self._hash.hexdigest()

    def close(self) -> None:
        """Bring all to the disk, with an index that says so."""
        with self._lock:
            if self._descriptor >= 0:
                self._close()
            if self._parts and not self._parts[-1].requests:
                (self.folder / self._parts.pop().name).unlink()
        self.write_index(complete=True)

    def write_index(self, *, complete: bool = False) -> None:
        """Write the index, if there is something new in it."""
        with self._lock:
            index = Index(
                complete=complete,
                requests=self.requests,
                spans=self.spans,
                bytes=self.bytes,
                refused=dict(self.refused),
                services=dict(sorted(self.services.items())),
                parts=self._parts,
            )
            text = index_text(index)
        if text != self._indexed:
            write_atomically(self.folder / INDEX, text)
            self._indexed = text


def read_frame(place: Place) -> bytes:
    """Return what was written there, unpacked: the request behind its length."""
    with place.path.open("rb") as file:
        file.seek(place.start)
        return zstd.decompress(file.read(place.size))


def unpack(frame: bytes) -> bytes:
    """Return the request in a frame, without its length."""
    delimited = zstd.decompress(frame)
    start = next(at for at, byte in enumerate(delimited) if byte < 0x80) + 1
    return delimited[start:]


def index_text(index: Index) -> bytes:
    """Return the text of the index file."""
    return msgspec.json.format(msgspec.json.encode(_IndexFile(index)), indent=2) + b"\n"


def _varint(number: int) -> bytes:
    """Return the number as protobuf writes one, https://protobuf.dev/programming-guides/encoding/#varints."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
