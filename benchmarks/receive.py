"""Measure what a receiver takes: spans per second and per core, memory and bytes, beside the Collector's file exporter.

    python -m benchmarks.receive testdata/kubernetes-1.37.json.gz

Senders send the dump's spans in requests of 512, as fast as they are acknowledged. The times of the processor are those
of the receiver alone. Of several rounds, in turn, the medians are printed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from etcd_coverage.sources.parts import Parts
from etcd_coverage.sources.trace_requests import read_request
from meta_tests.otlp_sender import request_of, sender

PROJECT = Path(__file__).parent.parent
COLLECTOR = PROJECT / ".tools" / "bin" / "collector"
_SPANS = 512
"""As many as OpenTelemetry's exporters send at once."""


class Taken(NamedTuple):
    """What one receiver took in one round."""

    spans_per_second: float
    cpu_seconds_per_million: float
    peak_mb: float
    mb_per_million: float


def requests_of(dump: Path) -> list[bytes]:
    """Return the dump as requests of some hundred spans."""
    data = dump.read_bytes()
    resources = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)["result"]["resourceSpans"]
    found = []
    batch: list[dict[str, object]] = []
    spans = 0
    for resource in resources:
        batch.append(resource)
        spans += sum(len(scope["spans"]) for scope in resource["scopeSpans"])
        if spans >= _SPANS or resource is resources[-1]:
            found.append(request_of({"result": {"resourceSpans": batch}}))
            batch, spans = [], 0
    return found


def send(address: str, file: Path, times: int) -> None:
    """Send all requests of a file so many times; those that are not taken raise."""
    requests = [bytes.fromhex(line) for line in file.read_text().split()]
    with sender(address) as exporter:
        for _ in range(times):
            for request in requests:
                exporter.send(request, wait=True)


def command(name: str, address: str, folder: Path) -> list[str]:
    """Return how to start a receiver."""
    if name == "receive":
        return [sys.executable, "-m", "etcd_coverage.receive", "-o", str(folder / "dump"), "--listen", address]
    config = folder / "collector.json"
    exporter = {"path": str(folder / "dump.pb"), "format": "proto", "compression": "zstd"}
    pipelines = {"traces": {"receivers": ["otlp"], "exporters": ["file"]}}
    made = {
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": address, "max_recv_msg_size_mib": 64}}}},
        "exporters": {"file": exporter},
        "service": {"pipelines": pipelines, "telemetry": {"metrics": {"level": "none"}}},
    }
    config.write_text(json.dumps(made))
    return [str(COLLECTOR), "--config", f"file:{config}"]


def measure(name: str, file: Path, spans: int, senders: int, times: int) -> Taken:
    """Return what a receiver took of these senders."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    folder = Path(tempfile.mkdtemp())
    log = (folder / "log").open("w")
    process = subprocess.Popen(command(name, address, folder), stdout=log, stderr=log, cwd=PROJECT)
    try:
        with ProcessPoolExecutor(senders) as pool:
            # Until it listens, and the senders have started.
            list(pool.map(send, [address] * senders, [file] * senders, [1] * senders))
            started = time.monotonic()
            list(pool.map(send, [address] * senders, [file] * senders, [times] * senders))
            seconds = time.monotonic() - started
        peak = peak_mb(process.pid)
        process.terminate()
        _, _, usage = os.wait4(process.pid, 0)
        log.close()
        total = spans * senders * (times + 1)
        written = sum(path.stat().st_size for path in folder.rglob("*") if "dump" in str(path) and path.is_file())
    finally:
        shutil.rmtree(folder)
    cpu = usage.ru_utime + usage.ru_stime
    return Taken(
        spans_per_second=spans * senders * times / seconds,
        cpu_seconds_per_million=cpu / total * 1e6,
        peak_mb=peak,
        mb_per_million=written / total,
    )


def peak_mb(pid: int) -> float:
    """Return the most memory that a process had so far; ru_maxrss may be that of the process which started it."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024 / 1e6


def judged(requests: list[bytes], copies: int) -> str:
    """Return what judging takes of a dump in parts that has so many copies of the requests, with ids of their own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "dump")
        folder.mkdir()
        parts = Parts(folder, 64 << 20)
        for copy in range(copies):
            for request in requests:
                parts.add(read_request(with_other_ids(request, copy), 1 << 30))
        parts.close()
        program = "import sys; from pathlib import Path; from etcd_coverage.judging.judge import judge; "
        program += "sys.exit(judge(Path(sys.argv[1])).error); "
        process = subprocess.Popen([sys.executable, "-c", program, str(folder)], cwd=PROJECT)
        peak = 0.0
        while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            peak = max(peak, peak_mb(process.pid))
            time.sleep(0.02)
        _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    millions = parts.spans / 1e6
    seconds = (usage.ru_utime + usage.ru_stime) / millions
    return f"judged: {parts.spans} spans, {seconds:.1f} s of processor and {peak / millions:.0f} MB per million spans"


def with_other_ids(request: bytes, copy: int) -> bytes:
    """Return the request with other trace ids."""
    message = ExportTraceServiceRequest.FromString(request)
    for resource in message.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                span.trace_id = copy.to_bytes(4, "big") + span.trace_id[4:]
    return message.SerializeToString()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.receive", description="Measure the receiver.")
    parser.add_argument("dump", type=Path)
    parser.add_argument("--senders", type=int, default=2)
    parser.add_argument("--times", type=int, default=20, help="how often each sends the dump (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=20, help="of the dump that is judged (default: %(default)s)")
    options = parser.parse_args()
    requests = requests_of(options.dump)
    spans = sum(
        len(scope["spans"])
        for resource in json.loads(gzip.decompress(options.dump.read_bytes()))["result"]["resourceSpans"]
        for scope in resource["scopeSpans"]
    )
    names = ["receive", *(["collector"] if COLLECTOR.exists() else [])]
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join(map(bytes.hex, requests)))
        file.flush()
        size = sum(map(len, requests))
        print(f"{spans} spans in {len(requests)} requests, {size / spans:.0f} bytes each; {options.senders} senders")
        taken: dict[str, list[Taken]] = {name: [] for name in names}
        for _ in range(options.rounds):
            for name in names:
                taken[name].append(measure(name, Path(file.name), spans, options.senders, options.times))
    for name, rounds in taken.items():
        middle = Taken(*(median(values) for values in zip(*rounds, strict=True)))
        print(
            f"{name}: {middle.spans_per_second:.0f} spans/s, {middle.cpu_seconds_per_million:.2f} s of processor, "
            f"{middle.mb_per_million:.0f} MB written per million spans, {middle.peak_mb:.0f} MB peak memory"
        )
    print(judged(requests, options.copies))


if __name__ == "__main__":
    main()
