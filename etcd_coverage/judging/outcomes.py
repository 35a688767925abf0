"""etcd's server span of a call -> the gRPC status that the call ended with.

The conventions: https://opentelemetry.io/docs/specs/semconv/rpc/grpc/. ``rpc.response.status_code`` is the newer name,
a text such as "DEADLINE_EXCEEDED", and ``rpc.grpc.status_code`` the older, a number; both are read in either form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from collections.abc import Hashable

    from etcd_coverage.attributes import Attributes
    from etcd_coverage.dumps.spans import Span
    from etcd_coverage.judging.span_maps import SpansMap
    from etcd_coverage.reference import GrpcMethod

GRPC_STATUSES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)  # fmt: skip
"""The names by number, https://grpc.io/docs/guides/status-codes/."""

STATUS_KEYS = ("rpc.response.status_code", "rpc.grpc.status_code")
_KEYS = frozenset(STATUS_KEYS)

NO_STATUS = "ERROR"
"""Stands for the gRPC status of a span that has none, but whose own status is an error."""


class Outcomes:
    """Finds how calls ended; server spans repeat few attributes, which are read once each."""

    def __init__(self, spans: SpansMap) -> None:
        self._spans = spans
        self._known: dict[Hashable, str] = {}

    def error(self, method: GrpcMethod, call: Span) -> str:
        """Return the name of the gRPC status that a call of the method failed with; empty if it did not fail."""
        server = self._spans[call.trace_id][call.parent_span_id]
        key = server.attributes_key()
        status = self._known.get(key)
        if status is None:
            status = self._known[key] = grpc_status(server.some_attributes(_KEYS))
        if not status:
            return NO_STATUS if server.failed() else ""
        return "" if status == GRPC_STATUSES[0] or status in method.ends else status


def grpc_status(attributes: Attributes) -> str:
    """Return the name of the gRPC status among a span's attributes, printable; empty without one."""
    for key in STATUS_KEYS:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return _by_name(value)
        if type(value) is int:
            return _by_number(value)
    return ""


def _by_name(text: str) -> str:
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return _by_number(int(text))
    # Go's own spelling is "DeadlineExceeded", and "Canceled" with one l.
    letters = text.replace("_", "").upper().replace("CANCELED", "CANCELLED")
    return _NAMES.get(letters) or escape(shorten(text, 80))


def _by_number(number: int) -> str:
    return GRPC_STATUSES[number] if 0 <= number < len(GRPC_STATUSES) else str(number)


_NAMES = {name.replace("_", ""): name for name in GRPC_STATUSES}
