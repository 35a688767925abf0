"""The receiver of this project in place of Jaeger: started, watched, its dump put into its place."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from etcd_coverage.collecting.commands import CollectError
from etcd_coverage.collecting.preflight import INDEX, need_output_folder
from etcd_coverage.text import counted, printable, some

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.collecting.run import Run, Step

_NAME = "receiver"


class Receiver:
    """The receiver of a run, a program of this machine; its dump is a folder, which takes its name when it is whole."""

    start_title = "start the receiver"
    ports: ClassVar = {4317: "the receiver"}
    """The ports that it has where they cannot be chosen."""

    def __init__(self, run: Run) -> None:
        self._run = run
        output = run.settings.output
        # Beside its place, so that it can be renamed; no dump yet, as its name starts with a dot.
        self._folder = output.with_name(f".{output.name}-{os.getpid()}")

    def preparation(self) -> list[Step]:
        """Return the steps before the others."""
        return [("prepare the receiver", self.prepare_receiver)]

    def ending(self) -> list[Step]:
        """Return the steps after the others."""
        return [(f"end the receiver, keep the traces in {self._run.settings.output}", self.keep_traces)]

    def need_output(self) -> None:
        """Check that a dump can take its place."""
        need_output_folder(self._run)

    def need_docker(self) -> None:
        """Check nothing: it is a program of this machine."""

    def prepare_receiver(self) -> None:
        """Make the receiver ready, before hours pass."""
        self._run.run("make", ".venv/.installed")
        self._run.run(self._python(), "-m", "etcd_coverage.receive", "--help")

    def start(self, *addresses: str) -> None:
        """Start the receiver on these addresses, and wait until it listens."""
        run = self._run
        remove = ("rm", "-rf", "--", str(self._folder))
        run.at_end("remove what was not kept", lambda: run.run(*remove), shlex.join(remove))
        listen = [word for address in addresses for word in ("--listen", address)]
        run.serve(_NAME, self._python(), "-m", "etcd_coverage.receive", "-o", self._folder, *listen)

        def listens() -> bool:
            run.need_servers(_NAME)
            return run.dry_run or bool(self._index())

        if not run.wait_until(run.settings.ready_seconds, listens):
            run.last_lines(run.server_log(_NAME))
            raise CollectError(f"the receiver does not start (log: {run.server_log(_NAME)})")

    def check(self) -> None:
        """Fail if the receiver has ended meanwhile."""
        self._run.need_servers(_NAME)

    def await_traces(self, seconds: float) -> bool:
        """Return whether traces of the apiserver and of etcd come in time."""
        run = self._run
        return run.wait_until(seconds, lambda: run.dry_run or {"apiserver", "etcd"} <= self._services())

    def no_traces(self, seconds: float) -> CollectError:
        """Return what to say when they did not."""
        services = some([printable(name) for name in sorted(self._services())], 10) or "none"
        return CollectError(
            f"the receiver has no traces of apiserver and etcd after {seconds:.15g} s, it has services: {services}"
        )

    def keep_traces(self) -> None:
        """End the receiver; if its dump is whole, it takes the place of an earlier one."""
        run, output = self._run, self._run.settings.output
        if run.dry_run:
            run.say(f"   (stop the receiver, rename {self._folder} to {output})")
            return
        self.check()
        run.stop_server(_NAME)
        index = self._index()
        if not index.get("complete") or not index.get("spans"):
            run.last_lines(run.server_log(_NAME))
            raise CollectError(f"there is no whole dump (log: {run.server_log(_NAME)})")
        if refused := sum(index["refused"].values()):
            run.warn(f"{counted(refused, 'request')} refused (log: {run.server_log(_NAME)})")
        before = self._folder.with_name(f"{self._folder.name}-before")
        with suppress(FileNotFoundError):
            output.rename(before)
        self._folder.rename(output)
        shutil.rmtree(before, ignore_errors=True)
        run.say(f"   {counted(index['spans'], 'span')} in {counted(index['requests'], 'request')}")

    def _index(self) -> dict[str, Any]:
        """Return what the receiver has written so far; nothing before it listens."""
        try:
            found: dict[str, Any] = json.loads((self._folder / INDEX).read_bytes())["etcdK8sCoverageIndex"]
        except (FileNotFoundError, ValueError):  # it is made empty
            return {}
        return found

    def _services(self) -> set[str]:
        return set(self._index().get("services", {}))

    def _python(self) -> Path:
        return self._run.settings.project / ".venv" / "bin" / "python"
