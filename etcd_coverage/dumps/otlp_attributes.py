"""Attributes in OTLP's JSON, ``[{"key": ..., "value": {"stringValue": ...}}, ...]`` -> values by key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from etcd_coverage.dumps.error import TOO_DEEP, DumpError, unknown_form
from etcd_coverage.dumps.spans import Span, describe
from etcd_coverage.dumps.spelling import any_value, excerpt, key_value, loads

if TYPE_CHECKING:
    from etcd_coverage.attributes import Attributes, AttributeValue


class _KeyValue(Struct, gc=False, omit_defaults=True):
    key: str = ""
    value: dict[str, Any] | None = None


_SMALL = {str(number): number for number in range(1000)}
_DIGITS = re.compile("-?(?:0|[1-9][0-9]*)", re.ASCII)
_attributes_decoder = msgspec.json.Decoder(list[_KeyValue])


def read(raw: Raw, span: Span, keys: frozenset[str] | None = None) -> Attributes:
    """Return the attributes by key, those with ``keys`` or all; of several with the same key the first counts.

    Raises `DumpError`, naming span and attribute, for a value that OTLP does not know.
    """
    found: Attributes = {}
    try:
        pairs = _attributes_decoder.decode(raw)
        for pair in pairs:
            key = pair.key
            if keys is not None and key not in keys:
                continue
            value = pair.value
            if value and len(value) == 1:
                ((member, inner),) = value.items()
                # Most are of these, and a call of a function would take as long as the rest.
                if (member == "stringValue" and type(inner) is str) or (member == "boolValue" and type(inner) is bool):
                    found.setdefault(key, inner)
                    continue
                if member == "intValue" and type(inner) is str and inner in _SMALL:
                    found.setdefault(key, _SMALL[inner])
                    continue
            found.setdefault(key, _plain_value(value))
    except (msgspec.ValidationError, DumpError, RecursionError):
        return _in_another_spelling(raw, span)
    text = bytes(raw)
    number = len(pairs)
    # What stands once in each attribute, unless a text is such a name, or letters of a name are escapes.
    if (
        text.count(b'"key"') != number
        or text.count(b'"value"') != number
        or text.count(b'Value"') != number
        or (b"\\" in text and b"\\u" in text)
    ):
        loads(text, describe(span))
    return found


def _plain_value(value: dict[str, Any] | None) -> AttributeValue:
    """Return what an ``AnyValue`` holds; `DumpError` where its numbers have to be read exactly, or it is none."""
    if value and len(value) == 1:
        ((member, inner),) = value.items()
        if member == "intValue":
            if type(inner) is str and len(inner) <= 20 and _DIGITS.fullmatch(inner):
                inner = int(inner)
            if type(inner) is int and -(2**63) <= inner < 2**63:
                return inner
        elif member == "doubleValue" and type(inner) in (float, int):
            return None
    return any_value(value)


def _in_another_spelling(raw: Raw, span: Span) -> Attributes:
    where = describe(span)
    pairs = loads(bytes(raw), where)
    if not isinstance(pairs, list | None):
        raise unknown_form(f"{where}: attributes are {excerpt(pairs)}, not a list")
    found: Attributes = {}
    try:
        for number, pair in enumerate(pairs or []):
            found.setdefault(*key_value(pair, where, number))
    except RecursionError:
        raise DumpError(f"{where}: {TOO_DEEP}") from None
    return found
