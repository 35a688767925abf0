"""CONTRIBUTING.md's snippets are pasted as they stand into a copy of the project, and the suite runs there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SNIPPETS = {text.split("(")[0].strip(): text for text in re.findall(r"```python\n(.*?)```", CONTRIBUTING, re.DOTALL)}
ANCHORS = {
    "CallPattern": '                shadowed_by="List",\n            ),\n',
    "SpecialResource": "SPECIAL_RESOURCES = (\n",
    "SpecialKey": "SPECIAL_KEYS = (\n",
    "GrpcMethod": "GRPC_METHODS = (\n",
}
"""The lines of reference.py behind which each snippet goes: CallPattern is the last of KV/Range."""


def copy_of_the_project(folder: Path) -> Path:
    """Copy what git has and would add, and return where."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def paste(project: Path, *snippets: str) -> None:
    reference = project / "etcd_coverage" / "reference.py"
    text = reference.read_text(encoding="utf-8")
    for snippet in snippets:
        anchor = ANCHORS[snippet.split("(")[0].strip()]
        assert text.count(anchor) == 1
        text = text.replace(anchor, anchor + snippet)
    reference.write_text(text, encoding="utf-8")


def run(project: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python on the copy: its folder comes first on the path."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=project, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(project)},
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip


def test_there_is_a_snippet_for_each_kind_of_row() -> None:
    assert SNIPPETS.keys() == ANCHORS.keys()


@pytest.mark.parametrize("kind", ANCHORS)
def test_snippet_is_judged_in_a_copy_of_the_reference(kind: str, tmp_path: Path) -> None:
    for part in ("etcd_coverage", "tests", "conftest.py", "pyproject.toml", "testdata/kubernetes-1.37.json.gz"):
        source, target = ROOT / part, tmp_path / part
        target.parent.mkdir(exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    paste(tmp_path, SNIPPETS[kind])
    done = run(
        tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "tests/test_reference.py", "tests/test_interface_use.py"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)


@pytest.mark.integration
def test_a_row_of_each_kind_needs_nothing_but_the_commands_that_are_named(tmp_path: Path) -> None:
    """The whole default suite, minutes long; ``key`` is a plain word that other modules hold too."""
    project = copy_of_the_project(tmp_path / "project")
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)
    subprocess.run(["git", "add", "."], cwd=project, check=True)
    paste(project, *SNIPPETS.values(), '    SpecialKey(key="key", reason="a plain word alone"),\n')
    due = run(project, "cogapp", "-I", ".", "--check", "--check-fail-msg=run: make docs", "README.md")
    assert due.returncode != 0
    assert "run: make docs" in due.stdout
    assert run(project, "cogapp", "-I", ".", "-r", "README.md").returncode == 0
    for dump in sorted((project / "testdata").glob("kubernetes-1.??.json.gz")):
        usage = project / "usage" / dump.name.removesuffix(".gz")
        saved = run(project, "etcd_coverage.suite.main", str(dump), "-q", f"--usage-json={usage}")
        assert saved.returncode == 0, saved.stdout + saved.stderr
    done = run(project, "pytest", "-q", "-p", "no:cacheprovider", "-n2", "-m", "not integration", "tests", "meta_tests")
    assert done.returncode == 0, done.stdout[-5000:]
