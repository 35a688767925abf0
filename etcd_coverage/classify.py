"""Calls x reference -> rows, leases and findings.

All texts in the results are escaped: they may be printed as they are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from etcd_coverage import otlp
from etcd_coverage.key_pattern import every_pattern, key_pattern
from etcd_coverage.maps import Count, Example, example_of
from etcd_coverage.reference import GRPC_METHODS, SPECIAL_KEYS, SPECIAL_RESOURCES
from etcd_coverage.text import escape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.contract import Contracts
    from etcd_coverage.maps import Call
    from etcd_coverage.otlp import Attributes, Span
    from etcd_coverage.reference import GrpcMethod

LEASE_GRANT = "etcdserverpb.Lease/LeaseGrant"
LEASE_KEY = "success_first_key"

UNEXPECTED_METHOD = "unexpected-method"
METHOD_NOT_CALLED = "method-not-called"
NEW_KEY_PATTERN = "new-key-pattern"
NEW_CALL_PATTERN = "new-call-pattern"
LEASE_WITHOUT_ID = "lease-without-id"
LEASE_WITHOUT_TTL = "lease-without-ttl"

REFERENCE = "etcd_coverage/reference.py"

NEXT_STEPS = {
    UNEXPECTED_METHOD: f"if Kubernetes may call it, add a GrpcMethod to {REFERENCE}",
    METHOD_NOT_CALLED: "collect for longer or exercise more; if the release cannot call it, use --kubernetes-version",
    NEW_KEY_PATTERN: f"if Kubernetes may use it, add a SpecialResource or SpecialKey to {REFERENCE}; "
    "of a lease without one pattern, see which transactions used it",
    NEW_CALL_PATTERN: f"if Kubernetes may call it so, add a CallPattern to {REFERENCE}",
    LEASE_WITHOUT_ID: "check the etcd version: its lease_grant spans carry an id",
    LEASE_WITHOUT_TTL: "check the etcd version: its lease_grant spans carry a ttl",
}
"""What to do about a finding, by its id."""


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The calls of a gRPC method that share call pattern, key pattern and set args.

    ``call_pattern`` is empty where no call pattern matches, ``key_pattern`` the key itself where it has none, and
    empty for a method without keys. ``args`` are the names of the set columns, in column order. ``example`` is the
    first of the calls; None if it was not saved.
    """

    grpc_method: str
    call_pattern: str
    key_pattern: str
    args: tuple[str, ...]
    calls: Count
    contract_calls: Count
    example: Example | None = None


class Lease(Struct, frozen=True, kw_only=True):
    """The LeaseGrant calls of a key pattern: transactions that used the leases, and the sum of the TTLs in seconds."""

    key_pattern: str
    uses: Count
    ttl_seconds: int
    calls: Count


class Finding(Struct, frozen=True, kw_only=True):
    """What nobody expected: a stable id, the method it is about, a message, how often, and one span that shows it."""

    id: str
    grpc_method: str
    message: str
    count: Count
    example: Example | None = None


class KeyPatterns:
    """Key -> key pattern by the tables of reference.py, each key read once."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def find(self, key: str) -> str | None:
        """Return the pattern of the key; None if it has none."""
        try:
            return self._known[key]
        except KeyError:
            pattern = self._known[key] = key_pattern(key, SPECIAL_KEYS, SPECIAL_RESOURCES)
            return pattern


class _Group:
    """The calls of one row while they are counted."""

    __slots__ = ("calls", "contract_calls", "example")

    def __init__(self, call: Call) -> None:
        self.calls = 0
        self.contract_calls = 0
        self.example = example_of(call.span)


def has_unknown_key(row: _OfKey) -> bool:
    """Tell whether the row's key has no pattern, so that ``key_pattern`` is the key itself.

    Rows of a saved usage may be of a method that the reference no longer has: their keys are taken as known.
    """
    return bool(_KEYS.get(row.grpc_method)) and row.key_pattern not in _PATTERNS


class _OfKey(Protocol):
    @property
    def grpc_method(self) -> str: ...
    @property
    def key_pattern(self) -> str: ...


_KEYS = {method.name: method.key for method in GRPC_METHODS}
_PATTERNS = every_pattern(SPECIAL_KEYS, SPECIAL_RESOURCES)


def unexpected_methods(grpc_spans: dict[str, list[Span]]) -> list[Finding]:
    """Return a finding for each gRPC method with server spans that is not in the reference, by name."""
    allowed = {method.name for method in GRPC_METHODS}
    return [
        Finding(
            id=UNEXPECTED_METHOD,
            grpc_method=escape(name),
            message=f"unexpected {len(spans)} calls to method: {escape(name)}",
            count=len(spans),
            example=example_of(spans[0]),
        )
        for name, spans in sorted(grpc_spans.items())
        if name not in allowed
    ]


def method_not_called(method: GrpcMethod) -> Finding:
    """Return the finding that a required method was never called."""
    return Finding(
        id=METHOD_NOT_CALLED,
        grpc_method=method.name,
        message=f'expected "{method.name}" method to be called at least once',
        count=0,
    )


def classify(
    method: GrpcMethod, calls: Iterable[Call], patterns: KeyPatterns, contracts: Contracts
) -> tuple[list[Row], list[Finding]]:
    """Return the rows of one gRPC method in table order, and a finding for each row that nobody expected."""
    groups: dict[tuple[str, str, bool, tuple[str, ...]], _Group] = {}
    tests = [(arg.name, arg.is_set) for arg in method.args]
    order = [(pattern.name, pattern.matches) for pattern in method.call_patterns]
    for call in calls:
        attributes = call.attributes
        args = tuple([name for name, is_set in tests if is_set(attributes)])
        call_pattern = ""
        for name, matches in order:
            if matches(attributes):
                call_pattern = name
                break
        pattern, known = _pattern_of(method, attributes, patterns)
        key = (pattern, call_pattern, known, args)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(call)
        group.calls += 1
        if contracts.find(call.span):
            group.contract_calls += 1
    rows = []
    findings = []
    for (text, call_pattern, known, args), group in sorted(
        groups.items(), key=lambda item: (item[0][0], item[0][1], _marks(method, item[0][3]))
    ):
        pattern = text if known else escape(text)
        row = Row(
            grpc_method=method.name,
            call_pattern=call_pattern,
            key_pattern=pattern,
            args=args,
            calls=group.calls,
            contract_calls=group.contract_calls,
            example=group.example,
        )
        rows.append(row)
        if not known:
            findings.append(_finding(NEW_KEY_PATTERN, method.name, f"New key pattern detected: {pattern}", group))
        if not call_pattern:
            findings.append(_finding(NEW_CALL_PATTERN, method.name, _new_call_pattern(method, row), group))
    return rows, _merged(findings)


def leases(
    grants: Iterable[Call], transactions: dict[int, list[Call]], patterns: KeyPatterns
) -> tuple[list[Lease], list[Finding]]:
    """Return the leases by key pattern, and the findings of the LeaseGrant calls that could not be counted."""
    uses: Counter[str] = Counter()
    ttl_seconds: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    findings = []
    for grant in grants:
        attributes = grant.attributes
        used_by = transactions.get(otlp.get_int(attributes, "id"), [])
        problem = ""
        pattern = ""
        if "id" not in attributes:
            identifier, problem = LEASE_WITHOUT_ID, "Lease without ID"
        else:
            identifier = NEW_KEY_PATTERN
            pattern, problem = _lease_pattern(used_by, patterns)
            if not problem and "ttl" not in attributes:
                identifier, problem = LEASE_WITHOUT_TTL, "Lease without TTL"
        if problem:
            findings.append(_finding(identifier, LEASE_GRANT, problem, _one(grant)))
            continue
        uses[pattern] += len(used_by)
        ttl_seconds[pattern] += otlp.get_int(attributes, "ttl")
        calls[pattern] += 1
    found = [
        Lease(key_pattern=pattern, uses=uses[pattern], ttl_seconds=ttl_seconds[pattern], calls=calls[pattern])
        for pattern in sorted(calls)
    ]
    return found, _merged(findings)


def _pattern_of(method: GrpcMethod, attributes: Attributes, patterns: KeyPatterns) -> tuple[str, bool]:
    if not method.key:
        return "", True
    key = otlp.get_str(attributes, method.key)
    pattern = patterns.find(key)
    return (key, False) if pattern is None else (pattern, True)


def _lease_pattern(transactions: list[Call], patterns: KeyPatterns) -> tuple[str, str]:
    """Return the one key pattern of the transactions, or what is wrong with it."""
    found: dict[str, None] = {}
    for call in transactions:
        key = otlp.get_str(call.attributes, LEASE_KEY)
        pattern = patterns.find(key)
        if pattern is None:
            return "", f"New key pattern detected: {escape(key)}"
        found[pattern] = None
    match list(found):
        case []:
            return "", "New key pattern detected: no pattern found"
        case [pattern]:
            return pattern, ""
    return "", "New key pattern detected: multiple key patterns"


def _marks(method: GrpcMethod, args: tuple[str, ...]) -> str:
    return "".join("X" if arg.name in args else " " for arg in method.args)


def _new_call_pattern(method: GrpcMethod, row: Row) -> str:
    values = ",".join(f"{arg.name}={'true' if arg.name in row.args else 'false'}" for arg in method.args)
    return f"New call pattern detected: {method.name}(key={row.key_pattern},{values})"


def _one(call: Call) -> _Group:
    group = _Group(call)
    group.calls = 1
    return group


def _finding(identifier: str, grpc_method: str, message: str, group: _Group) -> Finding:
    return Finding(id=identifier, grpc_method=grpc_method, message=message, count=group.calls, example=group.example)


def _merged(findings: list[Finding]) -> list[Finding]:
    """Return the findings with equal ones made one: their counts added up, the first one's example."""
    merged: defaultdict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        merged[finding.id, finding.message].append(finding)
    return [
        Finding(
            id=same[0].id,
            grpc_method=same[0].grpc_method,
            message=same[0].message,
            count=sum(finding.count for finding in same),
            example=same[0].example,
        )
        for same in merged.values()
    ]
