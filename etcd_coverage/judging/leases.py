"""LeaseGrant calls x the transactions under their leases -> leases by key pattern, and findings."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from etcd_coverage.attributes import get_int, get_str
from etcd_coverage.judging.finding_kinds import LEASE_WITHOUT_ID, LEASE_WITHOUT_TTL, NEW_KEY_PATTERN
from etcd_coverage.judging.findings import merged
from etcd_coverage.judging.origin_counts import OriginCounts
from etcd_coverage.judging.reference_rows import python_dict
from etcd_coverage.judging.server_spans import example_of
from etcd_coverage.judging.usage import Finding, Lease
from etcd_coverage.text import escape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.judging.ancestors import Ancestors
    from etcd_coverage.judging.classify import KeyPatterns
    from etcd_coverage.judging.span_maps import Call

LEASE_GRANT = "etcdserverpb.Lease/LeaseGrant"
LEASE_KEY = "success_first_key"


def leases(
    grants: Iterable[Call], transactions: dict[int, list[Call]], patterns: KeyPatterns, ancestors: Ancestors
) -> tuple[list[Lease], list[Finding]]:
    """Return the leases by key pattern, and the findings of the LeaseGrant calls that could not be counted."""
    uses: Counter[str] = Counter()
    ttl_seconds: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    findings = []
    by_lease: dict[int, tuple[str, str]] = {}  # a dump may grant one lease thousands of times
    for grant in grants:
        attributes = grant.attributes
        lease = get_int(attributes, "id")
        used_by = transactions.get(lease, [])
        problem = ""
        pattern = ""
        if "id" not in attributes:
            identifier, problem = LEASE_WITHOUT_ID, "Lease without ID"
        else:
            identifier = NEW_KEY_PATTERN
            if lease not in by_lease:
                by_lease[lease] = _pattern(used_by, patterns)
            pattern, problem = by_lease[lease]
            if not problem and "ttl" not in attributes:
                identifier, problem = LEASE_WITHOUT_TTL, "Lease without TTL"
        if problem:
            counts = OriginCounts()
            contract, request = ancestors.find(grant.span)
            counts.add(request, contract)
            finding = Finding(
                id=identifier,
                grpc_method=LEASE_GRANT,
                message=problem,
                count=1,
                example=example_of(grant.span),
                attributes=python_dict(attributes),
                origins=counts.origins(),
            )
            findings.append(finding)
            continue
        uses[pattern] += len(used_by)
        ttl_seconds[pattern] += get_int(attributes, "ttl")
        calls[pattern] += 1
    found = [
        Lease(key_pattern=pattern, uses=uses[pattern], ttl_seconds=ttl_seconds[pattern], calls=calls[pattern])
        for pattern in sorted(calls)
    ]
    return found, merged(findings)


def _pattern(transactions: list[Call], patterns: KeyPatterns) -> tuple[str, str]:
    """Return the one key pattern of the transactions that have a first key, or what is wrong with it."""
    found: dict[str, None] = {}
    for call in transactions:
        if LEASE_KEY not in call.attributes:
            continue
        key = get_str(call.attributes, LEASE_KEY)
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
