"""A run of a collector: its steps, and the clean-up that follows however it ends.

Each thing that a step starts or makes registers its end with `Run.at_end` before the deed, so that an interrupt at any
time leaves nothing behind.
"""

from __future__ import annotations

import re
import shutil
import signal
import time
import traceback
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from etcd_coverage.collecting.commands import CollectError, CommandError, Commands, LateError
from etcd_coverage.collecting.processes import InterruptError, Signals
from etcd_coverage.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from etcd_coverage.collecting.settings import Settings

    Step = tuple[str, Callable[[], None]]


@dataclass(frozen=True)
class Plan:
    """What a collector does in an environment."""

    settings: Settings
    help: str
    steps: Callable[[Run], list[Step]]
    """Returns title and action of each step, in order."""


class PreflightError(CollectError):
    """The problems that keep a run from starting are printed already."""


class Run(Commands):
    """The state of a run. With ``keep`` what it made stays, and the commands that remove it are printed."""

    def __init__(self, settings: Settings, signals: Signals, *, dry_run: bool, keep: bool) -> None:
        super().__init__(settings, signals, dry_run=dry_run)
        self.keep = keep
        self.locks = ExitStack()
        self.failed = False
        """Whether a step failed, known when the clean-up begins."""
        self._problems: list[str] = []
        self._endings = ExitStack()
        self._registered = False
        self._kept: list[Callable[[], str]] = []
        self._left: list[str] = []
        self._results: list[str] = []
        self._count = 0
        self._title = ""

    def at_end(
        self, title: str, action: Callable[[], None], by_hand: str | Callable[[], str], *, always: bool = False
    ) -> None:
        """Register what undoes a deed, with the command that does so by hand; before the deed.

        The newest comes first, and one that fails does not stop the others. With --keep it is left to the user,
        unless ``always``.
        """
        command = by_hand if callable(by_hand) else lambda: by_hand
        if self.keep and not always:
            self._kept.insert(0, command)
        else:
            self._registered = True
            self._endings.callback(self._undo, title, action, command)

    def serve(self, name: str, *command: str | Path, **environment: str) -> None:
        """Start a server that ends with the run."""
        self.at_end(f"stop {name}", lambda: self.stop_server(name), lambda: self._stop_by_hand(name))
        self.start_server(name, *command, **environment)

    def _stop_by_hand(self, name: str) -> str:
        server = self.servers.get(name)
        return f"kill -- -{server.id} # {name}" if server and server.running() else ""

    def problem(self, text: str) -> None:
        """Note what keeps the run from starting."""
        self._problems.append(printable(text))

    def stop_on_problems(self) -> None:
        """Print all problems at once, if there are any, and end the run."""
        if self._problems:
            self.complain(
                f"{self.settings.name} cannot start; nothing was changed. Problems: {len(self._problems)}\n"
                + "\n".join(f"  - {problem}" for problem in self._problems)
            )
            raise PreflightError

    def report(self, tests: str, code: int, ran: str, summary: str) -> None:
        """Print how tests ended, now and at the end of the run; a failed test does not end it, but that none ran does.

        ``ran`` and ``summary`` are regular expressions for lines of the step's log.
        """
        if self.dry_run:
            return
        found: list[str] = []
        any_ran = False
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                any_ran = any_ran or re.search(ran, line) is not None
                found += [match[0] for match in re.finditer(summary, line.rstrip("\n"))]
        if not any_ran:
            raise CollectError(f"no test ran (exit code {code})")
        last = printable(" ".join(found[-2:]))
        self._results.append(f"{tests}: exit code {code}{last and ', '}{last} (log: {self.log.name})")
        self.say(f"   {self._results[-1]}")

    def perform(self, steps: Iterable[Step]) -> int:
        """Do the steps, then the clean-up; return the exit code."""
        code = 0
        try:
            self._make_log_dir()
            for title, action in steps:
                self._step(title, action)
            if not self.dry_run:
                self.say("\n".join([f"The dump is {self.settings.output}", *self._results]))
        except PreflightError:
            code = 1
        except InterruptError as interrupt:
            code = 128 + interrupt.number
            self._begin_clean_up()
            self.end_children()
            self.warn(f"interrupted in step {self._count}: {self._title}")
        except Exception as error:
            code = 1
            self.failed = True
            self._begin_clean_up()
            self.end_children()
            self._report_failure(error)
        return self._clean_up(code)

    def _make_log_dir(self) -> None:
        if self.dry_run:
            return
        try:
            self.settings.log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.complain(f"error: LOG_DIR cannot be made: {self.settings.log_dir}: {error.strerror}")
            raise PreflightError from None
        self.say(f"Logs: {self.settings.log_dir}")

    def _step(self, title: str, action: Callable[[], None]) -> None:
        self._count += 1
        self.last_command = ""
        if self.dry_run:
            self.say(f"== {self._count}. {title}")
            action()
            return
        started = time.monotonic()
        self._title = title
        self.log = self.settings.log_dir / f"{self._count:02}-{action.__name__.lstrip('_')}.log"
        self.say(f"== {self._count}. {title} ({time.strftime('%H:%M:%S')}, log: {self.log.name})")
        with self._open_log():
            pass
        action()
        self._title = ""
        self.say(f"   done in {time.monotonic() - started:.0f} s")

    def _report_failure(self, error: Exception) -> None:
        match error:
            case CommandError():
                message = f"   last command: {self.last_command}"
            case CollectError():
                message = f"error: {error}"
            case OSError(filename=str(name), strerror=str(reason)):
                message = f"error: {printable(name)}: {reason}"
            case _:
                message = f"error: {type(error).__name__}: {printable(str(error))}"
        where = [f"error: step {self._count} failed: {self._title}"] if self._count else []
        self.complain("\n".join([*where, message] if isinstance(error, CommandError) else [message, *where]))
        self.last_lines(self.log)
        self.complain(f"   log: {self.log}")
        with suppress(OSError):
            if not isinstance(error, CollectError | OSError):  # a fault of this program, for its maintainers
                with self._open_log() as log:
                    log.write("".join(traceback.format_exception(error)).encode(errors="replace"))
            if shutil.disk_usage(self.settings.log_dir).free < 2**20:
                self.complain(f"   LOG_DIR has no space left: {self.settings.log_dir}")

    def _begin_clean_up(self) -> None:
        """From here on signals and unreadable output change nothing."""
        self._cleaning = True
        self.signals.while_cleaning = lambda: self.warn("still cleaning up")
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def _clean_up(self, code: int) -> int:
        self._begin_clean_up()
        self.log = self.settings.log_dir / "clean-up.log"
        if self._registered:
            self.say("== clean up")
            self._endings.close()
        if self._left:
            self.complain("Left behind; to remove it by hand:\n" + "\n".join(f"   {line}" for line in self._left))
            code = code or 1
        if kept := [command for command in (by_hand() for by_hand in self._kept) if command and not self.dry_run]:
            self.say("Kept, as asked. To remove it:\n" + "\n".join(f"   {line}" for line in kept))
        self.locks.close()
        return code or int(self.output_lost)

    def restart_clock(self) -> None:
        """Give what follows in a clean-up step the whole time of one."""
        self._deadline = time.monotonic() + self.settings.cleanup_seconds

    def _undo(self, title: str, action: Callable[[], None], by_hand: Callable[[], str]) -> None:
        self.say(f"   {title}")
        if self.dry_run:
            return
        self.restart_clock()
        try:
            action()
        except LateError:
            self.warn(f"not done within {self.settings.cleanup_seconds:.15g} s: {title}")
        except Exception as error:
            self.warn(f"failed: {title} (log: {self.log})")
            if isinstance(error, CommandError):
                self.last_lines(self.log, 5)
            else:
                self.complain(f"   {printable(str(error))}")
        else:
            return
        if command := by_hand():
            self._left.append(command)
