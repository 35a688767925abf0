"""What a collector needs of this machine: checked before anything is changed, all problems in one list."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from etcd_coverage.collecting.commands import CommandError

if TYPE_CHECKING:
    from etcd_coverage.collecting.run import Run

HINTS = {
    "curl": "install curl",
    "docker": "install Docker Engine",
    "git": "install git",
    "go": "see go.dev/doc/install",
    "ip": "install iproute2",
    "kind": "go install sigs.k8s.io/kind@latest",
    "kubectl": "see kubernetes.io/docs/tasks/tools",
    "make": "install make",
    "openssl": "install openssl",
    "ss": "install iproute2",
}
_GB = 2**30


def need_tool(run: Run, name: str, hint: str = "") -> bool:
    """Return whether a program is on PATH."""
    if shutil.which(name, path=run.environment.get("PATH", os.defpath)):
        return True
    run.problem(f"{name} is not on PATH: {hint or HINTS[name]}")
    return False


def need_free_ports(run: Run, ports: dict[int, str]) -> None:
    """Check that nothing listens on the ports, on any address; ``ports`` says what each is for."""
    if not need_tool(run, "ss"):
        return
    for port, purpose in ports.items():
        try:
            listeners = run.read("ss", "-Hltn", f"sport = :{port}")
        except CommandError:
            run.problem(f"ss cannot tell whether port {port} ({purpose}) is free: {run.last_line()}")
            continue
        if listeners:
            run.problem(f"port {port} ({purpose}) is in use: see ss -ltnp 'sport = :{port}'")


def need_repo(run: Run, name: str, repo: Path, file: str) -> bool:
    """Return whether the variable's folder is a git clone that has the file."""
    if not (repo / ".git").exists():
        run.problem(f"{name} is not a git clone: {repo}")
    elif not (repo / file).exists():
        run.problem(f"{name} has no {file}: {repo}")
    else:
        return True
    return False


def need_program(run: Run, name: str, path: Path | None) -> None:
    """Check that what the variable names, if it is set, can be run."""
    if path and not (path.is_file() and os.access(path, os.X_OK)):
        run.problem(f"{name} is not a program: {path}")


def need_disk(run: Run, folder: Path) -> None:
    """Check the free space of the file system that the folder is on."""
    free = shutil.disk_usage(folder).free / _GB
    if free < run.settings.min_disk_gb:
        run.problem(f"{folder} has {free:.0f} GB free, MIN_DISK_GB={run.settings.min_disk_gb:.15g} are needed")


def need_memory(run: Run) -> None:
    """Check the memory that programs can get, where Linux counts it."""
    file = Path("/proc/meminfo")
    found = re.search(r"^MemAvailable: +(\d+) kB", file.read_text(), re.MULTILINE) if file.exists() else None
    free = int(found[1]) * 1024 / _GB if found else float("inf")
    if free < run.settings.min_memory_gb:
        run.problem(
            f"{free:.0f} GB of memory are available, MIN_MEMORY_GB={run.settings.min_memory_gb:.15g} are needed"
        )


def need_writable_output(run: Run) -> None:
    """Check that a dump can take the place of what OUTPUT names."""
    output = run.settings.output
    if output.is_dir():
        run.problem(f"OUTPUT is a directory: {output}")
    else:
        _need_place(run)


def need_output_folder(run: Run) -> None:
    """Check that a dump in parts can take the place of what OUTPUT names: an earlier one, or nothing."""
    output = run.settings.output
    if output.name.endswith((".json", ".gz")):
        run.problem(f"OUTPUT is the name of a file, the receiver makes a folder: {output}")
    elif output.is_symlink():
        run.problem(f"OUTPUT is a link, the receiver replaces a folder: {output}")
    elif output.is_dir():
        if any(path.name != INDEX and not path.name.startswith("part-") for path in output.iterdir()):
            run.problem(f"OUTPUT is a directory with other files than those of the receiver: {output}")
    elif output.exists():
        run.problem(f"OUTPUT is no directory: {output}")
    else:
        _need_place(run)


INDEX = ".index.json"
"""The file in a dump in parts that lists them: `etcd_coverage.sources.parts`."""


def _need_place(run: Run) -> None:
    """Check that a file or folder of that name can be made."""
    output = run.settings.output
    if output.is_symlink() and not output.exists():
        run.problem(f"OUTPUT is a link to nothing: {output}")
    elif output.exists() and not output.is_file():
        run.problem(f"OUTPUT is no regular file: {output}")
    elif not (output.parent.is_dir() and os.access(output.parent, os.W_OK)):
        run.problem(f"OUTPUT cannot be written, its directory does not exist or is read-only: {output.parent}")
    elif output.name.startswith(".") or not os.fsencode(output.name).decode(errors="surrogateescape").isprintable():
        run.problem(f"OUTPUT has a name that pytest does not take for a dump, or cannot print: {output}")
    elif len(os.fsencode(output.name)) > _LONGEST_NAME:
        run.problem(f"OUTPUT has a name that is longer than {_LONGEST_NAME} bytes: {output.name[:40]}...")


# 255, less what the downloader adds to the name of the file that it writes first.
_LONGEST_NAME = 235


def need_new_folder(run: Run, name: str, folder: Path) -> None:
    """Check that the folder is empty, or can be made."""
    if folder.exists() or folder.is_symlink():
        if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK) or any(folder.iterdir()):
            run.problem(f"{name} is not an empty directory: {folder}")
        return
    above = next(parent for parent in folder.parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        run.problem(f"{name} cannot be made, {above} is no directory that can be written: {folder}")


def need_temporary_folder(run: Run) -> None:
    """Check that files can be made where TMPDIR says."""
    folder = run.settings.temporary
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        run.problem(f"TMPDIR is no directory that can be written: {folder}")


def lock(run: Run, file: Path, what: str) -> None:
    """Take a lock until the run ends, or note who has it."""
    # It takes as long to import as the rest, and is needed for real runs alone.
    from filelock import FileLock, Timeout

    def sign(descriptor: int) -> None:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{run.settings.name}, process {os.getpid()}".encode(), 0)

    try:
        # For every user of the machine: what is locked are ports and names.
        run.locks.enter_context(FileLock(file, timeout=0, mode=0o666, on_acquired=sign))
    except Timeout:
        holder = file.read_text(errors="replace").strip() if os.access(file, os.R_OK) else ""
        run.problem(f"another run uses {what}: {holder or 'an unknown process'} (lock: {file}); wait for its end")
    except OSError as error:
        run.problem(f"{what} cannot be locked, {file}: {error.strerror}")


def lock_machine(run: Run) -> None:
    """Take the lock of the fixed ports and names: that of all runs but those on free ports of loopback."""
    folder = run.settings.lock_dir
    if folder.is_dir():
        lock(run, folder / "etcd-coverage.lock", "the ports and names of this machine")
    else:
        run.problem(f"LOCK_DIR is no directory: {folder}")
