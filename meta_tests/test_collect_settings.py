"""Settings of the collectors that cannot be: each is a problem of the preflight."""

from __future__ import annotations

import os
import re
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from etcd_coverage.collecting.network import overlaps
from etcd_coverage.collecting.settings import Reader
from meta_tests.collect_world import OLD_DUMP, World, only_problem, problems

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.integration  # many runs of whole scripts

KIND = "collect_kind_traces.sh"
LOCAL = "collect_local_traces.sh"
ROBUSTNESS = "collect_robustness_traces.sh"
# One of a kind is in the default suite.
SLOW = pytest.mark.integration
NAME = "OUTPUT has a name that pytest does not take for a dump, or cannot print"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "a world")
    yield world
    world.end_processes()


NO_SECONDS = ["10m", "30s", "-1", "1e3", "nan", "inf", "٣", "604801", ".5", "5.", "0x10", " 5", "1_000", "9" * 400]


@pytest.mark.parametrize("value", NO_SECONDS)
def test_a_time_is_a_plain_number_of_seconds(value: str) -> None:
    reader = Reader({"TIME": value}, Path("/"))
    assert reader.seconds("TIME", 7) == 7
    assert reader.problems == [f"TIME is no number of seconds from 0 to 604800: {value}"]


@pytest.mark.parametrize(
    ("value", "seconds"), [("", 7), ("0", 0), ("08", 8), ("0.5", 0.5), ("600", 600), ("604800", 604800)]
)
def test_seconds(value: str, seconds: float) -> None:
    reader = Reader({"TIME": value}, Path("/"))
    assert (reader.seconds("TIME", 7), reader.problems) == (seconds, [])


@pytest.mark.parametrize("value", ["0", "5m", "1h30m", "1.5h", "90s", "300ms", ".5m"])
def test_a_duration_is_one_of_go(value: str) -> None:
    reader = Reader({"TIME": value}, Path("/"))
    assert (reader.go_duration("TIME", "5m"), reader.problems) == (value, [])


@pytest.mark.parametrize("value", ["5", "5 m", "m", "5d", "-5m", "5m --flag", "٣m"])
def test_what_go_takes_for_no_duration(value: str) -> None:
    reader = Reader({"TIME": value}, Path("/"))
    reader.go_duration("TIME", "5m")
    assert reader.problems == [f"TIME is no duration such as 5m or 1h30m: {value}"]


@pytest.mark.parametrize(
    ("script", "name", "value"),
    [
        (KIND, "COMPACTION_SECONDS", "10m"),
        pytest.param(KIND, "TRACE_SECONDS", "30s", marks=SLOW),
        pytest.param(KIND, "READY_SECONDS", "a[$(touch hacked)]", marks=SLOW),
        pytest.param(ROBUSTNESS, "CLEANUP_SECONDS", "3m", marks=SLOW),
        pytest.param(LOCAL, "STOP_SECONDS", "5s", marks=SLOW),
        pytest.param(LOCAL, "POLL_SECONDS", "1,5", marks=SLOW),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_every_setting_is_checked_before_anything_is_changed(
    world: World, script: str, name: str, value: str, arguments: tuple[str, ...]
) -> None:
    if script == LOCAL:
        world.environment |= {"KUBERNETES_REPO": "", "ETCD_REPO": ""}
    result = world.run(script, *arguments, **{name: value})
    assert only_problem(result) == f"{name} is no number of seconds from 0 to 604800: {value}"
    assert not any(call.startswith(("make", "docker run", "kind build")) for call in result.calls)
    assert list(world.root.rglob("hacked")) == []
    assert world.left_over() == []


@pytest.mark.parametrize(
    ("value", "number"), [("0", 0), ("3", 3), ("007", None), ("two", None), ("-1", None), ("1000000000", None)]
)
def test_a_count_is_a_whole_number(value: str, number: int | None) -> None:
    reader = Reader({"NODES": value}, Path("/"))
    assert reader.count("NODES", 9, 0) == (9 if number is None else number)
    assert reader.problems == ([f"NODES is not a number: {value}"] if number is None else [])


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ("192.168.32.0/24", True),
        ("192.168.0.0/16", True),
        ("192.168.32.128/25", True),
        ("0.0.0.0/0", True),
        ("192.168.33.0/24", False),
        ("10.0.0.0/8", False),
        ("fd00::/64", False),
        ("", False),
        ("192.168.32.300/24", False),
    ],
)
def test_subnets_that_overlap(taken: str, expected: bool) -> None:
    assert overlaps(taken, IPv4Network("192.168.32.0/24")) is expected


def make_output(world: World, kind: str) -> Path:
    path = world.root / "an output"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "dangling":
            path.symlink_to(world.root / "nowhere" / "traces.json")
        case "device":
            return Path("/dev/null")
        case "hidden":
            return world.root / ".traces.json"
        case "long":
            return world.root / ("a" * 250)
        case "control":
            return world.root / "a\x1b[31m.json"
    return path


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("device", "OUTPUT is no regular file: /dev/null"),
        pytest.param("fifo", "OUTPUT is no regular file: .*/an output", marks=SLOW),
        ("dangling", "OUTPUT is a link to nothing: .*/an output"),
        pytest.param("hidden", rf"{NAME}: .*/\.traces\.json", marks=SLOW),
        pytest.param("control", rf"{NAME}: .*/a\\x1b\[31m\.json", marks=SLOW),
        pytest.param("long", r"OUTPUT has a name that is longer than 235 bytes: a{40}\.\.\.", marks=SLOW),
    ],
)
def test_an_output_that_cannot_be_a_dump(world: World, kind: str, problem: str) -> None:
    result = world.run(ROBUSTNESS, OUTPUT=str(make_output(world, kind)))
    assert re.fullmatch(problem, only_problem(result))


def test_a_link_to_a_file_and_any_other_name_are_an_output(world: World) -> None:
    name = "a [b] 'c' \"d\" $e.json"
    (world.root / "link").symlink_to(world.dump)
    assert world.run(ROBUSTNESS, "--dry-run", OUTPUT="link").code == 0
    assert world.run(ROBUSTNESS, OUTPUT=name).code == 0
    assert (world.root / name).read_text() == "a new dump\n"
    assert world.dump.read_text() == OLD_DUMP


def test_a_data_dir_that_cannot_be(world: World) -> None:
    (world.root / "file").touch()
    full = world.root / "full"
    (full / "member").mkdir(parents=True)
    assert only_problem(world.run(KIND, DATA_DIR="file/data")) == (
        f"DATA_DIR cannot be made, {world.root}/file is no directory that can be written: {world.root}/file/data"
    )
    for given in ("full", "file"):
        assert only_problem(world.run(KIND, DATA_DIR=given)) == (
            f"DATA_DIR is not an empty directory: {world.root}/{given}"
        )


@pytest.mark.parametrize("script", [KIND, pytest.param(ROBUSTNESS, marks=SLOW)])
def test_an_engine_on_another_host_is_a_problem(world: World, script: str) -> None:
    result = world.run(script, DOCKER_CONTEXT="far", CONTEXT_HOST="ssh://elsewhere")
    assert only_problem(result) == (
        "a Docker Engine on another host is not supported: DOCKER_CONTEXT=far is ssh://elsewhere"
    )


def test_a_folder_for_logs_or_files_that_cannot_be_is_reported_in_one_line(world: World) -> None:
    (world.root / "file").touch()
    result = world.run(ROBUSTNESS, LOG_DIR="file/logs")
    message = f"error: LOG_DIR cannot be made: {world.root}/file/logs: Not a directory\n"
    assert (result.code, result.stdout, result.stderr) == (1, "", message)
    assert problems(world.run(KIND, TMPDIR="file"))[-1] == (
        f"TMPDIR is no directory that can be written: {world.root}/file"
    )
    assert only_problem(world.run(ROBUSTNESS, LOCK_DIR="file")) == f"LOCK_DIR is no directory: {world.root}/file"
    (world.root / "full" / "etcd-coverage.lock").mkdir(parents=True)
    assert only_problem(world.run(ROBUSTNESS, LOCK_DIR="full")) == (
        f"the ports and names of this machine cannot be locked, {world.root}/full/etcd-coverage.lock: Is a directory"
    )
