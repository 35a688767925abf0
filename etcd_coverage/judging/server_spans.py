"""What an etcd gRPC server span is, and how a span is named as an example."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.dumps.spans import SERVER
from etcd_coverage.judging.usage import Example
from etcd_coverage.reference import GRPC_PREFIX
from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from etcd_coverage.dumps.spans import Span


def is_grpc_span(span: Span) -> bool:
    """Return whether the span is an etcd gRPC method, seen by the server."""
    return span.kind == SERVER and span.name.startswith(GRPC_PREFIX)


def example_of(span: Span) -> Example:
    """Return the ids of the span, escaped; an id is 16 or 32 characters, so more than 80 are cut."""
    return Example(escape(shorten(span.trace_id, 80)), escape(shorten(span.span_id, 80)))
