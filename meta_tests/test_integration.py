"""Real etcd and real Jaeger on loopback: calls are made, their traces downloaded and judged."""

from __future__ import annotations

import base64
import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest
from msgspec.structs import replace

from etcd_coverage import jaeger
from etcd_coverage.judging.judge import judge
from etcd_coverage.sources.download import USUAL_TRACES
from etcd_coverage.sources.jaeger_api import Jaeger, Window
from meta_tests.test_parts import without_examples

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parent.parent
TOOLS = PROJECT / ".tools" / "bin"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not (TOOLS / "jaeger").exists(), reason="no etcd and Jaeger in .tools/bin: make tools"),
]


class JaegerServer(NamedTuple):
    process: subprocess.Popen[bytes]
    port: int
    otlp_grpc: str
    otlp_http: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Etcd:
    """An etcd, driven through its HTTP gateway, which calls the gRPC method that a path stands for."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process = process
        self._client = httpx.Client(base_url=f"{url}/v3", trust_env=False)

    def call(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        response = self._client.post(path, json=request)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def watch(self, request: dict[str, Any]) -> None:
        """Start a watch and end it when etcd has created it."""
        with self._client.stream("POST", "/watch", json={"create_request": request}) as response:
            assert json.loads(next(response.iter_lines()))["result"]["created"]

    def stop(self) -> None:
        """Stop etcd, which exports the spans that it still has."""
        self._client.close()
        self.process.terminate()
        self.process.wait(60)


def free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def started(command: list[str], ready: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the block, from when it answers the URL `ready`."""
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    if httpx.get(ready, trust_env=False).is_success:
                        break
                except httpx.TransportError:
                    pass
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, f"not ready after a minute: {log.read_text()}"
                time.sleep(0.05)
            yield process
        finally:
            process.kill()


@contextmanager
def running_jaeger(folder: Path, max_traces: int) -> Iterator[JaegerServer]:
    http, grpc, otlp_grpc, otlp_http = free_ports(4)
    config = {
        "service": {
            "extensions": ["jaeger_storage", "jaeger_query"],
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}},
            "telemetry": {"metrics": {"level": "none"}},
        },
        "extensions": {
            "jaeger_query": {
                "storage": {"traces": "memory"},
                "http": {"endpoint": f"127.0.0.1:{http}"},
                "grpc": {"endpoint": f"127.0.0.1:{grpc}"},
            },
            "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": max_traces}}}},
        },
        "receivers": {
            "otlp": {
                "protocols": {
                    "grpc": {"endpoint": f"127.0.0.1:{otlp_grpc}"},
                    "http": {"endpoint": f"127.0.0.1:{otlp_http}"},
                }
            }
        },
        "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
    }
    path = folder / "jaeger.json"
    path.write_text(json.dumps(config))
    command = [str(TOOLS / "jaeger"), "--config", str(path)]
    with started(command, f"http://127.0.0.1:{http}/api/v3/services", folder / "jaeger.log") as process:
        yield JaegerServer(process, http, f"127.0.0.1:{otlp_grpc}", f"http://127.0.0.1:{otlp_http}/v1/traces")


@contextmanager
def running_etcd(folder: Path, tracing: str) -> Iterator[Etcd]:
    client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    command = [
        str(TOOLS / "etcd"),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--enable-distributed-tracing",
        f"--distributed-tracing-address={tracing}",
        "--distributed-tracing-service-name=etcd",
        "--distributed-tracing-sampling-rate=1000000",
    ]
    with started(command, f"{client}/health", folder / "etcd.log") as process:
        etcd = Etcd(process, client)
        yield etcd
        etcd.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JaegerServer]:
    with running_jaeger(tmp_path_factory.mktemp("jaeger"), max_traces=5000) as server:
        yield server


def download(server: JaegerServer, target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "etcd_coverage.jaeger", "--url", server.url, "-o", str(target), *options],
        capture_output=True,
        text=True,
        check=False,
    )


def spans(dump: bytes) -> list[dict[str, Any]]:
    return [
        span
        for entry in json.loads(dump)["result"]["resourceSpans"]
        for scope in entry["scopeSpans"]
        for span in scope["spans"]
    ]


def ids(dump: bytes) -> list[str]:
    return sorted(span["traceId"] + span["spanId"] for span in spans(dump))


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# What the calls of `kubernetes_calls` are, by hand.
CALLS = {
    "etcdserverpb.KV/Compact": 1,
    "etcdserverpb.KV/Range": 125 + 3 + 2 + 1,
    "etcdserverpb.KV/Txn": 7 + 2 + 1,
    "etcdserverpb.Lease/LeaseGrant": 2,
    "etcdserverpb.Maintenance/Status": 4,
    "etcdserverpb.Watch/Watch": 3,
}
OBJECT = "/registry/{resource}/{namespace}/{name}"
LIST = "/registry/{resource}/"
ROWS = {
    ("Get", OBJECT): 125,
    ("List", LIST): 3,
    ("Count", LIST): 2,
    ("Healthcheck", "/registry/health"): 1,
    ("OptimisticPut", OBJECT): 5,
    ("OptimisticPut", "/registry/masterleases/{name}"): 2,
    ("OptimisticDelete", OBJECT): 2,
    ("Compaction", "compact_rev_key"): 1,
    ("Compact", ""): 1,
    ("Watch", LIST): 3,
}


def kubernetes_calls(etcd: Etcd) -> None:
    """Make the calls of an apiserver: as many as CALLS says."""
    pod, pods, after_pods = b64("/registry/pods/default/a"), b64("/registry/pods/"), b64("/registry/pods0")

    def optimistic(key: str, success: dict[str, Any], revision: int) -> dict[str, Any]:
        compare = {"target": "MOD", "key": key, "mod_revision": str(revision)}
        return etcd.call("/kv/txn", {"compare": [compare], "success": [success]})

    for _ in range(125):
        etcd.call("/kv/range", {"key": pod, "limit": 1})
    for _ in range(3):
        etcd.call("/kv/range", {"key": pods, "range_end": after_pods, "limit": 500})
    for _ in range(2):
        etcd.call("/kv/range", {"key": pods, "range_end": after_pods, "count_only": True})
    etcd.call("/kv/range", {"key": b64("/registry/health")})
    for _ in range(5):
        optimistic(pod, {"request_put": {"key": pod, "value": b64("x")}}, 0)
    for address in ("192.0.2.1", "192.0.2.2"):
        lease = etcd.call("/lease/grant", {"TTL": 15})["ID"]
        key = b64(f"/registry/masterleases/{address}")
        optimistic(key, {"request_put": {"key": key, "value": b64("x"), "lease": lease}}, 0)
    for _ in range(2):
        optimistic(pod, {"request_delete_range": {"key": pod}}, 0)
    for _ in range(4):
        etcd.call("/maintenance/status", {})
    key = b64("compact_rev_key")
    compare = {"target": "VERSION", "key": key, "version": "0"}
    revision = etcd.call(
        "/kv/txn", {"compare": [compare], "success": [{"request_put": {"key": key, "value": b64("1")}}]}
    )["header"]["revision"]
    etcd.call("/kv/compaction", {"revision": revision, "physical": True})
    for _ in range(3):
        etcd.watch({"key": pods, "range_end": after_pods, "start_revision": revision, "prev_kv": True})


def grpc_calls(dump: bytes) -> dict[str, int]:
    names = [span["name"] for span in spans(dump) if span["kind"] == 2 and span["name"].startswith("etcdserverpb.")]
    return {name: names.count(name) for name in sorted(set(names))}


@pytest.fixture(scope="module")
def dump_of_calls(server: JaegerServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the dump of the calls of `kubernetes_calls`, alone in a folder."""
    with running_etcd(tmp_path_factory.mktemp("etcd"), server.otlp_grpc) as etcd:
        kubernetes_calls(etcd)
    target = tmp_path_factory.mktemp("dumps") / "kubernetes-1.36.json"
    done = download(server, target)
    assert done.returncode == 0, done.stderr
    return target


def test_each_call_is_in_the_dump(dump_of_calls: Path) -> None:
    assert grpc_calls(dump_of_calls.read_bytes()) == CALLS
    assert len({span["traceId"] for span in spans(dump_of_calls.read_bytes())}) > 100


def test_what_jaegers_ui_answers_gives_the_same_usage(
    server: JaegerServer, dump_of_calls: Path, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    times = {"start": now - timedelta(hours=1), "end": now + timedelta(minutes=1)}
    query = {name: str(round(time.timestamp() * 10**6)) for name, time in times.items()}
    answer = httpx.get(
        f"{server.url}/api/traces", params={"service": "etcd", "limit": "5000", **query}, trust_env=False, timeout=60
    )
    (tmp_path / "ui.json").write_bytes(answer.raise_for_status().content)
    found, expected = judge(tmp_path / "ui.json", "1.36"), judge(dump_of_calls, "1.36")
    assert found.calls == CALLS
    assert without_examples(found) == without_examples(expected)


def test_the_suite_counts_what_was_called(dump_of_calls: Path, tmp_path: Path) -> None:
    usage_json = tmp_path / "usage.json"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", "TestInterfaceUse"]
    options = [f"--testdata={dump_of_calls.parent}", f"--usage-json={usage_json}"]
    done = subprocess.run([*command, *options], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    usage = json.loads(usage_json.read_bytes())["dumps"][dump_of_calls.name]
    assert usage["calls"] == CALLS
    assert {(row["call_pattern"], row["key_pattern"]): row["calls"] for row in usage["rows"]} == ROWS
    [lease] = usage["leases"]
    assert lease == {"key_pattern": "/registry/masterleases/{name}", "uses": 2, "ttl_seconds": 30, "calls": 2}


@pytest.mark.parametrize("name", ["traces.json", "traces.json.gz"])
def test_windows_bring_the_same_spans(server: JaegerServer, dump_of_calls: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    done = download(server, target, "--since", "10m", "--window", "1s")
    assert done.returncode == 0, done.stderr
    dump = target.read_bytes()
    assert ids(gzip.decompress(dump) if name.endswith(".gz") else dump) == ids(dump_of_calls.read_bytes())


class Trace(NamedTuple):
    """A trace to send to Jaeger: a span for each start."""

    service: str
    starts: list[datetime]
    text: str = ""


def nanoseconds(time: datetime) -> str:
    return str(round(time.timestamp() * 10**6) * 1000)


def send(server: JaegerServer, *traces: Trace) -> None:
    """Send traces to Jaeger, one request each, by OTLP (https://opentelemetry.io/docs/specs/otlp/#otlphttp)."""
    with httpx.Client(trust_env=False) as client:
        for trace in traces:
            trace_id = os.urandom(16).hex()
            spans = [
                {
                    "traceId": trace_id,
                    "spanId": os.urandom(8).hex(),
                    "name": "test",
                    "startTimeUnixNano": nanoseconds(start),
                    "endTimeUnixNano": nanoseconds(start),
                    "attributes": [{"key": "text", "value": {"stringValue": trace.text}}],
                }
                for start in trace.starts
            ]
            resource = {"attributes": [{"key": "service.name", "value": {"stringValue": trace.service}}]}
            request = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
            client.post(server.otlp_http, json=request).raise_for_status()


def test_jaeger_gives_a_trace_whole_to_each_window_that_a_span_starts_in(server: JaegerServer, tmp_path: Path) -> None:
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)
    seconds = [start + timedelta(seconds=second) for second in range(50)]
    send(server, Trace("windows", [seconds[5], seconds[10], seconds[25]]))

    def count(first: int, last: int) -> int:
        with Jaeger(server.url) as client:
            answer = client.find_traces("windows", Window(seconds[first], seconds[last]), 10)
        return bytes(b"".join(answer)).count(b'"spanId"')

    assert [count(0, 10), count(10, 20), count(20, 30), count(30, 40)] == [3, 3, 3, 0]
    assert [count(0, 4), count(0, 5), count(25, 30), count(26, 30)] == [0, 3, 3, 0]
    target = tmp_path / "traces.json"
    done = download(server, target, "--service", "windows", "--since", "10m", "--window", "5s")
    assert done.stdout.startswith(f"{target}: 1 traces, 3 spans, from ")
    assert len(ids(target.read_bytes())) == 3


def test_an_empty_window(server: JaegerServer, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    starts = [now - timedelta(days=day) for day in (9, 8, 7)]
    send(server, *(Trace("old", [start]) for start in starts))
    done = download(server, tmp_path / "traces.json", "--service", "old", "--since", "1d")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("error: Jaeger has no traces of 'old' from ")
    oldest, newest = (f"{start:%Y-%m-%d %H:%M:%S}" for start in (starts[0], starts[2]))
    assert f": its spans start from {oldest} to {newest} UTC (--since); other services: " in line
    assert list(tmp_path.iterdir()) == []


def test_another_service(server: JaegerServer, tmp_path: Path) -> None:
    send(server, Trace("some", [datetime.now(UTC)]))
    done = download(server, tmp_path / "traces.json", "--service", "none")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("error: Jaeger has no service 'none', it has: ")
    assert "some" in line.split(": ")[2].removesuffix(" (--service)").split(", ")
    assert list(tmp_path.iterdir()) == []


def test_a_jaeger_that_keeps_fewer_traces_than_it_got(tmp_path: Path) -> None:
    target = tmp_path / "traces.json"
    now = datetime.now(UTC)
    with running_jaeger(tmp_path, max_traces=50) as server:
        done = download(server, target)
        assert done.stderr == (
            f"error: Jaeger at {server.url} holds no traces at all: is anything sending to it (OTLP, port 4317)?\n"
        )
        assert done.returncode == 1

        send(server, *(Trace("etcd", [now - timedelta(minutes=minute)]) for minute in range(60, 0, -1)))
        done = download(server, target)
        assert done.returncode == 0
        assert done.stdout.startswith(f"{target}: 50 traces, 50 spans, from ")
        assert "warning: 50 traces are as many as Jaeger was asked for or keeps" in done.stderr
        assert "note: the oldest span starts 4 days, 23:" in done.stderr

        done = download(server, target, "--num-traces", "49")
        assert done.stdout.startswith(f"{target}: 49 traces, 49 spans, from ")
        assert "warning: 49 traces are as many as Jaeger was asked for or keeps" in done.stderr

        done = download(server, target, "--num-traces", "51")
        assert done.returncode == 1
        assert done.stderr == (
            "error: Jaeger keeps 50 traces at most (max_traces), fewer than the 51 asked for: "
            "use --num-traces 50, or start Jaeger with a higher max_traces\n"
        )
        assert len(ids(target.read_bytes())) == 49


def test_a_wrong_port(server: JaegerServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [free] = free_ports(1)
    reasons = {
        f"http://127.0.0.1:{free}": "no answer from Jaeger at {url}: [Errno 111] Connection refused",
        f"http://{server.otlp_grpc}": "no answer from Jaeger at {url}: ",
        server.otlp_http: "127.0.0.1 answers HTTP 404 Not Found: 404 page not found; is it Jaeger?",
        f"{server.url}/ui": "{url} answers with a web page: --url is not that of Jaeger's query API",
    }
    for url, reason in reasons.items():
        assert jaeger.main(["--url", url, "-o", str(tmp_path / "traces.json")], backoff=0) == 1
        line = capsys.readouterr().err.splitlines()[-1]
        assert line.startswith(f"error: {reason.format(url=url)}")
    assert list(tmp_path.iterdir()) == []


def test_a_jaeger_killed_in_mid_download(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "traces.json"
    target.write_bytes(b"the dump that was there")
    (tmp_path / "jaeger").mkdir()
    with running_jaeger(tmp_path / "jaeger", max_traces=USUAL_TRACES) as server:
        send(server, *(Trace("etcd", [datetime.now(UTC)], os.urandom(500_000).hex()) for _ in range(40)))
        with killing_relay(server) as url:
            assert jaeger.main(["--url", url, "-o", str(target)], backoff=0) == 1
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: Jaeger's answer broke off after ")
    assert first.endswith(" (--window 10m); trying again in 0 s")
    assert last == f"error: no answer from Jaeger at {url}: [Errno 111] Connection refused"
    assert target.read_bytes() == b"the dump that was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jaeger", "traces.json"]


@contextmanager
def killing_relay(server: JaegerServer) -> Iterator[str]:
    """Relay one connection to Jaeger, and kill Jaeger when a megabyte of its answer has passed."""

    def relay(listener: socket.socket) -> None:
        with listener.accept()[0] as client, socket.create_connection(("127.0.0.1", server.port)) as upstream:
            listener.close()
            requests = threading.Thread(target=forward, args=(client, upstream))
            requests.start()
            passed = 0
            while chunk := received(upstream):
                client.sendall(chunk)
                passed += len(chunk)
                if passed > 1_000_000 and server.process.poll() is None:
                    server.process.kill()
                    server.process.wait()
            client.shutdown(socket.SHUT_RDWR)
            requests.join()

    def forward(client: socket.socket, upstream: socket.socket) -> None:
        while chunk := received(client):
            with suppress(OSError):
                upstream.sendall(chunk)

    def received(connection: socket.socket) -> bytes:
        try:
            return connection.recv(1 << 16)
        except ConnectionError:
            return b""

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=relay, args=(listener,))
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    thread.join()


def test_the_receiver_counts_what_jaeger_counts(dump_of_calls: Path, tmp_path: Path) -> None:
    """The same calls of a real etcd, sent to the receiver: the same rows and leases as by way of Jaeger."""
    folder = tmp_path / "kubernetes-1.36"
    command = [sys.executable, "-m", "etcd_coverage.receive", "-o", str(folder), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout
        address = receiver.stdout.readline().split(",")[0].removeprefix("listening on ")
        with running_etcd(tmp_path, address) as etcd:
            kubernetes_calls(etcd)
        receiver.terminate()
        assert receiver.wait(60) == 0
    received, downloaded = judge(folder, "1.36"), judge(dump_of_calls, "1.36")
    assert received.error is None
    assert received.calls == CALLS
    rows = [[replace(row, example=None) for row in usage.rows] for usage in (received, downloaded)]
    assert rows[0] == rows[1]
    assert received.leases == downloaded.leases
    assert [finding.message for finding in received.findings] == [finding.message for finding in downloaded.findings]
