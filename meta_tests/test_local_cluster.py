"""The whole way for real: a control plane on loopback, its workload, its dump, the verdict on it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from etcd_coverage.judging import judge

PROJECT = Path(__file__).parent.parent
MINOR = "1.37"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("go") is None, reason="needs Go to build Kubernetes"),
    pytest.mark.skipif(
        not (PROJECT / ".tools" / f"kubernetes-{MINOR}" / "inputs").exists(),
        reason=f"needs minutes to build Kubernetes: tools/kubernetes/build.sh {MINOR}",
    ),
]


def processes_of(mark: str) -> list[str]:
    """Return the command lines of the processes that have the text in them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue  # ended meanwhile
        if mark in command:
            found.append(command)
    return found


def environment(folder: Path, dump: Path) -> dict[str, str]:
    return os.environ | {
        "OUTPUT": str(dump),
        "TMPDIR": str(folder),
        "LOG_DIR": str(folder / "logs"),
        "COMPACTION_INTERVAL": "30s",  # the first compaction comes after two
        "READY_SECONDS": "300",
        "MIN_DISK_GB": "1",
        "MIN_MEMORY_GB": "1",
    }


COMMAND = [str(PROJECT / "collect_local_traces.sh"), "--kubernetes", MINOR, "--minutes", "2"]


def test_a_dump_of_a_real_cluster_passes(tmp_path: Path) -> None:
    dump = tmp_path / "dumps" / f"kubernetes-{MINOR}-local"
    dump.parent.mkdir()
    done = subprocess.run(COMMAND, env=environment(tmp_path, dump), capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr + done.stdout
    assert re.search(r"workload: exit code 0, [0-9]+ parts ran, 0 failed", done.stdout)
    assert processes_of(str(tmp_path)) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dumps", "logs"]

    judging = [sys.executable, "-m", "pytest", "-q", "-k", "TestInterfaceUse", "--require-dumps"]
    judging += ["--testdata", str(dump.parent), "tests/test_interface_use.py"]
    verdict = subprocess.run(judging, cwd=PROJECT, capture_output=True, text=True, timeout=300)
    assert verdict.returncode == 0, verdict.stdout

    judged = judge.judge(dump, MINOR)
    assert {(row.grpc_method.rpartition("/")[2], row.call_pattern) for row in judged.rows} >= {
        ("Range", "Get"),
        ("Range", "Count"),
        ("RangeStream", "List"),
        ("Txn", "OptimisticPut"),
        ("Txn", "OptimisticDelete"),
        ("Txn", "Compaction"),
        ("Compact", "Compact"),
        ("Watch", "Watch"),
    }
    assert {lease.key_pattern for lease in judged.leases} >= {
        "/registry/events/{namespace}/{name}",
        "/registry/masterleases/{name}",
    }


def test_an_interrupt_of_a_real_cluster_leaves_nothing(tmp_path: Path) -> None:
    dump = tmp_path / "kubernetes"
    log = tmp_path / "logs"
    process = subprocess.Popen(COMMAND, env=environment(tmp_path, dump), start_new_session=True)
    try:
        deadline = time.monotonic() + 600
        while not list(log.glob("*-run_workload.log")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=300) == 130
    finally:
        process.kill()
    assert processes_of(str(tmp_path)) == []
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
