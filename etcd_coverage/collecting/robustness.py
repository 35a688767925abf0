"""Dump of etcd's robustness tests, which imitate Kubernetes: the steps of `collect_robustness_traces.sh`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from etcd_coverage.collecting.jaeger import Jaeger
from etcd_coverage.collecting.preflight import (
    lock_machine,
    need_disk,
    need_free_ports,
    need_memory,
    need_program,
    need_repo,
    need_tool,
)
from etcd_coverage.collecting.receiver import Receiver
from etcd_coverage.collecting.run import Plan
from etcd_coverage.collecting.settings import COLLECTOR, COMMON_HELP, PROJECT, clone, collector, common

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.collecting.run import Run, Step
    from etcd_coverage.collecting.settings import Options, Reader

NAME = "collect_robustness_traces"
FLAGS: tuple[str, ...] = ()
VALUED = COLLECTOR
_CONTAINER = "etcd-robustness-jaeger"
_HELP = """\
Usage: ./collect_robustness_traces.sh [--collector NAME] [--dry-run] [--keep] [--help]

Collects a dump of traces of etcd's robustness tests. 'make robustness-coverage' runs this and judges the dump.

  --collector NAME  receive: this project's receiver, the dump is a folder; jaeger: Jaeger, a file [{collector}]
  --dry-run         print the commands of each step, run none
  --keep            leave Jaeger or the receiver running

Environment, with its value now:
  ETCD_REPO          git clone of etcd [{etcd_repo}]
  GO_TEST_FLAGS      flags of 'go test' [{go_test_flags}]
  JAEGER_BIN         a Jaeger 2 binary to run in place of a container [{jaeger_bin}]
  OUTPUT             the dump; of Jaeger's .gz compresses [{output}]
"""


@dataclass(frozen=True)
class RobustnessSettings:
    """The environment of this collector."""

    etcd_repo: Path
    go_test_flags: str
    jaeger_bin: Path | None
    collector: str
    problems: tuple[str, ...]


def plan(reader: Reader, options: Options) -> Plan:
    """Return what this collector does in an environment."""
    chosen = collector(reader, options, "jaeger")
    name = "demo_traces.json" if chosen == "jaeger" else "demo_traces"
    shared = common(reader, NAME, reader.path("OUTPUT") or PROJECT / "testdata" / name)
    settings = RobustnessSettings(
        etcd_repo=clone(reader, "ETCD_REPO", "go.etcd.io/etcd"),
        go_test_flags=reader.text("GO_TEST_FLAGS", '--timeout 10m --count=1 -v --run "^TestRobustness.*/Kubernetes.*"'),
        jaeger_bin=reader.path("JAEGER_BIN"),
        collector=chosen,
        problems=tuple(reader.problems),
    )
    own = vars(settings) | {"jaeger_bin": settings.jaeger_bin or "none"}
    text = (_HELP + COMMON_HELP).format(**vars(shared) | own)
    return Plan(shared, text, lambda run: Robustness(run, settings).steps())


class Robustness:
    """Collects a dump of etcd's robustness tests."""

    def __init__(self, run: Run, settings: RobustnessSettings) -> None:
        self._run = run
        self._settings = settings
        jaeger = Jaeger(run, container="" if settings.jaeger_bin else _CONTAINER)
        self._collector = jaeger if settings.collector == "jaeger" else Receiver(run)

    def steps(self) -> list[Step]:
        """Return title and action of each step, in order."""
        return [
            ("preflight", self.preflight),
            *self._collector.preparation(),
            (self._collector.start_title, self.start_collector),
            ("run the robustness tests", self.run_robustness_tests),
            *self._collector.ending(),
        ]

    def preflight(self) -> None:
        """Check all that can be checked before."""
        run, settings = self._run, self._settings
        if run.dry_run:
            run.say("   (tools, Jaeger, the clone, disk, memory, ports: all problems in one list)")
        else:
            lock_machine(run)
            for tool in ("git", "go", "make", "curl"):
                need_tool(run, tool)
            need_free_ports(run, self._collector.ports)
            if settings.jaeger_bin:
                need_program(run, "JAEGER_BIN", settings.jaeger_bin)
            else:
                self._collector.need_docker()
            if need_repo(run, "ETCD_REPO", settings.etcd_repo, "tests/robustness"):
                need_disk(run, settings.etcd_repo)
            need_memory(run)
            self._collector.need_output()
        for problem in settings.problems:
            run.problem(problem)
        run.stop_on_problems()

    def start_collector(self) -> None:
        """Start what takes the traces where the tests send them."""
        if isinstance(self._collector, Receiver):
            self._collector.start("127.0.0.1:4317")
        elif self._settings.jaeger_bin:
            self._collector.start_program(self._settings.jaeger_bin)
        else:
            self._collector.start_container("--publish", "127.0.0.1:16686:16686", "--publish", "127.0.0.1:4317:4317")

    def run_robustness_tests(self) -> None:
        """Run the tests; that some fail is reported."""
        code = self._run.status(
            *("make", "-C", self._settings.etcd_repo, "test-robustness"),
            TRACING_SERVER_ADDR="localhost:4317",
            GO_TEST_FLAGS=self._settings.go_test_flags,
        )
        self._run.report("robustness tests", code, "^=== RUN ", "^ *--- FAIL:.*")
        self._collector.check()
