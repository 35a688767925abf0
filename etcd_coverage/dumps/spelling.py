"""Legal but unusual spellings of the protobuf JSON mapping, read by protobuf's own ``json_format``.

The mapping: https://protobuf.dev/programming-guides/json/, with ids in hex
(https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from etcd_coverage.dumps.error import TOO_DEEP, DumpError, unknown_form
from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from google.protobuf.message import Message


def canonical(value: Any, message: str, where: str) -> dict[str, Any]:
    """Return a message in the canonical spelling of the protobuf JSON mapping; raise `DumpError` if it is none.

    Integers and enums become numbers. Ids stay as they are spelled, since OTLP writes them in hex, which json_format
    would take for base64; fields that OTLP does not know are left out.
    """
    # Imported here: real dumps do not need it, and it would be a tenth of the start-up time.
    from google.protobuf import json_format
    from opentelemetry.proto.common.v1 import common_pb2
    from opentelemetry.proto.trace.v1 import trace_pb2

    types: dict[str, type[Message]] = {
        "KeyValue": common_pb2.KeyValue,
        "ResourceSpans": trace_pb2.ResourceSpans,
        "Span": trace_pb2.Span,
    }
    try:
        found: dict[str, Any] = _message(value, types[message].DESCRIPTOR, where)
        without_ids = {name: field for name, field in found.items() if name not in _IDS}
        json_format.ParseDict(without_ids, types[message]())
    except RecursionError:
        raise DumpError(f"{where}: {TOO_DEEP}") from None
    except (json_format.ParseError, TypeError, ValueError) as error:
        raise unknown_form(f"{where}: {one_line(str(error))}") from None
    return found


_IDS = ("traceId", "spanId", "parentSpanId")


def _message(value: Any, descriptor: Any, where: str) -> dict[str, Any]:
    """Check what json_format is lenient about: a text or a list for an object, and numbers in odd spellings."""
    if not isinstance(value, dict):
        raise unknown_form(f"{where} is {excerpt(value)}, not an object")
    found = {}
    for field in descriptor.fields:
        # Ids of links: nobody reads them, and they are hex too.
        if field.name == "links":
            continue
        spelled = [value[name] for name in dict.fromkeys((field.json_name, field.name)) if name in value]
        if len(spelled) > 1:
            raise unknown_form(f"{where} has both {field.json_name} and {field.name}")
        if not spelled or spelled[0] is None:
            continue
        inside = f"{where}: {field.json_name}"
        if not field.is_repeated:
            found[field.json_name] = _field(spelled[0], field, inside)
        elif isinstance(spelled[0], list):
            found[field.json_name] = [_field(one, field, inside) for one in spelled[0]]
        else:
            raise unknown_form(f"{inside} is {excerpt(spelled[0])}, not a list")
    return found


def _field(value: Any, field: Any, where: str) -> Any:
    if field.message_type is not None:
        return _message(value, field.message_type, where)
    if field.type == field.TYPE_BYTES and not isinstance(value, str):
        raise unknown_form(f"{where} is {excerpt(value)}, not a string")
    if field.type == field.TYPE_ENUM and isinstance(value, str) and value in field.enum_type.values_by_name:
        return field.enum_type.values_by_name[value].number
    if field.type in (field.TYPE_DOUBLE, field.TYPE_STRING, field.TYPE_BYTES, field.TYPE_BOOL):
        return float(value) if isinstance(value, Decimal) else value
    # The rest are integers: as a number or as a number in a string, with a value that is whole.
    number = value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        number = _decimal(value)
    if (
        isinstance(number, Decimal)
        and number.is_finite()
        and number.adjusted() < 20
        and number == number.to_integral_value()
    ):
        number = int(number)
    if type(number) is not int or (field.type == field.TYPE_ENUM and not -(2**31) <= number < 2**31):
        raise unknown_form(f"{where} is {excerpt(value)}")
    return number


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)


def loads(raw: bytes, where: str) -> Any:
    """Return the JSON value, its numbers as exact Decimals."""
    try:
        return json.loads(raw, parse_float=_decimal, parse_int=_integer)
    except RecursionError:
        raise DumpError(f"{where}: {TOO_DEEP}") from None


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        # An exponent of more than 18 digits, https://docs.python.org/3/library/decimal.html#decimal.MAX_EMAX: no field
        # but a double, which the suite does not read, could hold the number.
        return Decimal("-Infinity" if text.startswith("-") else "Infinity")


def _integer(text: str) -> int | Decimal:
    # int() refuses thousands of digits, https://docs.python.org/3/library/stdtypes.html#int-max-str-digits
    return int(text) if len(text) < 30 else Decimal(text)


def excerpt(value: Any) -> str:
    """Return the start of a JSON value, escaped, as errors print it."""
    return escape(shorten(json.dumps(value, default=str), 80))


def one_line(text: str) -> str:
    """Return a message of another library as one line, escaped."""
    return shorten(" ".join(escape(line) for line in text.splitlines()), 300)
