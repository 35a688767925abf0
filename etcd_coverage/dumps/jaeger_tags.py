"""Tags and logs of Jaeger's spans -> attributes, kind, status and events of OTLP's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from etcd_coverage.dumps.error import TOO_DEEP, DumpError, unknown_form
from etcd_coverage.dumps.otlp_json import ABSENT
from etcd_coverage.dumps.spans import Span, describe
from etcd_coverage.dumps.spelling import SPAN_KINDS, excerpt, integer, loads, one_line
from etcd_coverage.text import quote

if TYPE_CHECKING:
    from etcd_coverage.attributes import Attributes, AttributeValue

NO_ATTRIBUTES = frozenset(
    [
        *("span.kind", "error", "internal.span.format", "w3c.tracestate"),
        *("otel.status_code", "otel.status_description", "otel.scope.name", "otel.scope.version"),
    ]
)
"""The tags that Jaeger makes of other fields of OTLP, in both directions.

https://opentelemetry.io/docs/specs/otel/trace/sdk_exporters/jaeger/, and for the scope
https://opentelemetry.io/docs/specs/otel/common/mapping-to-non-otlp/#instrumentationscope
"""


class _Tag(Struct, gc=False):
    key: str = ""
    type: str = ""
    value: Raw = Raw(b"null")


class _Log(Struct, gc=False):
    fields: list[_Tag] | None = None


_tags_decoder = msgspec.json.Decoder(list[_Tag] | None)
_logs_decoder = msgspec.json.Decoder(list[_Log] | None)
_DIGITS = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class TaggedSpan(Span, gc=False):
    """A span whose tags and logs are decoded when they are asked for."""

    raw_tags: Raw = ABSENT
    raw_logs: Raw = ABSENT

    def attributes(self) -> Attributes:
        """Return the attributes by key; of several with the same key the first counts.

        Raises `DumpError`, naming span and tag, for a value that Jaeger does not write.
        """
        found: Attributes = {}
        for tag in _tags(self.raw_tags, describe(self)):
            if tag.key not in NO_ATTRIBUTES:
                found.setdefault(tag.key, _value(tag, describe(self)))
        return found

    def event_names(self) -> list[str]:
        """Return the names of the events, in order."""
        where = f"{describe(self)}: logs"
        if not bytes(self.raw_logs):
            return []
        try:
            logs = _logs_decoder.decode(self.raw_logs) or []
        except msgspec.ValidationError as error:
            raise unknown_form(f"{where}: {one_line(str(error))}") from None
        except RecursionError:
            raise DumpError(f"{where}: {TOO_DEEP}") from None
        return [_text_of(log.fields or [], "event", where) for log in logs]

    def failed(self) -> bool:
        """Return whether the span's status is an error."""
        tags = _tags(self.raw_tags, describe(self))
        if status := _text_of(tags, "otel.status_code", describe(self)):
            return status == "ERROR"
        return any(_value(tag, describe(self)) in (True, "true") for tag in tags if tag.key == "error")

    def content(self) -> tuple[object, ...]:
        """Return what the suite reads of the span beside its ids."""
        named = (self.service_name, self.parent_span_id, self.name, self.kind)
        return (*named, bytes(self.raw_tags), bytes(self.raw_logs))


def kind_of(tags: Raw, where: str) -> int:
    """Return the kind of the span with these tags, as OTLP's number; 0 without one."""
    if b'span.kind"' not in bytes(tags) and b"\\" not in bytes(tags):
        return 0
    kind = _text_of(_tags(tags, where), "span.kind", where)
    name = f"SPAN_KIND_{kind.upper()}"
    if kind and name not in SPAN_KINDS:
        raise unknown_form(f"{where}: its tag span.kind is {quote(kind)}")
    return SPAN_KINDS.index(name) if kind else 0


def _tags(raw: Raw, where: str) -> list[_Tag]:
    if not bytes(raw):
        return []
    try:
        return _tags_decoder.decode(raw) or []
    except msgspec.ValidationError as error:
        raise unknown_form(f"{where}: tags: {one_line(str(error))}") from None
    except RecursionError:
        raise DumpError(f"{where}: {TOO_DEEP}") from None


def _text_of(tags: list[_Tag], key: str, where: str) -> str:
    """Return the text of the first tag with the key; empty without one, or where it is none."""
    for tag in tags:
        if tag.key == key:
            value = _value(tag, where)
            return value if isinstance(value, str) else ""
    return ""


def _value(tag: _Tag, where: str) -> AttributeValue:
    """Return the value of a tag, which stores may have made a text; None for what no argument has.

    An int64 beyond what JavaScript reads exactly is a text:
    https://github.com/jaegertracing/jaeger/blob/main/internal/uimodel/converter/v1/json/from_domain.go
    """
    value = loads(bytes(tag.value), where)
    match tag.type:
        case "string" if isinstance(value, str):
            return value
        case "bool" if isinstance(value, bool) or value in ("true", "false"):
            return value in (True, "true")
        case "int64":
            number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
            if (found := integer(number, 64)) is not None:
                return found
        case "float64" | "binary":
            return None
        case "" if isinstance(value, str | bool):
            return value
        case "":
            return integer(value, 64)
    raise unknown_form(f"{where}: tag {quote(tag.key)} is {excerpt(value)} of type {quote(tag.type)}")
