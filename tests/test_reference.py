"""Hygiene of the tables: each row is unique, has its reason, and its example shows that it can be chosen."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from etcd_coverage.judging.leases import LEASE_GRANT
from etcd_coverage.key_pattern import SpecialKey, SpecialResource, key_pattern
from etcd_coverage.reference import GRPC_METHODS, RELEASES, SPECIAL_KEYS, SPECIAL_RESOURCES, CallPattern, GrpcMethod
from etcd_coverage.suite.test_interface_use import DEMANDED

CALL_PATTERNS = [
    pytest.param(method, pattern, id=f"{method.name}-{pattern.name}")
    for method in GRPC_METHODS
    for pattern in method.call_patterns
]


def test_names_are_unique() -> None:
    names = Counter(method.name for method in GRPC_METHODS)
    names.update(f"{method.name} {pattern.name}" for method in GRPC_METHODS for pattern in method.call_patterns)
    names.update(f"{method.name} arg {arg.name}" for method in GRPC_METHODS for arg in method.args)
    names.update(f"resource {special.name}" for special in SPECIAL_RESOURCES)
    names.update(f"key {special.key}" for special in SPECIAL_KEYS)
    assert [name for name, count in names.items() if count > 1] == []


def test_methods_of_the_reference_semantics_are_there() -> None:
    """Those that etcd's Go tests allow and demand; further rows are free to come."""
    found = {method.name.removeprefix("etcdserverpb."): (method.required, method.since) for method in GRPC_METHODS}
    known = {
        "KV/Range": (True, ""),
        "KV/RangeStream": (True, "1.37"),
        "KV/Txn": (True, ""),
        "KV/Compact": (True, ""),
        "Watch/Watch": (True, ""),
        "Lease/LeaseGrant": (True, ""),
        "Maintenance/Status": (False, ""),
    }
    assert found | known == found


@pytest.mark.parametrize("method", GRPC_METHODS, ids=lambda method: method.name)
def test_method_is_well_formed(method: GrpcMethod) -> None:
    assert re.fullmatch(r"etcdserverpb\.[A-Z]\w+/[A-Z]\w+", method.name)
    assert not method.since or method.since in RELEASES
    assert not method.until or method.until in RELEASES
    assert all(arg.name for arg in method.args)


@pytest.mark.parametrize(("method", "pattern"), CALL_PATTERNS)
def test_call_pattern_is_of_releases_of_its_method(method: GrpcMethod, pattern: CallPattern) -> None:
    bounds = [
        method.since or RELEASES[0],
        pattern.since or method.since or RELEASES[0],
        pattern.until or method.until or RELEASES[-1],
        method.until or RELEASES[-1],
    ]
    assert [RELEASES.index(bound) for bound in bounds] == sorted(RELEASES.index(bound) for bound in bounds)


def test_each_row_has_its_reason() -> None:
    reasons = {method.name: method.reason for method in GRPC_METHODS}
    reasons |= {f"{method.name} {row.name}": row.reason for method in GRPC_METHODS for row in method.call_patterns}
    reasons |= {special.key: special.reason for special in SPECIAL_KEYS}
    reasons |= {special.name: special.reason for special in SPECIAL_RESOURCES}
    short = [row for row, reason in reasons.items() if len(reason.split()) < 3]
    assert not short, f"write a reason of three words or more: {short}"


@pytest.mark.parametrize(("method", "pattern"), CALL_PATTERNS)
def test_example_is_claimed_by_its_own_row_first(method: GrpcMethod, pattern: CallPattern) -> None:
    claimed_by = [row.name for row in method.call_patterns if row.matches(pattern.example)]
    assert pattern.name in claimed_by
    assert claimed_by[0] == (pattern.shadowed_by or pattern.name)


def test_shadowed_rows_are_known() -> None:
    """Counts equal the Go original's only in its order, in which this row can never be chosen."""
    shadowed = [(pattern.name, pattern.shadowed_by) for method in GRPC_METHODS for pattern in method.call_patterns]
    assert [(name, by) for name, by in shadowed if by] == [("GetCurrentRevision", "List")]


def test_examples_have_keys_with_a_pattern() -> None:
    keys = [
        str(pattern.example[method.key])
        for method in GRPC_METHODS
        for pattern in method.call_patterns
        if method.key and method.key in pattern.example
    ]
    assert len(keys) == sum(len(method.call_patterns) for method in GRPC_METHODS if method.key)
    assert [key for key in keys if key_pattern(key, SPECIAL_KEYS, SPECIAL_RESOURCES) is None] == []


@pytest.mark.parametrize("special", SPECIAL_RESOURCES, ids=lambda special: special.name)
def test_example_of_a_special_resource_has_its_pattern(special: SpecialResource) -> None:
    key, pattern = special.example
    assert key_pattern(key, SPECIAL_KEYS, SPECIAL_RESOURCES) == pattern
    others = [other for other in SPECIAL_RESOURCES if other is not special]
    assert key_pattern(key, SPECIAL_KEYS, others) != pattern


@pytest.mark.parametrize("special", SPECIAL_KEYS, ids=lambda special: special.key)
def test_special_key_is_its_own_pattern(special: SpecialKey) -> None:
    key = special.key
    assert key_pattern(key, SPECIAL_KEYS, SPECIAL_RESOURCES) == key
    assert key_pattern(key, [], SPECIAL_RESOURCES) != key


def test_every_method_that_something_is_demanded_of_has_a_test() -> None:
    """`required` alone is enough, so that a row without call patterns is not demanded in vain."""
    tested = {case.id for case in DEMANDED} | {LEASE_GRANT}
    assert tested == {method.name for method in GRPC_METHODS if method.required or method.call_patterns}


def test_names_of_the_tables_are_written_in_no_other_module() -> None:
    """One place for each thing."""
    # A plain word may be written anywhere, for another reason.
    keys = [special.key for special in SPECIAL_KEYS if not special.key.isalpha()]
    names = [method.name for method in GRPC_METHODS] + keys
    elsewhere = {
        (path.name, name)
        for path in (Path(__file__).parents[1] / "etcd_coverage").rglob("*.py")
        if path.name != "reference.py"
        for name in names
        if f'"{name}"' in path.read_text()
    }
    # Leases are counted by code of their own, and transactions are what uses them.
    assert elsewhere == {("span_maps.py", "etcdserverpb.KV/Txn"), ("leases.py", "etcdserverpb.Lease/LeaseGrant")}
