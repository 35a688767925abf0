"""The recipes in docs/ci.md: whole YAML of the right structure, shell that parses, options and files that exist."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]
_OTHER_PROJECT, GITHUB, PROW = (
    yaml.safe_load(block)
    for block in re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(), re.DOTALL)
)


def steps() -> list[dict[str, Any]]:
    (job,) = GITHUB["jobs"].values()
    of_job: list[dict[str, Any]] = job["steps"]
    return of_job


def prow_script() -> str:
    (job,) = PROW["periodics"]
    (container,) = job["spec"]["containers"]
    assert container["args"][:2] == ["bash", "-euc"]
    script: str = container["args"][2]
    return script


def scripts() -> list[str]:
    return [*(step["run"] for step in steps() if "run" in step), prow_script()]


def judging_options() -> list[list[str]]:
    commands = [line for script in scripts() for line in script.replace("\\\n", " ").splitlines()]
    return [shlex.split(line)[1:] for line in commands if line.startswith(("pytest ", "etcd-coverage "))]


def test_github_job_has_the_structure_of_a_workflow() -> None:
    # YAML 1.1 reads the key "on" as true.
    assert GITHUB.keys() == {"name", True, "permissions", "jobs"}
    (job,) = GITHUB["jobs"].values()
    assert job.keys() <= {"runs-on", "timeout-minutes", "env", "defaults", "steps"}
    for step in steps():
        assert ("run" in step) != ("uses" in step), step
        assert step.keys() <= {"name", "run", "uses", "with", "if"}
        assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step.get("uses", "a/b@v1"))
    checkouts = {step["with"]["path"] for step in steps() if step.get("uses", "").startswith("actions/checkout@")}
    root = "${{ github.workspace }}/"
    assert {job["env"][name].removeprefix(root) for name in ("KUBERNETES_REPO", "ETCD_REPO")} < checkouts
    here = job["defaults"]["run"]["working-directory"]
    (publish,) = [step for step in steps() if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert publish["if"] == "always()"
    published = {path.removeprefix(f"{here}/") for path in publish["with"]["path"].split()}
    written = {word for words in judging_options()[:1] for word in words if re.fullmatch(r"(usage|junit)\.\w+", word)}
    assert published == written | {job["env"]["OUTPUT"].removeprefix(f"{root}{here}/")}


def test_prow_job_has_the_structure_of_a_periodic() -> None:
    (job,) = PROW["periodics"]
    assert {"name", "interval", "decorate", "extra_refs", "spec"} <= job.keys()
    assert re.fullmatch(r"[a-z0-9-]{1,63}", job["name"])
    assert [ref["workdir"] for ref in job["extra_refs"] if "workdir" in ref] == [True]
    assert all({"org", "repo", "base_ref"} <= ref.keys() for ref in job["extra_refs"])
    (container,) = job["spec"]["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert f"cd ../{job['extra_refs'][1]['repo']}\n" in prow_script()
    written = [word for word in judging_options()[1] if "usage." in word or "junit." in word]
    assert len(written) == 4
    assert all(word.startswith("$ARTIFACTS/") for word in written)


def test_shell_parses() -> None:
    for script in scripts():
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_each_recipe_collects_judges_compares_and_publishes(request: pytest.FixtureRequest) -> None:
    groups = [*request.config._parser._groups, request.config._parser._anonymous]
    known = {name for group in groups for option in group.options for name in option.names()}
    github, prow = judging_options()
    for words, script in ((github, "collect_kind_traces.sh"), (prow, "collect_robustness_traces.sh")):
        assert any(f"./{script}" in one for one in scripts())
        given = {word for word in words if word.startswith("-")}
        assert {"--require-dumps", "--reference", "--usage-json", "--junitxml"} <= given
        assert given & {"--fail-on-missing", "--min-coverage"}
        assert given - known == set()
        assert (ROOT / words[words.index("--reference") + 1]).is_file()
        assert all((ROOT / word).is_file() for word in words if word.startswith("tests/"))
