"""Writing a file as a whole, or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write the file at once: readers see the old content or the new one, and a failed write leaves the old one.

    An existing file keeps its mode, a link stays a link, and what is no regular file (such as /dev/stdout) is written
    as it is. Raises `OSError` that names ``path``.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        _replace(target, content, mode)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _replace(target: Path, content: bytes, mode: int | None) -> None:
    # A short name, since the target's own may be as long as the file system allows.
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            if mode is not None:
                part.chmod(mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
