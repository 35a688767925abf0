"""The first of something at or above a span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from etcd_coverage.dumps.spans import Span
    from etcd_coverage.judging.span_maps import SpansMap

_Value = TypeVar("_Value", str, int)


class FirstAbove(Generic[_Value]):
    """Finds what is first at or above a span, and remembers it for the spans on the way.

    ``own`` says what a span itself has; something empty if it has nothing. Only spans of the ``kind`` are asked, if
    one is given.
    """

    def __init__(self, spans: SpansMap, own: Callable[[Span], _Value], kind: int | None = None) -> None:
        self._spans = spans
        self._own: Callable[[Span], _Value] = own
        self._kind = kind
        self._known: dict[int, _Value | None] = {}  # by id(span): the span map keeps the spans alive

    def find(self, span: Span) -> _Value | None:
        """Return what the span or its nearest ancestor has; something empty, or None, if none has any.

        The walk ends at a root, at a parent that is not in the dump, and in a cycle of parents.
        """
        parents = self._spans[span.trace_id]
        known = self._known
        kind = self._kind
        path: list[int] = []
        found: _Value | None = None
        check = 64
        step: Span | None = span
        while step is not None:
            key = id(step)
            if key in known:
                found = known[key]
                break
            path.append(key)
            if (kind is None or step.kind == kind) and (found := self._own(step)):
                break
            if len(path) == check:
                if len(set(path)) < check:
                    break  # a cycle, and nothing on it has any
                check *= 2
            step = parents.get(step.parent_span_id)
        known.update(dict.fromkeys(path, found))
        return found
