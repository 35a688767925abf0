"""The commands of a collector: run, logged and waited for, or in a dry run only printed."""

from __future__ import annotations

import math
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from etcd_coverage.collecting.processes import Child, InterruptError, Signals
from etcd_coverage.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO

    from etcd_coverage.collecting.processes import Output
    from etcd_coverage.collecting.settings import Settings


CURL = ("curl", "--noproxy", "*", "--fail", "--silent", "--show-error", "--max-time", "5")
_STDERR = 2


class CollectError(Exception):
    """Why there is no dump, in one line."""


class CommandError(CollectError):
    """A command that ended with another exit code than 0; its log says why."""


class LateError(CollectError):
    """A command of the clean-up that did not end in time."""


def tail(path: Path) -> list[str]:
    """Return the lines of the last 64 KiB of a log; none where it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - 65536, 0))
            return file.read(65536).decode(errors="replace").splitlines()
    except OSError:
        return []


class Commands:
    """Runs commands, each in the environment and with the time limits of the settings."""

    def __init__(self, settings: Settings, signals: Signals, *, dry_run: bool) -> None:
        self.settings = settings
        self.signals = signals
        self.dry_run = dry_run
        self.environment: dict[str, str] = dict(settings.environment)
        self.log = settings.log_dir / "collector.log"
        self.last_command = ""
        self.servers: dict[str, Child] = {}
        self._children: list[Child] = []
        self._cleaning = False
        self.output_lost = False
        """Whether something could not be printed."""
        self._deadline = math.inf

    def say(self, text: str) -> None:
        """Print a line."""
        self._print(1, text)

    def complain(self, text: str) -> None:
        """Print a line to standard error."""
        self._print(2, text)

    def warn(self, text: str) -> None:
        """Print a warning to standard error."""
        self.complain(f"warning: {text}")

    def _print(self, descriptor: int, text: str) -> None:
        try:
            print(text, file=sys.stdout if descriptor == 1 else sys.stderr, flush=True)
        except BrokenPipeError:
            # Its output is read no more: Ctrl-C also ends the tee that it was piped into.
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
            if not self._cleaning:
                raise InterruptError(signal.SIGPIPE) from None
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
            self.output_lost = True
            if not self._cleaning:
                name = "standard output" if descriptor == 1 else "standard error"
                raise CollectError(f"{name}: {error.strerror}") from None

    def last_lines(self, path: Path, count: int = 15) -> None:
        """Print the last lines of a log to standard error."""
        for line in tail(path)[-count:]:
            self.complain(f"   | {printable(line)}")

    def last_line(self) -> str:
        """Return the last line of the step's log: what the command that failed has to say."""
        return printable("".join(tail(self.log)[-1:]))

    def run(self, *command: str | Path, **environment: str) -> None:
        """Run a command to its end, its output goes to the step's log. Raises `CommandError`."""
        if self.status(*command, **environment):
            raise CommandError(f"failed: {self.last_command}")

    def status(self, *command: str | Path, **environment: str) -> int:
        """Run a command as `run` does, and return its exit code."""
        if not self._announce(command, environment):
            return 0
        with self._open_log() as log:
            return self._complete(command, self.environment | environment, log, log)[0]

    def save(self, file: Path, *command: str | Path) -> int:
        """Run a command whose output goes to a file, and return its exit code."""
        if not self._announce(command, {}):
            return 0
        try:
            with file.open("ab") as output:
                return self._complete(command, self.environment, output, output)[0]
        except OSError:  # the clean-up goes on without it
            return 1

    def shown(self, *command: str | Path, environment: Mapping[str, str]) -> None:
        """Run a command whose output goes to the terminal, in a whole environment. Raises `CommandError`."""
        if self._announce(command, {}) and self._complete(command, environment, _STDERR, _STDERR)[0]:
            raise CommandError(f"failed: {self.last_command}")

    def read(self, *command: str | Path) -> str:
        """Run a command and return what it prints, without the last line's end. Raises `CommandError`."""
        code, output = self.capture(*command)
        if code:
            raise CommandError(f"failed: {self.last_command}")
        return output

    def capture(self, *command: str | Path) -> tuple[int, str]:
        """Run a command and return its exit code and what it prints."""
        if not self._announce(command, {}):
            return 0, ""
        with self._open_log() as log:
            code, output = self._complete(command, self.environment, subprocess.PIPE, log)
        return code, output.decode(errors="replace").rstrip("\n")

    def start_server(self, name: str, *command: str | Path, **environment: str) -> None:
        """Start a command that runs until `stop_server`; its log is NAME.log."""
        if self._announce(command, environment):
            with self.server_log(name).open("ab") as log:
                self.servers[name] = self._start(command, self.environment | environment, log, log)

    def server_log(self, name: str) -> Path:
        """Return where the output of a server goes."""
        return self.settings.log_dir / f"{name}.log"

    def need_servers(self, *names: str) -> None:
        """Fail with the last words of a server that has ended: of those named, or of all that were started."""
        for name in () if self.dry_run else names or tuple(self.servers):
            if not self.servers[name].running():
                self.last_lines(self.server_log(name))
                raise CollectError(f"{name} has ended (log: {self.server_log(name)})")

    def stop_server(self, name: str) -> None:
        """End a server, and forget it."""
        if name in self.servers:
            self._end(self.servers[name])
            del self.servers[name]

    def end_children(self) -> None:
        """End every command that an interrupt left running; servers have an end of their own."""
        for child in [child for child in self._children if child not in self.servers.values()]:
            self._end(child)

    def wait_until(self, seconds: float, condition: Callable[[], bool]) -> bool:
        """Ask until the condition holds; return False when the time is over."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= deadline:
                return False
            pause_end = time.monotonic() + self.settings.poll_seconds
            while (left := pause_end - time.monotonic()) > 0:
                self.signals.sleep(left)
        return True

    def answers(self, url: str) -> bool:
        """Return whether a server on this machine answers."""
        return self.status(*CURL, "--output", os.devnull, url) == 0

    def _announce(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> bool:
        """Note a command in the log; in a dry run print it, and return False."""
        words = [str(word) for word in command]
        if environment:
            words = ["env", *(f"{name}={value}" for name, value in environment.items()), *words]
        self.last_command = shlex.join(words)
        if self.dry_run:
            self.say(f"   {self.last_command}")
            return False
        with self._open_log() as log:
            try:
                log.write(f"+ {self.last_command}\n".encode(errors="surrogateescape"))
            except OSError as error:
                if not self._cleaning:
                    raise CollectError(f"the log cannot be written: {self.log}: {error.strerror}") from None
        return True

    def _open_log(self) -> IO[bytes]:
        try:
            return self.log.open("ab", buffering=0)
        except OSError as error:
            if self._cleaning:  # it goes on without its log
                return Path(os.devnull).open("ab", buffering=0)
            raise CollectError(f"the log cannot be written: {self.log}: {error.strerror}") from None

    def _start(
        self, command: Sequence[str | Path], environment: Mapping[str, str], stdout: Output, stderr: Output
    ) -> Child:
        try:
            child = Child(self.signals, [str(word) for word in command], environment, stdout, stderr)
        except OSError as error:
            raise CollectError(f"{command[0]} cannot be run: {error.strerror}") from None
        self._children.append(child)
        return child

    def _complete(
        self, command: Sequence[str | Path], environment: Mapping[str, str], stdout: Output, stderr: Output
    ) -> tuple[int, bytes]:
        """Run a command to its end; return its exit code and what came through a pipe."""
        while True:
            signals = self.signals.count
            child = self._start(command, environment, stdout, stderr)
            code = self._await(child)
            if code >= 0:
                return code, child.output
            # Ctrl-C also kills a command that has just been forked, and has no session of its own yet.
            self.signals.check()
            if self.signals.count == signals:
                return 128 - code, child.output
            # In the clean-up: once more.

    def _await(self, child: Child) -> int:
        """Wait for a command, and return its exit code or the negative signal; what it leaves running is ended."""
        code = child.wait(self._deadline)
        if code is None:
            child.kill()
            self._children.remove(child)
            raise LateError(f"not done in time: {self.last_command}")
        self._end(child)
        return code

    def _end(self, child: Child) -> None:
        if child.end(self.settings.stop_seconds):
            self.warn(f"process group {child.id} did not end within {self.settings.stop_seconds:.15g} s and is killed")
        self._children.remove(child)
