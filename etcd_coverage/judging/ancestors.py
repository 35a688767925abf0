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
    """Finds what stands above a span, and remembers it where others are to come by.

    A walk ends at a root, at a parent that is not in the dump, and in a cycle of parents. The cost of a long chain is
    shared by all calls below it, and each request is read once.
    """

    def __init__(self, spans: SpansMap) -> None:
        self._spans = spans
        self._requests = Requests(spans)
        # By id(span): the span map keeps the spans alive.
        self._contract_of: dict[int, str] = {}
        self._request_of: dict[int, Request] = {}
        self._with_cycle: set[str] = set()

    def contract(self, span: Span) -> str:
        """Return the name of the first contract event of the span or its nearest ancestor; empty without one."""
        return self.find(span)[0]

    def find(self, span: Span) -> tuple[str, Request]:
        """Return the contract as `contract` does, and the request that the span or its nearest ancestor is.

        Without a request, it is what the topmost span reached did by itself.
        """
        parents = self._spans[span.trace_id]
        contract_of, request_of, request_at = self._contract_of, self._request_of, self._requests.at
        contract: str | None = None
        request: Request | None = None
        path: list[Span] = []
        above_contract = above_request = 0  # how many spans were passed until each was found
        check = FIRST_CHECK
        step: Span | None = span
        # Hardly any call shares the first steps with another, so that nothing is remembered of them. In a cycle, what
        # is topmost depends on where it is entered.
        alone = 0 if span.trace_id in self._with_cycle else ALONE
        while step is not None:
            path.append(step)
            if contract is None:
                if alone or (contract := contract_of.get(id(step))) is None:
                    contract = own_contract(step)
                above_contract += 1
            if request is None:
                if alone or (request := request_of.get(id(step))) is None:
                    request = request_at(step)
                above_request += 1
            if contract is not None and request is not None:
                break
            if alone:
                alone -= 1
            elif len(path) == check:
                if is_cycle(path):
                    return self._in_a_cycle(span)
                check *= 2
            step = parents.get(step.parent_span_id)
        if request is None:
            request = self._requests.by_itself(path[-1])
        contract = contract or ""
        if above_contract > FEW:
            contract_of.update(dict.fromkeys(map(id, path[:above_contract]), contract))
        # A request has several calls, and each of them reaches it in few steps.
        if above_request > FEW:
            request_of.update(dict.fromkeys(map(id, path[:above_request]), request))
        else:
            request_of[id(path[above_request - 1])] = request
        return contract, request

    def _in_a_cycle(self, start: Span) -> tuple[str, Request]:
        """Remember what stands above each span that leads into the cycle of parents above ``start``, or is in it."""
        self._with_cycle.add(start.trace_id)
        parents = self._spans[start.trace_id]
        path: dict[int, Span] = {}
        step = start
        while id(step) not in path:
            path[id(step)] = step
            step = parents[step.parent_span_id]
        spans = list(path.values())
        first = list(path).index(id(step))
        contract = ""
        request: Request | None = None
        # Twice round the cycle from its end, since what is above a span may also be what stands before it there.
        for span in (*reversed(spans[first:]), *reversed(spans)):
            contract = own_contract(span) or contract
            request = self._requests.at(span) or request
            self._contract_of[id(span)] = contract
            if request is not None:
                self._request_of[id(span)] = request
        if request is None:
            # From a span of the cycle, the walk reaches the one before it last.
            for below, span in zip((*spans[-1:], *spans[first:]), spans[first:], strict=False):
                self._request_of[id(span)] = self._requests.by_itself(below)
            for span in spans[:first]:
                self._request_of[id(span)] = self._requests.by_itself(spans[-1])
        return self._contract_of[id(start)], self._request_of[id(start)]


ALONE = 3
"""How many spans a call has to itself: its own, the server's and the client's."""

FEW = 16
"""How many spans another call may read again: real calls have fewer above them, and to remember each costs more."""

FIRST_CHECK = 64
"""After how many steps a walk is first asked whether it goes round; real ones take a tenth of that."""


def own_contract(span: Span) -> str | None:
    """Return the name of the span's first contract event; None without one."""
    return span.first_event(CONTRACT) or None


def is_cycle(path: list[Span]) -> bool:
    """Return whether a walk came to a span again."""
    return len(set(map(id, path))) < len(path)
