"""The receiver, in this process: what senders send is what its parts hold, whatever else happens."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from etcd_coverage import receive
from etcd_coverage.dumps.compressions import zstd
from etcd_coverage.dumps.parts import INDEX
from etcd_coverage.sources.parts import Parts
from etcd_coverage.sources.receiver import Address, Limits, ReceiveError, Receiver, Tls
from etcd_coverage.sources.trace_requests import server_spans
from meta_tests.builder import GET, RANGE, TXN, call, complete, etcd
from meta_tests.otlp_sender import messages, messages_of, request_of, sender

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ANY_PORT = Address("127.0.0.1", 0)
LIMITS = Limits(message=1 << 20, connections=100)
CALLS = request_of(etcd(complete()))


class Session(NamedTuple):
    """A receiver that runs."""

    receiver: Receiver
    parts: Parts
    reported: list[str]


@contextmanager
def receiving(
    folder: Path, *, limits: Limits = LIMITS, tls: Tls | None = None, part_size: int = 1 << 20
) -> Iterator[Session]:
    reported: list[str] = []
    receiver = Receiver([ANY_PORT], tls, limits, report=reported.append)
    parts = Parts(folder, part_size)
    receiver.start(parts)
    try:
        yield Session(receiver, parts, reported)
    finally:
        receiver.stop()
        parts.close()


def index(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / INDEX).read_bytes())["etcdK8sCoverageIndex"]
    return found


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_requests_are_kept_byte_by_byte(tmp_path: Path, packed: bool) -> None:
    requests = [request_of(etcd(call(number, RANGE, GET))) for number in range(1, 4)]
    with receiving(tmp_path) as session, sender(session.receiver.addresses[0]) as exporter:
        for request in requests:
            exporter.send(request, gzip=packed)
    assert [message.SerializeToString() for message in messages(tmp_path)] == requests
    [part] = tmp_path.glob("part-*")
    assert index(tmp_path) == {
        "complete": True,
        "requests": 3,
        "spans": 6,
        "bytes": part.stat().st_size,
        "refused": {},
        "services": {"etcd": 3},
        "cut": 0,
        "parts": [
            {
                "name": part.name,
                "requests": 3,
                "spans": 6,
                "bytes": part.stat().st_size,
                "sha256": hashlib.sha256(part.read_bytes()).hexdigest(),
            }
        ],
    }


def test_what_is_acknowledged_is_in_the_file(tmp_path: Path) -> None:
    with receiving(tmp_path) as session, sender(session.receiver.addresses[0]) as exporter:
        exporter.send(CALLS)
        assert [message.SerializeToString() for message in messages(tmp_path)] == [CALLS]
        exporter.send(CALLS)
        assert len(messages(tmp_path)) == 2


def test_parts_rotate_by_size(tmp_path: Path) -> None:
    with receiving(tmp_path, part_size=1) as session, sender(session.receiver.addresses[0]) as exporter:
        for _ in range(3):
            exporter.send(CALLS)
    parts = sorted(tmp_path.glob("part-*"))
    assert [len(messages_of(part.read_bytes())) for part in parts] == [1, 1, 1]
    assert [part["name"] for part in index(tmp_path)["parts"]] == [part.name for part in parts]  # type: ignore[attr-defined]


def test_senders_at_the_same_time(tmp_path: Path) -> None:
    def send(number: int) -> None:
        with sender(session.receiver.addresses[0]) as exporter:
            for _ in range(5):
                exporter.send(request_of(etcd(call(number, RANGE, GET))))

    with receiving(tmp_path, part_size=500) as session:
        threads = [threading.Thread(target=send, args=(number,)) for number in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [message.resource_spans[0].scope_spans[0].spans[0].span_id.hex() for message in messages(tmp_path)]
    assert sorted(found) == sorted(f"{number:08x}000000aa" for number in range(1, 9) for _ in range(5))


def test_a_request_without_spans_is_taken_and_not_kept(tmp_path: Path) -> None:
    with receiving(tmp_path) as session, sender(session.receiver.addresses[0]) as exporter:
        exporter.send(b"")
    assert [path.name for path in tmp_path.iterdir()] == [INDEX]


@pytest.mark.parametrize(
    ("request_", "packed", "code", "details"),
    [
        (b"\xff" * 9, False, grpc.StatusCode.INVALID_ARGUMENT, "no ExportTraceServiceRequest"),
        (CALLS[:-1], False, grpc.StatusCode.INVALID_ARGUMENT, "no ExportTraceServiceRequest"),
        (gzip.compress(CALLS)[:-9], False, grpc.StatusCode.INVALID_ARGUMENT, "gzip that was cut off"),
        (b"\x1f\x8b" * 9, False, grpc.StatusCode.INVALID_ARGUMENT, "broken gzip"),
        (b"a" * ((1 << 20) + 1), False, grpc.StatusCode.RESOURCE_EXHAUSTED, "1048577 vs. 1048576"),
        (b"a" * ((1 << 20) + 1), True, grpc.StatusCode.RESOURCE_EXHAUSTED, "unpacks to more than 1048576 bytes"),
    ],
    ids=["garbage", "cut", "cut gzip", "broken gzip", "too large", "too large when unpacked"],
)
def test_what_cannot_be_kept_is_refused_for_good(
    tmp_path: Path, request_: bytes, packed: bool, code: grpc.StatusCode, details: str
) -> None:
    with receiving(tmp_path) as session, sender(session.receiver.addresses[0]) as exporter:
        assert exporter.answer(request_, gzip=packed)[0] == code
        assert details in exporter.answer(request_, gzip=packed)[1]
        exporter.send(CALLS)
    assert len(messages(tmp_path)) == 1


def test_a_full_disk_is_reported_and_senders_may_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def half(descriptor: int, data: memoryview) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[: len(data) // 2])

    with receiving(tmp_path) as session, sender(session.receiver.addresses[0]) as exporter:
        exporter.send(CALLS)
        whole = next(tmp_path.glob("part-*")).read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr("os.write", half)
            code, details = exporter.answer(CALLS)
            exporter.answer(CALLS)
        assert (code, details) == (
            grpc.StatusCode.UNAVAILABLE,
            "cannot be written: No space left on device; try again later",
        )
        assert next(tmp_path.glob("part-*")).read_bytes() == whole
        assert session.receiver.failing
        exporter.send(CALLS)
        assert not session.receiver.failing
    assert [message.SerializeToString() for message in messages(tmp_path)] == [CALLS, CALLS]
    assert session.reported == [
        f"warning: {tmp_path}: No space left on device: senders are asked to try again; free space there",
        "requests can be written again",
    ]
    assert index(tmp_path)["refused"] == {"not writable": 2}


def test_connections_are_limited(tmp_path: Path) -> None:
    with (
        receiving(tmp_path, limits=Limits(message=1 << 20, connections=1)) as session,
        sender(session.receiver.addresses[0]) as first,
        sender(session.receiver.addresses[0]) as second,
    ):
        first.send(CALLS)
        assert second.answer(CALLS)[0] == grpc.StatusCode.UNAVAILABLE
        first.send(CALLS)
    assert len(messages(tmp_path)) == 2


def test_several_addresses(tmp_path: Path) -> None:
    receiver = Receiver([ANY_PORT, ANY_PORT], None, LIMITS, report=print)
    parts = Parts(tmp_path, 1 << 20)
    receiver.start(parts)
    for address in receiver.addresses:
        with sender(address) as exporter:
            exporter.send(CALLS)
    receiver.stop()
    parts.close()
    assert len(set(receiver.addresses)) == 2
    assert len(messages(tmp_path)) == 2


def test_a_port_in_use(tmp_path: Path) -> None:
    with receiving(tmp_path) as session:
        address = session.receiver.addresses[0]
        with pytest.raises(ReceiveError) as caught:
            Receiver([address], None, LIMITS, report=print)
    assert str(caught.value) == f"cannot listen on {address}: Address already in use; choose another with --listen"


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an authority, certificates of a server and a client by it, and those of another."""
    folder = tmp_path_factory.mktemp("keys")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for authority, names in (("ca", ("server", "client")), ("other", ("stranger",))):
        openssl(
            folder,
            *("req", "-x509", *curve, "-days", "2", "-subj", f"/CN={authority}"),
            *("-keyout", f"{authority}.key", "-out", f"{authority}.pem"),
        )
        for name in names:
            openssl(
                folder,
                *(
                    "req",
                    "-x509",
                    *curve,
                    "-days",
                    "2",
                    "-subj",
                    f"/CN={name}",
                    "-addext",
                    "subjectAltName=IP:127.0.0.1",
                ),
                *("-CA", f"{authority}.pem", "-CAkey", f"{authority}.key"),
                *("-keyout", f"{name}.key", "-out", f"{name}.pem"),
            )
    return folder


def credentials(keys: Path, name: str = "") -> grpc.ChannelCredentials:
    files = [(keys / f"{name}.{kind}").read_bytes() for kind in ("key", "pem")] if name else [None, None]
    return grpc.ssl_channel_credentials((keys / "ca.pem").read_bytes(), *files)


def test_tls(tmp_path: Path, keys: Path) -> None:
    tls = Tls(keys / "server.pem", keys / "server.key", None)
    with receiving(tmp_path, tls=tls) as session:
        with sender(session.receiver.addresses[0], credentials(keys)) as exporter:
            exporter.send(CALLS)
        with sender(session.receiver.addresses[0]) as plain:
            assert plain.answer(CALLS)[0] == grpc.StatusCode.UNAVAILABLE
    assert len(messages(tmp_path)) == 1


def test_only_senders_that_the_authority_knows(tmp_path: Path, keys: Path) -> None:
    tls = Tls(keys / "server.pem", keys / "server.key", keys / "ca.pem")
    with receiving(tmp_path, tls=tls) as session:
        with sender(session.receiver.addresses[0], credentials(keys, "client")) as exporter:
            exporter.send(CALLS)
        for name in ("", "stranger"):
            with sender(session.receiver.addresses[0], credentials(keys, name)) as exporter:
                assert exporter.answer(CALLS)[0] == grpc.StatusCode.UNAVAILABLE
    assert len(messages(tmp_path)) == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (("none.pem", "server.key", None), "{}/none.pem: No such file or directory"),
        (("server.pem", "client.key", None), "{0}/server.pem and {0}/client.key are no certificate and its key, "),
        (("server.key", "server.key", None), "{0}/server.key and {0}/server.key are no certificate and its key, "),
        (("server.pem", "server.key", "server.key"), "{}/server.key is no certificate in PEM: "),
    ],
)
def test_certificates_that_cannot_be_used(keys: Path, files: tuple[str, str, str | None], message: str) -> None:
    cert, key, authority = files
    with pytest.raises(ReceiveError) as caught:
        Receiver([ANY_PORT], Tls(keys / cert, keys / key, authority and keys / authority), LIMITS, report=print)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message.format(keys))
    assert "\n" not in str(caught.value)


def test_the_live_count_sees_server_spans_alone() -> None:
    request = ExportTraceServiceRequest.FromString(request_of(etcd(complete(), call(7, TXN, GET), call(8, TXN, GET))))
    spans = request.resource_spans[0].scope_spans[0].spans
    next(span for span in spans if span.name == RANGE).kind = Span.SPAN_KIND_CLIENT
    found = server_spans(request.SerializeToString())
    assert found == {"RangeStream": 1, "Txn": 3, "Compact": 1, "Watch": 1, "LeaseGrant": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "4317"], "'4317' is no HOST:PORT such as 127.0.0.1:4317"),
        (["--listen", "127.0.0.1:65536"], "'127.0.0.1:65536' is no HOST:PORT such as 127.0.0.1:4317"),
        (["--part-size", "1T"], "'1T' is no number of bytes, such as 1000, 64K, 64M or 1G"),
        (["--max-message", "0"], "'0' is no number of bytes, such as 1000, 64K, 64M or 1G"),
        (["--max-connections", "-1"], "'-1' is no number from 1 to 999999999"),
        (["--tls-cert", "a"], "--tls-cert and --tls-key go together, and --client-ca with them"),
        (["--client-ca", "a"], "--tls-cert and --tls-key go together, and --client-ca with them"),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        receive.main(["-o", str(tmp_path / "dump"), *arguments])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(message)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a file").touch()
    assert receive.main(["-o", str(tmp_path), "--listen", "127.0.0.1:0"]) == 1
    assert capsys.readouterr().err == (
        f"error: {tmp_path} is not empty: name a new folder, or move away what is in it\n"
    )


@pytest.mark.parametrize("output", ["a file", "none/dump", "a file/dump"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    (tmp_path / "a file").touch()
    assert receive.main(["-o", str(tmp_path / output), "--listen", "127.0.0.1:0"]) == 1
    assert re.fullmatch(rf"error: {tmp_path / output}: .*\n", capsys.readouterr().err)


def test_what_a_killed_receiver_left_can_be_recovered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with receiving(tmp_path, part_size=1) as session, sender(session.receiver.addresses[0]) as exporter:
        for _ in range(3):
            exporter.send(CALLS)
    first, second, third = sorted(tmp_path.glob("part-*"))
    whole = first.read_bytes()
    # A kill while the second request of a part was written, and before the first of another was.
    second.write_bytes(whole + whole[:-1])
    third.write_bytes(whole[:9])
    (tmp_path / INDEX).unlink()
    assert receive.main(["--recover", str(tmp_path)]) == 0
    assert capsys.readouterr() == (
        f"{tmp_path}: 24 spans in 2 requests\n",
        f"warning: {second.name}: {len(whole) - 1} bytes cut off, kept in .{second.name}.cut: a request is lost\n"
        f"warning: {third.name}: 9 bytes cut off, kept in .{third.name}.cut: a request is lost\n",
    )
    assert [message.SerializeToString() for message in messages(tmp_path)] == [CALLS, CALLS]
    found = index(tmp_path)
    assert (found["complete"], found["requests"], found["spans"], found["cut"]) == (True, 2, 24, len(whole) + 8)
    assert (tmp_path / f".{second.name}.cut").read_bytes() == whole[:-1]
    sums = [hashlib.sha256(whole).hexdigest()] * 2
    assert [part["sha256"] for part in found["parts"]] == sums  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "{} holds no part of a dump"),
        (b"not packed", "{}: holds what no receiver wrote: no request starts at byte 0 of part-00001.pb.zst"),
        (b"\x28\xb5\x2f\xfd", "{}: 0 spans in 0 requests"),
        (zstd.compress(b"\x03abc"), "{}: holds what no receiver wrote: the request is no ExportTraceServiceRequest"),
    ],
    ids=["nothing", "no frame", "the start of a frame", "no request"],
)
def test_what_cannot_be_recovered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, message: str
) -> None:
    if content:
        (tmp_path / "part-00001.pb.zst").write_bytes(content)
    assert receive.main(["--recover", str(tmp_path)]) == 1
    assert message.format(tmp_path) in "".join(capsys.readouterr())


def test_a_library_that_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "MISSING", "grpc")
    assert receive.main(["-o", str(tmp_path / "dump")]) == 1
    assert capsys.readouterr().err == "error: grpc is missing: pip install 'etcd-k8s-coverage[receive]'\n"
