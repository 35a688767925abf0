"""Dump of a kind cluster on an etcd outside of it: the steps of `collect_kind_traces.sh`."""

from __future__ import annotations

import math
import os
import sys
import time
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from etcd_coverage.collecting import docker, etcd
from etcd_coverage.collecting.cluster import (
    CLUSTER,
    CONTEXT,
    GATEWAY,
    NETWORK,
    check_flags,
    check_no_cluster,
    create,
    show_apiserver_log,
)
from etcd_coverage.collecting.commands import CollectError
from etcd_coverage.collecting.jaeger import Jaeger
from etcd_coverage.collecting.network import check_network
from etcd_coverage.collecting.patches import Clone
from etcd_coverage.collecting.preflight import (
    lock_machine,
    need_free_ports,
    need_memory,
    need_new_folder,
    need_repo,
    need_temporary_folder,
    need_tool,
)
from etcd_coverage.collecting.receiver import Receiver
from etcd_coverage.collecting.run import Plan
from etcd_coverage.collecting.settings import COLLECTOR, COMMON_HELP, PROJECT, clone, collector, common

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.collecting.run import Run, Step
    from etcd_coverage.collecting.settings import Options, Reader

NAME = "collect_kind_traces"
FLAGS: tuple[str, ...] = ()
VALUED = COLLECTOR
_SUBNET = IPv4Network("192.168.32.0/24")
_JAEGER = f"{CLUSTER}-jaeger"
# hack/lib/etcd.sh of Kubernetes refuses a port on which anything listens, on any address.
_CMD_TESTS_ETCD_PORT = 12379
_HELP = """\
Usage: ./collect_kind_traces.sh [--collector NAME] [--dry-run] [--keep] [--help]

Collects a dump of traces from a kind cluster on an etcd outside of it, while Kubernetes' e2e and cmd tests run.
Takes an hour or more, and Docker Engine on Linux. 'make k8s-coverage' builds etcd, runs this, and judges the dump.

  --collector NAME  receive: this project's receiver, the dump is a folder; jaeger: Jaeger, a file [{collector}]
  --dry-run         print the commands of each step, run none
  --keep            leave all but the patches as it is at the end: cluster, etcd, network, Jaeger or the receiver

Environment, with its value now:
  KUBERNETES_REPO    git clone of Kubernetes 1.34 to 1.38, with tags [{kubernetes_repo}]
  ETCD_REPO          git clone of etcd, built: bin/etcd [{etcd_repo}]
  KUBECONFIG         where kind writes the access to the cluster [{kubeconfig}]
  DATA_DIR           etcd's data, a new or empty directory [{data_dir}]
  OUTPUT             the dump; of Jaeger's .gz compresses [{output}]
  E2E_FOCUS          which e2e tests run, a regular expression [{e2e_focus}]
  E2E_NODES          worker nodes that the e2e tests may count on (--num-nodes) [{e2e_nodes}]
  TRACE_SECONDS      time the first traces have to show [{trace_seconds:.15g}]
  COMPACTION_SECONDS least time from the start of the cluster to the download [{compaction_seconds:.15g}];
                     the apiserver compacts every 5 minutes, at first after 10
"""


@dataclass(frozen=True)
class KindSettings:
    """The environment of this collector."""

    kubernetes_repo: Path
    etcd_repo: Path
    kubeconfig: Path
    data_dir: Path | None
    collector: str
    e2e_focus: str
    e2e_nodes: int
    trace_seconds: float
    compaction_seconds: float
    problems: tuple[str, ...]


def plan(reader: Reader, options: Options) -> Plan:
    """Return what this collector does in an environment."""
    chosen = collector(reader, options, "jaeger")
    shared = common(
        reader,
        NAME,
        reader.path("OUTPUT") or PROJECT / "testdata" / ("traces.json" if chosen == "jaeger" else "traces"),
        no_proxy=f"{GATEWAY},{_SUBNET}",
        min_disk_gb=40,
        min_memory_gb=12,
    )
    kubernetes = clone(reader, "KUBERNETES_REPO", "k8s.io/kubernetes")
    settings = KindSettings(
        kubernetes_repo=kubernetes,
        etcd_repo=clone(reader, "ETCD_REPO", "go.etcd.io/etcd"),
        kubeconfig=reader.path("KUBECONFIG") or kubernetes / "kind-with-tracing-config",
        data_dir=reader.path("DATA_DIR"),
        collector=chosen,
        e2e_focus=reader.text("E2E_FOCUS", r"\[sig-apps\].*\[Conformance\]"),
        e2e_nodes=reader.count("E2E_NODES", 2, 0),
        trace_seconds=reader.seconds("TRACE_SECONDS", 30),
        compaction_seconds=reader.seconds("COMPACTION_SECONDS", 600),
        problems=tuple(reader.problems),
    )
    own = vars(settings) | {"data_dir": settings.data_dir or "a temporary one"}
    text = (_HELP + COMMON_HELP).format(**vars(shared) | own)
    return Plan(shared, text, lambda run: Kind(run, settings).steps())


class Kind:
    """Collects a dump of a kind cluster."""

    def __init__(self, run: Run, settings: KindSettings) -> None:
        self._run = run
        self._settings = settings
        self._clone = Clone(run, settings.kubernetes_repo)
        self._collector = Jaeger(run, container=_JAEGER) if settings.collector == "jaeger" else Receiver(run)
        self._image = f"etcd-coverage/node:{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self._network_is_there = False
        self._cluster_started = time.monotonic()
        run.environment["KUBECONFIG"] = str(settings.kubeconfig)

    def steps(self) -> list[Step]:
        """Return title and action of each step, in order."""
        return [
            ("preflight", self.preflight),
            *self._collector.preparation(),
            ("patch Kubernetes", self.apply_patches),
            (f"build the node image {self._image}", self.build_node_image),
            (f"make the network {NETWORK}", self.make_network),
            (self._collector.start_title, self.start_collector),
            ("start etcd", self.start_etcd),
            (f"create the cluster {CLUSTER}", self.create_cluster),
            ("compare the apiserver's flags with what was asked", self.check_flags),
            ("wait for the first traces", self.check_traces),
            ("run the e2e tests", self.run_e2e_tests),
            ("run the cmd tests", self.run_cmd_tests),
            ("wait for compaction", self.wait_for_compaction),
            *self._collector.ending(),
        ]

    def preflight(self) -> None:
        """Check all that can be checked before."""
        run, settings = self._run, self._settings
        if run.dry_run:
            what = "tools, Docker, clones and their tags, patches, disk, memory, ports, network"
            run.say(f"   ({what}: all problems in one list)")
        else:
            self._check_machine()
            if need_repo(run, "KUBERNETES_REPO", settings.kubernetes_repo, "hack/lib/etcd.sh"):
                self._clone.check()
            if need_repo(run, "ETCD_REPO", settings.etcd_repo, "Makefile"):
                etcd.check(run, settings.etcd_repo)
            if settings.data_dir:
                need_new_folder(run, "DATA_DIR", settings.data_dir)
            need_temporary_folder(run)
        for problem in settings.problems:
            run.problem(problem)
        if os.pathsep in run.settings.environment.get("KUBECONFIG", ""):
            run.problem(f"KUBECONFIG names several files, one is needed: {settings.kubeconfig}")
        if not run.dry_run:
            need_memory(run)
            self._collector.need_output()
        run.stop_on_problems()

    def _check_machine(self) -> None:
        run = self._run
        lock_machine(run)
        if sys.platform != "linux":
            run.problem(f"Linux is needed: elsewhere {GATEWAY} is an address inside Docker's virtual machine")
        for tool in ("kind", "git", "go", "make", "kubectl", "curl", "ip", "openssl"):
            need_tool(run, tool)
        cmd_tests = {_CMD_TESTS_ETCD_PORT: "etcd of the cmd tests"}
        need_free_ports(run, {2379: "etcd"} | self._collector.ports | cmd_tests)
        if docker.check_docker(run):
            docker.check_buildx(run)
            docker.check_engine(run, GATEWAY)
            docker.check_docker_host(run)
            self._network_is_there = check_network(run, NETWORK, _SUBNET, GATEWAY)
            if self._settings.collector == "jaeger":
                docker.check_no_container(run, _JAEGER)
            check_no_cluster(run)

    def build_node_image(self) -> None:
        """Build Kubernetes' node image under a tag of this run."""
        run = self._run
        run.at_end(
            "remove the node image", lambda: docker.remove_image(run, self._image), f"docker image rm {self._image}"
        )
        run.run("kind", "build", "node-image", "--image", self._image, self._settings.kubernetes_repo)
        run.run("docker", "image", "inspect", self._image)
        self._clone.check_patches()

    def make_network(self) -> None:
        """Make the network of the nodes, unless it is there."""
        run = self._run
        if self._network_is_there:
            run.say(f"   the network {NETWORK} exists and fits; it will be left as it is")
            return
        if docker.network(run, NETWORK):
            raise CollectError(f"a network {NETWORK} has appeared since the preflight; it is left as it is")
        run.at_end("remove the network", lambda: docker.remove_network(run, NETWORK), f"docker network rm {NETWORK}")
        run.run(
            *("docker", "network", "create", "--driver", "bridge", "--subnet", str(_SUBNET)),
            *("--gateway", GATEWAY, NETWORK),
        )

    def start_collector(self) -> None:
        """Start what takes the traces, reachable from this machine and from the nodes, not from networks around."""
        if isinstance(self._collector, Receiver):
            # The network's gateway is an address of this machine, as etcd has it.
            self._collector.start("127.0.0.1:4317", f"{GATEWAY}:4317")
            return
        addresses = ("127.0.0.1:16686:16686", "127.0.0.1:4317:4317", f"{GATEWAY}:4317:4317")
        publish = [word for address in addresses for word in ("--publish", address)]
        self._collector.start_container("--network", NETWORK, *publish)

    def start_etcd(self) -> None:
        """Start etcd where the nodes reach it."""
        etcd.start(self._run, self._settings.etcd_repo, self._settings.data_dir)

    def create_cluster(self) -> None:
        """Create the cluster from kind-with-tracing.yaml."""
        create(self._run, self._image, self._settings.kubeconfig)
        self._cluster_started = time.monotonic()

    def check_flags(self) -> None:
        """Compare the apiserver's flags with what was asked."""
        check_flags(self._run)

    def check_traces(self) -> None:
        """Wait for the first traces."""
        if not self._collector.await_traces(self._settings.trace_seconds):
            show_apiserver_log(self._run)
            self._run.last_lines(self._run.server_log("etcd"))
            raise self._collector.no_traces(self._settings.trace_seconds)

    def apply_patches(self) -> None:
        """Patch the clone of Kubernetes."""
        self._clone.apply()

    def run_e2e_tests(self) -> None:
        """Run the e2e tests; that some fail is reported."""
        run, settings = self._run, self._settings
        self._clone.check_patches()
        run.run("make", "-C", settings.kubernetes_repo, "WHAT=test/e2e/e2e.test")
        code = run.status(
            settings.kubernetes_repo / "_output" / "bin" / "e2e.test",
            "--provider=skeleton",
            *(f"--kubeconfig={settings.kubeconfig}", f"--context={CONTEXT}", f"--ginkgo.focus={settings.e2e_focus}"),
            *("--ginkgo.no-color", f"--num-nodes={settings.e2e_nodes}"),
        )
        run.report("e2e tests", code, "^Ran [1-9][0-9]* of .* Specs", "^(Ran .* Specs|(FAIL|SUCCESS)! --).*")
        self._check_servers()

    def run_cmd_tests(self) -> None:
        """Run the cmd tests, which bring an apiserver and an etcd of their own; that some fail is reported."""
        run, settings = self._run, self._settings
        self._clone.check_patches()
        code = run.status(
            *("make", "-C", settings.kubernetes_repo, "test-cmd"),
            PATH=f"{settings.etcd_repo / 'bin'}{os.pathsep}{run.environment.get('PATH', os.defpath)}",
            ETCD_PORT=str(_CMD_TESTS_ETCD_PORT),
            # Of their own: these tests write to it.
            KUBECONFIG=str(run.settings.log_dir / "cmd-tests.kubeconfig"),
        )
        run.report("cmd tests", code, "^Running command: run_", "^FAILED TESTS.*|TESTS PASSED")
        self._check_servers()

    def wait_for_compaction(self) -> None:
        """Wait until the apiserver has compacted: that is part of what Kubernetes asks of etcd, and comes late."""
        run, seconds = self._run, self._settings.compaction_seconds
        left = math.ceil(self._cluster_started + seconds - time.monotonic())
        if run.dry_run:
            run.say(f"   (until the cluster is {seconds:.15g} s old)")
        elif left > 0:
            run.run("sleep", str(left))
        self._check_servers()

    def _check_servers(self) -> None:
        self._run.need_servers(*([] if self._run.dry_run else ["etcd"]))
        self._collector.check()
