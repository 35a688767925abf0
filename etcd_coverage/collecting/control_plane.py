"""The servers of a Kubernetes control plane on loopback."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from etcd_coverage.collecting import local_files as files
from etcd_coverage.collecting.commands import CollectError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from etcd_coverage.collecting.run import Run

# kube-apiserver refuses a loopback address here; nothing has to have this one (TEST-NET-1, RFC 5737).
_ADVERTISE_ADDRESS = "192.0.2.1"


@dataclass(frozen=True)
class Programs:
    """What runs: programs, and the folder of those of Kubernetes."""

    etcd: Path
    jaeger: Path
    kubernetes: Path
    kwok: Path


class ControlPlane:
    """Servers, their ports, and the folder of their files."""

    def __init__(self, run: Run, programs: Programs, compaction_interval: str) -> None:
        self._run = run
        self._programs = programs
        self._compaction_interval = compaction_interval
        self._ports = dict.fromkeys(files.PORTS, 0)
        self.work = run.settings.temporary / f"etcd-coverage-local-{os.getpid()}"
        self.kubeconfig = self.work / "kubeconfig"
        run.environment["KUBECONFIG"] = str(self.kubeconfig)
        run.environment["KUBECACHEDIR"] = str(self.work / "kubectl-cache")

    def _url(self, port: str) -> str:
        return f"http://{self._address(port)}"

    @property
    def otlp(self) -> str:
        """Where traces are sent."""
        return self._address("otlp")

    def _address(self, port: str) -> str:
        return f"127.0.0.1:{self._ports[port]}"

    def configure(self, *, servers: bool) -> str:
        """Choose ports, make keys and the files of the servers; return the URL of Jaeger."""
        run, work = self._run, self.work
        self._ports = files.choose_ports(run.read("ss", "-Hltn"))
        if os.path.lexists(work):
            raise CollectError(f"{work} is there already; it is left as it is")
        remove = ("rm", "-rf", "--", str(work))
        run.at_end("remove the servers' files", lambda: run.run(*remove), shlex.join(remove))
        run.run("mkdir", "-m", "700", work, work / "etcd")
        if not run.dry_run:
            (work / "jaeger.json").write_text(files.jaeger_config(self._ports))
            shared = run.settings.project / "apiserver-shared-conf" / "tracing.yaml"
            (work / "tracing.yaml").write_text(files.tracing_config(shared, self._ports), encoding="utf-8")
            if servers:
                token = run.read("openssl", "rand", "-hex", "16")
                (work / "tokens.csv").write_text(f"{token},local-admin,local-admin,system:masters\n")
                self.kubeconfig.write_text(files.kubeconfig(self._ports, token))
                run.run("openssl", "genrsa", "-out", work / "service-accounts.key", "2048")
        return self._url("jaeger_http")

    def start_etcd(self) -> None:
        """Start etcd, and wait until it answers."""
        url = self._url("etcd")
        self._run.serve(
            "etcd",
            *(self._programs.etcd, "--watch-progress-notify-interval=5s", "--data-dir", self.work / "etcd"),
            *("--listen-client-urls", url, "--advertise-client-urls", url),
            *("--listen-peer-urls", "http://127.0.0.1:0"),
            *("--enable-distributed-tracing", f"--distributed-tracing-address={self._address('otlp')}"),
            *("--distributed-tracing-service-name=etcd", "--distributed-tracing-sampling-rate=1000000"),
        )
        self._await("etcd", "does not answer", lambda: self._run.answers(f"{url}/health"))

    def start_apiserver(self) -> None:
        """Start kube-apiserver, and wait until it is ready."""
        run, work = self._run, self.work
        key = work / "service-accounts.key"
        run.serve(
            "kube-apiserver",
            self._programs.kubernetes / "kube-apiserver",
            *("--bind-address=127.0.0.1", f"--secure-port={self._ports['apiserver']}"),
            *(f"--advertise-address={_ADVERTISE_ADDRESS}", f"--cert-dir={work / 'certificates'}"),
            *(f"--token-auth-file={work / 'tokens.csv'}", "--authorization-mode=Node,RBAC"),
            *(f"--etcd-servers={self._url('etcd')}", f"--etcd-compaction-interval={self._compaction_interval}"),
            *(f"--tracing-config-file={work / 'tracing.yaml'}", "--service-cluster-ip-range=10.96.0.0/16"),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
            *("--shutdown-delay-duration=0s", "--shutdown-watch-termination-grace-period=1s"),
        )
        self._await("kube-apiserver", "is not ready", lambda: self._kubectl("get", "--raw=/readyz") == 0)

    def _await(self, name: str, state: str, condition: Callable[[], bool]) -> None:
        run = self._run

        def holds() -> bool:
            run.need_servers(name)
            return condition()

        if not run.wait_until(run.settings.ready_seconds, holds):
            run.last_lines(run.server_log(name))
            raise CollectError(
                f"{name} {state} after {run.settings.ready_seconds:.15g} s (log: {run.server_log(name)})"
            )

    def _kubectl(self, *arguments: str | Path) -> int:
        return self._run.status(self._programs.kubernetes / "kubectl", *arguments)

    def start_the_rest(self) -> None:
        """Start the controllers, the scheduler, and kwok, which plays the kubelets."""
        run, work, kubernetes, kwok = self._run, self.work, self._programs.kubernetes, self._programs.kwok
        if not run.dry_run:
            certificates = (work / "certificates" / "apiserver.crt").read_text()
            (work / "authority.crt").write_text(files.authority(certificates))
        access = f"--kubeconfig={self.kubeconfig}"
        run.serve(
            "kube-controller-manager",
            *(kubernetes / "kube-controller-manager", access, "--bind-address=127.0.0.1"),
            *(f"--secure-port={self._ports['controllers']}", f"--cert-dir={work / 'controllers'}"),
            "--use-service-account-credentials",
            f"--service-account-private-key-file={work / 'service-accounts.key'}",
            f"--root-ca-file={work / 'authority.crt'}",
        )
        run.serve(
            "kube-scheduler",
            *(kubernetes / "kube-scheduler", access, "--bind-address=127.0.0.1"),
            *(f"--secure-port={self._ports['scheduler']}", f"--cert-dir={work / 'scheduler'}"),
        )
        run.serve(
            "kwok",
            *(kwok, access, f"--config={kwok.with_name('kwok-stages.yaml')}", "--manage-all-nodes"),
            *("--node-lease-duration-seconds=40", f"--server-address={self._address('kwok')}"),
        )

    def add_nodes(self, count: int) -> None:
        """Add nodes, and wait until they are ready."""
        run, manifest = self._run, self.work / "nodes.yaml"
        if not run.dry_run:
            manifest.write_text(files.nodes(count))
        run.run(self._programs.kubernetes / "kubectl", "apply", "-f", manifest)
        if not run.wait_until(run.settings.ready_seconds, self._nodes_are_ready):
            raise CollectError(
                f"the nodes are not ready after {run.settings.ready_seconds:.15g} s (logs: {run.settings.log_dir})"
            )

    def _nodes_are_ready(self) -> bool:
        self._run.need_servers()
        return self._kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=1s") == 0

    def stop_servers(self) -> None:
        """Stop all but what takes the traces.

        A server sends its last spans when it ends, so each ends before the one that it talks to.
        """
        run = self._run
        if run.keep:
            run.say("   they are kept, and so are their last spans")
            return
        for name in ("kwok", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"):
            if run.dry_run:
                run.say(f"   (stop {name})")
            run.stop_server(name)

    def cmd_tests_environment(self) -> dict[str, str]:
        """Return the ports and files that Kubernetes' cmd tests are to use."""
        return {
            "ETCD_PORT": str(self._ports["etcd"]),
            "SECURE_API_PORT": str(self._ports["apiserver"]),
            "SECURE_CTLRMGR_PORT": str(self._ports["controllers"]),
            # Of their own: these tests write to it.
            "KUBECONFIG": str(self.work / "cmd-tests.kubeconfig"),
            "ETCD_DISTRIBUTED_TRACING_ADDRESS": self._address("otlp"),
            "KUBE_TRACING_CONFIG_FILE": str(self.work / "tracing.yaml"),
        }
