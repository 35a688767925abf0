"""Usages as files: recognised, loaded, brought up to date; see docs/usage-format.md."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs
from msgspec import UNSET, Raw, Struct, UnsetType

from etcd_coverage.atomic import write_atomically
from etcd_coverage.comparing import compare
from etcd_coverage.comparing.compare import Comparison
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging.classify import with_known_keys
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.origin_counts import MOST_SAVED, with_heaviest_origins
from etcd_coverage.judging.usage import Usage
from etcd_coverage.text import escape, shorten, shorten_middle

FORMAT = 1
"""Version of the JSON format."""

SEPARATOR = "::"
"""Between a file and the name of a usage in it, as pytest writes a file and a test in it."""


MESSAGE_WIDTH = 300
"""How many characters of a finding's message are saved and shown; the rows hold keys as they are."""


class Source(Struct, frozen=True):
    """Where a usage comes from: the file, and its name in there if it is one of several that were saved together."""

    path: Path
    entry: str = ""

    @property
    def name(self) -> str:
        """The printable name: the file's, and the entry's if there is one."""
        return escape(self.path.name) + (SEPARATOR + self.entry if self.entry else "")


class Against(Struct, frozen=True, kw_only=True):
    """The comparisons with one reference, by the name of the subject."""

    reference: str
    subjects: dict[str, Comparison]


class _File(Struct, kw_only=True):
    format: int
    dumps: dict[str, Usage]
    comparison: Against | UnsetType = UNSET


class _Head(Struct):
    format: Any = None
    dumps: Any = None


def is_saved(path: Path) -> bool:
    """Tell whether the file holds saved usages, by its first bytes; False if it cannot be read."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            if head.startswith(_GZIP):
                file.seek(0)
                with gzip.open(file) as unpacked:
                    head = unpacked.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return False
    return _STARTS.match(head.removeprefix(codecs.BOM_UTF8)) is not None


def sources(path: Path) -> list[Source]:
    """Return what there is to judge in the file: each usage of several saved ones, else the file itself."""
    if is_saved(path):
        try:
            names = list(load(path))
        except DumpError:
            names = []
        if len(names) > 1:
            return [Source(path, name) for name in names]
    return [Source(path)]


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
        choices = ", ".join(f"{escape(text)}{SEPARATOR}{one.entry}" for one in found)
        raise DumpError(f"{escape(text)} holds {len(found)} usages, name one of them: {choices}")
    for cut in re.finditer(SEPARATOR, text):
        path, entry = Path(text[: cut.start()]), text[cut.end() :]
        if path.is_file() and is_saved(path):
            names = list(_load_named(path))
            if entry not in names:
                raise DumpError(f"{escape(str(path))} holds no {escape(entry)}, but {', '.join(names)}")
            return Source(path, entry) if len(names) > 1 else Source(path)
    raise DumpError(f"{escape(text)} does not exist")


def same(one: Source, other: Source) -> bool:
    """Tell whether both are the same usage in the same file."""
    return one.entry == other.entry and one.path.resolve() == other.path.resolve()


def usage_of(source: Source, kubernetes_version: str = "") -> Usage:
    """Return the usage: a saved one as it was recorded, a dump's as `usage.judge` finds it."""
    if not is_saved(source.path):
        return judge(source.path, kubernetes_version)
    try:
        usages = _load_named(source.path)
    except DumpError as error:
        return Usage(error=str(error))
    if not source.entry:
        (found,) = usages.values()
        return found
    return usages[source.entry]


def load(path: Path) -> dict[str, Usage]:
    """Return the saved usages by dump name, in the order of the file; at least one.

    Raises `DumpError` if the file is not whole, of another format, or not what `save` writes.
    """
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        head = msgspec.json.decode(content.removeprefix(codecs.BOM_UTF8), type=_Head)
        _check_format(head.format)
        parts = msgspec.json.decode(content.removeprefix(codecs.BOM_UTF8), type=_Parts).dumps
        usages = {name: _usage(name, fields) for name, fields in parts.items()}
    except OSError as error:
        raise DumpError(f"cannot be read: {error.strerror or error}; check the file and its permissions") from None
    except (EOFError, zlib.error):
        raise DumpError(f"is a saved usage in a broken gzip file: {_AGAIN}") from None
    except RecursionError:
        raise DumpError(f"is JSON nested too deep to be a saved usage: {_AGAIN}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DumpError(f"is a saved usage with a fault: {shorten(escape(str(error)), 300)}; {_AGAIN}") from None
    if not usages:
        raise DumpError(f"is a saved usage that holds no dump: {_AGAIN}")
    return usages


class _Parts(Struct):
    dumps: dict[str, dict[str, Raw]]


_GZIP = b"\x1f\x8b"
_HEAD = 4096
_STARTS = re.compile(rb'\s*\{\s*"(?:format|dumps|comparison)"\s*:')
_AGAIN = "save it again with --usage-json"
_EXPECTED = set(Usage.__struct_fields__)
_EXPECTED_QUALITY = {
    "spans", "traces", "skipped_spans", "apiserver_traces", "duplicate_spans", "conflicting_spans",
    "calls_without_parent", "grpc_spans_without_call", "failed_without_call",
}  # fmt: skip
# The other fields of a Quality are absent in what version 0.1 saved.


def _load_named(path: Path) -> dict[str, Usage]:
    try:
        return load(path)
    except DumpError as error:
        raise DumpError(f"{escape(str(path))}: {error}") from None


def _check_format(version: Any) -> None:
    if type(version) is int and version == FORMAT:
        return
    told = escape(shorten(str(version), 40))
    if type(version) is int and version > FORMAT:
        raise DumpError(f"is a saved usage of format {told}, this version reads format {FORMAT}: update it")
    raise DumpError(f"is a saved usage of the unknown format {told}, not {FORMAT}: {_AGAIN}")


def _usage(name: str, fields: dict[str, Raw]) -> Usage:
    """Return one usage, held to more than the types: what `judge` always writes is there, and can be printed."""
    where = f"is a saved usage with a fault: dump {escape(shorten(name, 80))!r}"
    found = msgspec.convert({key: msgspec.json.decode(raw) for key, raw in fields.items()}, type=Usage)
    absent = _EXPECTED - set(fields)
    if not absent:
        absent = _EXPECTED_QUALITY - set(msgspec.json.decode(fields["quality"]))
    if absent:
        raise DumpError(f"{where} has no {', '.join(sorted(absent))}; {_AGAIN}")
    if not found.calls and found.error is None:
        raise DumpError(f"{where} has neither calls nor an error; {_AGAIN}")
    if not all(text.isprintable() for text in _texts([name, msgspec.to_builtins(found)])):
        raise DumpError(f"{where} holds a control character, which is never saved; {_AGAIN}")
    found.rows = with_known_keys(found.rows)
    return found


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in _texts(part)]
    if isinstance(value, (list, tuple)):
        return [text for part in value for text in _texts(part)]
    return []


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
    write_atomically(path, _encoded(path.resolve(), _File(format=FORMAT, dumps=usages, comparison=against)))
    return Saved(written=sorted(written), kept=[name for name in usages if name not in written])


def _limited(usage: Usage) -> Usage:
    findings = [
        msgspec.structs.replace(finding, message=shorten_middle(finding.message, MESSAGE_WIDTH))
        for finding in usage.findings
    ]
    return msgspec.structs.replace(usage, findings=findings)


def _is_used(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _encoded(path: Path, content: _File) -> bytes:
    text = msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
    return gzip.compress(text, mtime=0) if path.suffix == ".gz" else text
