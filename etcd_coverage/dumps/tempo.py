"""Traces as Grafana Tempo answers them -> spans: ``{"batches": [...]}``, since API v2 ``{"trace": {...}}``.

Both hold OTLP's ``ResourceSpans`` (https://grafana.com/docs/tempo/latest/api_docs/#query). Unlike OTLP's JSON, where
ids are hex (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), Tempo's has them in base64, as the
protobuf JSON mapping has all bytes.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from etcd_coverage.dumps import resource_lists
from etcd_coverage.dumps.otlp_json import ResourceSpans, list_of
from etcd_coverage.dumps.resource_lists import Envelope, other_shape
from etcd_coverage.dumps.spans import normalise_ids
from etcd_coverage.dumps.spelling import refuse_misspelled

if TYPE_CHECKING:
    from etcd_coverage.dumps.spans import Resource


class _Batches(Struct):
    resource_spans: list[ResourceSpans] = msgspec.field(name="batches")


def read(data: memoryview) -> list[Resource]:
    """Return the resources of the trace with their spans, in order; raise `DumpError` if it is not a whole one."""
    resources = resource_lists.read(data, _ENVELOPE)
    spans = [span for resource in resources for span in resource.spans]
    for span in spans:
        span.trace_id = _hex(span.trace_id, 16)
        span.span_id = _hex(span.span_id, 8)
        span.parent_span_id = _hex(span.parent_span_id, 8)
    normalise_ids(spans)
    return resources


def _hex(identifier: str, size: int) -> str:
    """Return an id of so many bytes in hex, if it is one in base64; the others as they are."""
    # A hex id is longer than one in base64.
    if len(identifier) != len(base64.b64encode(bytes(size))):
        return identifier
    try:
        found = base64.b64decode(identifier, validate=True)
    except binascii.Error:
        return identifier
    return found.hex() if len(found) == size else identifier


def _texts(top: dict[str, Raw]) -> list[Raw]:
    try:
        if "batches" in top:
            return msgspec.json.decode(top["batches"], type=list[Raw] | None) or []
        trace = msgspec.json.decode(top["trace"], type=dict[str, Raw] | None) or {}
        refuse_misspelled(trace, "its trace")
        return list_of(trace, "resourceSpans", "resource_spans", "its trace")
    except msgspec.ValidationError:
        raise other_shape("its trace has no list of resourceSpans") from None


_ENVELOPE = Envelope(
    decoder=msgspec.json.Decoder(_Batches),
    holder=lambda trace: trace,
    texts=_texts,
    around=b'{"batches":]}',
    name="batches",
)
