"""Walk up the parents to a ``contract.*`` event."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from etcd_coverage.dumps.spans import Span
    from etcd_coverage.judging.span_maps import SpansMap

PREFIX = "contract."


class Contracts:
    """Finds the contract event above a span, and remembers it for the spans that it passed on the way."""

    def __init__(self, spans: SpansMap) -> None:
        self._spans = spans
        self._known: dict[int, str] = {}  # by id(span): the span map keeps the spans alive

    def find(self, span: Span) -> str:
        """Return the name of the first contract event of the span or its nearest ancestor; empty without one.

        The walk ends at a root, at a parent that is not in the dump, and in a cycle of parents. What it found holds
        for every span on its way, so no parent is visited twice, however long the chain.
        """
        trace = self._spans[span.trace_id]
        known = self._known
        path: list[int] = []
        found = ""
        step: Span | None = span
        while step is not None:
            key = id(step)
            if key in known:
                found = known[key]
                break
            known[key] = ""  # met again, it is a cycle, and nothing on it has an event
            path.append(key)
            for name in step.event_names():
                if name.startswith(PREFIX):
                    found = name
                    break
            if found:
                break
            step = trace.get(step.parent_span_id)
        if found:
            known.update(dict.fromkeys(path, found))
        return found
