"""The kind cluster of a run: made, compared with what was asked, its logs saved, deleted."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from etcd_coverage.collecting.commands import CollectError, CommandError, LateError
from etcd_coverage.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.collecting.run import Run

# kind-with-tracing.yaml and apiserver-shared-conf/tracing.yaml name these too.
CLUSTER = "kind-with-external-etcd"
CONTEXT = f"kind-{CLUSTER}"
NETWORK = CLUSTER
GATEWAY = "192.168.32.1"
ETCD_URL = f"http://{GATEWAY}:2379"
_TRACING_CONFIG = "/etc/kubernetes/apiserver-shared-conf/tracing.yaml"
_NODE = f"{CLUSTER}-control-plane"


def clusters(run: Run) -> list[str]:
    """Return the names of kind's clusters."""
    return run.read("kind", "get", "clusters").splitlines()


def check_no_cluster(run: Run) -> None:
    """Check that no cluster has the name yet."""
    try:
        if CLUSTER in clusters(run):
            run.problem(f"a kind cluster {CLUSTER} is left from an earlier run: kind delete cluster --name {CLUSTER}")
    except CommandError:
        run.problem(f"kind cannot list its clusters: {run.last_line()}")


def create(run: Run, image: str, kubeconfig: Path) -> None:
    """Create the cluster and wait for its nodes."""
    if CLUSTER in clusters(run):
        raise CollectError(f"a kind cluster {CLUSTER} has appeared since the preflight; it is left as it is")
    if not kubeconfig.exists():
        remove = ("rm", "-f", "--", str(kubeconfig))
        run.at_end("remove the kubeconfig", lambda: run.run(*remove), shlex.join(remove))
    run.at_end("delete the cluster", lambda: _delete(run), f"kind delete cluster --name {CLUSTER}")
    # --retain: a failed cluster stays for its logs, until the clean-up.
    code = run.status(
        *("kind", "create", "cluster", "--name", CLUSTER, "--config", "kind-with-tracing.yaml"),
        *("--image", image, "--wait", "5m", "--retain"),
        KIND_EXPERIMENTAL_DOCKER_NETWORK=NETWORK,
    )
    if code:
        show_apiserver_log(run)
        raise CollectError(f"kind could not create the cluster (log: {run.log})")
    run.run("kubectl", "--context", CONTEXT, "wait", "--for=condition=Ready", "node", "--all", "--timeout=5m")


def _delete(run: Run) -> None:
    """Delete the cluster; after a failure the logs of its nodes are saved before."""
    logs = run.settings.log_dir / "cluster"
    if run.failed and CLUSTER in clusters(run):
        try:
            run.run("kind", "export", "logs", logs, "--name", CLUSTER)
            run.say(f"   its logs are in {logs}")
        except CollectError as error:
            reason = error if isinstance(error, LateError) else run.last_line()
            run.warn(f"the logs of the cluster could not be saved: {reason}")
        run.restart_clock()
    run.run("kind", "delete", "cluster", "--name", CLUSTER)
    if CLUSTER in clusters(run):
        raise CollectError(f"kind still lists the cluster {CLUSTER}")


def show_apiserver_log(run: Run) -> None:
    """Print the last lines of the apiserver to standard error."""
    log = "tail -n 20 /var/log/containers/kube-apiserver-*.log"
    _, lines = run.capture("docker", "exec", _NODE, "bash", "-c", log)
    if lines:
        text = "\n".join(map(printable, lines.splitlines()))
        run.complain(f"The last lines of the apiserver on {_NODE}:\n{text}")


def check_flags(run: Run) -> None:
    """Compare the flags of the running apiserver with what was asked.

    kind ignores a kubeadm patch that does not meet its version: only the process shows what is in force.
    """
    script = r'tr "\0" "\n" <"/proc/$(pgrep --exact --oldest kube-apiserver)/cmdline"'
    flags = run.read("docker", "exec", _NODE, "bash", "-c", script).splitlines()
    wrong = []
    for asked in (f"--etcd-servers={ETCD_URL}", f"--tracing-config-file={_TRACING_CONFIG}"):
        name = asked.partition("=")[0]
        if asked not in flags and not run.dry_run:
            found = " ".join(flag for flag in flags if re.match(f"{name}=", flag)) or f"no {name}"
            wrong.append(f"apiserver: asked for {asked}, it runs with {printable(found)}")
    if wrong:
        run.complain("\n".join(wrong))
        raise CollectError(
            "kind-with-tracing.yaml had no effect: no kubeadm patch in it is of the version that this kind writes"
        )
