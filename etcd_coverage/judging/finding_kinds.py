"""The kinds of findings: one row each, for the failures, the schema of saved usages, and README.md (``make docs``)."""

from __future__ import annotations

from msgspec import Struct

UNEXPECTED_METHOD = "unexpected-method"
METHOD_NOT_CALLED = "method-not-called"
CALL_NOT_RECORDED = "call-not-recorded"
NEW_KEY_PATTERN = "new-key-pattern"
NEW_CALL_PATTERN = "new-call-pattern"
OUTSIDE_RELEASE = "outside-release"
LEASE_WITHOUT_ID = "lease-without-id"
LEASE_WITHOUT_TTL = "lease-without-ttl"
LOST_CALLS = "lost-calls"
ORPHAN_CALLS = "orphan-calls"
LEFT_OUT_METHOD = "left-out-method"
DROPPED_ATTRIBUTES = "dropped-attributes"
CLIPPED_DUMP = "clipped-dump"
TEXT_ARGUMENT = "text-argument"
OVERWRITTEN_SERVERS = "overwritten-server-spans"
DOUBLED_SERVERS = "doubled-server-spans"
OTHER_PREFIX = "other-prefix"

REFERENCE = "etcd_coverage/reference.py"
CLIPPED_STEP = "ask for more with query.num_traces, or use python -m etcd_coverage.jaeger"
OVERWRITTEN_STEP = "export with OTLP, or let client and server have span ids of their own"
_AGAIN = "look for a sampler, an etcd that was killed or a full exporter queue, and collect again"


class FindingKind(Struct, frozen=True):
    """A kind of finding: ``message`` with placeholders in capitals, what it means, and what to do next."""

    id: str
    message: str
    meaning: str
    next_step: str


EXPECTATIONS = (
    FindingKind(
        UNEXPECTED_METHOD,
        "unexpected N calls to method: METHOD",
        "Kubernetes called a method that is not in the reference",
        f"if Kubernetes may call it, add a GrpcMethod to {REFERENCE}",
    ),
    FindingKind(
        METHOD_NOT_CALLED,
        'expected "METHOD" method to be called at least once',
        "a method that Kubernetes needs was never called; compaction starts after 10 minutes",
        "collect for longer or exercise more; if the release cannot call it, use --kubernetes-version",
    ),
    FindingKind(
        CALL_NOT_RECORDED,
        '"METHOD" method was called N times, but no call was recorded',
        "its server spans are in the dump, the spans below them that hold the arguments are not; if so of every "
        "method, etcd is 3.6 or older, which writes none",
        "trace etcd 3.7 or newer; download again, without a limit of traces or spans (python -m etcd_coverage.jaeger); "
        "an etcd that was killed, a sampler or a full exporter queue lose spans too",
    ),
    FindingKind(
        NEW_KEY_PATTERN,
        "New key pattern detected: KEY",
        "the key fits no pattern; for a lease, `no pattern found`: no transaction used it, `multiple key patterns`: "
        "several kinds of keys shared it",
        f"if Kubernetes may use it, add a SpecialResource or SpecialKey to {REFERENCE}; "
        "of a lease without one pattern, see which transactions used it",
    ),
    FindingKind(
        NEW_CALL_PATTERN,
        "New call pattern detected: METHOD(key=...,limit=true,...)",
        "no call pattern of the method matches these arguments",
        f"if Kubernetes may call it so, add a CallPattern to {REFERENCE}",
    ),
    FindingKind(
        OUTSIDE_RELEASE,
        "METHOD CALL came with Kubernetes X.Y, this dump is of X.Y",
        "by the reference this release does not call so yet, or (ended with) no more; the release is the one that "
        "--kubernetes-version or the dump's name says",
        "if the dump is of another release, rename it or use --kubernetes-version; if this release may call so, change "
        f"since or until of the row in {REFERENCE}",
    ),
    FindingKind(
        LEASE_WITHOUT_ID,
        "Lease without ID",
        "the lease_grant span lacks the attribute",
        "check the etcd version: its lease_grant spans carry an id",
    ),
    FindingKind(
        LEASE_WITHOUT_TTL,
        "Lease without TTL",
        "the lease_grant span lacks the attribute",
        "check the etcd version: its lease_grant spans carry a ttl",
    ),
)
"""What nobody expected of Kubernetes."""

QUALITY = (
    FindingKind(
        LOST_CALLS,
        '"METHOD" method was called N times, M of them without a recorded call',
        "calls are lost, and with them what they would have shown; watches, whose streams may end before a watch is "
        "made, and server spans that failed do not count",
        f"{_AGAIN}; --max-lost-calls allows more",
    ),
    FindingKind(
        ORPHAN_CALLS,
        "N calls without server span",
        "which gRPC method they are of is lost, so they are in no table",
        f"{_AGAIN}; --max-orphan-calls allows more",
    ),
    FindingKind(
        LEFT_OUT_METHOD,
        "N calls to method METHOD in traces without spans of the apiserver",
        "such traces are not judged, but hold methods that nobody expects",
        "see who called: a trace that lost its apiserver spans, or another client, which --max-left-out allows",
    ),
    FindingKind(
        DROPPED_ATTRIBUTES,
        "N calls or server spans lost attributes to a limit",
        "arguments may be missing",
        "raise etcd's OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT and collect again; --allow-dropped accepts it",
    ),
    FindingKind(
        CLIPPED_DUMP,
        "exactly N traces",
        "the download was probably cut: a round number (100, Jaeger's default, 1,000, 1,500, 10,000, 100,000) or the "
        "limit that the downloader noted in the dump; a warning too",
        f"{CLIPPED_STEP}; --allow-clipped accepts it",
    ),
    FindingKind(
        TEXT_ARGUMENT,
        "ATTRIBUTE is a text where a number or bool is due",
        "it counts as not set, whatever it was",
        "export to a store that keeps types: Elasticsearch makes texts of numbers and bools",
    ),
    FindingKind(
        OVERWRITTEN_SERVERS,
        "N server spans replaced by a span of another kind with the same ids",
        "client and server share a span id, as in Zipkin: calls are lost",
        OVERWRITTEN_STEP,
    ),
    FindingKind(
        DOUBLED_SERVERS,
        "N server spans with one of the same method right below",
        "etcd is traced twice, so calls count twice",
        "trace etcd once: one interceptor or agent, not two",
    ),
    FindingKind(
        OTHER_PREFIX,
        "most keys are under PREFIX",
        "the apiserver runs with --etcd-prefix",
        "judge with the --etcd-prefix that the message names: keys under it count as those under /registry",
    ),
)
"""What makes a dump's own numbers wrong."""

NEXT_STEPS = {kind.id: kind.next_step for kind in (*EXPECTATIONS, *QUALITY)}
"""What to do about a finding, by its id."""

QUALITY_IDS = frozenset(kind.id for kind in QUALITY)
"""The findings that `test_data_quality` reports."""
