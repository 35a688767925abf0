"""collect_local_traces.sh among test doubles, and for real; what it shares with the kind collector is tested there."""

from __future__ import annotations

import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from meta_tests.collect_world import OLD_DUMP, PROJECT, World, only_problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCRIPT = "collect_local_traces.sh"
WORK = r".*/tmp/etcd-coverage-local-[0-9]+"
PORT = "[0-9]{5}"

# The calls of a run, in their order; servers come as they start.
CALLS = [
    r"make \.venv/\.installed",
    r"python -m etcd_coverage\.jaeger --help",
    r"make \.tools/bin/etcd \.tools/bin/jaeger \.tools/bin/kwok",
    r"build\.sh 1\.37",
    r"ss -Hltn",
    r"openssl rand -hex 16",
    rf"openssl genrsa -out {WORK}/service-accounts\.key 2048",
    rf"jaeger --set=\S+max_traces=20000000 --config {WORK}/jaeger\.json",
    rf"curl .* http://127\.0\.0\.1:{PORT}/api/v3/services",
    rf"etcd --watch-progress-notify-interval=5s --data-dir {WORK}/etcd"
    rf" --listen-client-urls http://127\.0\.0\.1:{PORT} --advertise-client-urls http://127\.0\.0\.1:{PORT}"
    r" --listen-peer-urls http://127\.0\.0\.1:0"
    rf" --enable-distributed-tracing --distributed-tracing-address=127\.0\.0\.1:{PORT}"
    r" --distributed-tracing-service-name=etcd --distributed-tracing-sampling-rate=1000000",
    rf"curl .* http://127\.0\.0\.1:{PORT}/health",
    rf"kube-apiserver --bind-address=127\.0\.0\.1 --secure-port={PORT} .* --tracing-config-file={WORK}/tracing\.yaml .*",
    r"kubectl get --raw=/readyz",
    r"(kube-controller-manager|kube-scheduler|kwok) .*127\.0\.0\.1.*",
    rf"kubectl apply -f {WORK}/nodes\.yaml",
    r"kubectl wait --for=condition=Ready node --all --timeout=1s",
    rf"curl .* http://127\.0\.0\.1:{PORT}/api/v3/services",
    r"workload\.sh .*/\.tools/kubernetes-1\.37/bin/kubectl 12",
    rf"python -m etcd_coverage\.jaeger --url http://127\.0\.0\.1:{PORT} --service etcd"
    r" --since [0-9]+s --window 10m -o .*/testdata/kubernetes-1\.37-local\.json\.gz",
]
SERVERS = ("etcd", "jaeger", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
# A server runs in the background: what waits for it fails, or is interrupted.
AWAITED_CALLS = sorted({call for call in CALLS if not call.startswith((*SERVERS, "(kube"))})
# What a server answers is asked again, and a workload of which a part failed is only told.
FATAL_CALLS = [call for call in AWAITED_CALLS if not call.startswith(("curl", "workload", "kubectl get"))]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "a world")
    world.environment["COLLECTOR"] = "jaeger"
    for name in ("KUBERNETES_REPO", "ETCD_REPO"):
        del world.environment[name]
    world.dump = world.project / "testdata" / "kubernetes-1.37-local.json.gz"
    world.dump.write_text(OLD_DUMP)
    for tool in ("docker", "kind", "kubectl"):
        (world.root / "bin" / tool).unlink()
    yield world
    world.end_processes()


def assert_nothing_is_left(world: World, last_call: str = "") -> None:
    assert world.left_over() == []
    assert [name for name in SERVERS if (world.root / f"{name}-runs").exists()] == []
    assert world.dump.read_text() == OLD_DUMP or last_call == CALLS[-1]


def test_a_run_calls_each_step_in_order_and_ends_all(world: World) -> None:
    result = world.run(SCRIPT)
    assert (result.code, result.stderr) == (0, "")
    at = 0
    for pattern in CALLS:
        found = [place for place, call in enumerate(result.calls) if re.fullmatch(pattern, call)]
        assert found, f"never called: {pattern}"
        if pattern in AWAITED_CALLS:
            assert found[-1] >= at, f"called before {result.calls[at]}: {pattern}"
            at = next(place for place in found if place >= at)
    for server in SERVERS:
        assert sum(call.startswith(f"{server} ") for call in result.calls) == 1
    assert world.dump.read_text() == "a new dump\n"
    assert world.left_over() == []
    assert "workload: exit code 0, 17 parts ran, 0 failed" in result.stdout


def test_the_receiver_takes_the_traces_into_a_folder(world: World) -> None:
    del world.environment["COLLECTOR"]
    result = world.run(SCRIPT, TRACE_SECONDS="60")
    assert (result.code, result.stderr) == (0, "")
    assert "make .tools/bin/etcd .tools/bin/kwok" in result.calls
    assert [call for call in result.calls if call.startswith(("jaeger", "curl")) and "/health" not in call] == []
    [etcd] = [call for call in result.calls if call.startswith("etcd ")]
    [receiver] = [call for call in result.calls if call.startswith("python -m etcd_coverage.receive -o")]
    assert receiver.split()[-1] in etcd
    folder = world.project / "testdata" / "kubernetes-1.37-local"
    assert sorted(path.name for path in folder.iterdir()) == [".index.json", "part-00001.pb.zst"]
    assert "   2 spans in 1 request\n" in result.stdout
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, world.dump.name, "traces.json"]
    assert_nothing_is_left(world)


@pytest.mark.integration
def test_the_receiver_replaces_its_own_dump_alone(world: World) -> None:
    folder = world.project / "testdata" / "a run"
    folder.mkdir()
    options = ["--collector", "receive"]
    for name in (".index.json", "part-00009.pb.zst"):
        (folder / name).touch()
    result = world.run(SCRIPT, *options, OUTPUT=str(folder), TRACE_SECONDS="60")
    assert (result.code, result.stderr) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == [".index.json", "part-00001.pb.zst"]
    (folder / "somebody's").touch()
    result = world.run(SCRIPT, *options, OUTPUT=str(folder))
    assert only_problem(result) == f"OUTPUT is a directory with other files than those of the receiver: {folder}"
    result = world.run(SCRIPT, *options, OUTPUT=str(world.dump))
    assert only_problem(result) == f"OUTPUT is the name of a file, the receiver makes a folder: {world.dump}"
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, world.dump.name, "traces.json"]


@pytest.mark.integration
@pytest.mark.parametrize("failure", ["workload", "receiver"])
def test_a_failure_leaves_the_dump_that_was_there(world: World, failure: str) -> None:
    folder = world.project / "testdata" / "kubernetes-1.37-local"
    others = sorted(path.name for path in folder.parent.iterdir())
    folder.mkdir()
    (folder / "part-00001.pb.zst").write_text(OLD_DUMP)
    environment = {"workload": {"FAIL_AFTER": "workload", "WORKLOAD": "none"}, "receiver": {"FAIL": "receive -o"}}
    result = world.run(SCRIPT, "--collector", "receive", TRACE_SECONDS="60", **environment[failure])
    assert result.code == 1
    assert [path.name for path in folder.iterdir()] == ["part-00001.pb.zst"]
    assert sorted(path.name for path in folder.parent.iterdir()) == sorted([*others, folder.name])
    assert_nothing_is_left(world)


def test_ports_are_different_ones(world: World) -> None:
    result = world.run(SCRIPT, "--dry-run")
    ports = set(re.findall(rf"(?:port=|127\.0\.0\.1:)({PORT})", result.stdout))
    assert len(ports) == 7  # Jaeger's gRPC port is in its configuration alone
    assert all(10000 <= int(port) < 32000 for port in ports)


@pytest.mark.integration
def test_clones_and_programs_are_used_where_they_are_given(world: World) -> None:
    (world.root / "bin" / "jaeger").symlink_to(world.root / "bin" / "double")
    (world.root / "e2e.test").symlink_to(world.root / "bin" / "double")
    result = world.run(
        SCRIPT,
        "--kubernetes",
        "1.36",
        "--minutes",
        "3",
        KUBERNETES_REPO=str(world.kubernetes),
        ETCD_REPO=str(world.etcd),
        JAEGER_BIN=str(world.root / "bin" / "jaeger"),
        E2E_TEST=str(world.root / "e2e.test"),
    )
    assert (result.code, result.stderr) == (0, "")
    assert "make .tools/bin/kwok" in result.calls
    programs = "cmd/kube-apiserver cmd/kube-controller-manager cmd/kube-scheduler cmd/kubectl"
    assert f"make -C {world.kubernetes} WHAT={programs}" in result.calls
    assert f"workload.sh {world.kubernetes}/_output/bin/kubectl 3" in result.calls
    assert [call.split()[0] for call in result.calls if "build.sh" in call or "/reverse" in call] == []
    assert sum(call.startswith("series.sh reverse") for call in result.calls) == 1
    assert any(call.startswith("e2e.test --provider=skeleton") for call in result.calls)
    assert (world.project / "testdata" / "kubernetes-1.36-local.json.gz").read_text() == "a new dump\n"
    assert_nothing_is_left(world)


@pytest.mark.integration
def test_cmd_tests_take_the_place_of_the_cluster(world: World) -> None:
    tested = {"KUBERNETES_REPO": str(world.kubernetes), "KUBERNETES_TAG": "v1.37.2"}
    (world.root / "routes").write_text("default via 192.0.2.1\n")
    (world.root / "bin" / "ip").unlink()
    (world.root / "bin" / "ip").write_text("#!/bin/sh\necho default via 192.0.2.1\n")
    (world.root / "bin" / "ip").chmod(0o755)
    result = world.run(SCRIPT, "--cmd-tests", **tested)
    assert (result.code, result.stderr) == (0, "")
    assert f"make -C {world.kubernetes} test-cmd" in result.calls
    assert not any(call.startswith(("etcd ", "kube-apiserver ")) for call in result.calls)
    assert world.dump.read_text() == "a new dump\n"
    assert world.left_over() == []


def fails(world: World, environment: dict[str, str], *expected: str, last_call: str = "") -> None:
    result = world.run(SCRIPT, **environment)
    assert result.code == 1
    for text in ("error: step ", *expected):
        assert text in result.stderr
    assert_nothing_is_left(world, last_call)


def test_a_server_that_does_not_come_up_is_told_and_all_is_undone(world: World) -> None:
    fails(
        world,
        {"FAIL": "^kube-apiserver"},
        "kube-apiserver has ended",
        "double: refused: kube-apiserver --bind-address",
    )


def test_a_signal_is_followed_by_clean_up(world: World) -> None:
    result = world.interrupt(SCRIPT, CALLS[-2], signal.SIGINT)
    assert result.code == 130
    assert "interrupted in step 12" in result.stderr
    assert_nothing_is_left(world)


@pytest.mark.integration
@pytest.mark.parametrize("how", ["FAIL", "FAIL_AFTER"])
@pytest.mark.parametrize("call", FATAL_CALLS)
def test_every_step_can_fail(world: World, call: str, how: str) -> None:
    # Nodes that are not ready are waited for.
    patience = {"READY_SECONDS": "1"} if call.startswith("kubectl wait") else {}
    fails(world, {how: f"^{call}$"} | patience, last_call=call)


@pytest.mark.integration
@pytest.mark.parametrize("server", SERVERS)
def test_every_server_can_fail(world: World, server: str) -> None:
    fails(world, {"FAIL": f"^{server} "}, f"{server} has ended")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("call", "number"),
    [
        *((call, signal.SIGINT) for call in AWAITED_CALLS),
        *((call, number) for call in CALLS[-2:] for number in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
def test_every_step_can_be_interrupted(world: World, call: str, number: signal.Signals) -> None:
    result = world.interrupt(SCRIPT, f"^{call}$", number)
    assert result.code == 128 + number
    assert_nothing_is_left(world, call)


@pytest.mark.integration
def test_a_workload_that_did_nothing_is_a_failure(world: World) -> None:
    fails(world, {"WORKLOAD": "kubectl: not found"}, "no test ran")


def test_every_problem_is_told_at_once(world: World) -> None:
    result = world.run(
        SCRIPT,
        KUBERNETES_REPO=str(world.kubernetes),
        ETCD_REPO="nowhere",
        JAEGER_BIN="no-jaeger",
        NODES="none",
        OUTPUT=str(world.root),
    )
    assert result.code == 1
    assert result.stderr == (
        "collect_local_traces cannot start; nothing was changed. Problems: 5\n"
        "  - KUBERNETES_REPO is at v1.36.3: check out a v1.37, or name its release with --kubernetes\n"
        f"  - ETCD_REPO is not a git clone: {world.root}/nowhere\n"
        f"  - JAEGER_BIN is not a program: {world.root}/no-jaeger\n"
        "  - NODES is no number from 1 to 999: none\n"
        f"  - OUTPUT is a directory: {world.root}\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kubernetes", "1.33"), "--kubernetes 1.33 is none of 1.34 1.35 1.36 1.37 1.38"),
        (("--kubernetes",), "--kubernetes needs a value"),
        (("--minutes", "0"), "--minutes 0 is no number from 1 to 9999"),
        (("--faster",), "unknown argument: --faster"),
    ],
)
def test_wrong_usage(world: World, arguments: tuple[str, ...], message: str) -> None:
    result = world.run(SCRIPT, *arguments)
    assert (result.code, result.stderr) == (2, f"collect_local_traces: {message} (see --help)\n")


def test_a_dry_run_changes_nothing(world: World) -> None:
    result = world.run(SCRIPT, "--dry-run", "--kubernetes", "1.35")
    assert (result.code, result.stderr, result.calls) == (0, "", [])
    assert "tools/kubernetes/build.sh 1.35" in result.stdout
    assert_nothing_is_left(world)


def test_a_prerelease_is_built_only_if_it_is_asked_for(world: World) -> None:
    assert "tools/kubernetes/build.sh 1.37" in world.run(SCRIPT, "--dry-run").stdout
    assert "tools/kubernetes/build.sh 1.38" in world.run(SCRIPT, "--dry-run", "--kubernetes", "1.38").stdout


SERIES = [
    line.split()[:2] for line in (PROJECT / "patches/kubernetes/series").read_text().splitlines() if line[0] != "#"
]


@pytest.mark.parametrize(("minor", "release"), SERIES)
def test_a_minor_is_built_from_the_release_that_its_patches_were_checked_on(minor: str, release: str) -> None:
    module = (PROJECT / "tools" / "kubernetes" / minor / "go.mod").read_text()
    assert re.findall(r"k8s\.io/kubernetes (v\S+)", module) == [release]
    staging = re.findall(r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", module, re.MULTILINE)
    assert len(staging) > 25
    assert {(name == other, version) for name, other, version in staging} == {(True, release.replace("v1.", "v0."))}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Usage: tools/kubernetes/build.sh MINOR (such as 1.37)\n"),
        (("1.33",), 1, "build.sh: no Kubernetes 1.33 in tools/kubernetes, only 1.34 1.35 1.36 1.37 1.38\n"),
    ],
)
def test_what_cannot_be_built_is_told(arguments: tuple[str, ...], code: int, message: str) -> None:
    script = PROJECT / "tools" / "kubernetes" / "build.sh"
    done = subprocess.run([script, *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, message)
