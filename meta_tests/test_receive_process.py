"""The receiver as a program: how it ends, what a kill leaves, a full disk, two on one port, its line on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from resource import RLIMIT_FSIZE, setrlimit
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from etcd_coverage.dumps.parts import INDEX
from meta_tests.builder import GET, RANGE, call, complete, dump, etcd, resource, span
from meta_tests.otlp_sender import messages, request_of, sender

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meta_tests.builder import JSON

pytestmark = pytest.mark.integration

PROJECT = Path(__file__).parent.parent
DELETE_RANGE = "etcdserverpb.KV/DeleteRange"
CALLS = request_of(etcd(complete()))


@contextmanager
def receiver(
    folder: Path, *options: str, listen: str = "127.0.0.1:0", **popen: Any
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the receiver; yield it and its address."""
    command = [sys.executable, "-m", "etcd_coverage.receive", "-o", str(folder), "--listen", listen, *options]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
    with subprocess.Popen(command, text=True, **streams) as process:
        late = threading.Timer(60, process.kill)  # a line that never comes would be waited for
        late.start()
        try:
            assert process.stdout
            line = process.stdout.readline()
            found = re.fullmatch(r"listening on (\S+:[0-9]+), writing to (.*); Ctrl-C ends it\n", line)
            assert found, line
            yield process, found[1]
        finally:
            late.cancel()
            process.kill()


def index(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / INDEX).read_bytes())["etcdK8sCoverageIndex"]
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_it_in_good_order(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "dump"
    with receiver(folder) as (process, address):
        with sender(address) as exporter:
            exporter.send(CALLS)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    [part] = folder.glob("part-*")
    assert (process.returncode, stderr) == (0, "")
    assert stdout == f"{folder}: 12 spans in 1 request, {part.stat().st_size} bytes; services: etcd\n"
    assert [message.SerializeToString() for message in messages(folder)] == [CALLS]
    assert index(folder)["complete"] is True


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    with receiver(folder) as (process, address), sender(address) as exporter:
        for _ in range(50):
            exporter.send(CALLS)
        process.kill()
        process.wait(60)
    assert [message.SerializeToString() for message in messages(folder)] == [CALLS] * 50
    assert index(folder)["complete"] is False


def long_call(number: int) -> list[JSON]:
    return call(number, RANGE, GET | {"range_begin": os.urandom(200).hex()})


def test_a_full_disk(tmp_path: Path) -> None:
    """Of RLIMIT_FSIZE the system makes one: the file that it is writing cannot grow."""
    folder = tmp_path / "dump"

    def limit() -> None:
        setrlimit(RLIMIT_FSIZE, (5_000, 5_000))

    taken = 0
    with receiver(folder, preexec_fn=limit) as (process, address):
        with sender(address) as exporter:
            while (answer := exporter.answer(request_of(etcd(long_call(taken))))) == (grpc.StatusCode.OK, ""):
                taken += 1
                assert taken < 100
        process.terminate()
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert stderr.splitlines() == [
        f"warning: {folder}: File too large: senders are asked to try again; free space there",
        "warning: 1 request refused as not writable: their senders try again for some time, what they gave up is missing",
        f"error: {folder}: the last request could not be written, so spans are missing",
    ]
    assert answer == (grpc.StatusCode.UNAVAILABLE, "cannot be written: File too large; try again later")
    assert taken > 5
    assert len(messages(folder)) == taken


def test_two_on_one_port(tmp_path: Path) -> None:
    with receiver(tmp_path / "first") as (_, address):
        command = [sys.executable, "-m", "etcd_coverage.receive", "-o", str(tmp_path / "second"), "--listen", address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (f"error: cannot listen on {address}: Address already in use; choose another with --listen\n")


def test_two_in_one_folder(tmp_path: Path) -> None:
    with receiver(tmp_path) as (_, _):
        command = [sys.executable, "-m", "etcd_coverage.receive", "-o", str(tmp_path), "--listen", "127.0.0.1:0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == f"error: {tmp_path} is not empty: name a new folder, or move away what is in it\n"


def test_an_address_that_others_reach(tmp_path: Path) -> None:
    with receiver(tmp_path, listen="0.0.0.0:0") as (process, address):
        process.terminate()
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    first, second = stderr.splitlines()
    assert first.startswith(f"warning: {address} is open to the network without TLS: ")
    assert second == "warning: nothing was received: does anything send to it (OTLP/gRPC)?"


def test_what_nobody_expects_is_reported_while_it_receives(tmp_path: Path) -> None:
    folder = tmp_path / "kubernetes-1.37"
    with receiver(folder, "--judge") as (process, address):
        with sender(address) as exporter:
            exporter.send(CALLS)
            exporter.send(request_of(dump(resource(call(7, RANGE, GET | {"range_begin": "/elsewhere/a"})))))
            exporter.send(request_of(dump(resource([span("00000009000000aa", name="GET")], "apiserver"))))
            for _ in range(2):
                exporter.send(request_of(dump(resource(call(8, DELETE_RANGE, {})))))
        assert process.stderr
        lines = sorted(process.stderr.readline() for _ in range(2))
        process.terminate()
        stdout, stderr = process.communicate(timeout=60)
    assert [line.partition("; see span")[0] for line in lines] == [
        "etcdserverpb.KV/DeleteRange: unexpected 1 calls to method: etcdserverpb.KV/DeleteRange, 1 call from etcd/"
        "etcdserverpb.KV/DeleteRange",
        "etcdserverpb.KV/Range: New key pattern detected: /elsewhere/a, 1 call from etcd/etcdserverpb.KV/Range",
    ]
    assert process.returncode == 1
    assert "New key pattern" not in stderr
    assert set(suite_findings(folder)) == {
        "New key pattern detected: /elsewhere/a",
        "unexpected 1 calls to method: etcdserverpb.KV/DeleteRange",
    }
    said = [line for line in stdout.splitlines()[1:] if line and not line.startswith(" ")]
    assert [line for line in said if not re.match("[a-z-]+: ", line)] == suite_findings(folder)


def suite_findings(folder: Path) -> list[str]:
    """Return the messages of what the suite finds in the dump."""
    usage = folder.parent / "usage.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--testdata={folder}"]
    subprocess.run([*command, f"--usage-json={usage}"], cwd=PROJECT, capture_output=True, check=False, timeout=120)
    return [finding["message"] for finding in json.loads(usage.read_bytes())["dumps"][folder.name]["findings"]]


def test_nothing_that_nobody_expects(tmp_path: Path) -> None:
    with receiver(tmp_path / "dump", "--judge") as (process, address):
        with sender(address) as exporter:
            exporter.send(CALLS)
        process.terminate()
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "warning: no records of traces from the apiserver\n")
    assert stdout.endswith(f"{tmp_path / 'dump'}: nothing that nobody expects\n")


def test_a_kill_leaves_what_can_be_judged(tmp_path: Path) -> None:
    with receiver(tmp_path / "dump") as (process, address), sender(address) as exporter:
        exporter.send(CALLS)
        process.kill()
        process.wait(60)
    assert suite_findings(tmp_path / "dump") == []


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_live_line_on_a_terminal_alone(tmp_path: Path, is_terminal: bool) -> None:
    terminal, stderr = pty.openpty() if is_terminal else os.pipe()
    if is_terminal:
        termios.tcsetwinsize(stderr, (24, 120))
    shown = b""
    with receiver(tmp_path, stderr=stderr) as (process, address):
        os.close(stderr)
        with sender(address) as exporter:
            exporter.send(CALLS)
        deadline = time.monotonic() + 60
        while is_terminal and b"LeaseGrant" not in shown and time.monotonic() < deadline:
            shown += os.read(terminal, 1 << 16)
        process.terminate()
        assert process.wait(60) == 0
    os.close(terminal)
    if is_terminal:
        assert re.search(rb"12\.0 spans, .*B; etcd; Range 1\.00, .*LeaseGrant 1\.00", shown)
    else:
        assert shown == b""
