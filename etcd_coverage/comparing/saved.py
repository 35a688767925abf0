"""Usages as files: found, loaded once, brought up to date; see docs/usage-format.md."""

from __future__ import annotations

import functools
import gzip
import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import msgspec.structs
from msgspec import UNSET, Struct, UnsetType

from etcd_coverage.atomic import write_atomically
from etcd_coverage.comparing import compare
from etcd_coverage.comparing.usage_file import Against, UsageFile
from etcd_coverage.comparing.usage_file import is_saved as is_saved
from etcd_coverage.comparing.usage_file import load as load
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.origin_counts import MOST_SAVED, with_heaviest_origins
from etcd_coverage.judging.usage import Usage
from etcd_coverage.key_pattern import PREFIX
from etcd_coverage.text import escape, shorten_middle

SEPARATOR = "::"
"""Between a file and the name of a usage in it, as pytest writes a file and a test in it."""


MESSAGE_WIDTH = 300
"""How many characters of a finding's message are saved and shown; the rows hold keys as they are."""


class _Opened:
    """A file that may hold saved usages, which it is asked for once: all its usages come from one reading."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @functools.cached_property
    def is_saved(self) -> bool:
        return is_saved(self.path)

    @functools.cached_property
    def usages(self) -> dict[str, Usage]:
        """The usages by name; the error names the file."""
        try:
            return load(self.path)
        except DumpError as error:
            raise error.within(escape(str(self.path))) from None


@dataclass(frozen=True)
class Source:
    """Where a usage comes from: the file, and its name in there if it is one of several that were saved together.

    The sources of one file share ``opened``, so that it is read once.
    """

    path: Path
    entry: str = ""
    opened: _Opened = field(default=None, compare=False, repr=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.opened is None:
            object.__setattr__(self, "opened", _Opened(self.path))

    @property
    def name(self) -> str:
        """The printable name: the file's, and the entry's if there is one."""
        return escape(self.path.name) + (SEPARATOR + self.entry if self.entry else "")

    @property
    def is_saved(self) -> bool:
        """Whether it is a saved usage, and no dump."""
        return self.opened.is_saved


def sources(path: Path) -> list[Source]:
    """Return what there is to judge in the file: each usage of several saved ones, else the file itself."""
    source = Source(path)
    if source.is_saved:
        try:
            names = list(source.opened.usages)
        except DumpError:
            names = []
        if len(names) > 1:
            return [Source(path, name, source.opened) for name in names]
    return [source]


def find(text: str) -> Source:
    """Return what ``text`` names: a dump, or a saved usage, as ``FILE`` or, of several, ``FILE::NAME``.

    Raises `DumpError` with the one line that says why it names nothing, or not one alone.
    """
    path = Path(text)
    if path.is_dir():
        raise DumpError(f"{escape(text)} is a directory, not a dump or a saved usage")
    if path.exists():
        found = sources(path)
        if len(found) == 1:
            return found[0]
        choices = ", ".join(f"{escape(text)}{SEPARATOR}{source.entry}" for source in found)
        raise DumpError(f"{escape(text)} holds {len(found)} usages, name one of them: {choices}")
    for cut in re.finditer(SEPARATOR, text):
        source, entry = Source(Path(text[: cut.start()])), text[cut.end() :]
        if source.is_saved:
            names = list(source.opened.usages)
            if entry not in names:
                raise DumpError(f"{escape(str(source.path))} holds no {escape(entry)}, but {', '.join(names)}")
            return Source(source.path, entry, source.opened) if len(names) > 1 else source
    raise DumpError(f"{escape(text)} does not exist")


def same(one: Source, other: Source) -> bool:
    """Tell whether both are the same usage in the same file."""
    return one.entry == other.entry and one.path.resolve() == other.path.resolve()


def usage_of(source: Source, kubernetes_version: str = "", etcd_prefix: str = PREFIX) -> Usage:
    """Return the usage: a saved one as it was recorded, a dump's as `judge.judge` finds it."""
    if not source.is_saved:
        return judge(source.path, kubernetes_version, etcd_prefix)
    try:
        usages = source.opened.usages
    except DumpError as error:
        return Usage(error=str(error))
    if not source.entry:
        (found,) = usages.values()
        return found
    return usages[source.entry]


class Saved(Struct, frozen=True, kw_only=True):
    """What became of a file: names of the usages that were written, and of those that stay as they were."""

    written: list[str]
    kept: list[str]

    def lines(self) -> list[str]:
        """Return what became of the usages, a line each."""
        kept = [f"left as they were: {', '.join(self.kept)}"] if self.kept else []
        return [f"saved {', '.join(self.written) or 'nothing'}", *kept]


class Reference(Struct, frozen=True, kw_only=True):
    """What subjects are compared with, and the names of the subjects: all that are to be judged but itself."""

    name: str
    usage: Usage
    subjects: list[str]


def check_target(path: Path) -> None:
    """Raise `DumpError` if usages cannot be saved there, or if the file holds something else."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise DumpError("cannot be written: name a file in a folder that exists")
    if path.exists() and not path.is_file():
        raise DumpError("is no regular file, and would be replaced: name another file")
    if _is_used(path):
        if not is_saved(path):
            raise DumpError("is no saved usage, and would be overwritten: name another file")
        load(path)


def update(
    path: Path, judged: dict[str, Usage], reference: Reference | None = None, origins: int | None = MOST_SAVED
) -> Saved:
    """Write the usages that were judged to the file, and leave all others that it holds as they are.

    Of each row and finding the heaviest ``origins`` and e2e tests are saved, and a sum of the rest; None for all. A
    usage that is there stays also if its dump could not be judged now. With a reference, the file says how each of
    its usages compares with it. The file is replaced at once, never half written.
    """
    earlier = load(path) if _is_used(path) else {}
    written = {name: _limited(one) for name, one in judged.items() if one.error is None or name not in earlier}
    written = {name: with_heaviest_origins(one, origins) for name, one in written.items()}
    usages = dict(sorted((earlier | written).items()))
    against: Against | UnsetType = UNSET
    if reference is not None:
        subjects = {
            name: compare.compare(reference.usage, one)
            for name, one in usages.items()
            if one.error is None and (name != reference.name or name in reference.subjects)
        }
        against = Against(reference=reference.name, subjects=subjects)
    write_atomically(path, _encoded(path.resolve(), UsageFile(format=1, dumps=usages, comparison=against)))
    return Saved(written=sorted(written), kept=[name for name in usages if name not in written])


def _limited(usage: Usage) -> Usage:
    findings = [
        msgspec.structs.replace(finding, message=shorten_middle(finding.message, MESSAGE_WIDTH))
        for finding in usage.findings
    ]
    return msgspec.structs.replace(usage, findings=findings)


def _is_used(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _encoded(path: Path, usages: UsageFile) -> bytes:
    text = msgspec.json.format(msgspec.json.encode(usages), indent=1) + b"\n"
    return gzip.compress(text, mtime=0) if path.suffix == ".gz" else text
