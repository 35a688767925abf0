"""Writing a file as a whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedWriter


def write_atomically(path: Path, content: bytes) -> None:
    """Write the file at once: readers see the old content or the new one, and a failed write leaves the old one.

    A link stays a link, and what is no regular file (such as /dev/stdout) is written as it is. Raises `OSError` that
    names ``path``.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        with replacing(target) as file:
            file.write(content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextlib.contextmanager
def replacing(path: Path, check: Callable[[Path], None] | None = None) -> Iterator[BufferedWriter]:
    """Open a file beside ``path`` that takes its place when it is whole and on the disk, and is removed when not.

    An existing file keeps its mode, and stays as it was until then. ``check`` is given the new file, and keeps it from
    its place by raising.
    """
    # A short name, since the target's own may be as long as the file system allows; another process in the folder,
    # maybe in another container, has to have another one.
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        if check:
            check(part)
        part.replace(path)
        _sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Bring the names in the folder to the disk, https://man7.org/linux/man-pages/man2/fsync.2.html."""
    # The dump is written; some file systems cannot do this.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
