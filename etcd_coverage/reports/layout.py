"""Tables -> text of the width of a terminal: as they are, else folded; nothing is cut off."""

from __future__ import annotations

import re
import shutil

from msgspec import Struct
from tabulate import SEPARATING_LINE, tabulate

LEAST_TEXT = 16
"""How many characters of a row's text are in one line at least, however narrow the terminal is."""


class TextTable(Struct, frozen=True, kw_only=True):
    """A table as texts: ``align`` has "left" or "right" for each column, the footer is under a line.

    ``rest`` are lines under the rows that add up what is left out. Cells may have several lines.
    """

    headers: list[str]
    rows: list[list[str]]
    footer: list[str]
    align: list[str]
    rest: list[list[str]] = []

    def text(self) -> str:
        """Return the table, as wide as its texts are."""
        return tabulate(
            [*self.rows, *self.rest, SEPARATING_LINE, self.footer],
            headers=self.headers,
            tablefmt="simple",
            disable_numparse=True,
            colalign=self.align,
        )


def terminal_width() -> int | None:
    """Return how many characters a line of the terminal has ($COLUMNS first); None in a pipe or a file."""
    return shutil.get_terminal_size((0, 0)).columns or None


def left_then_right(columns: int, numbers: int) -> list[str]:
    """Return the alignment of a table whose last ``numbers`` columns are numbers."""
    return ["left"] * (columns - numbers) + ["right"] * numbers


def fitted(table: TextTable, width: int | None, narrow: TextTable | None = None) -> str:
    """Return the table as it is if it fits into the width or if there is none, else ``narrow`` of the same rows.

    What is still too wide has its first column folded, after a slash, a comma, a bracket or a blank where there is one.
    """
    text = table.text()
    if width is None or _width(text) <= width:
        return text
    chosen = narrow or table
    text = chosen.text()
    if _width(text) <= width:
        return text
    first = [chosen.headers[0], *(row[0] for row in chosen.rows), chosen.footer[0]]
    widest = max(len(line) for cell in first for line in cell.split("\n"))
    room = max(widest - (_width(text) - width), LEAST_TEXT)
    return TextTable(
        headers=chosen.headers,
        rows=[[_folded(row[0], room), *row[1:]] for row in chosen.rows],
        footer=[_folded(chosen.footer[0], room), *chosen.footer[1:]],
        align=chosen.align,
    ).text()


def _width(text: str) -> int:
    return max(map(len, text.splitlines()))


def _folded(cell: str, width: int) -> str:
    lines = []
    for line in cell.split("\n"):
        first, *rest = _fold(line, width)
        # Later lines are indented, so that each is seen to go on.
        lines += [first, *(f" {part}" for part in _fold("".join(rest), width - 1))] if rest else [first]
    return "\n".join(lines)


def _fold(text: str, width: int) -> list[str]:
    lines = [""]
    for part in re.findall(r"[^/,( ]*[/,( ]|[^/,( ]+", text):
        if len(lines[-1]) + len(part) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
        while len(lines[-1]) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return lines
