"""The documents in step with the code: options, messages, tables, commands, names of files."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from etcd_coverage.judging import judge, span_maps
from etcd_coverage.judging.finding_kinds import EXPECTATIONS, QUALITY

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("patches/**/*.md")])


def table(title: str, text: str = README) -> list[list[str]]:
    """Return the cells of the first table below the line that starts with ``title``."""
    lines = text[text.index(title) :].splitlines()[1:]
    start = next(number for number, line in enumerate(lines) if line.startswith(("|---", "| ---")))
    rows = []
    for line in lines[start + 1 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_starts_with_the_two_commands() -> None:
    commands = [
        line.split("#")[0].strip()
        for line in README.partition("## Run it")[2].partition("\n## ")[0].splitlines()
        if line.startswith("make ")
    ]
    assert commands == ["make coverage", "make test"]


def test_every_option_is_documented(request: pytest.FixtureRequest) -> None:
    groups = [group for group in request.config._parser._groups if group.name.startswith("etcd coverage")]
    options = {name for group in groups for option in group.options for name in option.names()}
    rows = table("Your own dumps go into") + table("## Options", (ROOT / "docs" / "coverage.md").read_text())
    assert sorted(re.findall(r"--[a-z-]+", row[0])[0] for row in rows) == sorted(options)


def test_lists_are_in_step_with_the_code() -> None:
    """The documents hold what cog writes now; `make docs` brings them up to date."""
    done = subprocess.run(
        [sys.executable, "-m", "cogapp", "-I", ".", "--check", "--check-fail-msg=run: make docs", "README.md", "docs/coverage.md", "docs/history.md"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_expected_is_listed() -> None:
    expected = README[README.index("## What is expected") :].partition("\n## ")[0]
    for row in ("| `etcdserverpb.KV/RangeStream` (from 1.37 on) | List |", "`masterleases`", "`compact_rev_key`"):
        assert row in expected
    assert "- call pattern Keys of KV/Range" in expected


def test_messages_of_findings_are_those_of_the_table() -> None:
    """Real messages, the capitals of the table filled in."""
    usage = judge.judge(ROOT / "meta_tests" / "dumps" / "robustness.json.gz")
    kinds = {kind.id: kind for kind in (*EXPECTATIONS, *QUALITY)}
    assert len({finding.id for finding in usage.findings}) > 3
    for finding in usage.findings:
        words = re.split("METHOD|KEY|N|M|PREFIX|ATTRIBUTE", kinds[finding.id].message.partition("(")[0])
        if "pattern found" not in finding.message:
            assert re.match(".+?".join(map(re.escape, words)), finding.message), finding.message


DUMPS = [
    importlib.import_module(f"etcd_coverage.dumps.{path.stem}")
    for path in (ROOT / "etcd_coverage" / "dumps").glob("[a-z]*.py")
]


def errors_of_dumps() -> list[str]:
    """Return the fixed words of each `DumpError` that the package raises; words that it names are filled in."""
    found = []
    for module in (*DUMPS, span_maps, judge):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and re.search(r"\b(Dump|Cut|More)Error\b", ast.unparse(node.func)):
                (text,) = node.args
                words = ""
                for part in text.values if isinstance(text, ast.JoinedStr) else [text]:
                    if isinstance(part, ast.Constant):
                        words += str(part.value)
                    elif isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name):
                        words += str(getattr(module, part.value.id, ""))
                    elif isinstance(part, ast.Name):
                        words += str(getattr(module, part.id))
                found.append(words)
    return found


def test_every_error_of_a_dump_is_explained() -> None:
    rows = table("A file that cannot be judged")
    explained = [words for row in rows for words in re.findall(r"`([^`]+)`", row[0])]
    found = errors_of_dumps()
    assert len(found) > 20
    assert [error for error in found if not any(words in error for words in explained)] == []
    assert [words for words in explained if not any(words in error for error in found)] == []


def test_warnings_and_skips_are_explained() -> None:
    cells = " ".join(row[0] for row in table("Warnings, and skipped tests"))
    package = "".join(path.read_text() for path in ROOT.glob("etcd_coverage/**/*.py"))
    for words in (
        "no records of traces from the apiserver",
        "spans without traces in apiserver",
        "came again with another content",
        "came with Kubernetes",
        "the dump cannot be judged",
        "NOTHING WAS JUDGED",
        "no dump in",
    ):
        assert words in cells
        assert words in package


# Files and make targets of etcd and Kubernetes that the documents name.
FOREIGN = {"tests/robustness/README.md", "test-cmd", "test-robustness", "build"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_commands_that_are_named_exist(document: Path) -> None:
    text = document.read_text()
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    if (ROOT / ".git").exists():
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        tracked = {ROOT / name for name in names}
    else:  # an unpacked sdist
        tracked = {path for path in ROOT.rglob("*") if path.is_file()}
    tracked |= {folder for path in tracked for folder in path.parents}
    folders = "etcd_coverage|tests|meta_tests|docs|patches|testdata|benchmarks|tools|usage"
    named = set(
        re.findall(rf"(?<![\w./$])(?:{folders})/[\w./-]*\w\.(?:py|md|json(?:\.gz)?|sh|yaml|toml|patch)\b", text)
    )
    linked = {link.split("#")[0] for link in re.findall(r"\]\(([^):]+)\)", text)}
    gone = {name for name in named if ROOT / name not in tracked}
    gone |= {link for link in linked if link and (document.parent / link).resolve() not in tracked}
    # A user's own dumps, ignored by git.
    own = r"testdata/(\w*traces\.json(?:\.gz)?|kubernetes-[0-9.]+(?:-local)?\.json\.gz)"
    assert {name for name in gone - FOREIGN if not re.fullmatch(own, name)} == set()
    commands = re.findall(r"(?:^|`|&& )make ((?:[a-z0-9-]+ ?)+)", text, re.MULTILINE)
    targets = {target for command in commands for target in command.split()}
    makefile = (ROOT / "Makefile").read_text()
    assert {target for target in targets - FOREIGN if f"\n{target}:" not in makefile} == set()
