"""File -> its content, unpacked within limits, or the one line that says why it is no dump."""

from __future__ import annotations

import codecs
import mmap
import os
import re
import stat
import tempfile
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from etcd_coverage.dumps.compressions import BROKEN, NOT_READ, compression_of
from etcd_coverage.dumps.error import AGAIN, EXPECTED, CutError, DumpError, MoreError
from etcd_coverage.text import quote

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.dumps.compressions import Compression

_CHUNK = 1 << 18
BOMB_RATIO = 100
"""How many times its size a packed file may unpack to: real dumps shrink to a twelfth, or a thirtieth with zstd."""
BOMB = 1 << 28
"""Bytes that any packed dump may unpack to."""


def content(path: Path, again: str = AGAIN, bomb: int | None = None) -> memoryview:
    """Return the content of the file, unpacked if it is packed, as a view on mapped memory; no byte order mark.

    What unpacks to more than ``bomb`` bytes (`BOMB` if None) and 100 times its size is refused, as is what is no file.
    ``again`` says in errors how to get the file again.
    """
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
            if compression := compression_of(head):
                found = _unpacked(file, compression, again, BOMB if bomb is None else bomb)
            else:
                _refuse_empty(head, again)
                found = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise DumpError(f"cannot be read: {error.strerror or error}; check the file and its permissions") from None
    mark = len(codecs.BOM_UTF8)
    return found[mark:] if bytes(found[:mark]) == codecs.BOM_UTF8 else found


def start(path: Path, size: int) -> bytes:
    """Return the first bytes of the content, without a byte order mark; none if it is no file or cannot be read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            head = file.read(size)
            if compression := compression_of(head):
                file.seek(0)
                with compression.open(file) as unpacked:
                    head = unpacked.read(size)
    except (OSError, EOFError, *BROKEN):
        return b""
    return head.removeprefix(codecs.BOM_UTF8)


def _unpacked(file: BinaryIO, compression: Compression, again: str, bomb: int) -> memoryview:
    what = f"a {compression.name} file"
    size = 0
    try:
        with compression.open(file) as unpacked, tempfile.TemporaryFile() as plain:
            most = max(bomb, BOMB_RATIO * os.fstat(file.fileno()).st_size)
            # Not read, which returns nothing of what stands before a cut.
            while chunk := unpacked.read1(_CHUNK):
                size += plain.write(chunk)
                if size > most:
                    raise DumpError(f"is {what} that unpacks to over {BOMB_RATIO} times its size: no dump does")
            plain.flush()
            plain.seek(0)
            _refuse_empty(plain.read(_CHUNK), again)
            return memoryview(mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ))
    except EOFError:
        raise DumpError(f"is {what} that was cut off after {size} unpacked bytes: {again}") from None
    except BROKEN as error:
        raise DumpError(f"is a broken {compression.name} file ({error}): {again}") from None
    except OSError as error:
        raise DumpError(f"cannot be unpacked: {error.strerror}; free space in {tempfile.gettempdir()}") from None


def _refuse_empty(head: bytes, again: str) -> None:
    if len(head) < _CHUNK and not head.removeprefix(codecs.BOM_UTF8).strip(b" \t\r\n"):
        raise DumpError(f"is empty: {again}")


def refuse_other(data: memoryview) -> None:
    """Raise the `DumpError` that says by name what content cannot be JSON, from its first bytes."""
    head = bytes(data[:_CHUNK])
    for magic, name in NOT_READ.items():
        if head.startswith(magic):
            raise DumpError(f"is compressed with {name}: unpack it first, only gzip and zstd are read directly")
    if compression := compression_of(head):
        raise DumpError(f"is packed twice, inside of it is {compression.name}: unpack it first")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"\0\0\xfe\xff")) or (
        head[:4].count(0) > 1 and head.replace(b"\0", b"").lstrip().startswith((b"{", b"["))
    ):
        raise DumpError("is UTF-16 or UTF-32 text: save it as UTF-8, as JSON demands")
    start = head.lstrip(b" \t\r\n")
    if start[:1] in (b"", b"{", b"["):
        return
    if start.startswith(b"<"):
        raise DumpError(f"is HTML or XML, not a dump ({start_of(start)}): some other server answered, check the URL")
    if start.startswith(b"version https://git-lfs.github.com/spec/"):
        raise DumpError("is a Git LFS pointer, not the dump itself: fetch that with git lfs pull")
    line = start.splitlines()[0][:200]
    if line.decode("utf-8", "replace").isprintable():
        raise DumpError(f"is plain text, not a dump ({start_of(start)}): check the URL it was downloaded from")
    raise DumpError(f"is a binary file, not a dump (it starts with {start_of(start)}); {EXPECTED}")


def check_utf8(data: memoryview) -> None:
    """Refuse invalid UTF-8 anywhere, since the typed decoder only looks at the strings that it keeps."""
    position = 0
    try:
        while position < len(data):
            end = position + _CHUNK
            if bytes(data[position:end]).isascii():
                position = end
                continue
            _, valid = codecs.utf_8_decode(data[position:end], "strict", end >= len(data))
            position += valid
    except UnicodeDecodeError as error:
        at = position + error.start
        cut = position + error.end == len(data) and "end of data" in error.reason
        raise (CutError if cut else DumpError)(
            f"is not valid UTF-8: byte {data[at]:#04x} at offset {at}; {AGAIN}"
        ) from None


def newlines(data: memoryview) -> int:
    """Return how many newlines are in the content."""
    found = 0
    for start in range(0, len(data), _CHUNK):
        chunk = bytes(data[start : start + _CHUNK])
        # They are few, and then this is many times as fast as bytes.count.
        at = chunk.find(b"\n")
        while at >= 0:
            found += 1
            at = chunk.find(b"\n", at + 1)
    return found


def refuse_malformed(data: memoryview, message: str) -> NoReturn:
    """Raise the `DumpError` that says why ``data`` is no JSON, given the decoder's message."""
    for escaped in re.finditer(_ESCAPE, data):
        if escaped["lone"] and escaped.end() + len("\\u0000") <= len(data):
            lone = escaped[0].decode("ascii", "replace")
            at = escaped.start()
            raise DumpError(f"has an unpaired surrogate {lone!r} at byte {at}: no UTF-8 text has one; {AGAIN}")
    found = re.search(r"\(byte (\d+)\)", message)
    if found is None:
        raise CutError(f"is truncated JSON: it ends at byte {len(data)} in the middle; {AGAIN}")
    at = int(found[1])
    if "trailing characters" in message:
        at -= 1  # msgspec counts the character that it stumbled on
        raise MoreError(f"has more after the end of its JSON, at byte {at} ({start_of(data[at:])}); {AGAIN}")
    reason = message.removeprefix("JSON is malformed: ").replace(found[0], "").strip()
    raise DumpError(f"is not JSON: {reason} at byte {at} ({start_of(data[at:])}); {AGAIN}")


# Steps over pairs and other escapes, so that an escaped backslash before a "u" is not taken for one.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def start_of(data: bytes | memoryview) -> str:
    """Return the first bytes as a quoted, escaped text."""
    return quote(bytes(data[:60]).decode("utf-8", "replace"))
