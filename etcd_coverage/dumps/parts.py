"""A dump in parts: a folder of files that are one dump, each of any kind.

Parts are what a rotating exporter, a download in windows, several replicas or a receiver leave. A trace may be split
over them, and a span that is in two of them counts once.
"""

from __future__ import annotations

import os
from pathlib import Path

from etcd_coverage.dumps import kinds
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.kinds import Dump
from etcd_coverage.text import escape

INDEX = ".index.json"
"""What a folder holds that is one dump wherever it is: the index that a receiver writes beside its parts."""


def open_dump(path: Path) -> Dump:
    """Return the dump at ``path``: a file, or a folder whose files are its parts, read one after the other by name.

    The lowest limit that is noted in a part is the dump's: the part was cut there. Raises `DumpError` as
    `kinds.open_dump` does, with the name of the part.
    """
    if not path.is_dir():
        return kinds.open_dump(path)
    resources = []
    limits = []
    for part in files_of(path):
        name = escape(str(part.relative_to(path)))
        try:
            dump = kinds.open_dump(part)
        except DumpError as error:
            raise error.within(f"part {name}") from None
        for resource in dump.resources:
            resource.place = f"{name}: {resource.place}"
            resources.append(resource)
        limits.append(dump.traces_limit)
    return Dump(resources, min((limit for limit in limits if limit is not None), default=None))


def files_of(folder: Path) -> list[Path]:
    """Return the parts in a folder and the folders below it, by name, without dotfiles; `DumpError` if it has none."""

    def refuse(error: OSError) -> None:
        raise DumpError(f"cannot be read: {error.strerror or error}; check the folder and its permissions") from None

    found: list[Path] = []
    for root, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(root, name) for name in names if not name.startswith(".")]
    if not found:
        raise DumpError("is a folder without files: put the parts of one dump there, or remove it")
    return sorted(found)


def is_one_dump(folder: Path) -> bool:
    """Return whether the folder says of itself that it is one dump in parts."""
    return (folder / INDEX).is_file()


def size_of(path: Path) -> int:
    """Return the bytes of a dump, or of all its parts; 0 if it cannot be read."""
    try:
        return sum(part.stat().st_size for part in (files_of(path) if path.is_dir() else [path]) if part.is_file())
    except (OSError, DumpError):
        return 0
