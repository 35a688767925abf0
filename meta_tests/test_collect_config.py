"""The collectors' configuration files, read by those who read them in a run: kind and kube-apiserver."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
KIND = PROJECT / ".tools" / "bin" / "kind"
KIND_CONFIG = PROJECT / "kind-with-tracing.yaml"
TRACING_CONFIG = PROJECT / "apiserver-shared-conf" / "tracing.yaml"
RELEASES = re.findall(r"^\d\S* v1(\.\S+)", (PROJECT / "patches" / "kubernetes" / "series").read_text(), re.MULTILINE)

pytestmark = pytest.mark.integration
needs_kind = pytest.mark.skipif(not KIND.exists(), reason="there is no kind in .tools/bin: make tools")
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="Go is needed to build the apiserver's types")

# What kind 0.33 writes for each version of kubeadm's configuration, and what is asked of it.
APISERVER_V1BETA4 = """\
  extraArgs:
  - name: runtime-config
    value: ""
  - name: tracing-config-file
    value: /etc/kubernetes/apiserver-shared-conf/tracing.yaml
"""
APISERVER_V1BETA3 = """\
  extraArgs:
    runtime-config: ""
    tracing-config-file: /etc/kubernetes/apiserver-shared-conf/tracing.yaml
"""
VOLUME = """\
  extraVolumes:
  - hostPath: /etc/kubernetes/apiserver-shared-conf
    mountPath: /etc/kubernetes/apiserver-shared-conf
    name: apiserver-shared-conf
    pathType: Directory
    readOnly: true
"""
EXTERNAL_ETCD = """\
etcd:
  external:
    endpoints:
    - http://192.168.32.1:2379
"""


def go(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["go", *arguments],
        cwd=folder,
        # A release ahead may need a Go ahead, which the command fetches: https://go.dev/doc/toolchain
        env=os.environ | {"GOTOOLCHAIN": "auto"} | environment,
        capture_output=True,
        text=True,
        timeout=1200,
    )


def create_cluster(folder: Path, config: Path, version: str) -> str:
    """Run kind with a double of docker until kubeadm would start on the node; return its message."""
    (folder / "docker").symlink_to(PROJECT / "meta_tests" / "doubles" / "docker-for-kind")
    result = subprocess.run(
        [KIND, "create", "cluster", "--config", config, "--image", "etcd-coverage/node:test", "--retain"],
        cwd=PROJECT,
        env={
            "PATH": f"{folder}:/usr/bin:/bin",
            "HOME": str(folder),
            "KUBECONFIG": str(folder / "kubeconfig"),
            "KIND_EXPERIMENTAL_DOCKER_NETWORK": "kind-with-external-etcd",
            "NODES": str(folder),
            "VERSION": version,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 1
    return result.stderr


@needs_kind
@pytest.mark.parametrize(
    ("version", "api_version", "arguments"),
    [
        ("v1.34.4-dirty", "v1beta3", APISERVER_V1BETA3),
        ("v1.35.4-dirty", "v1beta3", APISERVER_V1BETA3),
        ("v1.36.0-dirty", "v1beta4", APISERVER_V1BETA4),
        ("v1.37.2-3+0123456789abcd-dirty", "v1beta4", APISERVER_V1BETA4),
    ],
)
def test_kind_gives_kubeadm_the_external_etcd_and_the_tracing_flag(
    tmp_path: Path, version: str, api_version: str, arguments: str
) -> None:
    assert "double: kubeadm is reached" in create_cluster(tmp_path, KIND_CONFIG, version)
    documents = (tmp_path / "kind-with-external-etcd-control-plane.kubeadm.yaml").read_text().split("---\n")
    (cluster,) = [text for text in documents if "kind: ClusterConfiguration\n" in text]
    assert f"apiVersion: kubeadm.k8s.io/{api_version}\n" in cluster
    assert arguments + VOLUME in cluster
    assert EXTERNAL_ETCD in cluster


@needs_kind
def test_kind_makes_a_control_plane_with_the_mount_and_two_workers(tmp_path: Path) -> None:
    create_cluster(tmp_path, KIND_CONFIG, "v1.37.2")
    nodes = {path.stem: path.read_text().splitlines() for path in tmp_path.glob("*.run")}
    mount = f"--volume={TRACING_CONFIG.parent}:/etc/kubernetes/apiserver-shared-conf:ro"
    assert {name: mount in arguments for name, arguments in nodes.items()} == {
        "kind-with-external-etcd-control-plane": True,
        "kind-with-external-etcd-worker": False,
        "kind-with-external-etcd-worker2": False,
    }
    for arguments in nodes.values():
        assert arguments[arguments.index("--net") + 1] == "kind-with-external-etcd"


@needs_kind
@pytest.mark.parametrize(
    ("line", "wrong"),
    [("nodes:", "node:"), ("  extraMounts:", "  extraMount:"), ("    readOnly", "    readonly")],
)
def test_kind_stops_at_an_unknown_field(tmp_path: Path, line: str, wrong: str) -> None:
    text = KIND_CONFIG.read_text()
    assert line in text
    config = tmp_path / "config.yaml"
    config.write_text(text.replace(line, wrong, 1))
    message = create_cluster(tmp_path, config, "v1.37.2")
    assert f"field {wrong.strip(' :')} not found in type" in message
    assert not list(tmp_path.glob("*.run"))


def decode(path: Path, release: str, work: Path) -> "subprocess.CompletedProcess[str]":
    """Decode with the types, and the dependencies, of one release of the apiserver."""
    program = PROJECT / "meta_tests" / "tracing_configuration"
    module = go(program, "mod", "download", "-json", f"k8s.io/apiserver@v0{release}", GOWORK="off")
    assert module.returncode == 0, module.stderr
    apiserver = re.findall(r'"Dir": "(.*)"', module.stdout)[0]
    version = re.findall(r"^go (\S+)$", (Path(apiserver) / "go.mod").read_text(), re.MULTILINE)[0]
    work.write_text(f'go {version}\n\nuse "{program}"\nuse "{apiserver}"\n')
    return go(program, "run", ".", str(path), GOWORK=str(work))


@needs_go
@pytest.mark.parametrize("release", RELEASES)
def test_every_apiserver_accepts_the_tracing_configuration(release: str, tmp_path: Path) -> None:
    result = decode(TRACING_CONFIG, release, tmp_path / "go.work")
    assert (result.returncode, result.stdout) == (0, "192.168.32.1:4317 1000000\n"), result.stderr
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(TRACING_CONFIG.read_text().replace("samplingRatePerMillion", "samplingRate"))
    result = decode(wrong, release, tmp_path / "go.work")
    assert result.returncode == 1
    assert 'unknown field "samplingRate"' in result.stderr
