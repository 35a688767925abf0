"""Of several builds of the same program at once, one builds: two collectors, or make twice, in a fresh clone."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[1]
# Builds when it is let go on; fails where it is told to.
GO = """#!/bin/bash
echo "$*" >>"$WORLD/calls"
while [[ -e $WORLD/hold ]]; do sleep 0.02; done
[[ ! -e $WORLD/fails ]] || exit 1
while [[ $1 != -o ]]; do shift; done
echo "built by $$" >"$2"
"""
TARGET = ".tools/bin/etcd"

pytestmark = pytest.mark.skipif(not shutil.which("flock"), reason="there is no flock (util-linux)")


class Clone:
    """A fresh clone with blanks in its path, and a double of Go."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "a clone"
        (self.project / "tools" / "etcd").mkdir(parents=True)
        shutil.copy(PROJECT / "Makefile", self.project)
        shutil.copy(PROJECT / "tools" / "once.sh", self.project / "tools")
        for name in ("go.mod", "go.sum"):
            (self.project / "tools" / "etcd" / name).touch()
        (root / "bin").mkdir()
        (root / "bin" / "go").write_text(GO)
        (root / "bin" / "go").chmod(0o755)
        self.hold = root / "hold"
        self.processes: list[subprocess.Popen[str]] = []

    @property
    def target(self) -> Path:
        return self.project / TARGET

    def calls(self) -> int:
        calls = self.root / "calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    def make(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["make", "-C", str(self.project), TARGET],
            env={"PATH": f"{self.root / 'bin'}:/usr/bin:/bin", "WORLD": str(self.root)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def await_calls(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while self.calls() < count:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def await_waiting(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr
        assert process.stderr.readline() == f"once.sh: another process builds {TARGET}; waiting for it\n"


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Clone]:
    clone = Clone(tmp_path)
    yield clone
    clone.hold.unlink(missing_ok=True)
    for process in clone.processes:
        process.communicate(timeout=60)


def test_the_second_waits_and_does_not_build(clone: Clone) -> None:
    clone.hold.touch()
    first = clone.make()
    clone.await_calls(1)
    second = clone.make()
    clone.await_waiting(second)
    assert not clone.target.exists()
    clone.hold.unlink()
    assert (first.wait(60), second.wait(60)) == (0, 0)
    assert clone.calls() == 1
    assert clone.target.read_text().startswith("built by ")
    assert sorted(path.name for path in clone.target.parent.iterdir()) == ["etcd", "etcd.lock"]


def test_the_second_builds_where_the_first_fails(clone: Clone) -> None:
    clone.hold.touch()
    (clone.root / "fails").touch()
    first = clone.make()
    clone.await_calls(1)
    second = clone.make()
    clone.await_waiting(second)
    clone.hold.unlink()
    assert first.wait(60) == 2
    assert second.wait(60) == 2
    assert clone.calls() == 2
    assert not clone.target.exists()
    (clone.root / "fails").unlink()
    assert clone.make().wait(60) == 0
    assert clone.target.exists()


def test_a_program_that_is_older_than_its_pins_is_built_again(clone: Clone) -> None:
    assert clone.make().wait(60) == 0
    assert clone.make().wait(60) == 0
    assert clone.calls() == 1
    (clone.project / "tools" / "etcd" / "go.sum").write_text("another\n")
    assert clone.make().wait(60) == 0
    assert clone.calls() == 2
