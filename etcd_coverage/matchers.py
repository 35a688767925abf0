"""Predicates on a call's attributes, and their combinators."""

from __future__ import annotations

from collections.abc import Callable

from etcd_coverage.attributes import Attributes, AttributeValue, get_bool, get_int, get_str

Matcher = Callable[[Attributes], bool]


def int_set(key: str) -> Matcher:
    """Match an int attribute above 0."""
    return lambda attributes: get_int(attributes, key) > 0


def str_set(key: str) -> Matcher:
    """Match a string attribute that is not empty."""
    return lambda attributes: get_str(attributes, key) != ""


def bool_set(key: str) -> Matcher:
    """Match a bool attribute that is true."""
    return lambda attributes: get_bool(attributes, key)


def equals(key: str, value: str | int) -> Matcher:
    """Match an attribute that is ``value``, and of its type."""

    def matcher(attributes: Attributes) -> bool:
        found: AttributeValue = attributes.get(key)
        return found == value and type(found) is type(value)

    return matcher


def all_of(*matchers: Matcher) -> Matcher:
    """Match what each of ``matchers`` matches."""

    def matcher(attributes: Attributes) -> bool:
        for part in matchers:  # noqa: SIM110 - a generator would double the time of the innermost loop
            if not part(attributes):
                return False
        return True

    return matcher


def none_of(*matchers: Matcher) -> Matcher:
    """Match what none of ``matchers`` matches."""
    return lambda attributes: not any(matcher(attributes) for matcher in matchers)


def always(_: Attributes) -> bool:
    """Match every call."""
    return True
