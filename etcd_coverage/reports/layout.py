"""Tables -> text of the width of a terminal: as they are, else folded; nothing is cut off."""

from __future__ import annotations

import re
import shutil

from msgspec import Struct, structs
from tabulate import MIN_PADDING, SEPARATING_LINE, tabulate

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


def fitted(table: TextTable, width: int | None, *narrower: TextTable) -> str:
    """Return the table as it is if it fits into the width or if there is none, else the first of ``narrower`` that can.

    Those are of the same rows. They have their columns of texts folded, after a slash, a comma, a bracket or a blank
    where there is one; what still does not fit has them in one column, one below the other.
    """
    text = table.text()
    if width is None or _width(text) <= width:
        return text
    candidates = narrower or (table,)
    for other in (*candidates, _merged(candidates[-1])):
        text = _narrowed(other, width).text()
        if _width(text) <= width:
            break
    return text


def _narrowed(table: TextTable, width: int) -> TextTable:
    """Return the table with its columns of texts folded, the widest first, until it fits if it can."""
    cells = [*table.rows, *table.rest, table.footer]
    widths = [
        max(_width(header) + MIN_PADDING, *map(_width, column))
        for header, *column in zip(table.headers, *cells, strict=True)
    ]
    rooms = list(widths)
    texts = [column for column, align in enumerate(table.align) if align == "left"]
    while sum(rooms) + _GAP * (len(rooms) - 1) > width:
        widest = max(texts, key=rooms.__getitem__)
        if rooms[widest] <= LEAST_TEXT:
            break
        rooms[widest] -= 1

    def folded(cells: list[str], less: int = 0) -> list[str]:
        # Numbers, and columns that are narrow enough, are as they were.
        return [
            cell if room == before else _folded(cell, room - less)
            for cell, room, before in zip(cells, rooms, widths, strict=True)
        ]

    return structs.replace(
        table,
        headers=folded(table.headers, MIN_PADDING),
        rows=[folded(cells) for cells in table.rows],
        rest=[folded(cells) for cells in table.rest],
        footer=folded(table.footer),
    )


def _merged(table: TextTable) -> TextTable:
    """Return the table with its first columns, all that are of texts, in one."""
    count = next((column for column, align in enumerate(table.align) if align != "left"), len(table.align))

    def merged(cells: list[str]) -> list[str]:
        return ["\n".join(filter(None, cells[:count])), *cells[count:]]

    return structs.replace(
        table,
        headers=merged(table.headers),
        rows=[merged(cells) for cells in table.rows],
        rest=[merged(cells) for cells in table.rest],
        footer=merged(table.footer),
        align=table.align[max(count - 1, 0) :],
    )


_GAP = 2
"""How many blanks `tabulate` puts between two columns; beside each header there are MIN_PADDING."""


def _width(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def _folded(cell: str, width: int) -> str:
    lines = []
    for line in cell.split("\n"):
        first, *rest = _fold(line, width)
        # Later lines are indented, so that each is seen to go on.
        lines += [first, *(f" {part}" for part in _fold("".join(rest), width - 1))] if rest else [first]
    return "\n".join(lines)


def _fold(text: str, width: int) -> list[str]:
    lines = [""]
    for part in re.findall(r"[^/,( ]*(?:, |[/,( ])|[^/,( ]+", text):
        if len(lines[-1]) + len(part) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
        while len(lines[-1]) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return lines
