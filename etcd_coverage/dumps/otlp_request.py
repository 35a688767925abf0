"""OTLP's ``ExportTraceServiceRequest``, or its ``TracesData``, in JSON -> spans: ``{"resourceSpans": [...]}``.

Each line of a file of the OpenTelemetry Collector's exporter is one
(https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, Struct

from etcd_coverage.dumps import resource_lists
from etcd_coverage.dumps.otlp_json import Refused, ResourceSpans, list_of
from etcd_coverage.dumps.resource_lists import Envelope, other_shape
from etcd_coverage.dumps.spelling import refuse_misspelled

if TYPE_CHECKING:
    from etcd_coverage.dumps.spans import Resource


class _Request(Struct, rename="camel"):
    resource_spans: list[ResourceSpans]
    snake_resource_spans: Refused = msgspec.field(name="resource_spans", default=UNSET)


def read(data: memoryview) -> list[Resource]:
    """Return the resources of the request with their spans, in order; raise `DumpError` if it is not a whole one."""
    return resource_lists.read(data, _ENVELOPE)


def _texts(top: dict[str, Raw]) -> list[Raw]:
    refuse_misspelled(top)
    try:
        return list_of(top, "resourceSpans", "resource_spans", "it")
    except msgspec.ValidationError:
        raise other_shape("its resourceSpans are no list") from None


_ENVELOPE = Envelope(
    decoder=msgspec.json.Decoder(_Request),
    holder=lambda request: request,
    texts=_texts,
    around=b'{"resource_spans":]}',
)
