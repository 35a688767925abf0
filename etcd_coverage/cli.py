"""What the commands share: exit codes, argument types, how they report and how they end."""

from __future__ import annotations

import argparse
import os
import re
import signal
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tqdm import tqdm

if TYPE_CHECKING:
    from collections.abc import Callable

OK = 0
FAILED = 1
INTERRUPTED = 128 + signal.SIGINT
"""As the shell has it: https://www.gnu.org/software/bash/manual/html_node/Exit-Status.html. argparse ends with 2."""

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


def output_file(text: str) -> Path:
    """Return the path of a file to be written, for argparse: its folder exists, and a file is there or nothing."""
    path = Path(text)
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        is_file = not text.endswith("/")
        for folder in (path.parent, path.resolve().parent):  # two, where the path is a link to what is not there
            if not folder.is_dir():
                raise argparse.ArgumentTypeError(f"the folder {str(folder)!r} does not exist") from None
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error.strerror}") from None
    except ValueError as error:  # a null character
        raise argparse.ArgumentTypeError(f"{text!r} is no path: {error}") from None
    if not is_file:
        raise argparse.ArgumentTypeError(f"{text!r} is not a file")
    return path


def duration(text: str) -> timedelta:
    """Return a length of time such as 5d, 10m or 1h30m, for argparse: above 0, and no longer than there are dates."""
    match = _DURATION.fullmatch(text)
    if not match or not text:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration, such as 5d, 10m or 1h30m")
    try:
        days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
        length = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        datetime.now(UTC) - length
    except (OverflowError, ValueError):  # int() refuses thousands of digits
        raise argparse.ArgumentTypeError(f"{text!r} is too long") from None
    if not length:
        raise argparse.ArgumentTypeError(f"{text!r} is no time at all")
    return length


def count(text: str) -> int:
    """Return a number from 1 to 999999999, for argparse."""
    if not re.fullmatch("[0-9]{1,9}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 999999999")
    return int(text)


def size(text: str) -> int:
    """Return a number of bytes such as 1000, 64K, 64M or 1G, for argparse: above 0, K is 1024."""
    match = re.fullmatch("([0-9]{1,12})([KMG]?)", text)
    if not match or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes, such as 1000, 64K, 64M or 1G")
    return int(match[1]) << 10 * " KMG".index(match[2] or " ")


def report(message: str) -> None:
    """Print a line to stderr, beside a progress bar if there is one."""
    tqdm.write(message, file=sys.stderr)


def run(main: Callable[[], int]) -> NoReturn:
    """End the process with the exit code that ``main`` returns, with its output written.

    SIGTERM and SIGHUP end it as an exception would, so that it cleans up: 143 and 129. Characters that the output's
    encoding does not have are written as escapes. Output that cannot be written is exit code 1.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP, and that is to stay
            signal.signal(number, _exit)
    # After `stty tostop` a progress bar or message of a process in the background would stop it, in a script for good:
    # https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap11.html#tag_11_01_04
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    for name in ("stdout", "stderr"):
        if (stream := getattr(sys, name)) is None:  # closed by the shell: `>&-`
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        else:
            stream.reconfigure(errors="backslashreplace")
    try:
        code = main()
        sys.stdout.flush()
    except OSError as error:
        # Else Python tries again at its end, https://docs.python.org/3/library/signal.html#note-on-sigpipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        report(f"error: stdout: {error.strerror}")
        code = FAILED
    sys.exit(code)


def _exit(number: int, _: object) -> None:
    sys.exit(128 + number)
