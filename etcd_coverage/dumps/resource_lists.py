"""A JSON object that holds a list of OTLP's ``ResourceSpans`` -> resources, whatever stands around the list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from etcd_coverage.dumps.error import EXPECTED, TOO_DEEP, DumpError
from etcd_coverage.dumps.files import check_utf8, newlines, refuse_malformed, start_of
from etcd_coverage.dumps.otlp_json import ResourceSpans, resource_of, resources_of, size
from etcd_coverage.dumps.otlp_spelled import read_resource
from etcd_coverage.dumps.spelling import check_names
from etcd_coverage.text import quote

if TYPE_CHECKING:
    from etcd_coverage.dumps.spans import Resource

ENVELOPES = ("result", "resourceSpans", "resource_spans", "batches", "trace", "data")
"""The members that the kinds of dump in JSON have their spans in; no object has two of them."""


class Envelope(Struct, frozen=True):
    """What stands around the list.

    ``decoder`` decodes the whole object, if it is spelled in the usual way; ``holder`` returns what of that has the
    list, as its ``resource_spans``. ``texts`` returns the texts of the list's items from the object's members, or
    raises the `DumpError` that says what is wrong. ``around`` is the longest text that is usual around the items, and
    ``name`` how errors call the list.
    """

    decoder: msgspec.json.Decoder[Any]
    holder: Callable[[Any], Any]
    texts: Callable[[dict[str, Raw]], list[Raw]]
    around: bytes
    name: str = "resourceSpans"


def read(data: memoryview, envelope: Envelope) -> list[Resource]:
    """Return the resources of the object with their spans, in order; raise `DumpError` if it is not a whole one."""
    check_utf8(data)
    try:
        decoded = envelope.decoder.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return list(one_by_one(data, envelope))
    if not _is_all(data, decoded, envelope.holder(decoded)):
        return list(one_by_one(data, envelope))
    return resources_of(envelope.holder(decoded).resource_spans, envelope.name)


def _is_all(data: memoryview, decoded: Any, holder: Any) -> bool:
    """Return whether the text is as long as that of what was decoded, but for newlines: nothing was left out."""
    resources: list[ResourceSpans] = holder.resource_spans
    buffer = bytearray()
    holder.resource_spans = []
    expected = size(decoded, buffer)
    holder.resource_spans = resources
    batches = [resources[start : start + _BATCH] for start in range(0, len(resources), _BATCH)]
    # Each list has the brackets of one, which stand for the comma between it and the next.
    expected += sum([size(batch, buffer) - 1 for batch in batches]) - bool(batches)
    more = len(data) - expected
    # Between the resources; in a text a newline is an escape.
    return not more or (0 < more <= len(resources) + 1 and newlines(data) == more)


# To encode few at once costs less than each alone, whose buffer shrinks and grows with each; more would take memory.
_BATCH = 64


def read_resource_spans(raw: Raw, where: str) -> Resource:
    """Return one of the list's ``ResourceSpans`` as `read` does; errors name it as ``where`` does."""
    try:
        return resource_of(read_resource(raw, where), where)
    except RecursionError:
        raise DumpError(TOO_DEEP) from None


def one_by_one(data: memoryview, envelope: Envelope) -> Iterator[Resource]:
    """Return the resources, each by the typed decoder or else span by span; refuse other shapes by name."""
    resources = envelope.texts(members(data))
    around = len(data) - sum([len(memoryview(raw)) + 1 for raw in resources])
    # No place for a field beside these, with or without a newline after each resource and at the end.
    if around - len(envelope.around) not in (-1, 0) and around - newlines(data) - len(envelope.around) not in (-1, 0):
        check_names(bytes(data), "the answer")
    for number, raw in enumerate(resources):
        yield read_resource_spans(raw, f"{envelope.name}[{number}]")


def members(data: memoryview) -> dict[str, Raw]:
    """Return the members of the object; raise `DumpError` if it is none, or not a whole one."""
    try:
        found = msgspec.json.decode(data, type=dict[str, Raw])
    except RecursionError:
        raise DumpError(TOO_DEEP) from None
    except msgspec.ValidationError:
        raise DumpError(f"is JSON, but not a dump: it starts with {start_of(data)}; {EXPECTED}") from None
    except msgspec.DecodeError as error:
        refuse_malformed(data, str(error))
    envelopes = [name for name in ENVELOPES if name in found]
    if len(envelopes) > 1:
        raise DumpError(f"has both {quote(envelopes[0])} and {quote(envelopes[1])}: no answer has; {EXPECTED}")
    return found


def other_shape(what: str) -> DumpError:
    """Return the error that ``what`` has no list where the kind of dump has one."""
    return DumpError(f"is JSON of another shape: {what}; {EXPECTED}")
