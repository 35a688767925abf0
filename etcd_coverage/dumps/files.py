"""File -> its content, unpacked within limits, or the one line that says why it is no dump."""

from __future__ import annotations

import codecs
import gzip
import mmap
import os
import re
import stat
import tempfile
import zlib
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from etcd_coverage.dumps.error import AGAIN, EXPECTED, DumpError
from etcd_coverage.text import quote

if TYPE_CHECKING:
    from pathlib import Path

_GZIP = b"\x1f\x8b"
_OTHER_COMPRESSIONS = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
}
_CHUNK = 1 << 18
# Real dumps shrink to a twelfth. A file that unpacks to much more is not worth the disk.
_BOMB = 1 << 28
_BOMB_RATIO = 100


def content(path: Path) -> memoryview:
    """Return the content of the file, unpacked if it is gzip, as a view on mapped memory."""
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
            if head.startswith(_GZIP):
                return _map_gzip(file)
            _check_start(head)
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise DumpError(f"cannot be read: {error.strerror or error}; check the file and its permissions") from None


def _map_gzip(file: BinaryIO) -> memoryview:
    try:
        with gzip.open(file) as unpacked, tempfile.TemporaryFile() as plain:
            most = max(_BOMB, _BOMB_RATIO * os.fstat(file.fileno()).st_size)
            chunk = unpacked.read(_CHUNK)
            _check_start(chunk)
            while chunk:
                plain.write(chunk)
                if plain.tell() > most:
                    raise DumpError(f"is a gzip file that unpacks to over {_BOMB_RATIO} times its size: no dump does")
                chunk = unpacked.read(_CHUNK)
            plain.flush()
            return memoryview(mmap.mmap(plain.fileno(), 0, access=mmap.ACCESS_READ))
    except EOFError:
        raise DumpError(f"is a gzip file that was cut off: {AGAIN}") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DumpError(f"is a broken gzip file ({error}): {AGAIN}") from None
    except OSError as error:
        raise DumpError(f"cannot be unpacked: {error.strerror}; free space in {tempfile.gettempdir()}") from None


def _check_start(head: bytes) -> None:
    """Refuse by name what cannot be JSON, from its first bytes."""
    for magic, name in _OTHER_COMPRESSIONS.items():
        if head.startswith(magic):
            raise DumpError(f"is compressed with {name}: unpack it first, only gzip is read directly")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"\0\0\xfe\xff")) or head[:4].count(0) > 1:
        raise DumpError("is UTF-16 or UTF-32 text: save it as UTF-8, as JSON demands")
    start = head.removeprefix(codecs.BOM_UTF8).lstrip(b" \t\r\n")
    if not start and len(head) < _CHUNK:
        raise DumpError(f"is empty: {AGAIN}")
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
            _, valid = codecs.utf_8_decode(data[position:end], "strict", end >= len(data))
            position += valid
    except UnicodeDecodeError as error:
        at = position + error.start
        raise DumpError(f"is not valid UTF-8: byte {data[at]:#04x} at offset {at}; {AGAIN}") from None


def refuse_malformed(data: memoryview, message: str) -> NoReturn:
    """Raise the `DumpError` that says why ``data`` is no JSON, given the decoder's message."""
    for escaped in re.finditer(_ESCAPE, data):
        if escaped["lone"] and escaped.end() + len("\\u0000") <= len(data):
            lone = escaped[0].decode("ascii", "replace")
            at = escaped.start()
            raise DumpError(f"has an unpaired surrogate {lone!r} at byte {at}: no UTF-8 text has one; {AGAIN}")
    found = re.search(r"\(byte (\d+)\)", message)
    if found is None:
        raise DumpError(f"is truncated JSON: it ends at byte {len(data)} in the middle; {AGAIN}")
    at = int(found[1])
    if "trailing characters" in message:
        at -= 1  # msgspec counts the character that it stumbled on
        raise DumpError(f"has more after the end of its JSON, at byte {at} ({start_of(data[at:])}); {AGAIN}")
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
