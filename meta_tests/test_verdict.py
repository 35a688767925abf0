"""No run that asked for a verdict is green without one, whatever was selected, repeated or left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from etcd_coverage.comparing import saved
from etcd_coverage.judging.judge import judge
from meta_tests.builder import GET, RANGE, UNEXPECTED_KEY, call, complete, etcd, write

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

ROOT = Path(__file__).parents[1]
TESTS = [ROOT / "tests" / "test_interface_use.py", ROOT / "tests" / "test_coverage.py"]
OTHER = ROOT / "tests" / "test_sort.py"
ODD = [*complete(), *call(8, RANGE, GET | {"range_begin": UNEXPECTED_KEY})]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest in the clone's way on what the test put into ``dumps``; beside it lies the saved usage ``ref.json``."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PY_COLORS", "0")
    for name in ("CI", "BUILD_NUMBER", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    dumps = pytester.path / "dumps"
    dumps.mkdir()
    saved.update(pytester.path / "ref.json", {"ref.json": judge(write(dumps / "a.json", etcd(complete())))})

    def suite(*options: str | Path) -> pytest.RunResult:
        paths = [option for option in options if isinstance(option, Path)] or TESTS
        return pytester.runpytest_inprocess(
            "-c", ROOT / "pyproject.toml", "--rootdir", ROOT, *paths, "-p", "no:cacheprovider",
            *(option for option in options if isinstance(option, str)),
        )  # fmt: skip

    return suite


ASKED = (
    ["--testdata=dumps"],
    ["--testdata=dumps", "--require-dumps"],
    ["--testdata=dumps", "--kubernetes-version=1.37"],
    ["--testdata=dumps", "--usage-json=out"],
    ["--testdata=dumps", "--usage-html=out"],
    ["--testdata=dumps", "--usage-markdown=out"],
    ["--testdata=dumps", "--reference=ref.json"],
    ["--testdata=dumps", "--reference=ref.json", "--fail-on-missing", "--fail-on-new"],
)
SELECTIONS: tuple[list[str | Path], ...] = (
    [OTHER],
    ["-k", "nothing_of_that_name"],
    ["-m", "integration"],
    [OTHER, "-n", "1"],
    [
        f"--deselect={ROOT / 'etcd_coverage'}",
        "--deselect=tests/test_interface_use.py",
        "--deselect=tests/test_coverage.py",
    ],
    ["--setup-plan"],
)


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda words: " ".join(map(str, words)).replace(str(ROOT), "."))
@pytest.mark.parametrize("asked", ASKED, ids=lambda words: " ".join(words[1:]) or words[0])
def test_no_test_that_judges_ran(
    asked: list[str], selection: list[str | Path], run: Run, pytester: pytest.Pytester
) -> None:
    if "-n" in selection and asked != ASKED[-1]:
        selection = [word for word in selection if word not in ("-n", "1")]  # one start of a worker is enough
    (pytester.path / "out").write_text("kept")
    if "--usage-json=out" in asked:
        (pytester.path / "out").unlink()
    result = run(*asked, *selection)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (line,) = [line for line in result.outlines if line.startswith("NOTHING WAS JUDGED")]
    assert all(option.partition("=")[0] in line for option in asked)
    assert [line for line in result.outlines if line][-2] == line
    if "--usage-json=out" in asked:
        assert not (pytester.path / "out").exists()
    else:
        assert (pytester.path / "out").read_text() == "kept"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["-k", "b.json"], "NOT JUDGED: a.json, *"),
        (["--reference=ref.json", "-k", "TestInterfaceUse"], "NOT COMPARED: a.json, b.json, *"),
        (["--reference=ref.json", "-k", "test_coverage and b.json"], "NOT COMPARED: a.json, *"),
        (["--min-contract=0", "-k", "interface or b.json"], "NOT HELD TO THE GATES: a.json, though asked for by *"),
        (
            ["--min-contract=0", "--reference=dumps/a.json", "-k", "test_coverage and b.json"],
            "NOT HELD TO THE GATES: a*",
        ),
        (["--reference=dumps/a.json", "--testdata=empty", "-k", "test_coverage"], "no dumps in empty: *"),
    ],
)
def test_part_of_what_was_asked_for_ran(options: list[str], line: str, run: Run, pytester: pytest.Pytester) -> None:
    write(pytester.path / "dumps" / "b.json", etcd(complete()))
    (pytester.path / "empty").mkdir()
    result = run("--testdata=dumps", *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] > 0
    assert "failed" not in outcomes
    result.stdout.fnmatch_lines([line])


def test_findings_whose_test_did_not_run_are_no_pass(run: Run, pytester: pytest.Pytester) -> None:
    write(pytester.path / "dumps" / "a.json", etcd(ODD))
    result = run("--testdata=dumps", "-k", "test_lease_grant")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FINDINGS NOT REPORTED: a.json: *"])
    # Who compares asks for the comparison: a subject may fail the tests of a Kubernetes dump.
    assert run("--testdata=dumps", "--reference=ref.json", "-k", "test_coverage").ret == 0


def test_gates_that_have_nothing_to_judge_fail(run: Run) -> None:
    gates = ["--gate-methods=KV/Compact", "--min-calls=100"]
    for gate in ("--fail-on-missing", "--fail-on-new"):
        result = run("--testdata=dumps", "--reference=ref.json", gate, *gates)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines([f"{gate}: * has nothing to judge here: check *"])


def test_runs_that_ask_for_nothing_are_as_pytest_says(run: Run) -> None:
    assert run(OTHER).ret == 0
    assert run("-k", "nothing_of_that_name").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert run("--testdata=dumps", "--collect-only").ret == 0
    assert run("--testdata=dumps", "--help").ret == 0


AGAIN = '''
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Run each failed test again, and report the last attempt alone, as pytest-rerunfailures and flaky do."""
    for attempt in range(3):
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not any(report.failed for report in reports):
            break
        item._initrequest()
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
'''


@pytest.mark.parametrize("content", ["[]", "{", etcd(ODD), etcd(complete()[:2])], ids=["no-dump", "cut", "odd", "few"])
def test_a_second_attempt_is_no_pass(content: object, run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(again=AGAIN)
    pytester.syspathinsert()
    (pytester.path / "dumps" / "a.json").write_text(content if isinstance(content, str) else json.dumps(content))
    options = ["--testdata=dumps", "--reference=ref.json", "--fail-on-missing"]
    once, again = run(*options).parseoutcomes(), run(*options, "-p", "again")
    assert once["failed"] > 0
    assert again.parseoutcomes() == once
    assert again.ret == pytest.ExitCode.TESTS_FAILED
    again.stdout.fnmatch_lines(["FAIL a.json: *"])


@pytest.mark.parametrize(
    "distribution",
    ["load", *(pytest.param(name, marks=pytest.mark.integration) for name in ("loadscope", "worksteal", "each", "no"))],
)
@pytest.mark.integration
def test_workers_agree(distribution: str, run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "dumps" / "b.json").write_text("{")
    options = ["--testdata=dumps", "--reference=ref.json", "-n", "2", f"--dist={distribution}"]
    result = run(*options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["PASS a.json: as expected, compared with ref.json", "FAIL b.json: *"])
    assert [line for line in result.outlines if line.startswith("NO")] == []


NAMES = (
    "[nightly] kubernetes-1.37.json",
    "kubernetes-1.37 [2].json",
    "a'b\"c d.json",
    "-k.json",
    "a[b-c]::d.json",
    "ümläut 1.json",
    "new\nline.json",
)


def test_names_carry_no_meaning(run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "dumps" / "a.json").unlink()
    for name in NAMES:
        write(pytester.path / "dumps" / name, etcd(complete()))
    result = run("--testdata=dumps", "--reference=ref.json", "--fail-on-new", "--usage-json=out.json")
    result.assert_outcomes(passed=9 * len(NAMES))
    assert result.ret == 0
    passed = [line for line in result.outlines if line.startswith("PASS ")]
    assert len(passed) == len(NAMES)
    assert len(saved.load(pytester.path / "out.json")) == len(NAMES)


def test_command_judges_paths(tmp_path: Path) -> None:
    for name in NAMES:
        write(tmp_path / name, etcd(ODD if name == NAMES[0] else complete()))
    command = [sys.executable, "-m", "etcd_coverage", "-q", *(f"./{name}" for name in NAMES)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if line.startswith("FAIL ")] == [
        f"FAIL {NAMES[0]}: 1 finding in 1 test: KV/Range"
    ]
    assert f"{8 * len(NAMES) - 1} passed" in done.stdout


def test_files_are_kept_where_nothing_is_judged(run: Run, pytester: pytest.Pytester) -> None:
    targets = {option: pytester.path / option.strip("-") for option in ("--usage-html", "--usage-markdown")}
    for path in targets.values():
        path.write_text("kept")
    written = [f"{option}={path}" for option, path in targets.items()]
    saved_before = (pytester.path / "ref.json").read_text()
    for selection in ("--collect-only", "-knothing_of_that_name", "--setup-plan"):
        run("--testdata=dumps", *written, "--usage-json=ref.json", selection)
        assert [path.read_text() for path in targets.values()] == ["kept", "kept"]
        assert (pytester.path / "ref.json").read_text() == saved_before


def test_reference_that_is_no_dump_is_one_error(run: Run) -> None:
    result = run("--testdata=dumps", f"--reference={ROOT / 'README.md'}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert len([line for line in result.errlines if line]) == 1
    result.stderr.fnmatch_lines(["ERROR: --reference: *README.md: is plain text, not a dump*"])


@pytest.mark.parametrize("environment", [{"PYTHONOPTIMIZE": "1"}, {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}], ids=str)
def test_clone_runs_in_odd_environments(environment: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path / "a.json", etcd(ODD))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--testdata={tmp_path}", str(TESTS[0])]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False, env=os.environ | environment
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAIL a.json: 1 finding in 1 test" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_cache_that_cannot_be_written_changes_no_verdict(tmp_path: Path) -> None:
    """As in a checkout that is read-only or of another owner."""
    write(tmp_path / "a.json", etcd(complete()))
    command = [sys.executable, "-m", "pytest", "-v", "-o", "cache_dir=/dev/null/cache", f"--testdata={tmp_path}"]
    command += map(str, TESTS)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PytestCacheWarning" in done.stdout
    assert "PASS a.json: as expected" in done.stdout
    assert "data quality: 12 spans" in done.stdout
