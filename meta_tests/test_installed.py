"""The wheel and the sdist, installed into empty environments and used where there is no clone."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from meta_tests.builder import GET, RANGE, UNEXPECTED_KEY, call, complete, etcd, write

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[1]
SUITE = ("pytest", "--pyargs", "etcd_coverage.suite")
ODD = [*complete(), *call(8, RANGE, GET | {"range_begin": UNEXPECTED_KEY})]
AGAIN = ("pytest-rerunfailures", "flaky", "pytest-repeat", "pytest-randomly")


def installed(folder: Path, *what: str | Path) -> Path:
    """Return the programs of a new environment that holds the packages."""
    venv.create(folder, with_pip=True)
    command = [
        folder / "bin" / "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "-c",
        ROOT / "constraints.txt",
    ]
    subprocess.run([*map(str, command), *map(str, what)], check=True)
    return folder / "bin"


def runs(programs: Path, folder: Path) -> Run:
    """Return what runs a program of the environment in the folder."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST"))}

    def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [programs / program, *arguments]
        return subprocess.run(
            list(map(str, command)),
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the sdist and of the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder, ROOT], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def programs(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("environment"), next(built.glob("*.whl")), "pytest-xdist")


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    (tmp_path / "dumps").mkdir()
    return write(tmp_path / "dumps" / "a.json", etcd(complete()))


def test_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(["git", "ls-files", "etcd_coverage"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert names == set(tracked.stdout.split())


@pytest.mark.parametrize(
    "words",
    [
        (*SUITE, "--testdata", "{}"),
        (*SUITE, "--testdata={}", "-n", "2"),
        (
            "pytest",
            "-p",
            "etcd_coverage.suite.plugin",
            "--pyargs",
            "etcd_coverage.suite.test_interface_use",
            "--testdata={}",
        ),
        ("etcd-coverage", "{}"),
        ("etcd-coverage", "{}", "-n", "2"),
        ("etcd-coverage", "--testdata={}", "-v"),
        ("python", "-m", "etcd_coverage", "{}"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("odd", [False, True], ids=["good", "odd"])
def test_judges_in_an_empty_folder(
    words: tuple[str, ...], odd: bool, programs: Path, tmp_path: Path, dump: Path
) -> None:
    if odd:
        write(dump, etcd(ODD))
    (tmp_path / "empty").mkdir()
    run = runs(programs, tmp_path / "empty")
    for path in (dump, dump.parent):
        done = run(words[0], *(word.format(path) for word in words[1:]))
        assert done.returncode == int(odd), done.stdout + done.stderr
        verdict = "FAIL a.json: 1 finding in 1 test: KV/Range" if odd else "PASS a.json: as expected"
        assert verdict in done.stdout
        assert "Warning" not in done.stdout + done.stderr
    assert {path.name for path in (tmp_path / "empty").iterdir()} <= {".pytest_cache"}


def test_judges_testdata_if_nothing_is_named(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "testdata").mkdir()
    write(tmp_path / "testdata" / "b.json", etcd(complete()))
    done = runs(programs, tmp_path)("etcd-coverage")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS b.json: as expected" in done.stdout


CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--testdata", default="their own")
    parser.addoption("--reference", action="store_true")
"""
OWN_TEST = """
def test_own(pytestconfig):
    assert pytestconfig.getoption("--testdata") == "their own"
    assert not pytestconfig.pluginmanager.hasplugin("etcd_coverage.suite.plugin")
"""


def project(folder: Path, conftest: str = "") -> None:
    """Write another project with settings that would leave out the suite's tests."""
    write_text = {
        "pytest.ini": "[pytest]\npython_files = check_*.py\npython_classes = Check\npython_functions = check_*\n"
        "addopts = --strict-markers --strict-config\nfilterwarnings = error\n",
        "conftest.py": conftest,
        "check_own.py": OWN_TEST.replace("test_own", "check_own"),
    }
    for name, text in write_text.items():
        (folder / name).write_text(text)


def test_changes_nothing_in_a_project_with_options_of_the_same_names(programs: Path, tmp_path: Path) -> None:
    project(tmp_path, CONFTEST)
    for words in ((), ("-n", "2"), ("check_own.py",)):
        done = runs(programs, tmp_path)("pytest", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 passed" in done.stdout
        assert "etcd coverage" not in done.stdout
    assert "--usage-json" not in runs(programs, tmp_path)("pytest", "--help").stdout


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_judges_in_another_projects_folder(
    workers: tuple[str, ...], programs: Path, tmp_path: Path, dump: Path
) -> None:
    project(tmp_path)
    run = runs(programs, tmp_path)
    done = run(*SUITE, f"--testdata={dump}", *workers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS a.json: as expected" in done.stdout
    project(tmp_path, CONFTEST)
    done = run("etcd-coverage", dump, *workers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS a.json: as expected" in done.stdout


def test_the_documented_job_of_another_project_works(built: Path, programs: Path, tmp_path: Path) -> None:
    section = (ROOT / "docs" / "ci.md").read_text().partition("## Another project")[2].partition("\n## ")[0]
    job = yaml.safe_load(section.partition("```yaml\n")[2].partition("```")[0])
    install, judge = [step["run"] for step in job if "run" in step]
    assert install == "pip install etcd-k8s-coverage"
    assert next(built.glob("*.whl")).name.startswith("etcd_k8s_coverage-")
    project(tmp_path, CONFTEST)
    for odd in (False, True):
        write(tmp_path / "traces.json", etcd(ODD if odd else complete()))
        program, *words = shlex.split(judge)
        done = runs(programs, tmp_path)(program, *words)
        assert done.returncode == int(odd), done.stdout + done.stderr
        assert {"usage.json", "usage.md"} <= {path.name for path in tmp_path.iterdir()}


def test_autoload_of_plugins_may_be_off(programs: Path, tmp_path: Path, dump: Path) -> None:
    command = ["env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", programs / "etcd-coverage", dump]
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_plugins_that_run_tests_again_change_no_verdict(
    built: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, dump: Path
) -> None:
    folder = tmp_path_factory.mktemp("again")
    run = runs(installed(folder, next(built.glob("*.whl")), "pytest-xdist", *AGAIN), tmp_path)
    good, odd = dump, write(tmp_path / "dumps" / "odd.json", etcd(ODD))
    cut = tmp_path / "dumps" / "cut.json"
    cut.write_text("{")
    for again in (
        ("--reruns", "1"),
        ("--reruns", "2", "-n", "2", "--dist=load"),
        ("--reruns", "1", "-n", "2", "--dist=loadgroup"),
        ("--reruns", "1", "-n", "2", "--dist=each"),
        ("--force-flaky", "--max-runs=3"),
        ("--count", "2"),
        ("--reruns", "1", "--count=2", "-n", "2", "--dist=worksteal"),
        ("-p", "no:flaky", "-p", "randomly"),
    ):
        done = run("etcd-coverage", "dumps", "--reference", good, "--fail-on-new", *again)
        verdicts = [line for line in done.stdout.splitlines() if line.startswith(("PASS ", "FAIL "))]
        assert [line.split(":")[0] for line in verdicts] == ["PASS a.json", "FAIL cut.json", "FAIL odd.json"], again
        assert done.returncode == 1, done.stdout + done.stderr
        gate = run("etcd-coverage", odd, "-k", "test_coverage", "--reference", good, "--fail-on-new", *again)
        assert gate.returncode == 1, gate.stdout + gate.stderr


def test_sdist_runs_its_own_tests(built: Path, tmp_path: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    # The one that make test uses, so that the tests of make find it.
    (folder / ".venv").symlink_to(Path(sys.prefix))
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    words = ("-q", "-n", "2", "-m", "not integration", "-p", "no:cacheprovider", "tests", "meta_tests")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
