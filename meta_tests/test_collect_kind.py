"""collect_kind_traces.sh among test doubles: what it calls, and that it leaves nothing behind.

The tests marked integration go through every step; the others take one of a kind.
"""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from meta_tests.collect_world import OLD_DUMP, World

SCRIPT = "collect_kind_traces.sh"
CLUSTER = "kind-with-external-etcd"

# The calls of a run, in their order (the repeated questions of the preflight and the waits aside).
CALLS = [
    r"make .venv/.installed",
    r"python -m etcd_coverage.jaeger --help",
    r"series.sh apply .*/kubernetes clone",
    r"kind build node-image --image etcd-coverage/node:\S+ .*/kubernetes clone",
    r"docker image inspect etcd-coverage/node:\S+",
    r"docker network create --driver bridge --subnet 192\.168\.32\.0/24 --gateway 192\.168\.32\.1 " + CLUSTER,
    r"docker run --detach --name kind-with-external-etcd-jaeger --network kind-with-external-etcd"
    r" --publish 127\.0\.0\.1:16686:16686 --publish 127\.0\.0\.1:4317:4317"
    r" --publish 192\.168\.32\.1:4317:4317"
    r" jaegertracing/jaeger:2\.6\.0"
    r" --set=extensions\.jaeger_storage\.backends\.some_storage\.memory\.max_traces=20000000",
    r"etcd --watch-progress-notify-interval=5s --data-dir .*/tmp/\S+"
    r" --listen-client-urls http://192\.168\.32\.1:2379 --advertise-client-urls http://192\.168\.32\.1:2379"
    r" --enable-distributed-tracing --distributed-tracing-address=192\.168\.32\.1:4317"
    r" --distributed-tracing-service-name=etcd --distributed-tracing-sampling-rate=1000000",
    r"etcdctl --endpoints http://192\.168\.32\.1:2379 endpoint health",
    r"kind create cluster --name kind-with-external-etcd --config kind-with-tracing.yaml"
    r" --image etcd-coverage/node:\S+ --wait 5m --retain",
    r"kubectl --context kind-kind-with-external-etcd wait --for=condition=Ready node --all --timeout=5m",
    r"docker exec kind-with-external-etcd-control-plane bash -c .*cmdline.*",
    r"curl .*/api/v3/services",
    r"make -C .*/kubernetes clone WHAT=test/e2e/e2e\.test",
    r"e2e\.test --provider=skeleton --kubeconfig=.*/kind-with-tracing-config"
    r" --context=kind-kind-with-external-etcd"
    r" --ginkgo\.focus=\\\[sig-apps\\\]\.\*\\\[Conformance\\\] --ginkgo\.no-color --num-nodes=2",
    r"make -C .*/kubernetes clone test-cmd",
    r"python -m etcd_coverage.jaeger --url http://localhost:16686 --service etcd"
    r" --since [0-9]+s --window 10m -o .*/testdata/traces.json",
]
CLEANUP_CALLS = [
    r"kind delete cluster --name kind-with-external-etcd",
    r"docker rm --force --volumes kind-with-external-etcd-jaeger",
    r"docker network rm kind-with-external-etcd",
    r"docker image rm --force etcd-coverage/node:\S+",
    r"series.sh reverse .*/kubernetes clone",
]
# A failed test does not end the run, and curl and etcdctl are asked again.
FATAL_CALLS = [call for call in CALLS if not call.startswith(("e2e", "curl", "etcdctl")) and "test-cmd" not in call]


VARIABLES = (
    *("KUBERNETES_REPO", "ETCD_REPO", "KUBECONFIG", "DATA_DIR", "OUTPUT", "E2E_FOCUS", "E2E_NODES", "TRACE_SECONDS"),
    *("COMPACTION_SECONDS", "JAEGER_IMAGE", "LOG_DIR", "LOCK_DIR", "MIN_DISK_GB", "MIN_MEMORY_GB", "READY_SECONDS"),
    *("POLL_SECONDS", "STOP_SECONDS", "CLEANUP_SECONDS"),
)


def tells(text: str, *expected: str) -> None:
    for part in expected:
        assert part in text


def assert_nothing_is_left(world: World, last_call: str = "") -> None:
    assert world.left_over() == []
    # The download is the last call; when it had its effect, the new dump stays.
    assert world.dump.read_text() == OLD_DUMP or last_call == CALLS[-1]


def assert_each_once(calls: list[str], patterns: list[str]) -> None:
    """Check that the patterns match in their order, and each once (but questions repeat)."""
    at = 0
    for pattern in patterns:
        matches = [place for place, call in enumerate(calls) if re.fullmatch(pattern, call)]
        assert matches, f"never called: {pattern}"
        if not pattern.startswith(("curl", "etcdctl")):
            assert len(matches) == 1, f"called {len(matches)} times: {pattern}"
        assert matches[-1] >= at, f"called before {calls[at]}: {pattern}"
        # A server runs in the background: the question whether it is up may be noted before it.
        if not pattern.startswith("etcd "):
            at = next(place for place in matches if place >= at)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "a world")
    yield world
    world.end_processes()


@pytest.mark.integration
def test_the_receiver_serves_in_place_of_jaeger(world: World) -> None:
    result = world.run(SCRIPT, "--collector", "receive", TRACE_SECONDS="60")
    assert (result.code, result.stderr) == (0, "")
    [receiver] = [call for call in result.calls if call.startswith("python -m etcd_coverage.receive -o")]
    assert receiver.endswith(" --listen 127.0.0.1:4317 --listen 192.168.32.1:4317")
    network = next(at for at, call in enumerate(result.calls) if call.startswith("docker network create"))
    assert result.calls.index(receiver) > network
    assert [call for call in result.calls if call.startswith(("docker run", "curl"))] == []
    folder = world.project / "testdata" / "traces"
    assert sorted(path.name for path in folder.iterdir()) == [".index.json", "part-00001.pb.zst"]
    assert world.left_over() == []
    assert world.dump.read_text() == OLD_DUMP


def test_a_run_calls_each_step_in_order_and_undoes_all(world: World) -> None:
    result = world.run(SCRIPT)
    assert (result.code, result.stderr) == (0, "")
    assert_each_once(result.calls, CALLS + CLEANUP_CALLS)
    assert world.left_over() == []
    assert world.dump.read_text() == "a new dump\n"
    assert (world.root / "cluster-network").read_text() == f"{CLUSTER}\n"
    tells(
        result.stdout,
        "Kubernetes v1.36.3",
        "contract-events.patch: applicable",
        f"The dump is {world.dump}",
        "e2e tests: exit code 0, Ran 31 of 7001 Specs",
        "cmd tests: exit code 0",
    )
    log = next(world.project.glob("logs/*/*-run_cmd_tests.log")).read_text()
    assert f"etcd: {world.etcd}/bin/etcd, 12379" in log


def fails(world: World, call: str, how: str) -> None:
    result = world.run(SCRIPT, **{how: f"^{call}$"})
    assert result.code == 1
    tells(result.stderr, "error: step ", " failed: ", "   log: ", ".log")
    assert f"double: {'refused' if how == 'FAIL' else 'failed'}: " in result.stderr
    assert_nothing_is_left(world, call)


def is_interrupted(world: World, call: str, number: signal.Signals) -> None:
    result = world.interrupt(SCRIPT, f"^{call}$", number)
    assert result.code == 128 + number
    tells(result.stderr, "interrupted in step ")
    assert_nothing_is_left(world, call)
    for pattern in CLEANUP_CALLS:
        assert sum(bool(re.fullmatch(pattern, call)) for call in result.calls) <= 1


def test_a_failed_step_is_told_and_undone(world: World) -> None:
    fails(world, CALLS[9], "FAIL_AFTER")


@pytest.mark.parametrize(
    ("call", "number"),
    [("docker version", signal.SIGTERM), (CALLS[9], signal.SIGINT)],
)
def test_a_signal_is_followed_by_clean_up(world: World, call: str, number: signal.Signals) -> None:
    is_interrupted(world, call, number)


@pytest.mark.integration
@pytest.mark.parametrize("how", ["FAIL", "FAIL_AFTER"])
@pytest.mark.parametrize("call", FATAL_CALLS)
def test_every_failed_step_is_told_and_undone(world: World, call: str, how: str) -> None:
    if how == "FAIL_AFTER" and call.startswith("etcd --watch"):
        pytest.skip("a server has no effect after which it could fail")
    fails(world, call, how)


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("call", [call for call in CALLS if not call.startswith("etcd --watch")])
def test_every_step_can_be_interrupted(world: World, call: str, number: signal.Signals) -> None:
    is_interrupted(world, call, number)


@pytest.mark.integration
@pytest.mark.parametrize("calls", range(1, 45, 2))
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_between_calls_is_followed_by_clean_up(world: World, calls: int, number: signal.Signals) -> None:
    process = world.start(SCRIPT)
    while len((world.root / "calls").read_text().splitlines()) < calls and process.poll() is None:
        pass
    if process.poll() is None:
        process.send_signal(number)
    result = world.end(process)
    assert result.code in {0, 128 + number}  # 0: it came when the work was done
    assert world.left_over() == []


@pytest.mark.integration
def test_a_second_run_after_a_failed_one_works(world: World) -> None:
    assert world.run(SCRIPT, FAIL_AFTER="docker network create").code == 1
    assert world.run(SCRIPT).code == 0
    assert world.left_over() == []


@pytest.mark.integration
def test_what_a_killed_run_left_is_named_with_the_command_that_removes_it(world: World) -> None:
    for kind, name in (("cluster", CLUSTER), ("container", f"{CLUSTER}-jaeger")):
        (world.root / kind / name).touch()
    result = world.run(SCRIPT)
    assert result.code == 1
    tells(
        result.stderr,
        f"kind delete cluster --name {CLUSTER}",
        f"docker rm --force {CLUSTER}-jaeger",
        "nothing was changed. Problems: 2\n",
    )
    assert not any(re.match("docker rm|kind delete", call) for call in result.calls)


def test_every_problem_is_told_at_once_before_anything_is_changed(world: World, tmp_path: Path) -> None:
    (world.root / "bin" / "kubectl").unlink()
    for port in ("2379", "16686"):
        (world.root / "listeners" / port).touch()
    (world.root / "network" / "company").write_text("192.168.0.0/16,192.168.0.1\n")
    (world.root / "network" / "other").write_text("192.168.33.0/24,192.168.33.1\n")
    (world.root / "routes").write_text("192.168.32.128/25 dev vpn0\n")
    (world.root / "patches").write_text(
        "a.patch: applied\nb.patch: does not fit Kubernetes v1.36.3: hack/lib/etcd.sh is missing\n"
    )
    (world.etcd / "bin" / "etcdctl").unlink()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "member").touch()
    path = f"{world.root / 'bin'}"  # without the tools of this machine
    for tool in (
        "bash",
        "date",
        "mkdir",
        "dirname",
        "awk",
        "df",
        "tail",
        "rm",
        "cat",
        "ls",
        "sed",
        "uname",
        "env",
        "sleep",
    ):
        found = subprocess.run(["which", tool], capture_output=True, text=True, check=True).stdout.strip()
        (world.root / "bin" / tool).symlink_to(found)
    result = world.run(
        SCRIPT,
        PATH=path,
        MIN_DISK_GB="9999999",
        MIN_MEMORY_GB="9999999",
        DATA_DIR=str(tmp_path / "data"),
        OUTPUT=str(tmp_path / "nowhere" / "dump.json"),
        E2E_NODES="two",
        KUBECONFIG="a:b",
        DOCKER_HOST="ssh://elsewhere",
        FAIL="docker buildx",
    )
    assert result.code == 1
    problems = [line for line in result.stderr.splitlines() if line.startswith("  - ")]
    expected = [
        "kubectl is not on PATH",
        "port 2379 (etcd) is in use",
        "port 16686 (Jaeger's query API) is in use",
        "docker has no buildx",
        "a Docker Engine on another host is not supported: DOCKER_HOST=ssh://elsewhere",
        "the Docker network company uses 192.168.0.0/16",
        "this machine has a route that takes 192.168.32.0/24: 192.168.32.128/25 dev vpn0",
        f"{world.kubernetes} has ",
        "b.patch: does not fit Kubernetes v1.36.3: hack/lib/etcd.sh is missing",
        "etcd is not built: make -C ",
        "DATA_DIR is not an empty directory: ",
        "E2E_NODES is not a number: two",
        "KUBECONFIG names several files",
        " GB of memory are available, MIN_MEMORY_GB=9999999 are needed",
        "OUTPUT cannot be written, its directory does not exist or is read-only: ",
    ]
    assert len(problems) == len(expected)
    for problem, part in zip(problems, expected, strict=True):
        assert part in problem
    assert not any(
        re.match("docker (run|network create)|kind (build|create)|series.sh apply|make", c) for c in result.calls
    )
    assert world.left_over() == ["network company", "network other", "patch a.patch: applied"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({"FAIL": "docker version"}, "docker does not answer: double: refused: docker version"),
        ({"ENGINE": "Podman Engine"}, "podman and nerdctl are not supported"),
        ({"KIND_EXPERIMENTAL_PROVIDER": "podman"}, "podman and nerdctl are not supported"),
        ({"DOCKER_SYSTEM": "Docker Desktop [name=seccomp]"}, "Docker Desktop is not supported"),
        ({"FAIL": "git .* describe"}, "KUBERNETES_REPO has no tags, its version is unknown"),
        ({"FAIL": "series.sh status"}, "double: refused: series.sh status "),
        ({"FAIL": "etcd --help"}, "this etcd has no --enable-distributed-tracing"),
        ({"KUBERNETES_REPO": "/nowhere"}, "KUBERNETES_REPO is not a git clone: /nowhere"),
    ],
)
def test_a_problem_is_told_before_anything_is_changed(world: World, environment: dict[str, str], problem: str) -> None:
    result = world.run(SCRIPT, **environment)
    assert result.code == 1
    tells(result.stderr, "cannot start; nothing was changed. Problems: 1\n", f"  - {problem}")
    assert_nothing_is_left(world)


@pytest.mark.integration
def test_a_network_that_fits_is_used_and_stays(world: World) -> None:
    (world.root / "network" / CLUSTER).write_text("192.168.32.0/24,192.168.32.1\n")
    result = world.run(SCRIPT)
    assert result.code == 0
    assert not any(call.startswith(("docker network create", "docker network rm")) for call in result.calls)
    assert world.left_over() == [f"network {CLUSTER}"]


@pytest.mark.integration
def test_a_network_of_the_name_that_does_not_fit_is_a_problem(world: World) -> None:
    (world.root / "network" / CLUSTER).write_text("172.19.0.0/16,172.19.0.1\n")
    result = world.run(SCRIPT)
    assert result.code == 1
    tells(
        result.stderr,
        f"the network {CLUSTER} is not 192.168.32.0/24,192.168.32.1 but 172.19.0.0/16,172.19.0.1",
    )


@pytest.mark.integration
def test_an_apiserver_without_the_asked_flags_ends_the_run(world: World) -> None:
    world.set_apiserver_flags("https://127.0.0.1:2379", None)
    result = world.run(SCRIPT)
    assert result.code == 1
    tells(
        result.stderr,
        "asked for --etcd-servers=http://192.168.32.1:2379, it runs with --etcd-servers=https://127.0.0.1:2379",
        "asked for --tracing-config-file=/etc/kubernetes/apiserver-shared-conf/tracing.yaml, it runs with no",
        "kind-with-tracing.yaml had no effect",
    )
    assert_nothing_is_left(world)


@pytest.mark.integration
def test_a_cluster_without_traces_ends_the_run_with_the_apiservers_last_words(world: World) -> None:
    result = world.run(SCRIPT, SERVICES='"etcd"')
    assert result.code == 1
    tells(
        result.stderr,
        "apiserver: last words",
        'Jaeger has no traces of apiserver and etcd after 0 s, it answers: {"serv',
    )
    assert_nothing_is_left(world)


@pytest.mark.integration
def test_failed_tests_are_told_and_do_not_end_the_run(world: World) -> None:
    result = world.run(
        SCRIPT, FAIL_AFTER="^e2e.test |test-cmd", CMD_TESTS="Running command: run_a\nFAILED TESTS: run_a, "
    )
    assert result.code == 0
    tells(
        result.stdout,
        "e2e tests: exit code 1, Ran 31 of 7001 Specs",
        "cmd tests: exit code 1, FAILED TESTS: run_a, ",
    )
    assert world.dump.read_text() == "a new dump\n"


@pytest.mark.integration
@pytest.mark.parametrize("tests", [{"E2E_TESTS": "Ran 0 of 7001 Specs"}, {"CMD_TESTS": "no rule to make target"}])
def test_that_no_test_ran_ends_the_run(world: World, tests: dict[str, str]) -> None:
    result = world.run(SCRIPT, **tests)
    assert result.code == 1
    tells(result.stderr, "no test ran")
    assert_nothing_is_left(world)


@pytest.mark.integration
def test_an_etcd_that_ended_is_noticed(world: World) -> None:
    result = world.run(SCRIPT, HANG="^never", FAIL="etcd --watch")
    assert result.code == 1
    tells(result.stderr, "double: refused: etcd --watch", "etcd has ended (log: ")
    assert_nothing_is_left(world)


@pytest.mark.integration
def test_the_series_is_in_while_the_cluster_is_built_and_out_after_an_interrupt(world: World) -> None:
    file = world.real_series()
    process = world.start(SCRIPT, HANG="kind build")
    world.await_hang(process)
    assert file.read_text() == "traced\n"
    process.send_signal(signal.SIGTERM)
    assert world.end(process).code == 143
    assert file.read_text() == "plain\n"
    assert world.left_over() == []


@pytest.mark.integration
def test_patches_that_were_applied_before_stay(world: World) -> None:
    patches = (world.root / "patches").read_text().replace(": applicable", ": applied")
    (world.root / "patches").write_text(patches)
    result = world.run(SCRIPT)
    assert result.code == 0
    assert not any("reverse" in call for call in result.calls)


def test_a_failed_clean_up_step_does_not_stop_the_next(world: World) -> None:
    result = world.run(SCRIPT, FAIL="kind delete|docker rm|series.sh reverse")
    assert result.code == 1
    tells(
        result.stderr,
        "failed: delete the cluster",
        "failed: remove Jaeger",
        "failed: remove the network",  # Jaeger is still on it
        "failed: reverse the patches",
        f"   docker rm --force {CLUSTER}-jaeger",
    )
    assert any(call.startswith("docker image rm") for call in result.calls)
    assert not (world.root / "etcd-runs").exists()


@pytest.mark.integration
def test_a_clean_up_step_that_hangs_is_given_up_and_a_signal_meanwhile_changes_nothing(world: World) -> None:
    result = world.interrupt(SCRIPT, "kind delete", signal.SIGINT, CLEANUP_SECONDS="5")
    assert result.code == 1
    tells(result.stderr, "still cleaning up", "not done within 5 s: delete the cluster")
    assert world.left_over() == []
    assert_each_once(result.calls, CLEANUP_CALLS)


@pytest.mark.integration
def test_a_child_that_ignores_the_signal_is_killed(world: World) -> None:
    result = world.interrupt(SCRIPT, "kind build", signal.SIGTERM, DEAF="yes", STOP_SECONDS="0")
    assert result.code == 143
    assert_nothing_is_left(world)


@pytest.mark.integration
def test_keep_leaves_all_running_and_tells_how_to_remove_it(world: World) -> None:
    result = world.run(SCRIPT, "--keep")
    assert result.code == 0
    tells(
        result.stdout,
        f"   kind delete cluster --name {CLUSTER}",
        f"   docker network rm {CLUSTER}",
        "   kill -- -",
    )
    left = " ".join(world.left_over())
    for part in (
        "process",
        f"network {CLUSTER}",
        f"container {CLUSTER}-jaeger",
        f"cluster {CLUSTER}",
        "file etcd-coverage-",
    ):
        assert part in left
    assert "patch" not in left


@pytest.mark.integration
def test_the_download_waits_for_compaction(world: World) -> None:
    assert world.run(SCRIPT, COMPACTION_SECONDS="2").code == 0
    log = next(world.project.glob("logs/*/*-wait_for_compaction.log")).read_text()
    assert re.search(r"^\+ sleep [12]$", log, re.MULTILINE)


def test_dry_run_prints_the_commands_and_changes_nothing(world: World) -> None:
    result = world.run(SCRIPT, "--dry-run")
    assert (result.code, result.stderr) == (0, "")
    tells(
        result.stdout,
        "   kind build node-image --image ",
        f"   env KIND_EXPERIMENTAL_DOCKER_NETWORK={CLUSTER} kind create cluster ",
        "--distributed-tracing-sampling-rate=1000000",
        f"'{world.kubernetes}' test-cmd",
        "   delete the cluster",
    )
    assert result.calls == []
    assert not (world.project / "logs").exists()
    assert_nothing_is_left(world)


def test_help_tells_every_variable_and_its_default(world: World) -> None:
    environment = {"KUBERNETES_REPO": "", "ETCD_REPO": ""}
    result = world.run(SCRIPT, "--help", **environment)
    assert (result.code, result.stderr) == (0, "")
    for variable in VARIABLES:
        assert re.search(rf"^  {variable} +\S", result.stdout, re.MULTILINE), variable
    tells(
        result.stdout,
        f"[{world.root}/go path/src/k8s.io/kubernetes]",
        f"[{world.root}/go path/src/go.etcd.io/etcd]",
        f"[{world.root}/go path/src/k8s.io/kubernetes/kind-with-tracing-config]",
        "[jaegertracing/jaeger:2.6.0]",
        f"[{world.dump}]",
        r"[\[sig-apps\].*\[Conformance\]]",
        "(--num-nodes) [2]",
    )


def test_make_builds_etcd_collects_and_judges_the_dump_as_its_release(world: World) -> None:
    for variable, clone in (("KUBERNETES_REPO", "k8s.io/kubernetes"), ("ETCD_REPO", "go.etcd.io/etcd")):
        default = world.root / "go path" / "src" / clone
        default.parent.mkdir(parents=True)
        default.symlink_to(world.environment.pop(variable))
    result = world.end(world.start_make("k8s-coverage"))
    assert (result.code, result.stderr) == (0, "")
    assert result.calls[:2] == ["go env GOPATH", "make build"]
    assert result.calls[-1] == "etcd-coverage -v testdata/traces.json --kubernetes-version 1.36"
    assert world.dump.read_text() == "a new dump\n"
    assert world.left_over() == []


@pytest.mark.integration
def test_ctrl_c_in_make_is_followed_by_clean_up_before_make_ends(world: World) -> None:
    process = world.start_make("k8s-coverage", HANG="kind create")
    world.await_hang(process)
    os.killpg(process.pid, signal.SIGINT)
    result = world.end(process)
    assert result.code != 0
    tells(result.stderr, "interrupted in step 8")
    assert not any(call.startswith("etcd-coverage ") for call in result.calls)
    assert_nothing_is_left(world)


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGINT, None])
def test_clean_up_does_not_depend_on_a_reader_of_the_output(world: World, number: signal.Signals | None) -> None:
    process = world.start(SCRIPT, HANG="kind create")
    if number:
        world.await_hang(process)
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    process.stderr.close()
    if number:
        process.send_signal(number)
    # Without a signal the script is ended by its own next line (SIGPIPE).
    assert process.wait(timeout=180) == (130 if number else 141)
    assert_nothing_is_left(world)


@pytest.mark.integration
def test_make_judges_nothing_when_the_collector_failed(world: World) -> None:
    result = world.end(world.start_make("k8s-coverage", FAIL="kind build"))
    assert result.code == 2
    assert not any(call.startswith("etcd-coverage ") for call in result.calls)
    assert_nothing_is_left(world)


def test_an_unknown_argument_is_a_usage_error(world: World) -> None:
    result = world.run(SCRIPT, "--kep")
    assert (result.code, result.stderr) == (2, "collect_kind_traces: unknown argument: --kep (see --help)\n")
