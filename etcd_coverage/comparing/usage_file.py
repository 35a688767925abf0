"""The file format of usages: its Structs, and how a file is read; see docs/usage-format.md."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from etcd_coverage.comparing.compare import Comparison
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.files import content, start
from etcd_coverage.judging.classify import with_known_keys
from etcd_coverage.judging.usage import PRINTABLE, QUALITY_OF_0_1, Quality, Text, Usage
from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
"""Version of the JSON format."""


class Against(Struct, frozen=True, kw_only=True):
    """The comparisons with one reference, by the name of the subject."""

    reference: Text
    subjects: dict[Text, Comparison]


class UsageFile(Struct, kw_only=True):
    """How each dump used etcd, by its name, as --usage-json writes it; see usage-format.md.

    ``comparison`` is there with --reference alone.
    """

    format: Literal[1]
    dumps: dict[Text, Usage]
    comparison: Against | UnsetType = UNSET


class _Head(Struct):
    format: Raw = Raw(b"null")


class _Parts(Struct):
    dumps: dict[str, Raw]


def is_saved(path: Path) -> bool:
    """Tell whether the file holds saved usages, by its first bytes; False if it cannot be read."""
    return _STARTS.match(start(path, _HEAD)) is not None


def load(path: Path) -> dict[str, Usage]:
    """Return the saved usages by dump name, in the order of the file; at least one.

    Raises `DumpError` if the file is not whole, of another format, or not what `update` writes.
    """
    data = content(path, _AGAIN, _BOMB)
    try:
        _check_format(bytes(msgspec.json.decode(data, type=_Head).format))
        parts = msgspec.json.decode(data, type=_Parts).dumps
        usages = {name: _usage(name, text) for name, text in parts.items()}
    except RecursionError:
        raise DumpError(f"is JSON nested too deep to be a saved usage: {_AGAIN}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DumpError(f"is a saved usage with a fault: {shorten(escape(str(error)), 300)}; {_AGAIN}") from None
    if not usages:
        raise DumpError(f"is a saved usage that holds no dump: {_AGAIN}")
    return usages


_HEAD = 4096
_STARTS = re.compile(rb'\s*\{\s*"(?:format|dumps|comparison)"\s*:')
_AGAIN = "save it again with --usage-json"
_BOMB = 1 << 24
"""Bytes that any gzipped file of usages may unpack to: hundreds of usages of large dumps."""
_UNPRINTABLE = f"matching regex {PRINTABLE!r}"


def always_written(struct: type[Struct]) -> list[str]:
    """Return the fields that are in the JSON of every value of the Struct, whichever version saved it."""
    if struct is Quality:
        return list(QUALITY_OF_0_1)
    config = struct.__struct_config__
    fields = msgspec.structs.fields(struct)
    return [
        field.encode_name for field in fields if field.required or not (config.omit_defaults or field.default is UNSET)
    ]


def _check_format(text: bytes) -> None:
    version = msgspec.json.decode(text) if len(text) < 40 else text.decode("utf-8", "replace")
    if type(version) is int and version == FORMAT:
        return
    shown = escape(shorten(str(version), 40))
    if type(version) is int and version > FORMAT:
        raise DumpError(f"is a saved usage of format {shown}, this version reads format {FORMAT}: update it")
    raise DumpError(f"is a saved usage of the unknown format {shown}, not {FORMAT}: {_AGAIN}")


def _usage(name: str, text: Raw) -> Usage:
    """Return one usage, held to more than the types: what is always written is there."""
    where = f"is a saved usage with a fault: dump {escape(shorten(name, 80))!r}"
    try:
        msgspec.convert(name, type=Text)
        found = msgspec.json.decode(text, type=Usage)
    except msgspec.ValidationError as error:
        if _UNPRINTABLE not in str(error):
            raise
        raise DumpError(f"{where} holds a control character, which is never saved; {_AGAIN}") from None
    fields = msgspec.json.decode(text, type=dict[str, Raw])
    absent = set(always_written(Usage)) - fields.keys()
    if not absent:
        absent = set(always_written(Quality)) - msgspec.json.decode(fields["quality"], type=dict[str, Raw]).keys()
    if absent:
        raise DumpError(f"{where} has no {', '.join(sorted(absent))}; {_AGAIN}")
    if not found.calls and found.error is None:
        raise DumpError(f"{where} has neither calls nor an error; {_AGAIN}")
    found.rows = with_known_keys(found.rows)
    return found
