"""Typed look-up of a span's attributes.

A value of another type than the one asked for counts as absent, as it does in etcd's Go tests.
"""

from __future__ import annotations

AttributeValue = str | int | bool | None
"""An attribute's value; None stands for what no argument has: double, bytes, array, kvlist, no value at all."""

Attributes = dict[str, AttributeValue]


def get_int(attributes: Attributes, key: str) -> int:
    """Return the attribute as an int; 0 if it is absent or of another type."""
    value = attributes.get(key)
    return value if type(value) is int else 0


def get_str(attributes: Attributes, key: str) -> str:
    """Return the attribute as a string; empty if it is absent or of another type."""
    value = attributes.get(key)
    return value if type(value) is str else ""


def get_bool(attributes: Attributes, key: str) -> bool:
    """Return the attribute as a bool; False if it is absent or of another type."""
    return attributes.get(key) is True
