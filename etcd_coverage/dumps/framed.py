"""Requests behind their lengths, in protobuf or JSON, plain or each packed with zstd -> spans.

Two framings are read: a varint before each request, protobuf's own
(https://protobuf.dev/programming-guides/techniques/#streaming), and the four bytes of the OpenTelemetry Collector's
file exporter, a big-endian number, which it writes with ``format: proto``, and with ``compression: zstd`` also around
JSON, where each message is a frame of its own:
https://github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/exporter/fileexporter#file-format
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.dumps import files, otlp_proto, otlp_request
from etcd_coverage.dumps.compressions import BROKEN, ZSTD_MAGIC, TooLargeError, unpack_frame
from etcd_coverage.dumps.documents import cut
from etcd_coverage.dumps.error import AGAIN, DumpError

if TYPE_CHECKING:
    from collections.abc import Callable

    from etcd_coverage.dumps.spans import Resource

_BYTES = 4


def is_behind_varints(data: memoryview) -> bool:
    """Return whether the content starts with a varint and a request of so many bytes."""
    try:
        length, start = otlp_proto.varint(data, 0)
    except (EOFError, DumpError):
        return False
    return otlp_proto.is_request(data[start:], length)


def is_of_file_exporter(data: memoryview) -> bool:
    """Return whether the content starts with four bytes and a request of so many bytes, in any of its forms."""
    if len(data) < _BYTES + 1:
        return False
    length, start = _big_endian(data, 0)
    head = bytes(data[start : start + len(ZSTD_MAGIC)])
    if not length or not (head[:1] == b"{" or head == ZSTD_MAGIC or otlp_proto.is_request(data[start:], length)):
        return False
    # A length of which all bytes are set may as well be the start of a text.
    return data[0] == 0 or start + length <= len(data)


def read_behind_varints(data: memoryview) -> list[Resource]:
    """Return the resources of all requests, in order; raise `DumpError` if they are not all whole."""
    return _read(data, otlp_proto.varint)


def read_of_file_exporter(data: memoryview) -> list[Resource]:
    """Return the resources of all requests, in order; raise `DumpError` if they are not all whole."""
    return _read(data, _big_endian)


def _big_endian(data: memoryview, start: int) -> tuple[int, int]:
    end = start + _BYTES
    if end > len(data):
        raise EOFError
    return int.from_bytes(data[start:end], "big"), end


def _read(data: memoryview, length_at: Callable[[memoryview, int], tuple[int, int]]) -> list[Resource]:
    found: list[Resource] = []
    most = max(files.BOMB, files.BOMB_RATIO * len(data))
    number = at = 0
    while at < len(data):
        place = f"message {number}"
        try:
            length, start = length_at(data, at)
            if start + length > len(data):
                raise EOFError
        except EOFError:
            raise cut(number, "messages") from None
        at = start + length
        request = data[start:at]
        try:
            if bytes(request[: len(ZSTD_MAGIC)]) == ZSTD_MAGIC:
                request = _unpacked(request, most)
                most -= len(request)
            read = otlp_request.read if bytes(request[:1]) == b"{" else otlp_proto.read
            resources = read(request)
        except DumpError as error:
            raise error.within(place) from None
        for resource in resources:
            resource.place = f"{place}: {resource.place}"
        found += resources
        number += 1
    return found


def _unpacked(frame: memoryview, most: int) -> memoryview:
    try:
        return memoryview(unpack_frame(bytes(frame), most))
    except TooLargeError:
        raise DumpError(f"unpacks to over {files.BOMB_RATIO} times the size of the file: no dump does") from None
    except EOFError:
        raise DumpError(f"is a zstd frame that was cut off: {AGAIN}") from None
    except BROKEN as error:
        raise DumpError(f"is a broken zstd frame ({error}): {AGAIN}") from None
