"""Calls x reference -> rows and findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from etcd_coverage.attributes import get_str
from etcd_coverage.judging.finding_kinds import NEW_CALL_PATTERN, NEW_KEY_PATTERN
from etcd_coverage.judging.findings import merged
from etcd_coverage.judging.losses import TYPED_ARGUMENTS, is_text
from etcd_coverage.judging.origin_counts import OriginCounts, errors
from etcd_coverage.judging.reference_rows import python_dict
from etcd_coverage.judging.server_spans import example_of
from etcd_coverage.judging.usage import Finding, Row
from etcd_coverage.key_pattern import PREFIX, every_pattern, key_pattern
from etcd_coverage.reference import GRPC_METHODS, SPECIAL_KEYS, SPECIAL_RESOURCES
from etcd_coverage.text import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from etcd_coverage.attributes import Attributes
    from etcd_coverage.judging.ancestors import Ancestors
    from etcd_coverage.judging.outcomes import Outcomes
    from etcd_coverage.judging.span_maps import Call
    from etcd_coverage.reference import GrpcMethod


class KeyPatterns:
    """Key -> key pattern by the tables of reference.py, each key read once.

    ``prefix`` is the apiserver's --etcd-prefix: keys under it have the patterns of those under /registry, so that
    usages can be compared, and keys under /registry have none.
    """

    def __init__(self, prefix: str = PREFIX) -> None:
        self._known: dict[str, str | None] = {}
        self._prefix = prefix

    def find(self, key: str) -> str | None:
        """Return the pattern of the key; None if it has none."""
        try:
            return self._known[key]
        except KeyError:
            pattern = self._known[key] = key_pattern(self._under_registry(key), SPECIAL_KEYS, SPECIAL_RESOURCES)
            return pattern

    def as_under_registry(self, method: GrpcMethod, attributes: Attributes) -> Attributes:
        """Return the attributes with the method's key as it would be under /registry: call patterns may name it."""
        if self._prefix == PREFIX or not method.key or method.key not in attributes:
            return attributes
        return attributes | {method.key: self._under_registry(get_str(attributes, method.key))}

    def _under_registry(self, key: str) -> str:
        """Return the key as it would be under /registry; "" for one of another prefix."""
        if self._prefix == PREFIX:
            return key
        if key.startswith(f"{self._prefix}/"):
            return PREFIX + key.removeprefix(self._prefix)
        # The compactor's key has no prefix.
        return "" if key.startswith("/") else key


class _Group:
    """The calls of one row while they are counted."""

    __slots__ = ("calls", "contract_calls", "first", "origins")

    def __init__(self, first: Call) -> None:
        self.calls = 0
        self.contract_calls = 0
        self.first = first
        self.origins = OriginCounts()


def with_known_keys(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of a saved usage, each with ``known_key``, which earlier versions did not save.

    Rows may be of a method that the reference no longer has: their keys are taken as known.
    """
    return [
        replace(row, known_key=False)
        if row.known_key and _KEYS.get(row.grpc_method) and row.key_pattern not in _PATTERNS
        else row
        for row in rows
    ]


_KEYS = {method.name: method.key for method in GRPC_METHODS}
_PATTERNS = every_pattern(SPECIAL_KEYS, SPECIAL_RESOURCES)


def classify(
    method: GrpcMethod, calls: Sequence[Call], patterns: KeyPatterns, ancestors: Ancestors, outcomes: Outcomes
) -> tuple[list[Row], list[Finding]]:
    """Return the rows of one gRPC method in table order, and a finding for each row that nobody expected."""
    groups: dict[tuple[str, str, bool, tuple[str, ...]], _Group] = {}
    group_of: dict[int, _Group] = {}  # by id(attributes): the calls keep them alive
    tests = [(arg.name, arg.is_set) for arg in method.args]
    order = [(pattern.name, pattern.matches) for pattern in method.call_patterns]
    for call in calls:
        group = group_of.get(id(call.attributes))
        if group is None:
            attributes = patterns.as_under_registry(method, call.attributes)
            args = tuple([name for name, is_set in tests if is_set(attributes)])
            call_pattern = ""
            for name, matches in order:
                if matches(attributes):
                    call_pattern = name
                    break
            pattern, known = _pattern_of(method, call.attributes, patterns)
            key = (pattern, call_pattern, known, args)
            group = groups.get(key)
            if group is None:
                group = groups[key] = _Group(call)
            group_of[id(call.attributes)] = group
        group.calls += 1
        contract, request = ancestors.find(call.span)
        if contract:
            group.contract_calls += 1
        group.origins.add(request, contract, outcomes.error(method, call.span))
    rows = []
    findings = []
    for (text, call_pattern, known, args), group in sorted(
        groups.items(), key=lambda item: (item[0][0], item[0][1], _marks(method, item[0][3]), item[0][2])
    ):
        pattern = text if known else escape(text)
        row = Row(
            grpc_method=method.name,
            call_pattern=call_pattern,
            key_pattern=pattern,
            args=args,
            calls=group.calls,
            contract_calls=group.contract_calls,
            known_key=known,
            example=example_of(group.first.span),
            failed=sum(group.origins.grpc_errors.values()),
            grpc_errors=errors(group.origins.grpc_errors),
            api_errors=errors(group.origins.api_errors),
            origins=group.origins.origins(),
            tests=group.origins.tests(),
        )
        rows.append(row)
        if not known:
            findings.append(_finding(NEW_KEY_PATTERN, f"New key pattern detected: {pattern}", row, group.first))
        if not call_pattern:
            findings.append(
                _finding(NEW_CALL_PATTERN, _new_call_pattern(method, row, group.first.attributes), row, group.first)
            )
    return rows, merged(findings)


def _pattern_of(method: GrpcMethod, attributes: Attributes, patterns: KeyPatterns) -> tuple[str, bool]:
    if not method.key:
        return "", True
    key = get_str(attributes, method.key)
    pattern = patterns.find(key)
    return (key, False) if pattern is None else (pattern, True)


def _finding(identifier: str, message: str, row: Row, example: Call) -> Finding:
    return Finding(
        id=identifier,
        grpc_method=row.grpc_method,
        message=message,
        count=row.calls,
        example=row.example,
        attributes=python_dict(example.attributes),
        origins=row.origins,
    )


def _marks(method: GrpcMethod, args: tuple[str, ...]) -> str:
    return "".join("X" if arg.name in args else " " for arg in method.args)


def _new_call_pattern(method: GrpcMethod, row: Row, attributes: Attributes) -> str:
    values = dict.fromkeys((arg.name for arg in method.args), "false") | dict.fromkeys(row.args, "true")
    # A text is no number or bool, but neither is its argument absent.
    values |= {arg: "text" for name, arg in TYPED_ARGUMENTS[method.name].items() if arg and is_text(attributes, name)}
    listed = ",".join(f"{name}={value}" for name, value in values.items())
    return f"New call pattern detected: {method.name}(key={row.key_pattern},{listed})"
