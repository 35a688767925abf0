"""Dump of a control plane on this machine's loopback: the steps of `collect_local_traces.sh`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from etcd_coverage.collecting import etcd
from etcd_coverage.collecting.commands import CollectError
from etcd_coverage.collecting.control_plane import ControlPlane, Programs
from etcd_coverage.collecting.jaeger import Jaeger
from etcd_coverage.collecting.minors import minors, newest_release
from etcd_coverage.collecting.patches import Clone
from etcd_coverage.collecting.preflight import (
    need_disk,
    need_memory,
    need_program,
    need_repo,
    need_temporary_folder,
    need_tool,
)
from etcd_coverage.collecting.receiver import Receiver
from etcd_coverage.collecting.run import Plan
from etcd_coverage.collecting.settings import COLLECTOR, COMMON_HELP, PROJECT, UsageError, collector, common

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.collecting.run import Run, Step
    from etcd_coverage.collecting.settings import Check, Options, Reader

NAME = "collect_local_traces"
FLAGS = ("--cmd-tests",)
_SERVER_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_MINUTES = "12"
_HELP = """\
Usage: ./collect_local_traces.sh [--kubernetes MINOR] [--minutes N] [--collector NAME] [--cmd-tests] [--dry-run]
                                  [--keep] [--help]

Collects a dump of traces from a Kubernetes control plane on this machine's loopback, on free ports, without root and
without Docker. The first run of a minor builds it, which takes minutes. 'make local-coverage' runs this and judges the
dump.

  --kubernetes MINOR  {minors} [{minor}]
  --minutes N         how long the workload runs [{minutes}]; the apiserver compacts every 5 minutes, at first after 10
  --collector NAME    receive: this project's receiver, the dump is a folder; jaeger: Jaeger, a file [{collector}]
  --cmd-tests         run Kubernetes' cmd tests of the clone KUBERNETES_REPO in place of the cluster and the workload
  --dry-run           print the commands of each step, run none
  --keep              leave the servers running at the end

Environment, with its value now:
  KUBERNETES_REPO    git clone of Kubernetes, with tags, to build from [{kubernetes_repo}]
  ETCD_REPO          git clone of etcd, built: bin/etcd [{etcd_repo}]
  JAEGER_BIN         a Jaeger 2 binary [{jaeger_bin}]
  OUTPUT             the dump; of Jaeger's .gz compresses [{dump}]
  E2E_TEST           an e2e.test of Kubernetes to run after the workload [{e2e_test}]
  E2E_FOCUS          which of its tests run, a regular expression [{e2e_focus}]
  NODES              how many fake nodes there are [{nodes}]
  COMPACTION_INTERVAL  of the apiserver [{compaction_interval}]
  TRACE_SECONDS      time the first traces have to show [{trace_seconds:.15g}]
"""


def _check_minor(value: str) -> None:
    if value not in minors():
        raise UsageError(f"--kubernetes {value} is none of {' '.join(minors())}")


def _check_minutes(value: str) -> None:
    if not re.fullmatch("[1-9][0-9]{0,3}", value):
        raise UsageError(f"--minutes {value} is no number from 1 to 9999")


VALUED: dict[str, Check] = {**COLLECTOR, "--kubernetes": _check_minor, "--minutes": _check_minutes}


@dataclass(frozen=True)
class LocalSettings:
    """The command line and the environment of this collector."""

    minor: str
    minutes: str
    collector: str
    cmd_tests: bool
    kubernetes_repo: Path | None
    etcd_repo: Path | None
    jaeger_bin: Path | None
    e2e_test: Path | None
    e2e_focus: str
    nodes: int
    compaction_interval: str
    trace_seconds: float
    problems: tuple[str, ...]


def plan(reader: Reader, options: Options) -> Plan:
    """Return what this collector does in an environment."""
    minor = options.values.get("--kubernetes", newest_release())
    chosen = collector(reader, options, "receive")
    suffix = ".json.gz" if chosen == "jaeger" else ""
    output = reader.path("OUTPUT") or PROJECT / "testdata" / f"kubernetes-{minor}-local{suffix}"
    shared = common(reader, NAME, output, min_disk_gb=10, ready_seconds=180)
    settings = LocalSettings(
        minor=minor,
        minutes=options.values.get("--minutes", _MINUTES),
        collector=chosen,
        cmd_tests="--cmd-tests" in options.flags,
        kubernetes_repo=reader.path("KUBERNETES_REPO"),
        etcd_repo=reader.path("ETCD_REPO"),
        jaeger_bin=reader.path("JAEGER_BIN"),
        e2e_test=reader.path("E2E_TEST"),
        e2e_focus=reader.text("E2E_FOCUS", r"\[sig-(apps|api-machinery)\].*\[Conformance\]"),
        nodes=reader.count("NODES", 3, 1, 999),
        compaction_interval=reader.go_duration("COMPACTION_INTERVAL", "5m"),
        trace_seconds=reader.seconds("TRACE_SECONDS", 30),
        problems=tuple(reader.problems),
    )
    own = vars(settings) | {
        "minors": " ".join(minors()),
        "kubernetes_repo": settings.kubernetes_repo or "none: from pinned Go modules",
        "etcd_repo": settings.etcd_repo or "none: from a pinned Go module",
        "jaeger_bin": settings.jaeger_bin or "none: from a pinned Go module",
        "dump": reader.path("OUTPUT") or f"testdata/kubernetes-MINOR-local{suffix}",
        "e2e_test": settings.e2e_test or "none",
    }
    text = (_HELP + COMMON_HELP).format(**vars(shared) | own)
    return Plan(shared, text, lambda run: Local(run, settings).steps())


class Local:
    """Collects a dump of a control plane on loopback."""

    def __init__(self, run: Run, settings: LocalSettings) -> None:
        self._run = run
        self._settings = settings
        self._clone = Clone(run, settings.kubernetes_repo) if settings.kubernetes_repo else None
        self._collector = Receiver(run) if settings.collector == "receive" else Jaeger(run)
        project, tools = run.settings.project, run.settings.project / ".tools" / "bin"
        kubernetes = settings.kubernetes_repo and settings.kubernetes_repo / "_output" / "bin"
        self._programs = Programs(
            etcd=settings.etcd_repo / "bin" / "etcd" if settings.etcd_repo else tools / "etcd",
            jaeger=settings.jaeger_bin or tools / "jaeger",
            kubernetes=kubernetes or project / ".tools" / f"kubernetes-{settings.minor}" / "bin",
            kwok=tools / "kwok",
        )
        self._plane = ControlPlane(run, self._programs, settings.compaction_interval)

    def steps(self) -> list[Step]:
        """Return title and action of each step, in order."""
        plane = self._plane
        cluster: list[Step] = [
            ("start etcd", plane.start_etcd),
            ("start kube-apiserver", plane.start_apiserver),
            ("start the controllers, the scheduler and kwok", plane.start_the_rest),
            ("add the nodes", self.add_nodes),
            ("wait for the first traces", self.check_traces),
            (f"run the workload for {self._settings.minutes} minutes", self.run_workload),
            ("run the e2e tests", self.run_e2e_tests),
            ("stop the servers", plane.stop_servers),
        ]
        return [
            ("preflight", self.preflight),
            *self._collector.preparation(),
            ("patch Kubernetes", self.patch_clone),
            ("build the programs", self.build_programs),
            ("choose ports, make keys", self.configure),
            (self._collector.start_title, self.start_collector),
            *([("run the cmd tests", self.run_cmd_tests)] if self._settings.cmd_tests else cluster),
            *self._collector.ending(),
        ]

    def preflight(self) -> None:
        """Check all that can be checked before."""
        run, settings = self._run, self._settings
        if run.dry_run:
            run.say("   (tools, clones, patches, disk, memory, the place of the dump: all problems in one list)")
        else:
            for tool in ("go", "make", "git", "curl", "openssl", "ss"):
                need_tool(run, tool)
            self._check_clones()
            need_program(run, "JAEGER_BIN", settings.jaeger_bin)
            need_program(run, "E2E_TEST", settings.e2e_test)
        for problem in settings.problems:
            run.problem(problem)
        if not run.dry_run:
            if settings.cmd_tests:
                self._check_cmd_tests()
            need_disk(run, run.settings.project)
            need_memory(run)
            need_temporary_folder(run)
            self._collector.need_output()
        run.stop_on_problems()

    def _check_clones(self) -> None:
        run, settings, minor = self._run, self._settings, self._settings.minor
        if self._clone and need_repo(run, "KUBERNETES_REPO", self._clone.repo, "hack/lib/etcd.sh"):
            self._clone.check()
            tag = self._clone.tag
            if tag and not tag.startswith(f"v{minor}."):
                run.problem(f"KUBERNETES_REPO is at {tag}: check out a v{minor}, or name its release with --kubernetes")
        if settings.etcd_repo and need_repo(run, "ETCD_REPO", settings.etcd_repo, "Makefile"):
            etcd.check(run, settings.etcd_repo)

    def _check_cmd_tests(self) -> None:
        run = self._run
        if not self._clone:
            run.problem("--cmd-tests needs KUBERNETES_REPO, a git clone of Kubernetes")
        # Their apiserver looks for the address that it advertises.
        if need_tool(run, "ip") and not run.capture("ip", "-4", "route", "show", "default")[1]:
            run.problem("--cmd-tests needs a default route: their apiserver finds its address by it")

    def patch_clone(self) -> None:
        """Patch the clone of Kubernetes, if there is one."""
        if self._clone:
            self._clone.apply()
        else:
            self._run.say("   the build from Go modules patches a copy")

    def build_programs(self) -> None:
        """Build what is not given."""
        run, settings = self._run, self._settings
        jaeger = settings.collector == "jaeger" and not settings.jaeger_bin
        wanted = {"etcd": not settings.etcd_repo, "jaeger": jaeger, "kwok": not settings.cmd_tests}
        targets = [f".tools/bin/{name}" for name, missing in wanted.items() if missing]
        if targets:
            run.run("make", *targets)
        if settings.cmd_tests:
            return
        if self._clone:
            what = " ".join(f"cmd/{program}" for program in _SERVER_PROGRAMS)
            run.run("make", "-C", self._clone.repo, f"WHAT={what}")
            self._clone.check_patches()
        else:
            run.run("tools/kubernetes/build.sh", settings.minor)

    def configure(self) -> None:
        """Choose ports, make keys and configuration files."""
        url = self._plane.configure(servers=not self._settings.cmd_tests)
        if isinstance(self._collector, Jaeger):
            self._collector.url = url

    def start_collector(self) -> None:
        """Start what takes the traces."""
        if isinstance(self._collector, Receiver):
            self._collector.start(self._plane.otlp)
        else:
            self._collector.start_program(self._programs.jaeger, "--config", self._plane.work / "jaeger.json")

    def add_nodes(self) -> None:
        """Add the fake nodes."""
        self._plane.add_nodes(self._settings.nodes)

    def check_traces(self) -> None:
        """Wait for the first traces."""
        if not self._collector.await_traces(self._settings.trace_seconds):
            raise self._collector.no_traces(self._settings.trace_seconds)

    def run_workload(self) -> None:
        """Keep the cluster busy; that a part fails is reported."""
        kubectl = self._programs.kubernetes / "kubectl"
        code = self._run.status("tools/kubernetes/workload.sh", kubectl, self._settings.minutes)
        self._run.need_servers()
        self._run.report("workload", code, "^ok: ", "^[0-9]+ parts ran.*")

    def run_e2e_tests(self) -> None:
        """Run the e2e tests that were given; that some fail is reported."""
        run, settings = self._run, self._settings
        if not settings.e2e_test:
            run.say("   none: E2E_TEST is not set")
            return
        code = run.status(
            *(settings.e2e_test, "--provider=skeleton", f"--kubeconfig={self._plane.kubeconfig}"),
            *(f"--ginkgo.focus={settings.e2e_focus}", "--ginkgo.no-color", f"--num-nodes={settings.nodes}"),
        )
        run.need_servers()
        run.report("e2e tests", code, "^Ran [1-9][0-9]* of .* Specs", "^(Ran .* Specs|(FAIL|SUCCESS)! --).*")

    def run_cmd_tests(self) -> None:
        """Run Kubernetes' cmd tests, which bring an apiserver and an etcd of their own; that some fail is reported."""
        run, plane = self._run, self._plane
        if not self._clone:
            raise CollectError("there is no clone of Kubernetes")
        self._clone.check_patches()
        etcd = self._programs.etcd.parent
        code = run.status(
            *("make", "-C", self._clone.repo, "test-cmd"),
            **plane.cmd_tests_environment(),
            PATH=f"{etcd}{os.pathsep}{run.environment.get('PATH', os.defpath)}",
        )
        run.report("cmd tests", code, "^Running command: run_", "^FAILED TESTS.*|TESTS PASSED")
        self._collector.check()
