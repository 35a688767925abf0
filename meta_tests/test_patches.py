"""The patches for Kubernetes, and the script that picks, applies and reverses them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from meta_tests.kubernetes_checkout import ENVIRONMENT, GO_TESTS, git_init, lay_out, run

PATCHES = Path(__file__).parent.parent / "patches" / "kubernetes"
SERIES = {
    minor: (release, patches)
    for minor, release, *patches in (
        line.split() for line in (PATCHES / "series").read_text().splitlines() if not line.startswith("#")
    )
}
SUPPORTED = ["1.34", "1.35", "1.36", "1.37", "1.38"]

needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="needs Go to fetch and compile Kubernetes")

BEFORE = "one\ntwo\nthree\n"
AFTER = "one\ntwo\n2.5\nthree\n"
FIRST_PATCH = """\
--- a/vendor/client.go
+++ b/vendor/client.go
@@ -1,3 +1,4 @@
 one
 two
+2.5
 three
--- /dev/null
+++ b/vendor/events.go
@@ -0,0 +1 @@
+new
"""
SECOND_PATCH = FIRST_PATCH.split("--- /dev/null")[0].replace("vendor/client.go", "hack/etcd.sh")


class Tree:
    """A tiny double of a Kubernetes checkout, with series.sh beside patches that are made for it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a checkout"
        self.patches = folder / "the patches"

    def make(self) -> None:
        for name in ("vendor", "hack"):
            (self.root / name).mkdir(parents=True)
        (self.root / "vendor/client.go").write_text(BEFORE)
        (self.root / "hack/etcd.sh").write_text(BEFORE)
        git_init(self.root, "v1.37.2")
        self.patches.mkdir()
        shutil.copy(PATCHES / "series.sh", self.patches)
        (self.patches / "0001-first.patch").write_text(FIRST_PATCH)
        (self.patches / "0002-second.patch").write_text(SECOND_PATCH)
        (self.patches / "series").write_text(
            "# minor release patches\n1.36 v1.36.3 0001-first.patch\n1.37 v1.37.2 0001-first.patch 0002-second.patch\n"
        )

    def series(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.patches / "series.sh", *arguments],
            env=ENVIRONMENT,
            cwd=self.patches,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def git_apply(self, name: str, *options: str) -> None:
        run("git", "apply", *options, self.patches / name, cwd=self.root)

    def changes(self) -> str:
        return run("git", "status", "--porcelain", cwd=self.root)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    Tree(folder).make()
    return folder


@pytest.fixture
def tree(template: Path, tmp_path: Path) -> Tree:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return Tree(tmp_path)


ALL_CHANGES = " M hack/etcd.sh\n M vendor/client.go\n?? vendor/events.go\n"


def test_apply_and_reverse(tree: Tree) -> None:
    assert tree.series("status", tree.root).stdout == "0001-first.patch: applicable\n0002-second.patch: applicable\n"

    done = tree.series("apply", tree.root)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "0001-first.patch: applied\n0002-second.patch: applied\n"
    assert tree.changes() == ALL_CHANGES
    assert (tree.root / "vendor/client.go").read_text() == AFTER
    assert tree.series("status", tree.root).stdout == "0001-first.patch: applied\n0002-second.patch: applied\n"

    done = tree.series("reverse", tree.root)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "0002-second.patch: reversed\n0001-first.patch: reversed\n"
    assert tree.changes() == ""

    done = tree.series("reverse", tree.root)
    assert (done.returncode, done.stdout) == (0, f"nothing to reverse in {tree.root}\n")


def test_apply_twice_skips_what_is_applied(tree: Tree) -> None:
    tree.series("apply", tree.root)
    again = tree.series("apply", tree.root)
    assert again.returncode == 0
    assert again.stdout == "0001-first.patch: already applied\n0002-second.patch: already applied\n"
    assert (tree.root / "vendor/client.go").read_text() == AFTER
    assert tree.series("reverse", tree.root).returncode == 0
    assert tree.changes() == ""


def test_only_its_own_patches_are_reversed(tree: Tree) -> None:
    tree.git_apply("0001-first.patch")
    assert tree.series("status", tree.root).stdout == "0001-first.patch: applied\n0002-second.patch: applicable\n"
    done = tree.series("apply", tree.root)
    assert done.stdout == "0001-first.patch: already applied\n0002-second.patch: applied\n"
    assert tree.series("reverse", tree.root).stdout == "0002-second.patch: reversed\n"
    assert tree.changes() == " M vendor/client.go\n?? vendor/events.go\n"


def test_a_patch_that_does_not_fit_stops_all(tree: Tree) -> None:
    (tree.root / "hack/etcd.sh").write_text("other\n")
    done = tree.series("apply", tree.root)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "0002-second.patch: does not fit Kubernetes v1.37.2: hack/etcd.sh is other than the patch expects\n"
        f"series.sh: nothing was changed in {tree.root}\n"
    )
    assert tree.changes() == " M hack/etcd.sh\n"


def test_a_half_applied_patch_is_told_file_by_file(tree: Tree) -> None:
    tree.git_apply("0001-first.patch", "--include=vendor/client.go")
    done = tree.series("status", tree.root)
    assert done.returncode == 1
    assert done.stdout == (
        "0001-first.patch: does not fit Kubernetes v1.37.2: "
        "vendor/client.go is patched already, vendor/events.go is not patched\n"
        "0002-second.patch: applicable\n"
    )
    (tree.root / "vendor/client.go").unlink()
    assert "vendor/client.go is missing" in tree.series("status", tree.root).stdout


def test_a_failure_in_the_middle_is_rolled_back(tree: Tree, tmp_path: Path) -> None:
    git = shutil.which("git")
    double = tmp_path / "bin" / "git"
    double.parent.mkdir()
    # Fails once it would write the second patch, as git does on a full disk; else it is the real git.
    double.write_text(
        f'#!/bin/sh\ncase "$*" in *"apply --whitespace=nowarn"*0002*) exit 1 ;; esac\nexec "{git}" "$@"\n'
    )
    double.chmod(0o755)
    done = subprocess.run(
        [tree.patches / "series.sh", "apply", tree.root],
        env={**ENVIRONMENT, "PATH": f"{double.parent}:{ENVIRONMENT['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "0002-second.patch could not be applied" in done.stderr
    assert tree.changes() == ""
    assert tree.series("reverse", tree.root).stdout == f"nothing to reverse in {tree.root}\n"


def test_what_an_interrupted_apply_left_is_reversed(tree: Tree) -> None:
    tree.series("apply", tree.root)
    tree.git_apply("0001-first.patch", "--reverse", "--include=vendor/client.go")
    assert tree.series("reverse", tree.root).returncode == 0
    assert tree.changes() == ""


def test_a_failed_reverse_is_told_and_can_be_repeated(tree: Tree) -> None:
    tree.series("apply", tree.root)
    patched = (tree.root / "hack/etcd.sh").read_text()
    (tree.root / "hack/etcd.sh").write_text("edited\n")
    done = tree.series("reverse", tree.root)
    assert (done.returncode, done.stdout) == (1, "0001-first.patch: reversed\n")
    assert done.stderr == (
        f"series.sh: 0002-second.patch could not be reversed in {tree.root}: "
        "hack/etcd.sh is other than the patch expects\n"
    )
    (tree.root / "hack/etcd.sh").write_text(patched)
    assert tree.series("reverse", tree.root).returncode == 0
    assert tree.changes() == ""


def test_a_strict_script_can_source_it(tree: Tree) -> None:
    script = """
    source "$1/series.sh"
    series_apply "$2"
    series_status "$2"
    echo other >"$2/hack/etcd.sh"
    if series_reverse "$2" 2>/dev/null; then echo wrong; fi
    series_status "$2" || echo "failed with $?"
    series_pick "$2" 1.35 || exit 3
    """
    command = ["bash", "-euo", "pipefail", "-c", script, "script", str(tree.patches), str(tree.root)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert done.stdout.splitlines() == [
        "0001-first.patch: applied",
        "0002-second.patch: applied",
        "0001-first.patch: applied",
        "0002-second.patch: applied",
        "0001-first.patch: reversed",
        "0001-first.patch: applicable",
        "0002-second.patch: does not fit Kubernetes v1.37.2: hack/etcd.sh is other than the patch expects",
        "failed with 1",
    ]
    assert done.stderr.startswith("series.sh: no patches for Kubernetes v1.37.2 in ")


@pytest.mark.parametrize(
    ("tag", "options", "picked"),
    [
        ("v1.36.3", [], ["0001-first.patch"]),
        ("v1.37.0-rc.1", [], ["0001-first.patch", "0002-second.patch"]),
        ("v1.38.0-beta.0", ["--minor", "1.37"], ["0001-first.patch", "0002-second.patch"]),
        ("some-tag", ["--minor", "1.36"], ["0001-first.patch"]),
    ],
)
def test_pick(tree: Tree, tag: str, options: list[str], picked: list[str]) -> None:
    run("git", "tag", "--delete", "v1.37.2", cwd=tree.root)
    run("git", "tag", tag, cwd=tree.root)
    (tree.root / "more").touch()
    run("git", "add", "more", cwd=tree.root)
    run("git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "more", cwd=tree.root)
    done = tree.series("pick", *options, tree.root)
    assert done.stdout.splitlines() == [str(tree.patches / name) for name in picked]


@pytest.mark.parametrize("command", ["pick", "status", "apply"])
def test_an_unknown_minor_is_told(tree: Tree, command: str) -> None:
    run("git", "tag", "--delete", "v1.37.2", cwd=tree.root)
    run("git", "tag", "v1.99.0", cwd=tree.root)
    done = tree.series(command, tree.root)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("series.sh: no patches for Kubernetes v1.99.0 in ")
    assert done.stderr.endswith("; it knows 1.36 1.37 (--minor tries one of them)\n")


@pytest.mark.parametrize("command", ["pick", "status", "apply", "reverse"])
def test_a_tree_that_is_no_checkout_is_told(tree: Tree, tmp_path: Path, command: str) -> None:
    for folder, message in (
        (tree.root / "vendor", "is not the root of a git checkout"),
        (tmp_path / "absent", "no such folder"),
    ):
        done = tree.series(command, "--minor", "1.37", folder)
        assert done.returncode == 1
        assert message in done.stderr
        assert str(folder) in done.stderr
    assert tree.changes() == ""


def test_a_checkout_without_version_tag_is_told(tree: Tree) -> None:
    run("git", "tag", "--delete", "v1.37.2", cwd=tree.root)
    done = tree.series("status", tree.root)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (f"series.sh: {tree.root} has no version tag: git fetch --tags there, or give --minor\n")


@pytest.mark.parametrize("arguments", [[], ["status"], ["remove", "."], ["status", "--minor"], ["status", "a", "b"]])
def test_wrong_usage(tree: Tree, arguments: list[str]) -> None:
    done = tree.series(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: series.sh COMMAND")


def test_every_supported_minor_has_patches_and_no_patch_is_stray() -> None:
    assert set(SUPPORTED) <= set(SERIES)
    assert {name for _, patches in SERIES.values() for name in patches} == {p.name for p in PATCHES.glob("*.patch")}
    for minor, (release, _) in SERIES.items():
        assert re.fullmatch(rf"v{re.escape(minor)}\.\d+(-(alpha|beta|rc)\.\d+)?", release)


def touched(patch: str) -> list[str]:
    lines = run("git", "apply", "--numstat", PATCHES / patch, cwd=Path("/")).splitlines()
    return [line.split("\t")[2] for line in lines]


def test_patches_of_a_series_touch_different_files() -> None:
    """The state of each patch is told on its own, so none may build on another."""
    for _, patches in SERIES.values():
        files = [file for patch in patches for file in touched(patch)]
        assert len(files) == len(set(files)) == 9


def etcd_tracing_environment(tree: Path) -> set[str]:
    """Return what kube::etcd::start gives etcd, here a double that logs its environment."""
    run(
        "bash",
        "-ceu",
        """
        unset ETCD_DISTRIBUTED_TRACING_ADDRESS
        ETCD_DIR=. ETCD_LOGFILE=etcd.log
        source hack/lib/etcd.sh
        kube::etcd::validate() { :; }
        kube::log::info() { :; }
        kube::util::wait_for_url() { wait "$ETCD_PID"; }
        curl() { :; }
        etcd() { env >&2; }
        kube::etcd::start
        """,
        cwd=tree,
    )
    return {line for line in (tree / "etcd.log").read_text().splitlines() if "_TRACING" in line}


@needs_go
@pytest.mark.integration
@pytest.mark.parametrize("minor", SERIES)
def test_patched_kubernetes(minor: str, tmp_path: Path) -> None:
    """Apply, reverse, and run the patched code of the minor's release against a real etcd."""
    release, patches = SERIES[minor]
    tree = tmp_path / "kubernetes"
    tree.mkdir()
    lay_out(release, tree)

    def series(command: str) -> list[str]:
        return run(PATCHES / "series.sh", command, tree, cwd=tree).splitlines()

    def changes() -> set[str]:
        lines = run("git", "status", "--porcelain", "--untracked-files=all", cwd=tree).splitlines()
        return {line[3:] for line in lines}

    for patch in patches:
        run("git", "apply", "--check", PATCHES / patch, cwd=tree)
    assert series("apply") == [f"{patch}: applied" for patch in patches]
    assert changes() == {file for patch in patches for file in touched(patch)}
    assert series("apply") == [f"{patch}: already applied" for patch in patches]
    assert series("reverse") == [f"{patch}: reversed" for patch in reversed(patches)]
    assert changes() == set()
    series("apply")

    run("bash", "-n", "hack/make-rules/test-cmd.sh", cwd=tree)
    assert etcd_tracing_environment(tree) == {
        "ETCD_ENABLE_DISTRIBUTED_TRACING=true",
        "ETCD_DISTRIBUTED_TRACING_ADDRESS=localhost:4317",
        "ETCD_DISTRIBUTED_TRACING_SERVICE_NAME=etcd",
        "ETCD_DISTRIBUTED_TRACING_SAMPLING_RATE=1000000",
    }
    run("go", "test", "-count=1", f"./{GO_TESTS}", cwd=tree)
