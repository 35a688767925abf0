"""What a dump shows, as values: rows, leases, findings, data quality. All texts in them are printable.

These Structs are the one schema of what is judged, compared, reported and saved.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from etcd_coverage.judging.finding_kinds import CLIPPED_STEP
from etcd_coverage.text import counted

Count = Annotated[int, Meta(ge=0)]
"""A number of something; checked when a usage is loaded."""

Positive = Annotated[int, Meta(ge=1)]
"""A number of something that there is."""

PRINTABLE = (
    "^(?![\\s\\S]*[\x00-\x1f\x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u1680\u180e"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ue000-\uf8ff\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001-\U000e007f\U000f0000-\U0010ffff])"
)
"""Matches a text of which each character can be printed (`str.isprintable`), in Python as in JSON Schema."""

Text = Annotated[
    str, Meta(description="Printable: what is not stands there as an escape such as \\x1b.", pattern=PRINTABLE)
]
"""A text of which each character can be printed; checked when a usage is loaded."""

Shape = tuple[str, str, tuple[str, ...]]
"""gRPC method, call pattern and set args: how a call looks, whatever its key."""

TRACE_LIMITS = (100, 1_000, 1_500, 10_000, 100_000)
"""Numbers of traces at which a download was probably cut: Jaeger's default (100), its UI's largest, and round ones."""

MOST_CONFLICTS = 10
"""How many spans with several contents have a warning of their own."""


class Example(Struct, frozen=True):
    """The ids of one span, by which it is found in Jaeger."""

    trace_id: Text
    span_id: Text


class SpanCount(Struct, frozen=True):
    """How many spans have something in common, and the first of them."""

    count: Positive
    example: Example


class Quality(Struct, kw_only=True):
    """How complete a dump is: counts of spans and traces, and what they leave uncertain.

    ``spans`` and ``traces`` count the whole dump, ``skipped_...`` what was left out of it, all other numbers what was
    kept. ``duplicate_spans`` counts spans that came again, ``conflicting_spans`` names those that came again with
    another content (of what the suite reads). ``failed_without_call`` counts those of ``grpc_spans_without_call`` whose
    status is an error. Version 0.1 did not save what follows these:

    - ``traces_limit``: the number of traces at which the download was cut, or may be, as noted in the dump
    - ``likely_apiserver``: without a service ``apiserver``, the service that calls etcd in its place
    - ``orphan``: the first of ``calls_without_parent``
    - ``lost_calls``: server spans by gRPC method whose call must be there and is not: they did not fail
    - ``skipped_grpc_spans``: server spans in the traces left out, and ``skipped_unexpected`` those of them, by gRPC
      method, of methods that are not in the reference
    - ``dropped_attributes``: calls and their server spans that lost attributes to a limit, ``dropped_events`` the
      calls that lost events
    - ``text_arguments``: calls whose argument of that name is a text where a number or bool is due
    - ``overwritten_servers``: server spans that a span of another kind with the same ids replaced
    - ``doubled_servers``: server spans with one of the same gRPC method right above them
    """

    spans: Count = 0
    traces: Count = 0
    skipped_spans: Count = 0
    apiserver_traces: Count = 0
    duplicate_spans: Count = 0
    conflicting_spans: list[Example] = []
    calls_without_parent: Count = 0
    grpc_spans_without_call: Count = 0
    failed_without_call: Count = 0
    traces_limit: Count | None = None
    likely_apiserver: Text = ""
    orphan: Example | None = None
    lost_calls: dict[Text, SpanCount] = {}
    skipped_grpc_spans: Count = 0
    skipped_unexpected: dict[Text, SpanCount] = {}
    dropped_attributes: SpanCount | None = None
    dropped_events: SpanCount | None = None
    text_arguments: dict[Text, SpanCount] = {}
    overwritten_servers: SpanCount | None = None
    doubled_servers: SpanCount | None = None

    def is_clipped(self) -> bool:
        """Return whether the download was probably cut, by the number of traces."""
        return self.traces in TRACE_LIMITS or (self.traces_limit is not None and self.traces >= self.traces_limit)

    def warnings(self) -> list[str]:
        """Return what makes the dump doubtful, a line each."""
        found = []
        if not self.apiserver_traces:
            found.append(f"no records of traces from the apiserver{self._instead()}")
        elif self.skipped_spans:
            found.append(f"skipped {self.skipped_spans} spans without traces in apiserver")
        if self.is_clipped():
            found.append(f"{self.clipped_text()}; {CLIPPED_STEP}")
        if self.dropped_events:
            found.append(
                f"{counted(self.dropped_events.count, 'call')} lost events to a limit, maybe contract events: see "
                f"span {self.dropped_events.example.span_id} of trace {self.dropped_events.example.trace_id}"
            )
        found += [
            f"span {span.span_id} of trace {span.trace_id} came again with another content: the later one counts"
            for span in self.conflicting_spans[:MOST_CONFLICTS]
        ]
        if len(self.conflicting_spans) > MOST_CONFLICTS:
            found.append(f"{len(self.conflicting_spans) - MOST_CONFLICTS} more spans came again with another content")
        return found

    def clipped_text(self) -> str:
        """Return why the download was probably cut."""
        noted = self.traces_limit is not None and self.traces >= self.traces_limit
        limit = f"the limit of {self.traces_limit:,} that the download noted" if noted else "a limit"
        return f"exactly {self.traces:,} traces: the download was probably cut at {limit} (Jaeger's default is 100)"

    def _instead(self) -> str:
        if not self.likely_apiserver:
            return ""
        return f': service "{self.likely_apiserver}" calls etcd in its place, whose service.name must be apiserver'


QUALITY_OF_0_1 = Quality.__struct_fields__[: Quality.__struct_fields__.index("traces_limit")]
"""The fields that every saved quality has, since version 0.1 of this project."""


class Origin(Struct, frozen=True, kw_only=True):
    """Who makes calls, and for which request to the API: how many, and how many of these below a contract event.

    ``component`` is the client's binary, ``role`` what it does of several things, ``resource`` API group, resource and
    subresource. Of calls that no request asked for, ``component`` is the topmost span's service, ``role`` its name.
    """

    component: Text
    role: Text
    verb: Text
    resource: Text
    calls: Positive
    contract_calls: Count


class OtherOrigins(Struct, frozen=True, kw_only=True):
    """Origins that are not named: how many, and their calls."""

    origins: Count
    calls: Count
    contract_calls: Count


class TestCalls(Struct, frozen=True, kw_only=True):
    """How many calls an e2e test made."""

    test: Text
    calls: Positive


class OtherTests(Struct, frozen=True, kw_only=True):
    """E2e tests that are not named: how many, and their calls."""

    tests: Count
    calls: Count


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The calls of a gRPC method that share call pattern, key pattern and set args.

    ``call_pattern`` is empty where no call pattern matches, ``key_pattern`` the key itself where it has none
    (``known_key`` is False), and empty for a method without keys. ``args`` are the names of the set columns, in column
    order. ``example`` is the first of the calls; None if it was not saved.

    ``failed`` counts the calls that etcd answered with an error, ``grpc_errors`` by gRPC status; ``api_errors`` counts
    calls by the HTTP status code from 400 on that the request which they were made for was answered with. ``origins``
    and ``tests`` say who made the calls, the heaviest first, ``other_origins`` and ``other_tests`` add up the rest. All
    of these are None or empty in what earlier versions saved. ``runs`` is in how many of the runs that were merged the
    row was seen.
    """

    grpc_method: Text
    call_pattern: Text
    key_pattern: Text
    args: tuple[Text, ...]
    calls: Positive
    contract_calls: Count
    known_key: bool = True
    example: Example | None = None
    failed: Count | None = None
    grpc_errors: dict[Text, Positive] = {}
    api_errors: dict[Text, Positive] = {}
    origins: list[Origin] = []
    other_origins: OtherOrigins | None = None
    tests: list[TestCalls] = []
    other_tests: OtherTests | None = None
    runs: Positive = 1

    @property
    def shape(self) -> Shape:
        """The row without its key pattern."""
        return self.grpc_method, self.call_pattern, self.args


class Lease(Struct, frozen=True, kw_only=True):
    """The LeaseGrant calls of a key pattern: transactions that used the leases, and the sum of the TTLs in seconds."""

    key_pattern: Text
    uses: Positive
    ttl_seconds: int
    calls: Positive


class Finding(Struct, frozen=True, kw_only=True):
    """What nobody expected: a stable id, the method it is about, a message, how often, and one span that shows it.

    ``attributes`` are those of that span, a dict as Python writes it; empty if there is none or they are too long.
    ``origins`` say who made the calls, the heaviest first, ``other_origins`` add up the rest.
    """

    id: Text
    grpc_method: Text
    message: Text
    count: Count
    example: Example | None = None
    attributes: Text = ""
    origins: list[Origin] = []
    other_origins: OtherOrigins | None = None


class Usage(Struct, kw_only=True):
    """How one dump used etcd.

    ``calls`` counts the server spans of each gRPC method, ``rows``, ``leases`` and ``findings`` are in table order.
    ``error`` is the one line that says why the dump could not be judged, in which case all the rest is empty or
    incomplete; None if it was. ``runs`` is of how many runs it is, if it was merged (`runs_of`).
    """

    calls: dict[Text, Positive] = {}
    rows: list[Row] = []
    leases: list[Lease] = []
    findings: list[Finding] = []
    quality: Quality = msgspec.field(default_factory=Quality)
    error: Text | None = None
    runs: Positive | UnsetType = UNSET


def runs_of(usage: Usage) -> int:
    """Return of how many runs the usage is: 1, unless it was merged."""
    return 1 if usage.runs is UNSET else usage.runs


def encode(usage: Usage) -> str:
    """Return one usage as JSON, for another process of the same version."""
    return msgspec.json.encode(usage).decode()


def decode(text: str) -> Usage:
    """Return the usage that `encode` wrote."""
    return msgspec.json.decode(text, type=Usage)
