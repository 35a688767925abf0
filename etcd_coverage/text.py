"""Text that came out of a dump, made fit for a terminal, a log or a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def escape(text: str) -> str:
    r"""Return ``text`` with each backslash and each character that is not printable written as an escape.

    Control characters, ANSI sequences, bidirectional overrides and lone surrogates become ``\x1b``, ``\u202e`` and
    the like. Different texts stay different.
    """
    if text.isprintable() and "\\" not in text and text == text.strip():
        return text
    # Spaces at the ends would be lost in a table.
    inside = text.strip(" ")
    start = len(text) - len(text.lstrip(" ")) if inside else 0
    end = len(text) - start - len(inside)
    return "\\x20" * start + inside.translate(_ESCAPES) + "\\x20" * end


def printable(text: str) -> str:
    """Return ``text`` with each character that is not printable as an escape; what `escape` made stays as it is."""
    return text if text.isprintable() else text.translate(_ESCAPES_BUT_BACKSLASH)


class _Escapes(dict[int, str]):
    """What stands for each character, made when it is first asked for: a key may be megabytes of control characters."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if not char.isprintable():
            char = f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
        self[code] = char
        return char


_ESCAPES = _Escapes({ord("\\"): "\\\\"})
_ESCAPES_BUT_BACKSLASH = _Escapes()


def quote(text: str) -> str:
    """Return ``text`` escaped, cut to 80 characters and in quotes, to be read in a sentence."""
    return f'"{escape(shorten(text, 80))}"'


def shorten(text: str, width: int) -> str:
    """Return ``text`` cut to ``width`` characters, its length noted where it was cut."""
    if len(text) <= width:
        return text
    note = f"... ({len(text)} characters)"
    return text[: max(width - len(note), 0)] + note


def shorten_middle(text: str, width: int) -> str:
    """Return ``text`` cut to ``width`` characters, what is left out counted where it stood: "/regis...(90 more)...me".

    Both ends stay, since keys that begin alike differ at their ends. ``width`` is at least that of the note.
    """
    if len(text) <= width:
        return text
    # The note has the digits of a number that depends on its own length: that of the whole text is never shorter.
    room = width - len(f"...({len(text)} more)...")
    head = (room + 1) // 2
    return f"{text[:head]}...({len(text) - room} more)...{text[len(text) - (room - head) :]}"


def counted(number: int, what: str) -> str:
    """Return the number with its noun, in the plural but for one: "1 call", "2 calls"."""
    return f"{number} {what}{'s' * (number != 1)}"


def some(names: Sequence[str], most: int = 3) -> str:
    """Return the first ``most`` names in a line, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def percent(part: int, whole: int) -> str:
    """Return the share in percent with two decimals, such as "12.50%"; "0.00%" of nothing.

    Rounded as the Go original prints it, but "100.00%" is all of it and "0.00%" nothing: a share that would be rounded
    to these is "99.99%" or "0.01%". A share is shown rounded; gates compare the numbers of calls.
    """
    share = 100 * part / whole if whole else 0.0
    if 0 < part < whole:
        share = min(max(round(share, 2), 0.01), 99.99)
    return f"{share:.2f}%"
