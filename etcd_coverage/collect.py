"""Collects a dump: `python -m etcd_coverage.collect kind|local|robustness`, what the collect_*.sh scripts run.

The exit code is 0 where the dump is there, 1 where it is not, 2 for wrong usage, 128 and the signal's number after one.
"""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__":
    # Until the run begins there is nothing to undo: an interrupt ends this as it ends a shell, without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # which the scripts block

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

from etcd_coverage.collecting import kind, local, robustness
from etcd_coverage.collecting.processes import Signals
from etcd_coverage.collecting.run import Run
from etcd_coverage.collecting.settings import Reader, UsageError, parse_options
from etcd_coverage.text import printable

_COLLECTORS = {"kind": kind, "local": local, "robustness": robustness}
_USAGE = "usage: python -m etcd_coverage.collect kind|local|robustness [--help]"


def _prepare_streams() -> None:
    """Let the standard streams take any text: what their encoding does not have becomes an escape."""
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is None:  # closed by the shell: `>&-`
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        else:
            stream.reconfigure(errors="backslashreplace")


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    if arguments and arguments[0] in ("--help", "-h"):
        print(_USAGE)
        return 0
    if not arguments or arguments[0] not in _COLLECTORS:
        print(_USAGE, file=sys.stderr)
        return 2
    collector = _COLLECTORS[arguments[0]]
    try:
        options = parse_options(arguments[1:], collector.FLAGS, collector.VALUED)
        plan = collector.plan(Reader(os.environ, Path.cwd()), options)
    except UsageError as error:
        print(f"{collector.NAME}: {printable(str(error))} (see --help)", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{collector.NAME}: {error.filename or 'the current folder'}: {error.strerror}", file=sys.stderr)
        return 1
    if options.help:
        print(plan.help, end="")
        return 0
    if not importlib.util.find_spec("filelock"):
        print(f"{collector.NAME}: {sys.executable} lacks filelock: make .venv/.installed", file=sys.stderr)
        return 1
    os.chdir(plan.settings.project)
    with Signals() as signals:
        run = Run(plan.settings, signals, dry_run=options.dry_run, keep=options.keep)
        return run.perform(plan.steps(run))


def _run() -> int:
    """Return the exit code of `main` with all that it printed written."""
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:
        # Else Python tries again at its end, https://docs.python.org/3/library/signal.html#note-on-sigpipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    # After `stty tostop` a message of a background job would stop it for good.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    _prepare_streams()
    sys.exit(_run())
