"""Span -> who made the request that it is: component, role, verb, resource and e2e test.

Attributes are spelled in several ways, since the apiserver's spans moved to newer semantic conventions with 1.35:
https://opentelemetry.io/docs/specs/semconv/http/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.attributes import get_int, get_str
from etcd_coverage.dumps.spans import SERVER
from etcd_coverage.judging import user_agents
from etcd_coverage.judging.first_above import FirstAbove
from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from etcd_coverage.attributes import Attributes, AttributeValue
    from etcd_coverage.dumps.spans import Span
    from etcd_coverage.judging.span_maps import SpansMap
    from etcd_coverage.judging.usage import Origin
    from etcd_coverage.judging.user_agents import UserAgent

FEW = 16
"""How many steps up are tried before they are remembered."""

MOST = 300
"""How many characters of a name are kept; the longest e2e tests have 250."""


class Caller(Struct, frozen=True, eq=False, gc=False):
    """Who calls, and for what, all printable; each caller is one object, which compares by identity.

    ``resource`` is API group, resource and subresource as far as there are any, joined by slashes. Calls below no
    request have the service as ``component`` and the topmost span's name as ``role``, without verb and resource.
    """

    component: str
    role: str
    verb: str
    resource: str
    test: str


def origin_text(origin: Caller | Origin) -> str:
    """Return who calls for which request, in a few words: kube-controller-manager/namespace-controller DELETE events.

    Of calls that no request asked for, these are the service and the name of the topmost span.
    """
    return " ".join(filter(None, (caller_name(origin), origin.verb, origin.resource)))


def caller_name(origin: Caller | Origin) -> str:
    """Return who calls: COMPONENT/ROLE as far as there is either."""
    return "/".join(filter(None, (origin.component, origin.role))) or "(no user agent)"


class Request(Struct, frozen=True, eq=False, gc=False):
    """A request to the API: who made it, and the HTTP status code of the answer; 0 without one."""

    caller: Caller
    status_code: int


class Requests:
    """Reads requests: each user agent is parsed once, and each caller is one object."""

    def __init__(self, spans: SpansMap) -> None:
        self._spans = spans
        self._agents: dict[str, UserAgent] = {}
        self._callers: dict[tuple[str, ...], Caller] = {}
        self._callers_as_spelled: dict[tuple[AttributeValue, ...], Caller] = {}
        self._by_itself: dict[Caller, Request] = {}
        self._agents_above = FirstAbove(spans, _user_agent)
        self._own_codes: dict[int, int] = {}  # by id(span)
        self._answers_above = FirstAbove(spans, _status_code, SERVER)

    def at(self, span: Span) -> Request | None:
        """Return the request that the span is; None if it is none."""
        text = span.attributes_text()
        if b'"verb"' not in text and (span.kind != SERVER or b'"http.' not in text) and b"\\" not in text:
            return None
        found = span.some_attributes(_OF_REQUESTS).get
        verb, group, resource, subresource, agent = map(found, _PARTS)
        if not verb or type(verb) is not str or type(resource) is not str:
            verb = _first_text(span.some_attributes(_OF_METHODS), _METHODS) if span.kind == SERVER else ""
            if not verb:
                return None
            group = resource = subresource = agent = ""
        if type(agent) is not str or not agent:
            agent = self._agents_above.find(span) or ""
        spelled = (verb, group, resource, subresource, agent)
        caller = self._callers_as_spelled.get(spelled)
        if caller is None:
            parts = "/".join(part for part in (group, resource, subresource) if part and type(part) is str)
            parsed = self._agent(agent)
            caller = self._caller(parsed.component, parsed.role, verb, parts, parsed.test)
            self._callers_as_spelled[spelled] = caller
        return Request(caller, self._status_code(span))

    def by_itself(self, topmost: Span) -> Request:
        """Return what stands for a request where there is none above a span: nobody asked for it."""
        caller = self._caller(topmost.service_name, topmost.name, "", "", "")
        return self._by_itself.setdefault(caller, Request(caller, 0))

    def _status_code(self, span: Span) -> int:
        parents = self._spans[span.trace_id]
        own_codes = self._own_codes
        step: Span | None = span
        # Real requests have their server span a few steps above them, and to remember these costs more than they do.
        for _ in range(FEW):
            if step is None:
                return 0
            if step.kind == SERVER:
                code = own_codes.get(id(step))
                if code is None:
                    code = own_codes[id(step)] = _status_code(step)
                if code:
                    return code
            step = parents.get(step.parent_span_id)
        return self._answers_above.find(span) or 0

    def _agent(self, text: str) -> UserAgent:
        found = self._agents.get(text)
        if found is None:
            found = self._agents[text] = user_agents.parse(text)
        return found

    def _caller(self, *parts: str) -> Caller:
        found = self._callers.get(parts)
        if found is None:
            found = self._callers[parts] = Caller(*(escape(shorten(part, MOST)) for part in parts))
        return found


_METHODS = ("http.request.method", "http.method")
_STATUS_CODES = ("http.response.status_code", "http.status_code")
_USER_AGENTS = ("user_agent.original", "http.user_agent")
_PARTS = ("verb", "api-group", "resource", "subresource", "user-agent")
_OF_REQUESTS = frozenset(_PARTS)
_OF_METHODS = frozenset(_METHODS)
_OF_ANSWERS = [(key, f'"{key}"'.encode(), frozenset((key,))) for key in _STATUS_CODES]
_OF_AGENTS = frozenset(_USER_AGENTS)


def _first_text(attributes: Attributes, keys: tuple[str, ...]) -> str:
    for key in keys:
        if text := get_str(attributes, key):
            return text
    return ""


def _user_agent(span: Span) -> str:
    text = span.attributes_text()
    if b"user_agent" not in text and b"\\" not in text:
        return ""
    return _first_text(span.some_attributes(_OF_AGENTS), _USER_AGENTS)


def _status_code(span: Span) -> int:
    text = span.attributes_text()
    for key, name, keys in _OF_ANSWERS:
        if (name in text or b"\\" in text) and (code := get_int(span.some_attributes(keys), key)):
            return code
    return 0
