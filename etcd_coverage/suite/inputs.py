"""Paths on the command line -> what there is to judge."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from etcd_coverage.comparing import saved
from etcd_coverage.comparing.saved import SEPARATOR, Source
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.parts import is_one_dump
from etcd_coverage.text import escape


def sources_at(path: str, *, parts: bool = False) -> list[Source]:
    """Return what there is to judge at ``path``: what is in a folder but dotfiles, by name; a dump; saved usages.

    A folder in a folder is one dump in parts, and so is a folder that says so of itself, and with ``parts`` each folder
    at ``path``. ``FILE::NAME`` is one of several saved usages. Raises `DumpError`, a whole line, if nothing is there.
    """
    folder = Path(path)
    if not folder.is_dir():
        return saved.sources(folder) if folder.exists() else [saved.find(path)]
    if parts or is_one_dump(folder):
        # Its name is that of the dump.
        return [Source(folder if folder.name else folder.resolve())]
    try:
        files = sorted(folder.iterdir())
    except OSError as error:
        raise DumpError(f"{escape(path)} cannot be read: {error.strerror or error}") from None
    return [source for file in files if not file.name.startswith(".") for source in saved.sources(file)]


def named(sources: list[Source]) -> dict[str, Source]:
    """Return the sources, each once, by printable name: the file's, with its folder where several have that name."""
    distinct = list({(source.path.resolve(), source.entry): source for source in sources}.values())
    shared = {name for name, count in Counter(source.name for source in distinct).items() if count > 1}
    return {_with_folder(source) if source.name in shared else source.name: source for source in distinct}


def _with_folder(source: Source) -> str:
    return escape(str(source.path)) + (SEPARATOR + source.entry if source.entry else "")
