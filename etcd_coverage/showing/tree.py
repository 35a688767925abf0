"""The spans of a trace -> a tree, as lines with a depth."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.showing.calls import Wanted, caller_text, matching
from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from etcd_coverage.attributes import Attributes, AttributeValue
    from etcd_coverage.dumps.spans import Span

LONGEST = 300
"""How many characters of a name or a value are shown."""

KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
"""OTLP's span kinds by number, https://github.com/open-telemetry/opentelemetry-proto."""


class Branch(Struct, frozen=True):
    """A span in a tree: all texts are printable.

    ``depth`` is 0 at a root, ``call`` says what etcd call it is, empty if it is none, ``failed`` whether its status is
    an error, ``wanted`` whether it is the span that was asked for. ``note`` says why it is a root though it has a
    parent.
    """

    depth: int
    span_id: str
    service: str
    name: str
    kind: str
    attributes: list[tuple[str, str]]
    events: list[str]
    failed: bool
    call: str
    wanted: bool
    note: str


class Tree(Struct, frozen=True):
    """The spans of a trace, each after its parent, and how many of the trace are left out."""

    branches: list[Branch]
    left_out: int


def tree_of(trace: dict[str, Span], span_id: str = "") -> Tree:
    """Return the tree of a trace's spans by id; with a span id the part above and below that span alone.

    Children stand in the order of the dump. In a cycle of parents the first span in the dump is taken for a root.
    """
    (trace_id,) = {span.trace_id for span in trace.values()}
    calls = {shown.span.span_id: shown for shown in matching({trace_id: trace}, Wanted())}
    kept = _line_of(trace, span_id) if span_id else trace.keys()
    branches = []
    for depth, span, note in _in_order(trace):
        if span.span_id not in kept:
            continue
        shown = calls.get(span.span_id)
        text = ""
        if shown is not None:
            contract = f", through {shown.contract}" if shown.contract else ", outside the interface"
            error = f", failed: {shown.error}" if shown.error else ""
            text = f"etcd call {shown.row}{contract}{error}, from {caller_text(shown.caller)}"
        branches.append(
            Branch(
                depth=depth,
                span_id=_shown(span.span_id),
                service=_shown(span.service_name),
                name=_shown(span.name),
                kind=KINDS[span.kind] if 0 <= span.kind < len(KINDS) else str(span.kind),
                attributes=attributes_shown(span.attributes()),
                events=[_shown(name) for name in span.event_names()],
                failed=span.failed(),
                call=text,
                wanted=span.span_id == span_id,
                note=note,
            )
        )
    return Tree(branches, len(trace) - len(branches))


def attributes_shown(attributes: Attributes) -> list[tuple[str, str]]:
    """Return keys and values as they are shown."""
    return [(_shown(key), _value(value)) for key, value in attributes.items()]


def _value(value: AttributeValue) -> str:
    if value is None:
        return "(neither text, integer nor bool)"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{_shown(value)}"' if isinstance(value, str) else str(value)


def _shown(text: str) -> str:
    return escape(shorten(text, LONGEST))


def _in_order(trace: dict[str, Span]) -> list[tuple[int, Span, str]]:
    """Return the spans with their depth, each after its parent, and what is odd about the parent of a root."""
    children: defaultdict[str, list[Span]] = defaultdict(list)
    roots = []
    for span in trace.values():
        if span.parent_span_id in trace:
            children[span.parent_span_id].append(span)
        else:
            roots.append(span)
    found: list[tuple[int, Span, str]] = []
    met: set[str] = set()
    # What no root leads to is in a cycle, or below one.
    for start in [*roots, *trace.values()]:
        note = ""
        if start.parent_span_id:
            lost = start.parent_span_id not in trace
            note = f"its parent {_shown(start.parent_span_id)} is {'not in the dump' if lost else 'below it: a cycle'}"
        pending = [(0, start, note)]
        while pending:
            depth, span, note = pending.pop()
            if span.span_id in met:
                continue
            met.add(span.span_id)
            found.append((depth, span, note))
            pending += [(depth + 1, child, "") for child in reversed(children[span.span_id])]
    return found


def _line_of(trace: dict[str, Span], span_id: str) -> set[str]:
    """Return the ids of the span, of all above it and of all below it."""
    above = set()
    step = trace.get(span_id)
    while step is not None and step.span_id not in above:
        above.add(step.span_id)
        step = trace.get(step.parent_span_id)
    below = {span_id}
    for _, span, _ in _in_order(trace):
        if span.parent_span_id in below:
            below.add(span.span_id)
    return above | below
