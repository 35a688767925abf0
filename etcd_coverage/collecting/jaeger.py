"""Jaeger for a run: started, watched, its log saved, its traces downloaded, removed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from etcd_coverage.collecting import docker
from etcd_coverage.collecting.commands import CURL, CollectError
from etcd_coverage.collecting.preflight import need_writable_output
from etcd_coverage.collecting.settings import direct
from etcd_coverage.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.collecting.run import Run, Step

# The memory store of Jaeger drops the oldest traces at its limit, 100,000 by default.
_OPTIONS = ("--set=extensions.jaeger_storage.backends.some_storage.memory.max_traces=20000000",)


class Jaeger:
    """The Jaeger of a run: a program of this machine, or a container."""

    start_title = "start Jaeger"
    ports: ClassVar = {4317: "Jaeger's collector", 16686: "Jaeger's query API"}
    """The ports that it has where they cannot be chosen."""

    def __init__(self, run: Run, *, container: str = "", url: str = "http://localhost:16686") -> None:
        self.url = url
        self.answer = ""
        """What it answered last when asked for its services."""
        self._run = run
        self._container = container
        self._started = time.monotonic()

    def preparation(self) -> list[Step]:
        """Return the steps before the others."""
        return [("prepare the downloader", self.prepare_download)]

    def ending(self) -> list[Step]:
        """Return the steps after the others."""
        return [(f"download the traces to {self._run.settings.output}", self.download)]

    def need_output(self) -> None:
        """Check that a dump can take its place."""
        need_writable_output(self._run)

    def need_docker(self) -> None:
        """Check that its container can be made, if it is one."""
        if self._container and docker.check_docker(self._run):
            docker.check_docker_host(self._run)
            docker.check_no_container(self._run, self._container)

    def start_program(self, program: Path, *options: str | Path) -> None:
        """Start Jaeger as a program, and wait until it answers."""
        run = self._run
        run.serve("jaeger", program, *_OPTIONS, *options)
        if not self._await():
            run.last_lines(run.server_log("jaeger"))
            raise CollectError(f"{self._silence()} (log: {run.server_log('jaeger')})")

    def start_container(self, *options: str) -> None:
        """Start Jaeger as a container, and wait until it answers."""
        run, name = self._run, self._container
        # The preflight saw none, but what another program made since is not ours to remove.
        if docker.container(run, name):
            raise CollectError(f"a container {name} has appeared since the preflight; it is left as it is")
        run.at_end("remove Jaeger", self._remove, f"docker rm --force {name}")
        run.run("docker", "run", "--detach", "--name", name, *options, run.settings.jaeger_image, *_OPTIONS)
        if not self._await():
            run.status("docker", "logs", "--tail", "20", name)
            raise CollectError(self._silence())

    def _await(self) -> bool:
        answered = self._run.wait_until(self._run.settings.ready_seconds, self._answers)
        self._started = time.monotonic()
        return answered

    def _answers(self) -> bool:
        if not self._container:
            self._run.need_servers("jaeger")
        return self._run.answers(f"{self.url}/api/v3/services")

    def _silence(self) -> str:
        return f"Jaeger does not answer at {self.url} after {self._run.settings.ready_seconds:.15g} s"

    def check(self) -> None:
        """Fail if Jaeger has ended meanwhile: it keeps the traces in its memory."""
        run = self._run
        if not self._container or run.dry_run:
            run.need_servers(*(() if run.dry_run else ("jaeger",)))
            return
        running = ""

        def docker_answers() -> bool:
            nonlocal running
            code, running = run.capture("docker", "ps", "--quiet", "--filter", f"name=^{self._container}$")
            return code == 0

        if not run.wait_until(run.settings.ready_seconds, docker_answers):
            raise CollectError(f"docker cannot tell whether Jaeger still runs: {run.last_line()}")
        if not running:
            run.status("docker", "logs", "--tail", "20", self._container)
            raise CollectError(f"Jaeger has ended, and the traces with it (log: {run.server_log('jaeger')})")

    def has(self, *services: str) -> bool:
        """Return whether Jaeger has a trace of each service."""
        code, self.answer = self._run.capture(*CURL, f"{self.url}/api/v3/services")
        return code == 0 and (self._run.dry_run or all(f'"{name}"' in self.answer for name in services))

    def await_traces(self, seconds: float) -> bool:
        """Return whether traces of the apiserver and of etcd come in time."""
        return self._run.wait_until(seconds, lambda: self.has("apiserver", "etcd"))

    def no_traces(self, seconds: float) -> CollectError:
        """Return what to say when they did not."""
        answer = printable(self.answer) or "nothing"
        return CollectError(f"Jaeger has no traces of apiserver and etcd after {seconds:.15g} s, it answers: {answer}")

    def _remove(self) -> None:
        run, name = self._run, self._container
        # Checked by the outcome: what is gone already is no failure.
        if not docker.container(run, name):
            return
        try:
            saved = run.save(run.server_log("jaeger"), "docker", "logs", name) == 0
        except CollectError:
            saved = False
        if not saved:
            run.warn("the log of Jaeger could not be saved")
        run.restart_clock()
        run.run("docker", "rm", "--force", "--volumes", name)

    def prepare_download(self) -> None:
        """Make the downloader ready, before hours pass."""
        self._run.run("make", ".venv/.installed")
        self._run.run(self._python(), "-m", "etcd_coverage.jaeger", "--help")

    def download(self) -> None:
        """Download all that Jaeger got of etcd; the downloader replaces OUTPUT only by a whole dump.

        It asks in windows, since Jaeger builds each answer in memory, and directly: proxies do not serve loopback.
        """
        run = self._run
        run.shown(
            *(self._python(), "-m", "etcd_coverage.jaeger", "--url", self.url, "--service", "etcd"),
            *("--since", f"{time.monotonic() - self._started + 5:.0f}s", "--window", "10m"),
            *("-o", run.settings.output),
            environment=direct(run.environment),
        )

    def _python(self) -> Path:
        return self._run.settings.project / ".venv" / "bin" / "python"
