"""Faults around a collector: programs that fail, settings that cannot be, neighbours, signals, full disks."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.collect_world import DEFAULT_SIGNALS, OLD_DUMP, PROJECT, Result, World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KIND = "collect_kind_traces.sh"
LOCAL = "collect_local_traces.sh"
ROBUSTNESS = "collect_robustness_traces.sh"
CLUSTER = "kind-with-external-etcd"
JAEGER = f"{CLUSTER}-jaeger"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "a world")
    yield world
    world.end_processes()


def use_local(world: World) -> None:
    """Leave no clone to `collect_local_traces.sh`."""
    for name in ("KUBERNETES_REPO", "ETCD_REPO"):
        world.environment.pop(name, None)


def problems(result: Result) -> list[str]:
    assert result.code == 1
    assert "cannot start; nothing was changed. Problems: " in result.stderr
    return [line.removeprefix("  - ") for line in result.stderr.splitlines() if line.startswith("  - ")]


def the_problem(result: Result) -> str:
    (problem,) = problems(result)
    return problem


# A listing that fails is a failure.


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("docker info", "docker info fails: double: refused: docker info --format "),
        ("docker network ls", "docker cannot list its networks: double: refused: docker network ls --quiet"),
        ("docker ps", "docker cannot list its containers: double: refused: docker ps --all "),
        ("kind get clusters", "kind cannot list its clusters: double: refused: kind get clusters"),
        ("^ip ", "ip cannot list the routes of this machine: double: refused: ip -4 route "),
        ("docker context", "docker cannot inspect the context that `docker context use` chose: double: refused"),
    ],
)
def test_a_listing_that_fails_in_the_preflight_is_a_problem(world: World, call: str, problem: str) -> None:
    assert the_problem(world.run(KIND, FAIL=call)).startswith(problem)


@pytest.mark.parametrize(
    ("call", "title", "by_hand"),
    [
        ("kind get clusters", "delete the cluster", f"kind delete cluster --name {CLUSTER}"),
        ("docker ps", "remove Jaeger", f"docker rm --force {JAEGER}"),
        ("docker network ls", "remove the network", f"docker network rm {CLUSTER}"),
        ("docker image ls", "remove the node image", "docker image rm etcd-coverage/node:"),
    ],
)
def test_a_listing_that_fails_in_the_clean_up_is_a_failure(world: World, call: str, title: str, by_hand: str) -> None:
    # Docker fails from the download on: the flag is in its world, so that the preflight still passes.
    broken = f"touch '{world.root}/broken'"
    result = world.run(KIND, AFTER="--window", DO=broken, BROKEN=call)
    assert result.code == 1
    assert f"warning: failed: {title} (log: " in result.stderr
    assert f"Left behind; to remove it by hand:\n   {by_hand}" in result.stderr
    assert world.dump.read_text() == "a new dump\n"


def test_a_failed_run_saves_the_logs_of_the_cluster_before_it_is_deleted(world: World) -> None:
    result = world.run(KIND, FAIL="WHAT=test/e2e")
    assert result.code == 1
    (log,) = world.project.glob("logs/*/cluster/apiserver.log")
    assert log.read_text() == "apiserver: its log\n"
    exported, deleted = (
        next(place for place, line in enumerate(result.calls) if line.startswith(call))
        for call in ("kind export logs", "kind delete cluster")
    )
    assert exported < deleted
    assert world.left_over() == []


def test_logs_that_cannot_be_saved_do_not_keep_the_cluster(world: World) -> None:
    result = world.run(KIND, FAIL="WHAT=test/e2e|kind export")
    assert "warning: the logs of the cluster could not be saved: double: refused: kind export" in result.stderr
    assert world.left_over() == []


# Proxies.

PROXIES = {
    "http_proxy": "http://[malformed",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "all_proxy": "socks5://127.0.0.1:9",
    "SSL_CERT_FILE": "/nowhere/certificates.pem",
}


def environment_of(world: World, program: str) -> dict[str, str]:
    lines = (world.root / f"environment-of-{program}").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_the_download_goes_around_proxies_and_the_servers_of_the_run_know_each_other(world: World) -> None:
    result = world.run(KIND, no_proxy="example.com", **PROXIES)
    assert (result.code, result.stderr) == (0, "a bar\n")
    downloader = environment_of(world, "python")
    assert {name for name in downloader if name.lower().endswith("_proxy") or name.startswith("SSL")} == set()
    for program in ("etcd", "kind"):
        given = environment_of(world, program)
        assert given["http_proxy"] == PROXIES["http_proxy"]
        hosts = "example.com,localhost,127.0.0.1,::1,192.168.32.1,192.168.32.0/24"
        assert (given["no_proxy"], given["NO_PROXY"]) == (hosts, hosts)


# Two runs at once.


def test_a_second_run_on_the_machine_waits_for_the_end_of_the_first(world: World) -> None:
    first = world.start(KIND, HANG="kind build")
    world.await_hang(first)
    for script in (KIND, ROBUSTNESS):
        found = problems(world.run_beside(script))
        holder = f"collect_kind_traces, process {first.pid} (lock: {world.root}/locks/etcd-coverage.lock)"
        assert found[0] == f"another run uses the ports and names of this machine: {holder}; wait for its end"
    assert sorted(path.name for path in (world.root / "image").iterdir())  # of the first
    first.send_signal(signal.SIGTERM)
    assert world.end(first).code == 143
    assert world.run(ROBUSTNESS).code == 0


def test_a_clone_has_one_user_at_a_time(world: World) -> None:
    first = world.start(KIND, HANG="kind build")
    world.await_hang(first)
    result = world.run_beside(LOCAL, "--kubernetes", "1.36")
    assert the_problem(result).startswith(f"another run uses the clone {world.kubernetes}: collect_kind_traces, ")
    assert "applied" in (world.root / "patches").read_text()
    first.send_signal(signal.SIGTERM)
    assert world.end(first).code == 143


@pytest.mark.parametrize(
    ("call", "step"),
    [("kind build", "build the node image"), ("kind create", "run the e2e tests"), ("^e2e.test", "run the cmd tests")],
)
def test_patches_that_another_program_takes_out_end_the_run(world: World, call: str, step: str) -> None:
    reverse = f"sed -i '2s/: applied/: applicable/' '{world.root}/patches'"
    result = world.run(KIND, AFTER=call, DO=reverse)
    assert result.code == 1
    assert f"error: the patches are no longer in {world.kubernetes}, another program took them out: " in result.stderr
    assert "contract-tracker.patch is applicable\n" in result.stderr
    assert re.search(rf"^error: step \d+ failed: {step}", result.stderr, re.MULTILINE)
    assert world.left_over() == []
    assert world.dump.read_text() == OLD_DUMP


@pytest.mark.parametrize(
    ("kind", "name", "after"),
    [
        ("container", JAEGER, "docker network create"),
        ("network", CLUSTER, "docker image inspect"),
        ("cluster", CLUSTER, "etcdctl .* health"),
    ],
)
def test_what_somebody_else_makes_meanwhile_is_left_as_it_is(world: World, kind: str, name: str, after: str) -> None:
    result = world.run(KIND, AFTER=after, DO=f"touch '{world.root}/{kind}/{name}'")
    assert result.code == 1
    assert f"{name} has appeared since the preflight; it is left as it is" in result.stderr
    assert f"{kind} {name}" in world.left_over()


def test_a_user_keeps_the_patches_that_were_in_before(world: World) -> None:
    file = world.real_series()
    series = world.project / "patches" / "kubernetes"
    for name in ("other.sh", "etcd.sh"):
        (world.kubernetes / "hack" / "lib" / name).write_text("plain\n")
    (series / "series").write_text("1.36 v1.36.3 trace.patch other.patch\n")
    (series / "other.patch").write_text((series / "trace.patch").read_text().replace("etcd.sh", "other.sh"))
    # As by a user, who then takes one of the two out by hand.
    subprocess.run([series / "series.sh", "apply", world.kubernetes], check=True, env=world.environment)
    other = world.kubernetes / "hack" / "lib" / "other.sh"
    other.write_text("plain\n")
    assert file.read_text() == "traced\n"
    result = world.run(KIND)
    assert (result.code, other.read_text(), file.read_text()) == (0, "plain\n", "traced\n")


# Numbers.


@pytest.mark.parametrize("value", ["10m", "30s", "-1", "1e3", "nan", "inf", "٣", "604801", "a[$(touch hacked)]"])
@pytest.mark.parametrize(
    ("script", "name"),
    [
        (KIND, "COMPACTION_SECONDS"),
        (KIND, "TRACE_SECONDS"),
        (ROBUSTNESS, "CLEANUP_SECONDS"),
        (LOCAL, "STOP_SECONDS"),
    ],
)
def test_a_time_that_is_no_number_of_seconds_is_a_problem(world: World, script: str, name: str, value: str) -> None:
    environment = {name: value} | ({"KUBERNETES_REPO": "", "ETCD_REPO": ""} if script == LOCAL else {})
    result = world.run(script, "--dry-run", **environment)
    assert the_problem(result) == f"{name} is no number of seconds from 0 to 604800: {value.encode().decode()}"
    assert not (world.root / "hacked").exists()
