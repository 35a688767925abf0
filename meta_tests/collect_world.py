"""A world of test doubles in which the collect_*.sh scripts run: see meta_tests/doubles/double."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).parent.parent
TOOLS = ("docker", "kind", "kubectl", "make", "git", "go", "curl", "ss", "ip", "openssl")
SCRIPTS = ("collect_kind_traces.sh", "collect_robustness_traces.sh", "collect_local_traces.sh")
# They are inherited: a background job of a script ignores interrupts, one of nohup hang-ups.
DEFAULT_SIGNALS = "--default-signal=INT,TERM,HUP,PIPE"
OLD_DUMP = "an earlier dump\n"
PATCHES = "contract-events.patch: applicable\ncontract-tracker.patch: applicable\n"


@dataclass
class Result:
    """How a script ended, and what it called."""

    code: int
    stdout: str
    stderr: str
    calls: list[str]


def problems(result: Result) -> list[str]:
    """Return what a preflight reported."""
    assert result.code == 1
    assert "cannot start; nothing was changed. Problems: " in result.stderr
    return [line.removeprefix("  - ") for line in result.stderr.splitlines() if line.startswith("  - ")]


def only_problem(result: Result) -> str:
    (problem,) = problems(result)
    return problem


@dataclass
class World:
    """A machine with the project's scripts, clones of Kubernetes and etcd, and doubles of every tool."""

    root: Path
    environment: dict[str, str] = field(init=False)
    folder: Path = field(init=False)
    """Where scripts are called."""

    def __post_init__(self) -> None:
        self.project = self.root / "the project"
        self.folder = self.root
        self.kubernetes = self.root / "kubernetes clone"
        self.etcd = self.root / "etcd clone"
        self.dump = self.project / "testdata" / "traces.json"
        double = self.root / "bin" / "double"
        for name in ("bin", "network", "container", "image", "cluster", "listeners", "tmp", "locks"):
            (self.root / name).mkdir(parents=True)
        for folder in (
            self.kubernetes / ".git",
            self.kubernetes / "hack" / "lib",
            self.etcd / ".git",
            self.etcd / "bin",
            self.etcd / "tests" / "robustness",
            self.dump.parent,
            self.project / "patches" / "kubernetes",
        ):
            folder.mkdir(parents=True)
        (self.kubernetes / "hack" / "lib" / "etcd.sh").touch()
        (self.etcd / "Makefile").touch()
        for name in SCRIPTS:
            shutil.copy(PROJECT / name, self.project)
        # A link, so that what Python compiled of it serves every world.
        (self.project / "etcd_coverage").symlink_to(PROJECT / "etcd_coverage")
        shutil.copy(PROJECT / "meta_tests" / "doubles" / "double", double)
        for tool in TOOLS:
            (self.root / "bin" / tool).symlink_to(double)
        for tool in ("etcd", "etcdctl"):
            (self.etcd / "bin" / tool).symlink_to(double)
        (self.project / "patches" / "kubernetes" / "series.sh").symlink_to(double)
        (self.project / "patches" / "kubernetes" / "series").write_text(
            "1.37 v1.37.2 a.patch\n1.38 v1.38.0-rc.1 a.patch\n"
        )
        (self.project / "tools" / "kubernetes").mkdir(parents=True)
        shutil.copy(PROJECT / "tools" / "collect.sh", self.project / "tools")
        for minor in ("1.34", "1.35", "1.36", "1.37", "1.38"):
            (self.project / "tools" / "kubernetes" / minor).mkdir()
        for program in ("build.sh", "workload.sh"):
            (self.project / "tools" / "kubernetes" / program).symlink_to(double)
        shutil.copytree(PROJECT / "apiserver-shared-conf", self.project / "apiserver-shared-conf")
        (self.root / "patches").write_text(PATCHES)
        (self.root / "routes").touch()
        self.set_apiserver_flags("http://192.168.32.1:2379", "/etc/kubernetes/apiserver-shared-conf/tracing.yaml")
        self.dump.write_text(OLD_DUMP)
        self.environment = {
            "PATH": f"{self.root / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.root),
            "TMPDIR": str(self.root / "tmp"),
            "WORLD": str(self.root),
            "PYTHON": sys.executable,
            "RECEIVER": str(PROJECT / "meta_tests" / "doubles" / "receiver.py"),
            "LOCK_DIR": str(self.root / "locks"),
            "KUBERNETES_REPO": str(self.kubernetes),
            "ETCD_REPO": str(self.etcd),
            "MIN_DISK_GB": "0",
            "MIN_MEMORY_GB": "0",
            "COMPACTION_SECONDS": "0",
            "TRACE_SECONDS": "0",
            "READY_SECONDS": "60",
            "POLL_SECONDS": "0.02",
        }

    def set_apiserver_flags(self, etcd: str, tracing: str | None) -> None:
        flags = ["kube-apiserver", f"--etcd-servers={etcd}"]
        if tracing:
            flags.append(f"--tracing-config-file={tracing}")
        (self.root / "apiserver-flags").write_text("\n".join(flags) + "\n")

    def start_make(self, target: str, **environment: str) -> "subprocess.Popen[str]":
        """Start a target of the project's Makefile; the make of the scripts stays the double."""
        shutil.copy(PROJECT / "Makefile", self.project)
        (self.etcd / "Makefile").write_text("build:\n\techo make build >>'$(WORLD)/calls'\n")
        (self.project / ".venv" / "bin").mkdir(parents=True)
        (self.project / ".venv" / "bin" / "etcd-coverage").symlink_to(self.root / "bin" / "double")
        python = self.project / ".venv" / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        for name in ("pyproject.toml", "constraints.txt", ".venv/.installed"):
            (self.project / name).touch()
        return self.start("/usr/bin/make", target, "-C", str(self.project), **environment)

    def start(self, script: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """Start a script in a session of its own, as a terminal would."""
        (self.root / "calls").write_text("")
        (self.root / "hangs").unlink(missing_ok=True)
        return self.start_by([], script, *arguments, **environment)

    def start_by(self, before: list[str], script: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """Start a script by another program, or while another script runs."""
        return subprocess.Popen(
            ["/usr/bin/env", DEFAULT_SIGNALS, *before, str(self.project / script), *arguments],
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self, process: "subprocess.Popen[str]") -> Result:
        stdout, stderr = process.communicate(timeout=180)
        calls = (self.root / "calls").read_text().splitlines()
        return Result(process.returncode, stdout, stderr, calls)

    def run(self, script: str, *arguments: str, **environment: str) -> Result:
        return self.end(self.start(script, *arguments, **environment))

    def run_beside(self, script: str, *arguments: str, **environment: str) -> Result:
        """Run a script while another runs."""
        return self.end(self.start_by([], script, *arguments, **environment))

    def run_by(self, before: list[str], script: str, *arguments: str, **environment: str) -> Result:
        (self.root / "calls").write_text("")
        return self.end(self.start_by(before, script, *arguments, **environment))

    def await_hang(self, process: "subprocess.Popen[str]") -> None:
        deadline = time.monotonic() + 60
        while not (self.root / "hangs").exists():
            assert process.poll() is None, f"ended before it: {process.communicate()}"
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def real_series(self) -> Path:
        """Use the project's series.sh and git, on a file of the clone; return the file, to be patched."""
        file = self.kubernetes / "hack" / "lib" / "etcd.sh"
        file.write_text("plain\n")
        (self.root / "bin" / "git").unlink()
        shutil.rmtree(self.kubernetes / ".git")
        git = ("git", "-C", str(self.kubernetes), "-c", "user.name=a", "-c", "user.email=a@example.com")
        for arguments in (("init", "-q"), ("add", "."), ("commit", "-qm", "a"), ("tag", "v1.36.3")):
            subprocess.run([*git, *arguments], check=True)
        series = self.project / "patches" / "kubernetes"
        (series / "series.sh").unlink()
        shutil.copy(PROJECT / "patches" / "kubernetes" / "series.sh", series)
        (series / "series").write_text("1.36 v1.36.3 trace.patch\n")
        (series / "trace.patch").write_text(
            "--- a/hack/lib/etcd.sh\n+++ b/hack/lib/etcd.sh\n@@ -1 +1 @@\n-plain\n+traced\n"
        )
        return file

    def interrupt(self, script: str, call: str, number: signal.Signals, **environment: str) -> Result:
        """Run until a call that matches hangs, then send the signal: an interrupt to all, as Ctrl-C does."""
        process = self.start(script, HANG=call, **environment)
        self.await_hang(process)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        return self.end(process)

    def left_over(self) -> list[str]:
        """List what still exists that the scripts make: processes, containers, files, applied patches."""
        found = [f"process {pid}: {command}" for pid, command in self._processes()]
        for kind in ("network", "container", "image", "cluster"):
            found += [f"{kind} {path.name}" for path in (self.root / kind).iterdir()]
        found += [f"file {path.name}" for path in (self.root / "tmp").iterdir()]
        found += [f"patch {line}" for line in (self.root / "patches").read_text().splitlines() if "applied" in line]
        if (self.kubernetes / "kind-with-tracing-config").exists():
            found.append("the kubeconfig")
        return found

    def _processes(self) -> list[tuple[int, str]]:
        mark = f"WORLD={self.root}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((int(folder.name), (folder / "cmdline").read_bytes().decode().replace("\0", " ")))
            except OSError:
                continue  # ended meanwhile, or not ours
        return found

    def end_processes(self) -> None:
        """After a failed test, or one with --keep."""
        for pid, _ in self._processes():
            os.kill(pid, signal.SIGKILL)
