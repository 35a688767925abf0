"""Walk up the parents: the contract event and the request above a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.judging.origins import Requests

if TYPE_CHECKING:
    from etcd_coverage.dumps.spans import Span
    from etcd_coverage.judging.origins import Request
    from etcd_coverage.judging.span_maps import SpansMap

CONTRACT = "contract."
"""What the name of a contract event starts with."""


class Ancestors:
    """Finds what stands above a span, and remembers it for the spans that it passed on the way.

    A walk ends at a root, at a parent that is not in the dump, and in a cycle of parents. No span is read twice,
    however long the chain.
    """

    def __init__(self, spans: SpansMap) -> None:
        self._spans = spans
        self._requests = Requests(spans)
        # By id(span): the span map keeps the spans alive.
        self._contract_of: dict[int, str] = {}
        self._request_of: dict[int, Request | None] = {}

    def contract(self, span: Span) -> str:
        """Return the name of the first contract event of the span or its nearest ancestor; empty without one."""
        return self.find(span)[0]

    def find(self, span: Span) -> tuple[str, Request]:
        """Return the contract as `contract` does, and the request that the span or its nearest ancestor is.

        Without a request, it is what the topmost span reached did by itself.
        """
        parents = self._spans[span.trace_id]
        contract_of, request_of = self._contract_of, self._request_of
        contract: str | None = None
        request: Request | None = None
        below_contract: list[int] = []
        below_request: list[Span] = []
        step: Span | None = span
        while step is not None:
            key = id(step)
            if contract is None:
                contract = contract_of.get(key)
                if contract is None:
                    contract_of[key] = ""  # met again, it is a cycle, and nothing on it has an event
                    below_contract.append(key)
                    for name in step.event_names():
                        if name.startswith(CONTRACT):
                            contract = name
                            break
            if request is None:
                request = request_of.get(key)
                if request is None:
                    if key in request_of:
                        request = self._in_a_cycle(below_request, step)
                        below_request = []
                    else:
                        request_of[key] = None
                        below_request.append(step)
                        request = self._requests.at(step)
            if contract is not None and request is not None:
                break
            step = parents.get(step.parent_span_id)
        if contract:
            for key in below_contract:
                contract_of[key] = contract
        if request is None:
            request = self._requests.by_itself(below_request[-1])
        for passed in below_request:
            request_of[id(passed)] = request
        return contract or "", request

    def _in_a_cycle(self, path: list[Span], first: Span) -> Request:
        """Remember what stands above each span of a path that leads back to ``first``, and return it for the start.

        No span on it is a request. From a span of the cycle the walk reaches the one before it last.
        """
        start = next(number for number, span in enumerate(path) if span is first)
        topmost = self._requests.by_itself(path[-1])
        for span in path[: start + 1]:
            self._request_of[id(span)] = topmost
        for below, span in zip(path[start:], path[start + 1 :], strict=False):
            self._request_of[id(span)] = self._requests.by_itself(below)
        return topmost
