"""CONTRIBUTING.md's snippets are pasted as they stand into a copy of the project, and the suite runs there."""

from __future__ import annotations

import os
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


@pytest.mark.integration
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
def test_a_row_of_each_kind_needs_no_edit_but_the_documented_commands(tmp_path: Path) -> None:
    """In a whole copy: the rows, the commands after a new row, then the default suite."""
    (documented,) = re.findall(r"After a new row, .*?```\nmake (.*?)\nmake check test\n```", CONTRIBUTING, re.DOTALL)
    project = tmp_path / "copy"
    ignored = shutil.ignore_patterns(
        ".git", ".venv", ".tools", "logs", "build", "*.egg-info", ".*_cache", "__pycache__"
    )
    shutil.copytree(ROOT, project, ignore=ignored)
    (project / ".venv").symlink_to(Path(sys.prefix))
    paste(project, *SNIPPETS.values())
    environment = os.environ | {"PYTHONPATH": str(project)}
    environment.pop("PYTEST_ADDOPTS", None)
    # .venv is taken as it is, however new the copied files are.
    as_it_is = ["--old-file=pyproject.toml", "--old-file=constraints.txt", "--old-file=.venv/.installed"]
    options = "ARGS=-q -p no:cacheprovider --deselect=meta_tests/test_contributing.py"
    for target in (*documented.split(), "test"):
        done = subprocess.run(
            ["make", *as_it_is, target, options],
            cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=1800,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "Maintenance/HashKV" in (project / "README.md").read_text(encoding="utf-8")
