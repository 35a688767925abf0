"""Values in the protobuf JSON mapping, held to it as Go's protojson does.

The mapping: https://protobuf.dev/programming-guides/json/. Python's ``json_format`` takes more (``"01"`` for a number,
``true`` for a double, any text for bytes), and fifty times as long.
"""

from __future__ import annotations

import functools
import json
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from etcd_coverage.dumps.error import TOO_DEEP, DumpError, unknown_form
from etcd_coverage.text import escape, quote, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from etcd_coverage.attributes import AttributeValue

SPAN_KINDS = tuple(
    f"SPAN_KIND_{name}" for name in ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
)
"""Names of the kinds of span, by number."""

STATUS_CODES = tuple(f"STATUS_CODE_{name}" for name in ("UNSET", "OK", "ERROR"))
"""Names of the status codes, by number."""

_CAMEL_NAMES = (
    *("result", "error", "resourceSpans", "resource", "scopeSpans", "spans"),
    *("traceId", "spanId", "parentSpanId", "name", "kind", "attributes", "events", "status", "code", "key", "value"),
    *("stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue", "values"),
)


def snake_case(name: str) -> str:
    """Return the other spelling that the mapping has for a field's name."""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


_NAMES = frozenset([*_CAMEL_NAMES, *map(snake_case, _CAMEL_NAMES)])
_CONTAINERS = {"resourcespans": "resourceSpans", "scopespans": "scopeSpans", "spans": "spans"}


def spelled(message: dict[str, Any], name: str, where: str) -> Any:
    """Return a field that may be spelled in two ways; None if it is absent."""
    snake = snake_case(name)
    if snake == name or snake not in message:
        return message.get(name)
    if name in message:
        raise unknown_form(f"{where} has both {name} and {snake}")
    return message[snake]


def loads(raw: bytes, where: str) -> Any:
    """Return the JSON value, its numbers as exact Decimals; raise `DumpError` for a known name twice in one object."""
    return _parse(raw, where, _object, _decimal, _integer)


def check_names(raw: bytes, where: str) -> None:
    """Raise `DumpError` where an object has a known name twice, or one that is nearly that of a list of spans."""
    _parse(raw, where, _no_object, len, len)


def _parse(raw: bytes, where: str, of_object: Any, of_float: Any, of_integer: Any) -> Any:
    try:
        return json.loads(raw, object_pairs_hook=of_object, parse_float=of_float, parse_int=of_integer, strict=False)
    except RecursionError:
        raise DumpError(f"{where}: {TOO_DEEP}") from None
    except DumpError as error:
        raise error.within(where) from None
    except ValueError as error:
        raise unknown_form(f"{where}: {one_line(str(error))}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        for name in found.keys() & _NAMES:
            if names.count(name) > 1:
                raise unknown_form(f"{quote(name)} twice in one object")
    return found


def _no_object(pairs: list[tuple[str, Any]]) -> None:
    refuse_misspelled(_object(pairs))


def refuse_misspelled(names: Iterable[str], where: str = "") -> None:
    """Raise `DumpError` for a name that is nearly that of a list of spans, which would vanish."""
    for name in names:
        if name not in _NAMES and (container := _CONTAINERS.get(re.sub("[_ -]", "", name).lower())):
            raise unknown_form(f"{where}{': ' * bool(where)}{quote(name)}, where {container} is due")


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        # An exponent of more than 18 digits, https://docs.python.org/3/library/decimal.html#decimal.MAX_EMAX: too large
        # or too small for every integer.
        return Decimal(f"{'-' * text.startswith('-')}1e{'-' * ('e-' in text.lower())}999999")


def _integer(text: str) -> int | Decimal:
    # int() refuses thousands of digits, https://docs.python.org/3/library/stdtypes.html#int-max-str-digits
    return int(text) if len(text) < 30 else Decimal(text)


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)


def integer(value: Any, bits: int) -> int | None:
    """Return the signed integer that a JSON number of `loads` stands for; None if it is none of so many bits."""
    if isinstance(value, Decimal) and value.adjusted() < 20 and value == value.to_integral_value():
        value = int(value)
    return value if type(value) is int and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None


def _number_in_text(value: Any) -> Any:
    """Return the number that a text is; other values, and other texts, as they are."""
    return _decimal(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


def uint32(raw: bytes) -> int | None:
    """Return the number of a uint32 field, as a number or in a text, 0 for null; None for all else."""
    value = loads(raw, "a number")
    found = 0 if value is None else integer(_number_in_text(value), 64)
    return found if found is not None and 0 <= found < 2**32 else None


@functools.lru_cache(maxsize=1024)
def enum(raw: bytes, names: tuple[str, ...]) -> int | None:
    """Return the number of an enum, by number or by name, 0 for null; None for all else."""
    value = loads(raw, "an enum")
    if value is None:
        return 0
    if isinstance(value, str):
        return names.index(value) if value in names else None
    return integer(value, 32)


def key_value(pair: Any, where: str, number: int) -> tuple[str, AttributeValue]:
    """Return key and value of one attribute, a value of `loads`; errors name it, by its ``number`` if it has no key."""
    key = pair.get("key") if isinstance(pair, dict) else None
    try:
        if not isinstance(pair, dict):
            raise unknown_form(f"{excerpt(pair)}, not an object")
        if not isinstance(key, str | None):
            raise unknown_form(f"its key is {excerpt(key)}, not a string")
        return key or "", any_value(pair.get("value"))
    except DumpError as error:
        name = quote(key) if isinstance(key, str) else f"number {number}"
        raise error.within(f"{where}: attribute {name}") from None


def any_value(value: Any) -> AttributeValue:
    """Return what an ``AnyValue`` holds, a value of `loads`; None for what no argument has.

    Raises `DumpError` for all that the mapping does not have, and for members that OTLP does not know: somebody meant
    something by them.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise unknown_form(f"{excerpt(value)}, not an object")
    names = [_MEMBERS[name] for name in value if name in _MEMBERS]
    if len(names) > 1 and len(set(names)) != len(names):
        raise unknown_form(f"a member in two spellings: {excerpt(value)}")
    found = [(_MEMBERS.get(name), inner) for name, inner in value.items() if inner is not None]
    known = [(name, inner) for name, inner in found if name]
    if len(known) != 1:
        if found:
            raise unknown_form(excerpt(value))
        return None
    name, inner = known[0]
    if name == "stringValue" and isinstance(inner, str):
        return inner
    if name == "boolValue" and isinstance(inner, bool):
        return inner
    if name == "intValue" and (number := integer(_number_in_text(inner), 64)) is not None:
        return number
    if name in _LISTS and isinstance(inner, dict):
        _check_list(inner, name)
    elif name not in _UNUSED or not _UNUSED[name](inner):
        raise unknown_form(excerpt(value))
    return None


def _is_double(value: Any) -> bool:
    if value in ("NaN", "Infinity", "-Infinity") and isinstance(value, str):
        return True
    number = _number_in_text(value)
    return type(number) in (int, float, Decimal) and -_HUGE < number < _HUGE


_HUGE = Decimal("1.797693134862315807937e308")
"""From here on a number rounds to infinity, https://pkg.go.dev/strconv#ParseFloat."""


def _is_base64(value: Any) -> bool:
    """Return whether Go takes the text for base64: either alphabet, with padding or without, lines ignored."""
    if not isinstance(value, str):
        return False
    text = re.sub("[\r\n]", "", value)
    if len(value) % 4:
        return len(text) % 4 != 1 and bool(re.fullmatch("[A-Za-z0-9+/]*|[A-Za-z0-9_-]*", text))
    ends = "(?:.{4})*(?:..==|...=)?"
    return bool(re.fullmatch("(?:[A-Za-z0-9+/]*|[A-Za-z0-9_-]*)={0,2}", text) and re.fullmatch(ends, text))


def _check_list(message: dict[str, Any], name: str) -> None:
    values = message.get("values")
    if not isinstance(values, list | None):
        raise unknown_form(f"values of {name} are {excerpt(values)}, not a list")
    for number, inner in enumerate(values or []):
        if not isinstance(inner, dict):
            raise unknown_form(f"value {number} of {name} is {excerpt(inner)}, not an object")
        if name == "kvlistValue":
            key_value(inner, name, number)
        else:
            any_value(inner)


_UNUSED = {"doubleValue": _is_double, "bytesValue": _is_base64}
_LISTS = ("arrayValue", "kvlistValue")
_MEMBERS = {
    spelling: name
    for name in ("stringValue", "boolValue", "intValue", *_UNUSED, *_LISTS)
    for spelling in (name, snake_case(name))
}
"""The members of an ``AnyValue`` by both of their spellings."""


def excerpt(value: Any) -> str:
    """Return the start of a JSON value, escaped, as errors print it."""
    return escape(shorten(json.dumps(value, default=str), 80))


def one_line(text: str) -> str:
    """Return a message of another library as one line, escaped."""
    return shorten(" ".join(escape(line) for line in text.splitlines()), 300)
