"""Faults around a collector while it runs: programs that fail, proxies, neighbours, a Jaeger that dies."""

from __future__ import annotations

import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from etcd_coverage.collecting.processes import Signals
from etcd_coverage.collecting.run import Run
from etcd_coverage.collecting.settings import Reader, common
from meta_tests.collect_world import OLD_DUMP, World, only_problem, problems

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration  # many runs of whole scripts

KIND = "collect_kind_traces.sh"
LOCAL = "collect_local_traces.sh"
ROBUSTNESS = "collect_robustness_traces.sh"
CLUSTER = "kind-with-external-etcd"
JAEGER = f"{CLUSTER}-jaeger"
# One of a kind is in the default suite.
SLOW = pytest.mark.integration


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "a world")
    yield world
    world.end_processes()


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("docker info", "docker info fails: double: refused: docker info --format "),
        ("kind get clusters", "kind cannot list its clusters: double: refused: kind get clusters"),
        *(
            pytest.param(call, problem, marks=SLOW)
            for call, problem in (
                ("docker network ls", "docker cannot list its networks: double: refused: docker network ls --quiet"),
                ("docker ps", "docker cannot list its containers: double: refused: docker ps --all "),
                ("^ip ", "ip cannot list the routes of this machine: double: refused: ip -4 route "),
                ("docker context", "docker cannot inspect the context that `docker context use` chose: double: "),
            )
        ),
    ],
)
def test_a_listing_that_fails_in_the_preflight_is_a_problem(world: World, call: str, problem: str) -> None:
    assert only_problem(world.run(KIND, FAIL=call)).startswith(problem)


@pytest.mark.parametrize(
    ("call", "title", "by_hand"),
    [
        ("kind get clusters", "delete the cluster", f"kind delete cluster --name {CLUSTER}"),
        pytest.param("docker ps", "remove Jaeger", f"docker rm --force {JAEGER}", marks=SLOW),
        pytest.param("docker network ls", "remove the network", f"docker network rm {CLUSTER}", marks=SLOW),
        pytest.param("docker image ls", "remove the node image", "docker image rm etcd-coverage/node:", marks=SLOW),
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


@SLOW
def test_a_docker_and_kind_that_are_gone_in_the_clean_up_leave_every_command_by_hand(world: World) -> None:
    broken = f"touch '{world.root}/broken'"
    result = world.run(KIND, AFTER="--window", DO=broken, BROKEN="^(docker|kind) ")
    assert result.code == 1
    by_hand = result.stderr.partition("Left behind; to remove it by hand:\n")[2]
    assert [line.partition(" etcd-coverage/node:")[0] for line in by_hand.splitlines()] == [
        f"   kind delete cluster --name {CLUSTER}",
        f"   docker rm --force {JAEGER}",
        f"   docker network rm {CLUSTER}",
        "   docker image rm",
    ]


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


@SLOW
def test_logs_that_cannot_be_saved_do_not_keep_the_cluster(world: World) -> None:
    result = world.run(KIND, FAIL="WHAT=test/e2e|kind export")
    assert "warning: the logs of the cluster could not be saved: double: refused: kind export" in result.stderr
    assert world.left_over() == []


@SLOW
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("kind export", "the logs of the cluster could not be saved: not done in time: kind export logs "),
        ("docker logs", "the log of Jaeger could not be saved\n"),
    ],
)
def test_logs_that_take_too_long_do_not_keep_what_they_are_of(world: World, call: str, message: str) -> None:
    result = world.run(KIND, FAIL="WHAT=test/e2e", HANG=call, CLEANUP_SECONDS="5")
    assert f"warning: {message}" in result.stderr
    assert (result.code, world.left_over()) == (1, [])


@SLOW
def test_a_log_folder_that_goes_away_does_not_keep_anything(world: World) -> None:
    result = world.run(KIND, AFTER="test-cmd", DO=f"rm -r '{world.project}/logs'")
    assert (result.code, result.stderr.count("Traceback"), world.left_over()) == (1, 0, [])


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
    assert (result.code, result.stderr) == (0, "")
    downloader = environment_of(world, "python")
    assert {name for name in downloader if name.lower().endswith("_proxy") or name.startswith("SSL")} == set()
    for program in ("etcd", "kind"):
        given = environment_of(world, program)
        assert given["http_proxy"] == PROXIES["http_proxy"]
        hosts = "example.com,localhost,127.0.0.1,::1,192.168.32.1,192.168.32.0/24"
        assert (given["no_proxy"], given["NO_PROXY"]) == (hosts, hosts)


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
    assert only_problem(result).startswith(f"another run uses the clone {world.kubernetes}: collect_kind_traces, ")
    assert "applied" in (world.root / "patches").read_text()
    first.send_signal(signal.SIGTERM)
    assert world.end(first).code == 143


@pytest.mark.parametrize(
    ("call", "step"),
    [
        ("kind build", "build the node image"),
        pytest.param("kind create", "run the e2e tests", marks=SLOW),
        pytest.param("^e2e.test", "run the cmd tests", marks=SLOW),
    ],
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
        pytest.param("network", CLUSTER, "docker image inspect", marks=SLOW),
        pytest.param("cluster", CLUSTER, "etcdctl .* health", marks=SLOW),
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


def test_a_jaeger_that_ends_during_the_tests_is_noticed_after_them_and_its_log_is_saved(world: World) -> None:
    # As a stopped container is: in the list of all, not in that of those that run.
    stop = f"touch '{world.root}/stopped'"
    result = world.run(KIND, AFTER="^e2e.test", DO=stop)
    assert result.code == 1
    (log,) = world.project.glob("logs/*/jaeger.log")
    assert f"error: Jaeger has ended, and the traces with it (log: {log})" in result.stderr
    assert "failed: run the e2e tests" in result.stderr
    assert "   | Jaeger: last words" in result.stderr
    assert log.read_text() == "Jaeger: last words\n"
    assert not any("test-cmd" in call for call in result.calls)
    assert world.left_over() == []


@SLOW
def test_a_docker_that_cannot_be_asked_after_the_tests_ends_the_run(world: World) -> None:
    result = world.run(ROBUSTNESS, READY_SECONDS="0", FAIL=r"docker ps --quiet")
    assert "docker cannot tell whether Jaeger still runs: double: refused: docker ps --quiet" in result.stderr
    assert (result.code, world.left_over()) == (1, [])


def test_a_jaeger_program_that_ends_during_the_tests_is_noticed_after_them(world: World) -> None:
    jaeger = world.root / "bin" / "jaeger"
    jaeger.symlink_to(world.root / "bin" / "double")
    kill = 'kill "$(<"$WORLD/jaeger-runs")"; while [[ -e $WORLD/jaeger-runs ]]; do sleep 0.01; done'
    result = world.run(ROBUSTNESS, JAEGER_BIN=str(jaeger), AFTER="test-robustness", DO=kill)
    assert result.code == 1
    assert "error: jaeger has ended (log: " in result.stderr
    assert not any("--window" in call for call in result.calls)
    assert world.left_over() == []


@SLOW
def test_the_log_of_jaeger_is_saved_after_a_run_that_passes(world: World) -> None:
    assert world.run(ROBUSTNESS).code == 0
    (log,) = world.project.glob("logs/*/jaeger.log")
    assert log.read_text() == "Jaeger: last words\n"


@SLOW
def test_what_was_applied_is_reversed_by_hand_where_the_clean_up_cannot(world: World) -> None:
    result = world.run(KIND, FAIL="series.sh reverse")
    series = f"'{world.project}/patches/kubernetes/series.sh'"
    only = "--only contract-events.patch --only contract-tracker.patch"
    assert f"   {series} reverse {only} '{world.kubernetes}'\n" in result.stderr
    assert result.code == 1


def test_a_fault_of_the_collector_itself_is_one_line_and_its_traceback_is_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = Reader({"LOG_DIR": "logs", "PATH": "/usr/bin:/bin"}, tmp_path)
    run = Run(common(reader, "a_collector", tmp_path / "dump.json"), Signals(), dry_run=False, keep=False)
    undone = []

    def step() -> None:
        run.at_end("undo it", lambda: undone.append("it"), "by hand")
        raise ValueError("a\x1b[31m fault")

    handler = signal.getsignal(signal.SIGPIPE)
    try:
        assert run.perform([("do it", step)]) == 1
    finally:
        signal.signal(signal.SIGPIPE, handler)
    log = tmp_path / "logs" / "01-step.log"
    assert capsys.readouterr().err == (
        f"error: ValueError: a\\x1b[31m fault\nerror: step 1 failed: do it\n   log: {log}\n"
    )
    assert "Traceback (most recent call last)" in log.read_text()
    assert undone == ["it"]


@SLOW
@pytest.mark.parametrize("given", ["new", "empty"])
def test_the_data_of_etcd_is_removed_and_an_empty_folder_stays(world: World, tmp_path: Path, given: str) -> None:
    data = tmp_path / "the data"
    if given == "empty":
        data.mkdir()
    write = f"mkdir -p '{data}/member' && touch '{data}/member/db'"
    assert world.run(KIND, DATA_DIR="../the data", AFTER="^etcdctl", DO=write).code == 0
    assert data.exists() == (given == "empty")
    assert not data.exists() or list(data.iterdir()) == []
