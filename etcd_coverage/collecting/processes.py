"""Child processes of a collector, each in a session of its own, and the signals that end a run.

A session of its own: Ctrl-C reaches the collector alone, which then ends the child with all its descendants, and a
terminal set to `stty tostop` does not stop a child that draws a progress bar (it stops background jobs of its own
session only: https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap11.html).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    Output = int | IO[bytes] | None

_KILL_SECONDS = 5


class InterruptError(Exception):
    """A signal that ends the run."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Signals:
    """Notes signals when they come, and raises `InterruptError` only where the collector waits.

    So no signal falls between a deed and the note that it was done.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._came: deque[int] = deque()
        self.count = 0
        """How many signals have come."""
        self.while_cleaning: Callable[[], None] | None = None
        """Called for a signal in place of raising it, once the clean-up has begun."""

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Ignored: the collector was started by nohup, or as a background job of a script.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._note)
        signal.signal(signal.SIGCHLD, self._ignore)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        return self

    def __exit__(self, *_: object) -> None:
        """Ignore further signals: what remains to do is to exit."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        os.close(self._reader)
        os.close(self._writer)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._came.append(number)
        self.count += 1

    def _ignore(self, *_: object) -> None:
        """Let the end of a child wake `sleep`, which an ignored signal would not."""

    def check(self) -> None:
        """Raise `InterruptError` for the oldest signal that has come, once."""
        while self._came:
            number = self._came.popleft()
            if not self.while_cleaning:
                raise InterruptError(number)
            self.while_cleaning()

    def sleep(self, seconds: float, *files: IO[bytes]) -> None:
        """Wait until a child ends, a signal comes or one of the files can be read, at most for so long."""
        self.check()
        descriptors = [self._reader, *(file.fileno() for file in files)]
        select.select(descriptors, [], [], max(seconds, 0))
        with suppress(BlockingIOError):
            os.read(self._reader, 4096)
        self.check()


class Child:
    """A running command with its descendants. Raises OSError if it cannot be started."""

    def __init__(
        self, signals: Signals, command: Sequence[str], environment: Mapping[str, str], stdout: Output, stderr: Output
    ) -> None:
        self._signals = signals
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        self.id = self._process.pid
        self.output = b""

    def running(self) -> bool:
        """Return whether the command itself runs."""
        return self._process.poll() is None

    def wait(self, deadline: float = float("inf")) -> int | None:
        """Read what it prints, if that goes to a pipe, until it ends; return its exit code, or None at the deadline."""
        pipe = self._process.stdout
        if pipe:
            os.set_blocking(pipe.fileno(), False)
        while True:
            ended = not self.running()
            open_pipe = self._read(pipe)
            if ended:
                return self._process.returncode
            left = min(deadline - time.monotonic(), 3600)
            if left <= 0:
                return None
            self._signals.sleep(left, *([pipe] if pipe and open_pipe else []))

    def _read(self, pipe: IO[bytes] | None) -> bool:
        """Read all that is there; return whether more may come."""
        while pipe:
            try:
                chunk = os.read(pipe.fileno(), 65536)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self.output += chunk
        return False

    def end(self, seconds: float) -> bool:
        """Ask all its processes to end, and after so many seconds kill them; return whether they had to be killed."""
        # Once: a process that tidies up may start others.
        self._send(signal.SIGTERM)
        if self._gone(seconds):
            return False
        self.kill()
        return True

    def kill(self) -> None:
        """Kill all its processes."""
        deadline = time.monotonic() + _KILL_SECONDS
        self._send(signal.SIGKILL)
        while not self._gone(0.2) and time.monotonic() < deadline:
            self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        processes = self._processes()
        if not processes:
            return
        with suppress(OSError):
            # Its own process group at once: one by one would miss a process that is started meanwhile.
            os.killpg(self.id, number)
        for pid in processes:
            with suppress(ProcessLookupError):
                if os.getpgid(pid) != self.id:
                    os.kill(pid, number)

    def _gone(self, seconds: float) -> bool:
        """Return whether all its processes end in time."""
        deadline = time.monotonic() + seconds
        pause = 0.005
        while self._processes():
            if time.monotonic() > deadline:
                return False
            self._signals.sleep(pause)
            pause = min(pause * 2, 0.2)
        return True

    def _processes(self) -> set[int]:
        """Return the ids of its living processes.

        Zombies are none: where the first process of a container does not reap, they stay for good.
        """
        self.running()  # reaps it
        return {pid for pid in processes_of_session(self.id) if pid != self.id or self.running()}


def processes_of_session(session: int) -> set[int]:
    """Return the ids of the processes of a session or process group that are neither dead nor zombies."""
    found = set()
    if not Path("/proc/self/stat").exists():
        return _processes_by_ps(session)
    for entry in os.listdir("/proc"):  # noqa: PTH208 - a pathlib.Path for each process is what takes the time here
        if not entry.isdecimal():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:  # noqa: PTH123
                # After the name, which may hold anything: state, parent, process group, session (proc_pid_stat(5)).
                state, _, group, its_session, *_ = file.read().rpartition(b")")[2].split()
        except (OSError, ValueError):
            continue  # it ended meanwhile
        if session in (int(group), int(its_session)) and state not in (b"Z", b"X"):
            found.add(int(entry))
    return found


def _processes_by_ps(group: int) -> set[int]:
    """Return the same where there is no /proc (macOS), for the process group alone."""
    done = subprocess.run(["ps", "-A", "-o", "pid=,pgid=,state="], capture_output=True, text=True, check=False)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {int(pid) for pid, its_group, state in rows if int(its_group) == group and not state.startswith("Z")}
