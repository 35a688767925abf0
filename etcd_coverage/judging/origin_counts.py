"""Calls -> how many each origin and each e2e test made, and how many failed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from etcd_coverage.judging.usage import Origin, OtherOrigins, OtherTests, TestCalls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.judging.origins import Caller, Request
    from etcd_coverage.judging.usage import Finding, Row, Usage

_Key = TypeVar("_Key", str, tuple[str, str, str, str])


MOST_SAVED = 10
"""How many origins and e2e tests of a row are saved by name, unless more are asked for."""


class OriginCounts:
    """The callers of some calls, and the errors that these met, while they are counted."""

    __slots__ = ("api_errors", "calls", "contract_calls", "grpc_errors")

    def __init__(self) -> None:
        self.calls: dict[Caller, int] = {}
        self.contract_calls: dict[Caller, int] = {}
        self.grpc_errors: dict[str, int] = {}
        self.api_errors: dict[int, int] = {}

    def add(self, request: Request, contract: str, grpc_error: str = "") -> None:
        """Count a call: made for this request, below this contract event if any, and with this gRPC error if any."""
        caller = request.caller
        self.calls[caller] = self.calls.get(caller, 0) + 1
        if contract:
            self.contract_calls[caller] = self.contract_calls.get(caller, 0) + 1
        if grpc_error:
            self.grpc_errors[grpc_error] = self.grpc_errors.get(grpc_error, 0) + 1
        code = request.status_code
        if code >= FIRST_ERROR:
            self.api_errors[code] = self.api_errors.get(code, 0) + 1

    def origins(self) -> list[Origin]:
        """Return the origins, the heaviest first."""
        return _origins(
            ((one.component, one.role, one.verb, one.resource), calls, self.contract_calls.get(one, 0))
            for one, calls in self.calls.items()
        )

    def tests(self) -> list[TestCalls]:
        """Return the e2e tests, the heaviest first."""
        tests: Counter[str] = Counter()
        for caller, calls in self.calls.items():
            if caller.test:
                tests[caller.test] += calls
        return [TestCalls(test=test, calls=calls) for test, calls in _heaviest_first(tests)]


FIRST_ERROR = 400
"""From here on HTTP status codes are errors, https://www.rfc-editor.org/rfc/rfc9110#name-status-codes."""


def merged_origins(parts: Iterable[Iterable[Origin]]) -> list[Origin]:
    """Return the origins of several lists as one, the calls of equal ones added up, the heaviest first."""
    return _origins(
        ((one.component, one.role, one.verb, one.resource), one.calls, one.contract_calls)
        for part in parts
        for one in part
    )


def errors(counts: dict[str, int] | dict[int, int]) -> dict[str, int]:
    """Return how often each error was met, the most frequent first."""
    return dict(_heaviest_first({str(name): count for name, count in counts.items()}))


def with_heaviest_origins(usage: Usage, most: int | None) -> Usage:
    """Return the usage with the ``most`` heaviest origins and e2e tests of its rows and findings alone; None for all.

    The others are added up beside them.
    """
    if most is None:
        return usage
    return replace(
        usage,
        rows=[_heaviest_of_row(row, most) for row in usage.rows],
        findings=[_heaviest_of_finding(finding, most) for finding in usage.findings],
    )


def _heaviest_of_row(row: Row, most: int) -> Row:
    origins, other_origins = _heaviest(row.origins, row.other_origins, most)
    tests, left_out, other_tests = row.tests[:most], row.tests[most:], row.other_tests
    if left_out:
        before = other_tests or OtherTests(tests=0, calls=0)
        calls = sum(one.calls for one in left_out)
        other_tests = OtherTests(tests=before.tests + len(left_out), calls=before.calls + calls)
    return replace(row, origins=origins, other_origins=other_origins, tests=tests, other_tests=other_tests)


def _heaviest_of_finding(finding: Finding, most: int) -> Finding:
    origins, other_origins = _heaviest(finding.origins, finding.other_origins, most)
    return replace(finding, origins=origins, other_origins=other_origins)


def _heaviest(
    origins: list[Origin], others: OtherOrigins | None, most: int
) -> tuple[list[Origin], OtherOrigins | None]:
    if left_out := origins[most:]:
        before = others or OtherOrigins(origins=0, calls=0, contract_calls=0)
        others = OtherOrigins(
            origins=before.origins + len(left_out),
            calls=before.calls + sum(one.calls for one in left_out),
            contract_calls=before.contract_calls + sum(one.contract_calls for one in left_out),
        )
    return origins[:most], others


def _origins(parts: Iterable[tuple[tuple[str, str, str, str], int, int]]) -> list[Origin]:
    calls: Counter[tuple[str, str, str, str]] = Counter()
    contract_calls: Counter[tuple[str, str, str, str]] = Counter()
    for origin, number, of_contract in parts:
        calls[origin] += number
        contract_calls[origin] += of_contract
    return [
        Origin(
            component=component,
            role=role,
            verb=verb,
            resource=resource,
            calls=number,
            contract_calls=contract_calls[component, role, verb, resource],
        )
        for (component, role, verb, resource), number in _heaviest_first(calls)
    ]


def _heaviest_first(counts: dict[_Key, int]) -> list[tuple[_Key, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
