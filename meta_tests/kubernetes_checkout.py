"""Lays out the parts of a Kubernetes release that the patches touch, at their paths in a checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent / "patches"
APISERVER = Path("staging/src/k8s.io/apiserver")
# Compiled as a package of the apiserver: a module of its own would need versions of its own.
GO_TESTS = APISERVER / "pkg/patches"
# With -trimpath Go's build cache serves a checkout in any folder.
ENVIRONMENT = {
    **os.environ,
    "GOFLAGS": "-trimpath",
    "GOWORK": "",
    # A release may need a newer Go than the one that is here.
    "GOTOOLCHAIN": "auto",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def run(*command: str | Path, cwd: Path, timeout: float = 3600) -> str:
    """Run a command and return its stdout; a failure raises RuntimeError with both outputs."""
    done = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def git_init(tree: Path, tag: str) -> None:
    """Make a folder a git checkout of one commit with one tag."""
    run("git", "init", "--quiet", cwd=tree)
    run("git", "add", "--all", "--force", cwd=tree)
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    run("git", *who, "commit", "--quiet", "--message", tag, cwd=tree)
    run("git", "tag", tag, cwd=tree)


def download(module: str, version: str) -> Path:
    """Return the folder of a module in Go's module cache; its content is checked against patches/go.sum."""
    return Path(json.loads(run("go", "mod", "download", "-json", f"{module}@{version}", cwd=HERE))["Dir"])


def lay_out(release: str, tree: Path) -> None:
    """Make `tree` a git checkout of Kubernetes `release` (v1.37.2), cut down to what the patches need.

    It holds hack/, staging/src/k8s.io/apiserver (with this project's Go tests) and vendor/, tied by a go.work
    as in a whole checkout: https://github.com/kubernetes/kubernetes/blob/master/go.work.
    """
    shutil.copytree(download("k8s.io/kubernetes", release) / "hack", tree / "hack")
    shutil.copytree(download("k8s.io/apiserver", re.sub(r"^v1\.", "v0.", release)), tree / APISERVER)
    run("chmod", "-R", "u+w", ".", cwd=tree)  # the module cache is read-only
    (tree / GO_TESTS).mkdir()
    shutil.copy(HERE / "patches_test.go", tree / GO_TESTS)
    go_version = re.findall(r"^go (\S+)$", (tree / APISERVER / "go.mod").read_text(), re.MULTILINE)[0]
    (tree / "go.work").write_text(f"go {go_version}\n\nuse ./{APISERVER}\n")
    run("go", "work", "vendor", cwd=tree)
    git_init(tree, release)
