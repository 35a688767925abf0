"""A few attributes out of the JSON text of many, without decoding it: where all are spelled as Jaeger spells them."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from etcd_coverage.attributes import Attributes


def read(text: bytes, keys: frozenset[str]) -> Attributes | None:
    """Return the attributes with these keys, texts and integers; None where decoding has to tell.

    That is where one of the keys is absent, comes twice, has a value of another type or in another spelling, and where
    keys may be spelled with escapes or stand within a value. The result is shared: it is not to be changed.
    """
    found = _pattern(keys).findall(text)
    if len(found) != len(keys) or b'"values"' in text or (b"\\" in text and _OTHER_ESCAPE.search(text)):
        return None
    attributes = _decoded(tuple(found))
    return attributes if len(attributes) == len(keys) else None


# All but &, < and >, which Go writes so (https://pkg.go.dev/encoding/json#Marshal) and which stand in many URLs.
_OTHER_ESCAPE = re.compile(rb"\\u(?!0026|003c|003e)")


@functools.cache  # there are few sets of keys
def _pattern(keys: frozenset[str]) -> re.Pattern[bytes]:
    names = "|".join(map(re.escape, sorted(keys)))
    value = r'(?:"stringValue":"[^"\\]*"|"intValue":"-?[0-9]{1,18}")'
    return re.compile(rf'\{{"key":"((?:{names})","value":\{{{value})\}}\}}'.encode())


@functools.lru_cache(maxsize=4096)  # requests repeat few verbs, resources and user agents
def _decoded(pairs: tuple[bytes, ...]) -> Attributes:
    """Return the attributes of texts such as ``verb","value":{"stringValue":"GET"``."""
    found: Attributes = {}
    for pair in pairs:
        key, _, value = pair.decode().partition('","value":{')
        member, _, inner = value.partition(":")
        found[key] = int(inner[1:-1]) if member == '"intValue"' else inner[1:-1]
    return found
