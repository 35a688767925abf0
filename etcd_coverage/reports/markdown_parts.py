"""Texts and cells -> code and tables in GitHub's Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.comparing.saved import MESSAGE_WIDTH
from etcd_coverage.text import printable, shorten_middle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def as_code(text: str, width: int = MESSAGE_WIDTH) -> str:
    """Return the text as code, of which no character is markup, and in which GitHub links nothing."""
    text = shorten_middle(printable(text), width)
    if text == text.strip() and not set(text) & set("`|"):
        return f"`{text}`" if text else ""
    return f"<code>{''.join(char if char.isalnum() or char == ' ' else f'&#{ord(char)};' for char in text)}</code>"


def as_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: int) -> str:
    """Return a table, its last ``numbers`` columns to the right."""
    rule = ["---"] * (len(headers) - numbers) + ["--:"] * numbers
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, rule, *rows))
