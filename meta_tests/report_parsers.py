"""Reports as independent parsers read them: html5lib, markdown-it, and columns of text."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import html5lib
from markdown_it import MarkdownIt

Element = ElementTree.Element


def parsed(text: str) -> Element:
    """Return the page's root; every error that the HTML standard knows fails."""
    root = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
    assert isinstance(root, ElementTree.Element)
    return root


def text_of(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def table_of(root: Element, label: str, dump: int = 0) -> list[list[str]]:
    """Return the texts of the cells of the table under the heading with the text, of the dump of that number."""
    heading = [one for one in root.iter() if one.tag in ("h2", "h3", "h4") and text_of(one) == label][dump]
    table = next(one for one in root.iter("table") if one.get("aria-labelledby") == heading.get("id"))
    return [[text_of(cell) for cell in line if cell.tag in ("td", "th")] for line in table.iter("tr")]


MARKDOWN = MarkdownIt("commonmark").enable("table")


def markdown_tables(text: str) -> list[list[list[str]]]:
    """Return the texts of the cells of each table; code and entities are read, no other markup may be there."""
    found: list[list[list[str]]] = []
    for token in MARKDOWN.parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type in ("th_open", "td_open"):
            found[-1][-1].append("")
        elif token.type == "inline" and token.level >= 4 and found:
            found[-1][-1][-1] = "".join(
                one.content for one in token.children or () if one.type in ("text", "code_inline", "text_special")
            )
    return found


def text_table(text: str) -> list[list[str]]:
    """Return the texts of the cells of a table of the terminal, its header and its footer too.

    A cell of several lines is one text with line breaks; a line whose last cell is empty goes on with the row above.
    """
    lines = text.splitlines()
    rule = next(line for line in lines if re.fullmatch(r"-+(  -+)*", line))
    spans = [found.span() for found in re.finditer("-+", rule)]
    found: list[list[str]] = []
    for line in lines:
        if line == rule:
            continue
        cells = [line[start:end] for start, end in spans]
        assert "  ".join(cells).rstrip() == line.rstrip()
        if any(cell.strip() for cell in cells[1:]) or not found:
            found.append([cell.strip() for cell in cells])
        else:
            found[-1][0] += "\n" + cells[0].rstrip()
    return found
