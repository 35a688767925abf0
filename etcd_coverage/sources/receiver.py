"""A gRPC server for OTLP: exported traces -> a dump in parts.

gRPC's own settings: https://github.com/grpc/grpc/blob/master/include/grpc/impl/channel_arg_names.h.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import threading
from concurrent import futures
from typing import TYPE_CHECKING, NamedTuple

# Its library prints lines of its own about errors that are reported here.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc

from etcd_coverage.sources.parts import NOT_WRITABLE
from etcd_coverage.sources.trace_requests import RequestError, TooLargeError, read_request
from etcd_coverage.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from etcd_coverage.sources.parts import Parts, Place
    from etcd_coverage.sources.trace_requests import Request

SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
METHOD = "Export"

_THREADS = 8
_STREAMS = 16
"""How many requests a connection may have at a time; the sender waits with more."""

_GRACE = 5.0
"""How many seconds requests have to end, once the receiver ends."""

_MOST_BYTES = 2**31 - 1
"""The largest limit that gRPC takes."""

_IDENTITY_AND_GZIP = 0b101
"""The compressions that a sender may use, a bit each; every sender of OTLP knows these."""


class ReceiveError(Exception):
    """Why nothing can be received, in one line."""


class Address(NamedTuple):
    """Where to listen; ``host`` is a name or an address, without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def is_loopback(self) -> bool:
        """Return whether only this machine reaches it, by its name or address alone."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


class Tls(NamedTuple):
    """Files in PEM; with ``client_ca`` only senders with a certificate of this authority are let in."""

    cert: Path
    key: Path
    client_ca: Path | None


class Limits(NamedTuple):
    """The most bytes of a request, unpacked, and the most connections at a time."""

    message: int
    connections: int


class Receiver:
    """Receives traces between `start` and `stop`, and writes each request before it acknowledges it.

    A request that cannot be written is answered with UNAVAILABLE, upon which senders try again
    (https://opentelemetry.io/docs/specs/otlp/#failures), and reported: once, until one can be written again.
    """

    def __init__(
        self,
        addresses: Iterable[Address],
        tls: Tls | None,
        limits: Limits,
        *,
        report: Callable[[str], None],
    ) -> None:
        """Take the addresses; raise `ReceiveError` if that cannot be."""
        self.on_request: list[Callable[[Request, Place], None]] = []
        """Called with each request that is written, by any thread."""
        self._limits = limits
        self._report = report
        self._parts: Parts | None = None
        self._failing = threading.Event()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(_THREADS),
            options=[
                # Else a second receiver on the port would get every other connection.
                ("grpc.so_reuseport", 0),
                # Unpacked by `read_request`, which has a limit.
                ("grpc.per_message_decompression", 0),
                ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_AND_GZIP),
                ("grpc.max_receive_message_length", min(limits.message, _MOST_BYTES)),
                ("grpc.max_allowed_incoming_connections", limits.connections),
                ("grpc.max_concurrent_streams", _STREAMS),
            ],
        )
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(self._export)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
        self.addresses = [self._listen(address, tls) for address in addresses]
        """Where it listens."""

    def _listen(self, address: Address, tls: Tls | None) -> Address:
        _check_free(address)
        try:
            if tls:
                port = self._server.add_secure_port(str(address), _credentials(tls))
            else:
                port = self._server.add_insecure_port(str(address))
        except RuntimeError:
            raise ReceiveError(f"cannot listen on {address}: choose another with --listen") from None
        return Address(address.host, port)

    def start(self, parts: Parts) -> None:
        """Receive, into these parts."""
        self._parts = parts
        self._server.start()

    def stop(self) -> None:
        """Take no more requests, and wait for those that are being written."""
        self._server.stop(_GRACE).wait()

    @property
    def failing(self) -> bool:
        """Whether the last request could not be written."""
        return self._failing.is_set()

    def _export(self, sent: bytes, context: grpc.ServicerContext) -> bytes:
        """Return an empty ``ExportTraceServiceResponse``: all was taken."""
        assert self._parts
        try:
            request = read_request(sent, self._limits.message)
        except TooLargeError as error:
            self._parts.refuse("too large")
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except RequestError as error:
            self._parts.refuse("not readable")
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if request.spans:
            try:
                place = self._parts.add(request)
            except OSError as error:
                self._parts.refuse(NOT_WRITABLE)
                self._cannot_write(error)
                context.abort(grpc.StatusCode.UNAVAILABLE, f"cannot be written: {error.strerror}; try again later")
            if self.failing:
                self._failing.clear()
                self._report("requests can be written again")
            for call in self.on_request:
                call(request, place)
        return b""

    def _cannot_write(self, error: OSError) -> None:
        if not self.failing:
            self._failing.set()
            assert self._parts
            folder = printable(str(self._parts.folder))
            self._report(f"warning: {folder}: {error.strerror}: senders are asked to try again; free space there")


def _check_free(address: Address) -> None:
    """Raise the `ReceiveError` that says why nothing can listen there, which gRPC does not."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no name of a host"
        raise ReceiveError(f"cannot listen on {address}: {reason}; choose another with --listen") from None
    for family, kind, protocol, _, where in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                # As gRPC does: connections that ended lately do not matter.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(where)
        except OSError as error:
            raise ReceiveError(f"cannot listen on {address}: {error.strerror}; choose another with --listen") from None


def _credentials(tls: Tls) -> grpc.ServerCredentials:
    # gRPC takes anything, and then refuses every sender: ssl says at once what is wrong with which file.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority = None
    try:
        pair = (_content(tls.key), _content(tls.cert))
        context.load_cert_chain(tls.cert, tls.key, password=lambda: "")
    except ssl.SSLError as error:
        names = f"{printable(str(tls.cert))} and {printable(str(tls.key))}"
        reason = f"are no certificate and its key, in PEM, without password: {_reason(error)}"
        raise ReceiveError(f"{names} {reason}") from None
    if tls.client_ca:
        try:
            authority = _content(tls.client_ca)
            context.load_verify_locations(tls.client_ca)
        except ssl.SSLError as error:
            raise ReceiveError(f"{printable(str(tls.client_ca))} is no certificate in PEM: {_reason(error)}") from None
    return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ReceiveError(f"{printable(str(path))}: {error.strerror}") from None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "unknown form").replace("_", " ").lower()
