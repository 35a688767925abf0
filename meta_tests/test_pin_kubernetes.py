"""tools/kubernetes/add.sh, with the real go command and a module proxy that is a folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("go") is None, reason="needs the go command"),
]

PROJECT = Path(__file__).parents[1]
PATCHES = "0001-events.patch 0002-tracker.patch"
SERIES = f"# minor release patches\n1.98 v1.98.2 {PATCHES}\n"
STAGING = ("k8s.io/api", "k8s.io/client-go")
# Kubernetes' own go.mod names modules that the programs do not need; of some, prereleases are never published.
GO_MOD = """\
module k8s.io/kubernetes

go 1.23.4

require (
\tk8s.io/api v0.0.0
\tk8s.io/kube-openapi v0.0.0-20250710124328-f3f2b991d03b // indirect
)

require (
	k8s.io/client-go v0.0.0 // indirect
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/client-go => ./staging/src/k8s.io/client-go
\tk8s.io/sample-controller => ./staging/src/k8s.io/sample-controller
)
"""
PROGRAM = 'package main\n\nimport _ "k8s.io/api"\n\nfunc main() {}\n'
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")


class Proxy:
    """A project with the script, and the modules that a proxy has: https://go.dev/ref/mod#goproxy-protocol."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.series = self.project / "patches" / "kubernetes" / "series"
        self.tools = self.project / "tools" / "kubernetes"
        self._proxy = folder / "proxy"
        self._cache = folder / "cache"
        self.tools.mkdir(parents=True)
        self.series.parent.mkdir(parents=True)
        self.series.write_text(SERIES)
        shutil.copy(PROJECT / "tools" / "kubernetes" / "add.sh", self.tools)

    def publish(self, *modules: str, release: str) -> None:
        for module in modules:
            is_kubernetes = module == "k8s.io/kubernetes"
            version = release if is_kubernetes else release.replace("v1.", "v0.", 1)
            go_mod = GO_MOD if is_kubernetes else f"module {module}\n\ngo 1.23.0\n"
            files = {f"cmd/{name}/main.go": PROGRAM for name in PROGRAMS} if is_kubernetes else {"a.go": "package a\n"}
            place = self._proxy / module / "@v"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{version}.info").write_text(json.dumps({"Version": version, "Time": "2026-11-03T00:00:00Z"}))
            (place / f"{version}.mod").write_text(go_mod)
            with zipfile.ZipFile(place / f"{version}.zip", "w") as archive:
                for name, text in {"go.mod": go_mod, **files}.items():
                    archive.writestr(f"{module}@{version}/{name}", text)
            with (place / "list").open("a") as versions:
                versions.write(f"{version}\n")

    def add(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "GOPROXY": self._proxy.as_uri(),
            "GOSUMDB": "off",
            "GOFLAGS": "-modcacherw",
            "GOMODCACHE": str(self._cache),
        }
        return subprocess.run(
            [self.tools / "add.sh", *arguments], env=environment, capture_output=True, text=True, timeout=120
        )

    def files(self) -> dict[str, str]:
        """Return each file of the project but the script."""
        return {
            str(path.relative_to(self.project)): path.read_text()
            for path in self.project.rglob("*")
            if path.is_file() and path.name != "add.sh"
        }


@pytest.fixture
def proxy(tmp_path: Path) -> Proxy:
    proxy = Proxy(tmp_path)
    proxy.publish("k8s.io/kubernetes", *STAGING, release="v1.99.0-beta.0")
    return proxy


def test_a_new_minor_is_pinned_to_its_prerelease_and_gets_the_patches_of_the_newest(proxy: Proxy) -> None:
    done = proxy.add("1.99", "newest")
    assert done.returncode == 0, done.stderr
    assert proxy.series.read_text() == f"{SERIES}1.99 v1.99.0-beta.0 {PATCHES}\n"
    module = (proxy.tools / "1.99" / "go.mod").read_text()
    assert module.startswith("module etcd-k8s-coverage/tools/kubernetes/1.99\n\ngo 1.23.4\n")
    assert "k8s.io/kubernetes v1.99.0-beta.0" in module
    for name in STAGING:
        assert f"{name} => {name} v0.99.0-beta.0" in module
    assert "sample-controller" not in module
    assert "k8s.io/kubernetes v1.99.0-beta.0 h1:" in (proxy.tools / "1.99" / "go.sum").read_text()
    assert set(proxy.files()) == {
        "patches/kubernetes/series",
        "tools/kubernetes/1.99/go.mod",
        "tools/kubernetes/1.99/go.sum",
    }


@pytest.mark.parametrize("argument", ["newest", "v1.99.0"])
def test_a_minor_moves_on_from_its_prerelease_to_its_release(proxy: Proxy, argument: str) -> None:
    assert proxy.add("1.99", "newest").returncode == 0
    proxy.publish("k8s.io/kubernetes", *STAGING, release="v1.99.0-rc.1")
    proxy.publish("k8s.io/kubernetes", *STAGING, release="v1.99.0")
    done = proxy.add("1.99", argument)
    assert done.returncode == 0, done.stderr
    assert proxy.series.read_text() == f"{SERIES}1.99 v1.99.0 {PATCHES}\n"
    assert "v0.99.0\n" in (proxy.tools / "1.99" / "go.mod").read_text()
    assert "beta" not in (proxy.tools / "1.99" / "go.sum").read_text()


def test_modules_that_are_not_published_yet_are_named_in_one_line_and_nothing_is_written(proxy: Proxy) -> None:
    assert proxy.add("1.99", "v1.99.0-beta.0").returncode == 0
    before = proxy.files()
    proxy.publish("k8s.io/kubernetes", "k8s.io/api", release="v1.99.0-rc.0")
    done = proxy.add("1.99", "v1.99.0-rc.0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "add.sh: Kubernetes v1.99.0-rc.0 is not all there yet, try again later: of k8s.io/client-go there is no "
        "v0.99.0-rc.0 ("
    )
    assert done.stderr.count("\n") == 1
    assert proxy.files() == before
    assert [path.name for path in proxy.tools.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("1.99",), 1, "add.sh: no Kubernetes 1.99 in patches/kubernetes/series: give its release too\n"),
        (("1.99", "v1.99.7"), 1, "add.sh: no Kubernetes v1.99.7: "),
        (("1.97", "newest"), 1, "add.sh: no release of Kubernetes 1.97 is published\n"),
        (("1.99", "v1.98.2"), 2, "Usage: tools/kubernetes/add.sh MINOR [RELEASE|newest]"),
        (("1.99", "latest"), 2, "Usage: "),
        (("v1.99",), 2, "Usage: "),
        ((), 2, "Usage: "),
    ],
)
def test_what_cannot_be_pinned_is_reported_in_one_line(
    proxy: Proxy, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = proxy.add(*arguments)
    assert done.returncode == code
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
    assert proxy.files() == {"patches/kubernetes/series": SERIES}
