"""Paths on the command line -> what there is to judge."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from etcd_coverage.comparing import saved
from etcd_coverage.comparing.saved import SEPARATOR, Source
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.text import escape


def sources_at(path: str) -> list[Source]:
    """Return what there is to judge at ``path``: a folder's files but dotfiles, by name; a dump; saved usages.

    ``FILE::NAME`` is one of several saved usages. Raises `DumpError`, a whole line, if nothing is there.
    """
    folder = Path(path)
    if not folder.is_dir():
        return saved.sources(folder) if folder.exists() else [saved.find(path)]
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
