"""Rows of the reference that a subject is known to lack, read from known_gaps.toml."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from etcd_coverage.comparing.compare import MISSING, NEW, ComparedRow, shape_text
from etcd_coverage.reference import GRPC_METHODS, GRPC_PREFIX, RELEASES, short_name
from etcd_coverage.text import escape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from etcd_coverage.comparing.compare import Comparison
    from etcd_coverage.comparing.moves import Move, RowKey

KNOWN_GAPS = "known_gaps.toml"


class KnownGap(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows of the reference that a subject is known to lack.

    ``shape`` is a call pattern with its set args, such as ``List(limit,rangeEnd)``; ``key_patterns`` narrows it to
    those, ``subject`` to dumps whose name fits (``*`` and ``?`` as in a shell; several may be given as a list).
    """

    method: str
    shape: str
    reason: str
    link: str
    key_patterns: tuple[str, ...] = ()
    subject: str | tuple[str, ...] = "*"

    def covers(self, row: ComparedRow, subject: str) -> bool:
        """Return whether the row is one of the gap's, where ``subject`` lacks it."""
        return (
            row.status == MISSING
            and short_name(row.grpc_method) == self.method
            and shape_text(row.shape) == self.shape
            and (not self.key_patterns or row.key_pattern in self.key_patterns)
            and self.is_about(subject)
        )

    def is_about(self, subject: str) -> bool:
        """Return whether the dump's name fits."""
        return _fits(self.subject, subject)


def _fits(patterns: str | tuple[str, ...], subject: str) -> bool:
    patterns = (patterns,) if isinstance(patterns, str) else patterns
    return any(fnmatch.fnmatchcase(subject, pattern) for pattern in patterns)


class KnownMove(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows that are known to have moved from one gRPC method and call pattern (``KV/Range List``) to another.

    ``since`` is the Kubernetes release that made the move; ``subject`` narrows it as for a known gap.
    """

    rows: str
    to: str
    since: str
    reason: str
    link: str
    subject: str | tuple[str, ...] = "*"

    def is_made_by(self, move: Move, subject: str) -> bool:
        """Return whether it is this move, in a dump of that name."""
        return (self.rows, self.to) == (
            f"{short_name(move.grpc_method)} {move.call_pattern}",
            f"{short_name(move.to_method)} {move.to_call_pattern}",
        ) and _fits(self.subject, subject)


def moved_rows(known: Iterable[KnownMove], found: Iterable[Move], subject: str) -> set[RowKey]:
    """Return the reference's rows of those moves that are known: they are not missing."""
    known = list(known)
    return {key for move in found if any(one.is_made_by(move, subject) for one in known) for key in move.left}


class GapsError(Exception):
    """Why a file of known gaps cannot be used, in one line."""


class _Gaps(Struct, frozen=True, forbid_unknown_fields=True):
    gap: list[KnownGap] = []
    move: list[KnownMove] = []


def read_gaps(path: Path) -> list[KnownGap]:
    """Return the known gaps in the file; `GapsError` says which entry is wrong and how."""
    return _read(path).gap


def read_moves(path: Path) -> list[KnownMove]:
    """Return the known moves in the file; `GapsError` says which entry is wrong and how."""
    return _read(path).move


def _read(path: Path) -> _Gaps:
    # Imported here: most runs have no gaps to read.
    import tomllib

    try:
        found = msgspec.convert(tomllib.loads(_text(path)), type=_Gaps)
    except OSError as error:
        raise GapsError(f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise GapsError("is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise GapsError(f"is not TOML: {error}") from None
    except RecursionError:
        raise GapsError("is TOML nested too deep") from None
    except msgspec.ValidationError as error:
        raise GapsError(f"has an entry that is none: {escape(str(error))}; see docs/coverage.md") from None
    shapes = {method.name: [pattern.name for pattern in method.call_patterns] for method in GRPC_METHODS}
    args = {method.name: [arg.name for arg in method.args] for method in GRPC_METHODS}
    for number, gap in enumerate(found.gap, 1):
        where = f"[[gap]] number {number}"
        name = GRPC_PREFIX + gap.method
        parts = _SHAPE.fullmatch(gap.shape)
        if name not in shapes:
            raise GapsError(f"{where}: no method {gap.method!r}, but {', '.join(map(short_name, shapes))}")
        if parts is None or parts[1] not in shapes[name]:
            raise GapsError(f"{where}: {gap.method} has no call pattern as in {gap.shape!r}: {', '.join(shapes[name])}")
        named = parts[2].split(",") if parts[2] else []
        if wrong := [arg for arg in named if arg not in args[name]]:
            raise GapsError(f"{where}: {gap.method} has no arg {wrong[0]!r}, but {', '.join(sorted(args[name]))}")
        if named != (ordered := [arg for arg in args[name] if arg in named]):
            raise GapsError(f"{where}: write the args of {gap.shape!r} as {parts[1]}({','.join(ordered)})")
        if not gap.reason.strip() or not gap.link.startswith(("https://", "http://")):
            raise GapsError(f"{where}: a reason and a link (https://...) are needed")
    names = {f"{short_name(method)} {pattern}" for method, patterns in shapes.items() for pattern in patterns}
    for number, move in enumerate(found.move, 1):
        where = f"[[move]] number {number}"
        if wrong := [name for name in (move.rows, move.to) if name not in names]:
            raise GapsError(f"{where}: there is no {wrong[0]!r}, a method and its call pattern such as 'KV/Range List'")
        if not move.reason.strip() or not move.link.startswith(("https://", "http://")):
            raise GapsError(f"{where}: a reason and a link (https://...) are needed")
        if move.since not in RELEASES:
            raise GapsError(f"{where}: since {move.since!r} is none of {', '.join(RELEASES)}")
    return found


def _text(path: Path) -> str:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise GapsError("is no regular file")
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise GapsError(f"has more than {_MOST_BYTES:,} bytes, which no list of known gaps has")
    return content.decode()


_MOST_BYTES = 1_000_000


def unused(gaps: Iterable[KnownGap], comparisons: Mapping[str, Comparison], subjects: Collection[str]) -> Iterator[str]:
    """Yield each gap, or each of its key patterns, that matches nothing any more.

    ``comparisons`` are those of this run, ``subjects`` the names of all dumps that could have been compared: a gap is
    only reported when every dump that it is about was, with a reference that calls its method.
    """
    for gap in gaps:
        about = [subject for subject in subjects if gap.is_about(subject)]
        if not about or any(subject not in comparisons for subject in about):
            continue
        compared = [row for subject in about for row in comparisons[subject].rows]
        if not any(row.status != NEW and short_name(row.grpc_method) == gap.method for row in compared):
            continue  # the reference is of a release that does not call the method
        rows = [row for subject in about for row in comparisons[subject].rows if gap.covers(row, subject)]
        if not rows:
            yield f"{gap.method} {gap.shape}"
            continue
        lacking = {row.key_pattern for row in rows}
        for key_pattern in gap.key_patterns:
            if key_pattern not in lacking:
                yield f"{gap.method} {gap.shape} {key_pattern}"


_SHAPE = re.compile(r"(\w+)\(([\w,]*)\)")
