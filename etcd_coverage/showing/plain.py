"""Calls and trees as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.showing.calls import caller_text
from etcd_coverage.showing.tree import attributes_shown
from etcd_coverage.text import counted, escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from etcd_coverage.showing.calls import Shown
    from etcd_coverage.showing.tree import Branch, Tree

DEEPEST = 40
"""From here on spans are not indented any more, and their depth is written before them."""


def call_line(shown: Shown) -> str:
    """Return a call in one line: request and origin, call and args, and where it is."""
    arguments = " ".join(f"{key}={value}" for key, value in attributes_shown(shown.span.attributes()))
    error = f" failed: {shown.error}" if shown.error else ""
    place = f"--trace {escape(shown.span.trace_id)} --span {escape(shown.span.span_id)}"
    return f"{caller_text(shown.caller)} -> {shown.row}{error} {arguments} {place}"


def tree_lines(tree: Tree) -> Iterator[str]:
    """Yield the tree, two spaces a level, the attributes and events of a span below it."""
    for branch in tree.branches:
        indent = "  " * min(branch.depth, DEEPEST)
        depth = f"[depth {branch.depth}] " if branch.depth > DEEPEST else ""
        yield f"{indent}{depth}{heading(branch)}"
        yield from (f"{indent}    {detail}" for detail in details(branch))
    if tree.left_out:
        yield left_out(tree)


def heading(branch: Branch) -> str:
    """Return the first line of a span: service, name, kind, id, and what there is to say of it."""
    marks = [
        "status: error" if branch.failed else "",
        branch.note,
        branch.call,
        "the span that was asked for" if branch.wanted else "",
    ]
    said = "".join(f" <== {mark}" for mark in marks if mark)
    return f"{branch.service}: {branch.name} ({branch.kind}, span {branch.span_id}){said}"


def details(branch: Branch) -> Iterator[str]:
    """Yield the attributes and the events of a span, a line each."""
    yield from (f"{key} = {value}" for key, value in branch.attributes)
    yield from (f"event {name}" for name in branch.events)


def left_out(tree: Tree) -> str:
    """Return how many spans of the trace are not shown."""
    return f"... and {counted(tree.left_out, 'more span')} of this trace: leave out --span to see all"
