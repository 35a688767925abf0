"""etcd of a clone: fit to send traces, and as the kind collector runs it."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from etcd_coverage.collecting.cluster import ETCD_URL, GATEWAY
from etcd_coverage.collecting.commands import CollectError

if TYPE_CHECKING:
    from pathlib import Path

    from etcd_coverage.collecting.run import Run


def check(run: Run, repo: Path) -> None:
    """Check that a clone of etcd is built and can send traces."""
    etcd = repo / "bin" / "etcd"
    if not all(os.access(program, os.X_OK) for program in (etcd, repo / "bin" / "etcdctl")):
        run.problem(f"etcd is not built: make -C {shlex.quote(str(repo))} build")
        return
    code, options = run.capture(etcd, "--help")
    if code or "--enable-distributed-tracing" not in options:
        run.problem(f"this etcd has no --enable-distributed-tracing, 3.6 or newer is needed: {etcd}")


def start(run: Run, repo: Path, data_dir: Path | None) -> None:
    """Start etcd where the nodes of the cluster reach it, and wait until it is healthy."""
    data = _make_data_dir(run, data_dir or run.settings.temporary / f"etcd-coverage-{os.getpid()}")
    run.serve(
        "etcd",
        *(repo / "bin" / "etcd", "--watch-progress-notify-interval=5s", "--data-dir", data),
        *("--listen-client-urls", ETCD_URL, "--advertise-client-urls", ETCD_URL),
        *("--enable-distributed-tracing", f"--distributed-tracing-address={GATEWAY}:4317"),
        *("--distributed-tracing-service-name=etcd", "--distributed-tracing-sampling-rate=1000000"),
        # Any peer port: the etcd of the cmd tests of Kubernetes 1.34 takes the usual one.
        ETCD_LISTEN_PEER_URLS="http://localhost:0",
    )

    def is_healthy() -> bool:
        run.need_servers("etcd")
        return run.status(repo / "bin" / "etcdctl", "--endpoints", ETCD_URL, "endpoint", "health") == 0

    if not run.wait_until(run.settings.ready_seconds, is_healthy):
        run.last_lines(run.server_log("etcd"))
        raise CollectError(
            f"etcd is not healthy after {run.settings.ready_seconds:.15g} s (log: {run.server_log('etcd')})"
        )


def _make_data_dir(run: Run, data: Path) -> Path:
    """Return the folder of etcd's data; all that is in it at the end is of this run, and is removed."""
    is_there = data.exists()
    if is_there and any(data.iterdir()):
        raise CollectError(f"{data} is no longer empty; it is left as it is")
    remove = ["find", str(data), "-mindepth", "1", "-delete"] if is_there else ["rm", "-rf", "--", str(data)]
    run.at_end("remove etcd's data", lambda: run.run(*remove), shlex.join(remove))
    if not is_there:
        run.run("mkdir", "-p", data)
        run.run("chmod", "700", data)
    return data
