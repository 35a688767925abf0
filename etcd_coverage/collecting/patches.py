"""A clone of Kubernetes: its version, the patches of this project on it, and one user at a time."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from etcd_coverage.collecting.commands import CollectError, CommandError, tail
from etcd_coverage.collecting.preflight import lock, need_disk

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.collecting.run import Run


class Clone:
    """A clone of Kubernetes during a run."""

    def __init__(self, run: Run, repo: Path) -> None:
        self.repo = repo
        self.tag = ""
        self._run = run
        self._series = run.settings.project / "patches" / "kubernetes" / "series.sh"
        self._to_apply: list[str] = []

    def check(self) -> None:
        """Lock the clone, read its version, and check that each patch is in or fits: all are applied, or none."""
        run = self._run
        need_disk(run, self.repo)
        lock(run, self._git_folder() / "etcd-coverage.lock", f"the clone {self.repo}")
        try:
            self.tag = run.read("git", "-C", self.repo, "describe", "--tags", "--match", "v*", "HEAD")
        except CommandError:
            run.problem(self._no_version())
            return
        run.say(f"   Kubernetes {self.tag}")
        code, states = self._states()
        if code and not states:
            run.problem(run.last_line())
        for name, state in states.items():
            run.say(f"   {name}: {state}")
            if state == "applicable":
                self._to_apply.append(name)
            elif state.startswith("does not fit "):
                run.problem(f"{name}: {state}")

    def _git_folder(self) -> Path:
        git = self.repo / ".git"
        # A file in a linked work tree, https://git-scm.com/docs/gitrepository-layout
        return self.repo / os.fsdecode(git.read_bytes()).removeprefix("gitdir: ").strip() if git.is_file() else git

    def _no_version(self) -> str:
        repo = shlex.quote(str(self.repo))
        if any("dubious ownership" in line for line in tail(self._run.log)):
            return (
                "git does not read KUBERNETES_REPO, which belongs to another user:"
                f" git config --global --add safe.directory {repo}"
            )
        return f"KUBERNETES_REPO has no tags, its version is unknown: git -C {repo} fetch --tags --unshallow"

    def _states(self) -> tuple[int, dict[str, str]]:
        """Return the exit code of the series' status, and the state of each patch by its name."""
        code, output = self._run.capture(self._series, "status", self.repo)
        lines = (line.partition(": ") for line in output.splitlines())
        return code, {name: state for name, _, state in lines}

    def apply(self) -> None:
        """Apply the patches that are not in; at the end these, and no others, are reversed."""
        run = self._run
        if not self._to_apply and not run.dry_run:
            by_hand = shlex.join([str(self._series), "reverse", str(self.repo)])
            run.say(f"   all are applied already and stay; {by_hand} reverses them")
            return
        only = [word for name in self._to_apply for word in ("--only", name)]
        reverse = [str(self._series), "reverse", *only, str(self.repo)]
        run.at_end("reverse the patches", lambda: run.run(*reverse), shlex.join(reverse), always=True)
        run.run(self._series, "apply", self.repo)

    def check_patches(self) -> None:
        """Fail if a patch is no longer in: what is built and tested now would not be what was patched."""
        if self._run.dry_run:
            return
        code, states = self._states()
        out = [f"{name} is {state}" for name, state in states.items() if state != "applied"]
        if code or out:
            found = ", ".join(out) or self._run.last_line()
            raise CollectError(f"the patches are no longer in {self.repo}, another program took them out: {found}")
