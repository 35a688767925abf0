"""Spans as every kind of dump gives them: ids, kinds and attributes are normalised, no spelling is left."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import TYPE_CHECKING

from msgspec import Struct

from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from collections.abc import Hashable

    from etcd_coverage.attributes import Attributes

SERVER = 2
"""``SPAN_KIND_SERVER``, https://github.com/open-telemetry/opentelemetry-proto."""

STATUS_ERROR = 2
"""``STATUS_CODE_ERROR``, same source."""


class Span(Struct, gc=False):
    """The fields of an OTLP span that the suite reads.

    Ids are texts that are equal where the ids are; empty where an id is absent, and ``parent_span_id`` at a root.
    ``kind`` is OTLP's number, ``service_name`` that of its resource, empty without one. ``dropped_attributes`` and
    ``dropped_events`` count what a limit of the SDK kept out
    (https://opentelemetry.io/docs/specs/otel/trace/sdk/#span-limits). The methods raise `DumpError`, naming the span,
    for a field that cannot be read.
    """

    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    name: str = ""
    kind: int = 0
    dropped_attributes: int = 0
    dropped_events: int = 0
    service_name: str = ""

    @abstractmethod
    def attributes(self) -> Attributes:
        """Return the attributes by key; of several with the same key the first counts."""
        raise NotImplementedError

    def some_attributes(self, keys: frozenset[str]) -> Attributes:  # noqa: ARG002 - for kinds that can be quicker
        """Return the attributes as `attributes` does; others than those with these keys may be left out, unread."""
        return self.attributes()

    def attributes_key(self) -> Hashable:
        """Return something that is equal for spans only if all their attributes are."""
        return repr(self.attributes())

    def attributes_text(self) -> bytes:
        """Return a text in which the keys of all attributes stand in quotes, if they are ASCII, or else a backslash.

        It is quicker to search than the attributes are to read.
        """
        return "".join([f'"{key}"' for key in self.attributes()]).encode("ascii", "backslashreplace")

    @abstractmethod
    def event_names(self) -> list[str]:
        """Return the names of the events, in order."""
        raise NotImplementedError

    def first_event(self, prefix: str) -> str:
        """Return the name of the first event whose name starts with ``prefix``; empty without one."""
        for name in self.event_names():
            if name.startswith(prefix):
                return name
        return ""

    @abstractmethod
    def failed(self) -> bool:
        """Return whether the span's status is an error."""
        raise NotImplementedError

    @abstractmethod
    def content(self) -> Hashable:
        """Return what the suite reads of the span beside its ids, equal for equal spans of one file."""
        raise NotImplementedError

    def neutral_content(self) -> tuple[object, ...]:
        """Return what the suite reads of the span beside its ids, equal for equal spans in whatever kind of dump."""
        # As text, since 1 and True are equal.
        attributes = repr(sorted(self.attributes().items(), key=lambda pair: pair[0]))
        counts = (self.dropped_attributes, self.dropped_events)
        named = (self.service_name, self.parent_span_id, self.name, self.kind)
        return (*named, *counts, attributes, tuple(self.event_names()), self.failed())

    def has_content_of(self, other: Span) -> bool:
        """Return whether what the suite reads of both is the same, however it is spelled."""
        if type(self) is type(other) and self.content() == other.content():
            return True
        return self.neutral_content() == other.neutral_content()


class Resource(Struct, gc=False):
    """The spans of one OTLP resource.

    ``service_name`` is its ``service.name`` (https://opentelemetry.io/docs/specs/semconv/resource/#service): None
    without one, empty if it is not a string. ``place`` says where in the dump it stands.
    """

    service_name: str | None
    spans: list[Span]
    place: str

    def __post_init__(self) -> None:
        service_name = self.service_name or ""
        for span in self.spans:
            span.service_name = service_name


def normalise_ids(spans: list[Span]) -> None:
    """Make equal ids equal texts, in place: hex of 16 or 32 digits in lower case, a parent of zeros empty."""
    spelled = trace_id = ""
    for span in spans:
        # The spans of a trace follow one another.
        if span.trace_id != spelled:
            spelled = span.trace_id
            trace_id = same_id(spelled)
        span.trace_id = trace_id
    # Nearly all ids are lower case, which is seen of all at once in a fraction of the time.
    if not "".join([span.span_id for span in spans]).islower():
        for span in spans:
            span.span_id = same_id(span.span_id)
    parents = [parent for span in spans if (parent := span.parent_span_id)]
    joined = "".join(parents)
    if not joined.islower() or _ZEROS in joined or len(joined) != len(_ZEROS) * len(parents):
        for span in spans:
            parent = span.parent_span_id
            span.parent_span_id = same_id(parent) if parent.strip("0") else ""


_ZEROS = "0" * 16
"""A span id that is none, https://www.w3.org/TR/trace-context/#parent-id."""


def same_id(text: str) -> str:
    """Return the id so that equal ids are equal texts: hex of 16 or 32 digits in lower case, others as they are."""
    return text if text.islower() or not _HEX_ID.fullmatch(text) else text.lower()


_HEX_ID = re.compile(r"[0-9a-fA-F]{16}|[0-9a-fA-F]{32}")


def describe(span: Span) -> str:
    """Return the span's ids, escaped, as errors print them."""
    return describe_ids(span.trace_id, span.span_id)


def describe_ids(trace_id: str, span_id: str) -> str:
    """Return the ids of a span, escaped, as errors print them."""
    span_id, trace_id = (escape(shorten(identifier, 80)) or "(no id)" for identifier in (span_id, trace_id))
    return f"span {span_id} of trace {trace_id}"
