"""The environment of a collector -> checked values, read once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    Check = Callable[[str], None]

PROJECT = Path(__file__).parent.parent.parent
"""The clone of this project; not resolved, so that it reads as the user wrote it."""

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_NOT_FOR_CHILDREN = (
    # When make runs the collector, other projects' makes must not get its options.
    *("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"),
    # They take git to another repository than the one that it is called in (git(1), "The Git Repository").
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
    # `cd` of a shell script would print where it went.
    "CDPATH",
)
_MOST_SECONDS = 604_800
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
# https://pkg.go.dev/time#ParseDuration, without signs.
_GO_DURATION = re.compile(r"0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+", re.ASCII)


class UsageError(Exception):
    """A command line that is wrong."""


@dataclass(frozen=True)
class Options:
    """A command line."""

    dry_run: bool
    keep: bool
    help: bool
    flags: frozenset[str]
    """The collector's own options without value that were given."""
    values: Mapping[str, str]
    """The collector's own options with a value."""


def parse_options(arguments: Sequence[str], flags: Collection[str], valued: Mapping[str, Check]) -> Options:
    """Return the options of a command line, read until --help; ``valued`` checks each value. Raises `UsageError`."""
    found: set[str] = set()
    values: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if word in ("--help", "-h"):
            found.add("--help")
            break
        if word in valued:
            value = next(words, None)
            if value is None:
                raise UsageError(f"{word} needs a value")
            valued[word](value)
            values[word] = value
        elif word in ("--dry-run", "--keep", *flags):
            found.add(word)
        else:
            raise UsageError(f"unknown argument: {word}")
    own = frozenset(found) & frozenset(flags)
    return Options("--dry-run" in found, "--keep" in found, "--help" in found, own, values)


COLLECTORS = ("receive", "jaeger")
"""What may take the traces of a run: this project's receiver, or Jaeger."""


def _check_collector(value: str) -> None:
    if value not in COLLECTORS:
        raise UsageError(f"--collector {value} is none of {' '.join(COLLECTORS)}")


COLLECTOR: dict[str, Check] = {"--collector": _check_collector}
"""The option that says so."""


def collector(reader: Reader, options: Options, default: str) -> str:
    """Return which of `COLLECTORS` is asked for."""
    value = options.values.get("--collector") or reader.text("COLLECTOR", default)
    if value not in COLLECTORS:
        reader.problems.append(f"COLLECTOR is none of {' '.join(COLLECTORS)}: {value}")
    return value


@dataclass(frozen=True)
class Settings:
    """What all collectors take from the environment; times in seconds, sizes in GB (2**30 bytes)."""

    name: str
    project: Path
    environment: Mapping[str, str]
    """What child processes get."""
    output: Path
    jaeger_image: str
    log_dir: Path
    lock_dir: Path
    temporary: Path
    min_disk_gb: float
    min_memory_gb: float
    ready_seconds: float
    poll_seconds: float
    stop_seconds: float
    cleanup_seconds: float


def common(
    reader: Reader,
    name: str,
    output: Path,
    *,
    no_proxy: str = "",
    min_disk_gb: float = 5,
    min_memory_gb: float = 4,
    ready_seconds: float = 60,
) -> Settings:
    """Return the settings that all collectors have; ``no_proxy`` names further hosts of the run, with commas."""
    text = reader.text
    stamp = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    return Settings(
        name=name,
        project=PROJECT,
        environment=_child_environment(reader.environ, f"localhost,127.0.0.1,::1{no_proxy and ','}{no_proxy}"),
        output=output,
        jaeger_image=text("JAEGER_IMAGE", "jaegertracing/jaeger:2.6.0"),
        log_dir=reader.path("LOG_DIR") or PROJECT / "logs" / stamp,
        lock_dir=reader.path("LOCK_DIR") or Path("/tmp"),
        temporary=reader.path("TMPDIR") or Path("/tmp"),
        min_disk_gb=reader.number("MIN_DISK_GB", min_disk_gb),
        min_memory_gb=reader.number("MIN_MEMORY_GB", min_memory_gb),
        ready_seconds=reader.seconds("READY_SECONDS", ready_seconds),
        poll_seconds=reader.seconds("POLL_SECONDS", 1),
        stop_seconds=reader.seconds("STOP_SECONDS", 30),
        cleanup_seconds=reader.seconds("CLEANUP_SECONDS", 180),
    )


def _child_environment(environ: Mapping[str, str], no_proxy: str) -> dict[str, str]:
    """Return what child processes get of the environment."""
    kept = {name: value for name, value in environ.items() if name not in _NOT_FOR_CHILDREN}
    path = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part and Path(part) != PROJECT]
    kept.pop("PYTHONPATH", None)
    if path:
        kept["PYTHONPATH"] = os.pathsep.join(path)
    if any(name.lower() in _PROXIES for name in kept):
        # The servers of the run speak to each other directly; builds may need the proxy.
        given = kept.get("no_proxy") or kept.get("NO_PROXY")
        kept["no_proxy"] = kept["NO_PROXY"] = f"{given},{no_proxy}" if given else no_proxy
    return kept


def direct(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without proxies and certificates, for a client that speaks to loopback alone."""
    return {
        name: value
        for name, value in environment.items()
        if name.lower() not in (*_PROXIES, "no_proxy") and name not in ("SSL_CERT_FILE", "SSL_CERT_DIR")
    }


COMMON_HELP = """\
  COLLECTOR          what --collector says, if that is not given
  JAEGER_IMAGE       image of Jaeger [{jaeger_image}]
  LOG_DIR            where the logs of the steps go [logs/NAME-TIME-PID in the project]
  LOCK_DIR           where runs on this machine see each other: the same for all of them [{lock_dir}]
  MIN_DISK_GB        free disk space asked for [{min_disk_gb:.15g}]
  MIN_MEMORY_GB      available memory asked for [{min_memory_gb:.15g}]
  READY_SECONDS      time a server has to answer [{ready_seconds:.15g}]
  POLL_SECONDS       pause between two looks at something awaited [{poll_seconds:.15g}]
  STOP_SECONDS       time a process has to end before it is killed [{stop_seconds:.15g}]
  CLEANUP_SECONDS    time limit of each clean-up step [{cleanup_seconds:.15g}]

Times are numbers of seconds, such as 600 or 0.5; relative paths start at the folder that the script is called in.

Exit code: 0 the dump is there, 1 it is not (the message names the log), 2 wrong usage, 129, 130 or 143 after a hang-up,
an interrupt or a termination. An earlier dump stays as it is unless a new one is complete.
"""


class Reader:
    """Reads variables by type, an empty one as if it were not set; `problems` collects what is wrong."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self.environ = environ
        self.folder = folder
        self.problems: list[str] = []

    def text(self, name: str, default: str = "") -> str:
        """Return the variable as it is."""
        return self.environ.get(name) or default

    def path(self, name: str) -> Path | None:
        """Return an absolute path, or None."""
        value = self.environ.get(name)
        return self.folder / value if value else None

    def number(self, name: str, default: float, most: float = 1e9, unit: str = "") -> float:
        """Return a decimal number from 0 to ``most``."""
        value = self.text(name)
        if not value:
            return default
        if not _NUMBER.fullmatch(value) or float(value) > most:
            self.problems.append(f"{name} is no number{unit} from 0 to {most:.0f}: {value}")
            return default
        return float(value)

    def seconds(self, name: str, default: float) -> float:
        """Return a time of at most a week."""
        return self.number(name, default, _MOST_SECONDS, " of seconds")

    def go_duration(self, name: str, default: str) -> str:
        """Return a text that Go's programs take as a time."""
        value = self.text(name, default)
        if not _GO_DURATION.fullmatch(value):
            self.problems.append(f"{name} is no duration such as {default} or 1h30m: {value}")
        return value

    def count(self, name: str, default: int, least: int, most: int | None = None) -> int:
        """Return a whole number, written without needless zeros."""
        value = self.text(name, str(default))
        if not re.fullmatch("0|[1-9][0-9]{0,8}", value) or not least <= int(value) <= (most or int(value)):
            kind = f"is no number from {least} to {most}" if most else "is not a number"
            self.problems.append(f"{name} {kind}: {value}")
            return default
        return int(value)


def clone(reader: Reader, name: str, module: str) -> Path:
    """Return the clone that the variable names, or the place where Go developers keep one."""
    given = reader.path(name)
    if given:
        return given
    root = ""
    if shutil.which("go", path=reader.text("PATH")):
        done = subprocess.run(["go", "env", "GOPATH"], env=dict(reader.environ), capture_output=True, check=False)
        root = os.fsdecode(done.stdout.strip())
    return Path(root or Path(reader.text("HOME", "/")) / "go") / "src" / module
