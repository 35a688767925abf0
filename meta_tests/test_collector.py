"""A real OpenTelemetry Collector writes the spans of a demo dump to files of its own, which are judged as the dump is."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

from etcd_coverage.judging.judge import judge
from etcd_coverage.releases import release_of
from meta_tests.test_kinds import DEMOS
from meta_tests.test_parts import without_examples

if TYPE_CHECKING:
    from collections.abc import Iterator

COLLECTOR = Path(__file__).parent.parent / ".tools" / "bin" / "collector"
# Whose resources are all smaller than the files may be.
DEMO = next(path for path in DEMOS if "1.37" in path.name)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not COLLECTOR.exists(), reason="no Collector in .tools/bin: make tools"),
]

EXPORTERS: dict[str, dict[str, Any]] = {
    "json": {"path": "traces.json", "rotation": {"max_megabytes": 1}},
    "proto": {"path": "traces.binpb", "format": "proto", "rotation": {"max_megabytes": 1}},
    "json-zstd": {"path": "traces.json", "format": "json", "compression": "zstd", "rotation": {"max_megabytes": 1}},
    "proto-zstd": {"path": "traces.pb", "format": "proto", "compression": "zstd", "rotation": {"max_megabytes": 1}},
    "proto-one-file": {"path": "traces.pb", "format": "proto"},
}


@contextmanager
def running_collector(folder: Path, *options: str) -> Iterator[str]:
    """Run a Collector with all the exporters, each into a folder of its own; give the URL that takes traces."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    exporters = {}
    for name, exporter in EXPORTERS.items():
        (folder / name).mkdir()
        exporters[f"file/{name}"] = exporter | {"path": str(folder / name / str(exporter["path"]))}
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": exporters,
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": list(exporters)}},
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    log = folder / "collector.log"
    command = [str(COLLECTOR), f"--config=file:{folder}/config.json", *options]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < deadline, f"not ready after a minute: {log.read_text()}"
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/v1/traces"
            process.terminate()
            assert process.wait(60) == 0, log.read_text()
        finally:
            process.kill()


@pytest.fixture(scope="module", params=[(), ("--feature-gates=exporter.file.nativeCompression",)], ids=["", "native"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of what the Collector wrote, whose zstd is of messages, or of whole files."""
    folder = tmp_path_factory.mktemp("collector")
    resources = msgspec.json.decode(gzip.decompress(DEMO.read_bytes()))["result"]["resourceSpans"]
    with running_collector(folder, *request.param) as url, httpx.Client(trust_env=False) as client:
        for at in range(0, len(resources), 100):
            client.post(url, json={"resourceSpans": resources[at : at + 100]}, timeout=60).raise_for_status()
    return folder


@pytest.mark.parametrize("name", EXPORTERS)
def test_files_of_the_collector_give_the_usage_of_the_dump(written: Path, name: str) -> None:
    files = list((written / name).iterdir())
    assert len(files) > 1 or "one-file" in name, "nothing was rotated"
    expected, found = judge(DEMO), judge(written / name, release_of(DEMO.name))
    assert expected.error is None
    assert expected.calls
    assert without_examples(found) == without_examples(expected)


def test_a_file_of_the_collector_that_was_cut_says_how_much_is_whole(written: Path, tmp_path: Path) -> None:
    for name, what in (("json", "lines"), ("proto", "messages")):
        last = max((written / name).iterdir(), key=lambda path: path.stat().st_size)
        (tmp_path / name).write_bytes(last.read_bytes()[:-100])
        error = judge(tmp_path / name).error
        assert error is not None
        assert f"{tmp_path}/{name}: is cut: " in error
        assert f" of its {what} are whole, the last one ends in the middle; " in error
