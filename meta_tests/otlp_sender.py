"""Sends dumps as exporters do, by OTLP/gRPC, and reads what a receiver wrote, with protobuf's own library."""

from __future__ import annotations

import base64
import io
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import json_format, proto
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from etcd_coverage.dumps.compressions import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from meta_tests.builder import JSON

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
os.environ.setdefault("GRPC_VERBOSITY", "NONE")


class Sender:
    """An exporter."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._export: Callable[..., bytes] = channel.unary_unary(EXPORT)

    def send(self, request: bytes, *, gzip: bool = False, wait: bool = False) -> None:
        """Export a request; raise grpc.RpcError if it is not taken. With ``wait`` the receiver may not listen yet."""
        compression = grpc.Compression.Gzip if gzip else grpc.Compression.NoCompression
        answer = self._export(request, timeout=30, compression=compression, wait_for_ready=wait)
        assert ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans == 0

    def answer(self, request: bytes, *, gzip: bool = False) -> tuple[grpc.StatusCode, str]:
        """Export a request, and return the status of the answer and what it says."""
        try:
            self.send(request, gzip=gzip)
        except grpc.RpcError as error:
            status: grpc.Call = error  # type: ignore[assignment]  # as grpc documents it
            return status.code(), status.details()
        return grpc.StatusCode.OK, ""


@contextmanager
def sender(address: object, credentials: grpc.ChannelCredentials | None = None) -> Iterator[Sender]:
    """Connect an exporter, by TLS if there are credentials."""
    # A connection of its own: gRPC shares those of one process.
    options = [("grpc.use_local_subchannel_pool", 1)]
    channel = (
        grpc.secure_channel(str(address), credentials, options)
        if credentials
        else grpc.insecure_channel(str(address), options)
    )
    with channel:
        yield Sender(channel)


def request_of(dump: JSON) -> bytes:
    """Return a dump as one ``ExportTraceServiceRequest``."""
    resources = [{**one, "scopeSpans": [_scope(scope) for scope in one["scopeSpans"]]} for one in _resources(dump)]
    return json_format.ParseDict({"resourceSpans": resources}, ExportTraceServiceRequest()).SerializeToString()


def _resources(dump: JSON) -> list[JSON]:
    found: list[JSON] = dump["result"]["resourceSpans"]
    return found


def _scope(scope: JSON) -> JSON:
    return {**scope, "spans": [_with_bytes(span) for span in scope["spans"]]}


def _with_bytes(span: JSON) -> JSON:
    """Return the span with ids as protobuf's JSON has bytes: base64, where OTLP has hex."""
    ids = ("traceId", "spanId", "parentSpanId")
    made: dict[str, Any] = {
        name: base64.b64encode(bytes.fromhex(value)).decode() if name in ids else value for name, value in span.items()
    }
    if "links" in made:
        made["links"] = [_with_bytes(link) for link in made["links"]]
    return made


def messages(folder: Path) -> list[ExportTraceServiceRequest]:
    """Return the requests in the parts of a folder, in order."""
    return [message for path in sorted(folder.glob("part-*")) for message in messages_of(path.read_bytes())]


def messages_of(part: bytes) -> list[ExportTraceServiceRequest]:
    """Return the requests of a part."""
    plain = io.BytesIO(zstd.decompress(part))
    found = []
    while (message := proto.parse_length_prefixed(ExportTraceServiceRequest, plain)) is not None:
        found.append(message)
    return found
