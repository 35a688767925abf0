"""collect_robustness_traces.sh among test doubles; what it shares with the kind collector is tested there."""

import json
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_tests.collect_world import OLD_DUMP, PROJECT, World, problems

SCRIPT = "collect_robustness_traces.sh"
DOCKER_CALLS = [
    r"make \.venv/\.installed",
    r"python -m etcd_coverage\.jaeger --help",
    r"docker run --detach --name etcd-robustness-jaeger --publish 127\.0\.0\.1:16686:16686"
    r" --publish 127\.0\.0\.1:4317:4317 jaegertracing/jaeger:2\.6\.0"
    r" --set=extensions\.jaeger_storage\.backends\.some_storage\.memory\.max_traces=20000000",
    r"make -C .*/etcd clone test-robustness",
    r"python -m etcd_coverage\.jaeger --url http://localhost:16686 --service etcd"
    r" --since [0-9]+s --window 10m -o .*/testdata/demo_traces\.json",
    r"docker rm --force --volumes etcd-robustness-jaeger",
]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "a world")
    world.dump = world.project / "testdata" / "demo_traces.json"
    world.dump.write_text(OLD_DUMP)
    (world.root / "bin" / "jaeger").symlink_to(world.root / "bin" / "double")
    yield world
    world.end_processes()


def test_a_run_calls_each_step_in_order(world: World) -> None:
    result = world.run(SCRIPT)
    assert (result.code, result.stderr) == (0, "")
    places = [
        [place for place, call in enumerate(result.calls) if re.fullmatch(pattern, call)] for pattern in DOCKER_CALLS
    ]
    assert [len(found) for found in places] == [1] * len(DOCKER_CALLS)
    assert sorted(places) == places
    assert world.left_over() == []
    assert world.dump.read_text() == "a new dump\n"
    log = next(world.project.glob("logs/*/*-run_robustness_tests.log")).read_text()
    assert "tracing to localhost:4317" in log
    assert '--timeout 10m --count=1 -v --run "^TestRobustness.*/Kubernetes.*"\n' in log


@pytest.mark.integration
def test_the_receiver_serves_in_place_of_jaeger(world: World) -> None:
    for tool in ("docker", "kind", "kubectl"):
        (world.root / "bin" / tool).unlink()
    # The double's tests take no time: they end when what was sent is in the receiver's index.
    wait = f"until grep --quiet apiserver '{world.project}'/testdata/.demo_traces-*/.index.json; do sleep 0.1; done"
    result = world.run(SCRIPT, "--collector", "receive", AFTER="test-robustness", DO=wait)
    assert (result.code, result.stderr) == (0, "")
    assert sum("etcd_coverage.receive -o" in call for call in result.calls) == 1
    assert [call for call in result.calls if call.startswith(("docker", "jaeger", "curl"))] == []
    folder = world.project / "testdata" / "demo_traces"
    assert sorted(path.name for path in folder.iterdir()) == [".index.json", "part-00001.pb.zst"]
    assert world.left_over() == []
    assert world.dump.read_text() == OLD_DUMP


def test_an_unknown_collector(world: World) -> None:
    result = world.run(SCRIPT, "--collector", "zipkin")
    assert result.code == 2
    assert result.stderr == "collect_robustness_traces: --collector zipkin is none of receive jaeger (see --help)\n"
    result = world.run(SCRIPT, COLLECTOR="zipkin")
    assert "COLLECTOR is none of receive jaeger: zipkin" in problems(result)


def test_a_binary_serves_in_place_of_a_container(world: World) -> None:
    path = str(world.root / "bin" / "jaeger")
    for tool in ("docker", "kind", "kubectl"):
        (world.root / "bin" / tool).unlink()
    result = world.run(SCRIPT, JAEGER_BIN=path, PATH=world.environment["PATH"])
    assert (result.code, result.stderr) == (0, "")
    option = "--set=extensions.jaeger_storage.backends.some_storage.memory.max_traces=20000000"
    assert f"jaeger {option}" in result.calls
    assert not (world.root / "jaeger-runs").exists()
    assert world.left_over() == []


@pytest.mark.integration
def test_failed_tests_are_told_and_do_not_end_the_run(world: World) -> None:
    tests = "=== RUN   TestRobustnessRegression\n--- FAIL: TestRobustnessRegression (3.10s)"
    result = world.run(SCRIPT, FAIL_AFTER="test-robustness", ROBUSTNESS_TESTS=tests)
    assert result.code == 0
    assert "robustness tests: exit code 1, --- FAIL: TestRobustnessRegression (3.10s)" in result.stdout
    assert world.dump.read_text() == "a new dump\n"


@pytest.mark.integration
@pytest.mark.parametrize(
    "environment",
    [
        {"FAIL_AFTER": "docker run"},
        {"FAIL": "curl", "READY_SECONDS": "0"},
        {"ROBUSTNESS_TESTS": "gofail: command not found"},
        {"FAIL": "--window"},
        {"JAEGER_BIN": "/bin/false"},
    ],
)
def test_a_failed_step_is_told_and_undone(world: World, environment: dict[str, str]) -> None:
    result = world.run(SCRIPT, **environment)
    assert result.code == 1
    assert "error: step " in result.stderr
    assert world.left_over() == []
    assert world.dump.read_text() == OLD_DUMP


@pytest.mark.integration
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("call", ["make .venv", "curl", "make .*test-robustness"])
def test_every_step_can_be_interrupted(world: World, call: str, number: signal.Signals, *, binary: bool) -> None:
    environment = {"JAEGER_BIN": str(world.root / "bin" / "jaeger")} if binary else {}
    result = world.interrupt(SCRIPT, call, number, **environment)
    assert result.code == 128 + number
    assert world.left_over() == []
    assert world.dump.read_text() == OLD_DUMP


def test_every_problem_is_told_at_once(world: World) -> None:
    (world.root / "listeners" / "4317").touch()
    (world.root / "container" / "etcd-robustness-jaeger").touch()
    result = world.run(SCRIPT, ETCD_REPO="nowhere", OUTPUT=str(world.root))
    assert result.code == 1
    assert result.stderr == (
        "collect_robustness_traces cannot start; nothing was changed. Problems: 4\n"
        "  - port 4317 (Jaeger's collector) is in use: see ss -ltnp 'sport = :4317'\n"
        "  - a container etcd-robustness-jaeger is left from an earlier run:"
        " docker rm --force etcd-robustness-jaeger\n"
        f"  - ETCD_REPO is not a git clone: {world.root}/nowhere\n"
        f"  - OUTPUT is a directory: {world.root}\n"
    )


@pytest.mark.integration
def test_a_real_jaeger_gives_the_real_downloader_every_call_to_a_real_etcd(world: World) -> None:
    tools = PROJECT / ".tools" / "bin"
    for tool in ("etcd", "jaeger"):
        if not (tools / tool).exists():
            pytest.skip(f"there is no {tool} in .tools/bin: make tools")
    for port in (4317, 16686):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("localhost", port))
            except OSError:
                pytest.skip(f"port {port} is in use, and robustness tests send their traces to a fixed port")
    with socket.create_server(("localhost", 0)) as free:
        client_url = f"http://localhost:{free.getsockname()[1]}"
    for tool in ("curl", "make", "ss"):
        (world.root / "bin" / tool).unlink()
    (world.project / "Makefile").write_text(".venv/.installed:\n\ttrue\n")
    (world.project / ".venv").symlink_to(sys.prefix)
    (world.etcd / "Makefile").write_text(f"test-robustness:\n\t'{PROJECT}/meta_tests/doubles/robustness-tests'\n")
    result = world.run(
        SCRIPT,
        JAEGER_BIN=str(tools / "jaeger"),
        ETCD_BINARY=str(tools / "etcd"),
        CLIENT_URL=client_url,
        READY_SECONDS="60",
        POLL_SECONDS="1",
        http_proxy="http://[malformed",
        all_proxy="socks5://127.0.0.1:9",
        SSL_CERT_FILE="/nowhere/certificates.pem",
    )
    assert result.code == 0, result.stderr
    assert world.left_over() == []
    (dump,) = [json.loads(line) for line in world.dump.read_text().splitlines()]
    calls = [
        span["name"]
        for resource in dump["result"]["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
        if span["name"].startswith("etcdserverpb.")
    ]
    assert calls == ["etcdserverpb.KV/Range"] * 150


def test_make_collects_and_judges_the_dump(world: World) -> None:
    result = world.end(world.start_make("robustness-coverage", OUTPUT=str(world.dump)))
    assert (result.code, result.stderr) == (0, "")
    assert result.calls[-1] == f"etcd-coverage -v {world.dump}"


@pytest.mark.parametrize(
    "name", ["a [b] 'c' \"d\".json.gz", pytest.param("$HOME;*.json", marks=pytest.mark.integration)]
)
def test_make_judges_a_dump_of_any_name(world: World, name: str) -> None:
    dump = world.dump.with_name(name)
    result = world.end(world.start_make("robustness-coverage", OUTPUT=str(dump)))
    assert (result.code, result.stderr, dump.read_text()) == (0, "", "a new dump\n")
    assert (world.root / "judged").read_text() == f"{dump}\n"
    assert world.left_over() == []


def test_dry_run_prints_the_commands_and_changes_nothing(world: World) -> None:
    result = world.run(SCRIPT, "--dry-run")
    assert (result.code, result.stderr, result.calls) == (0, "", [])
    assert "   env TRACING_SERVER_ADDR=localhost:4317 'GO_TEST_FLAGS=--timeout 10m" in result.stdout
    assert world.left_over() == []
