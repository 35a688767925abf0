"""Docker as the collectors use them: a listing that fails is a failure, never an empty list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.collecting.commands import CommandError
from etcd_coverage.collecting.preflight import need_tool

if TYPE_CHECKING:
    from etcd_coverage.collecting.run import Run


def check_docker(run: Run) -> bool:
    """Return whether the daemon answers, and is that of Docker Engine on this machine."""
    if not need_tool(run, "docker"):
        return False
    try:
        version = run.read("docker", "version")
    except CommandError:
        run.problem(f"docker does not answer: {run.last_line()}")
        return False
    provider = f"{version} {run.environment.get('KIND_EXPERIMENTAL_PROVIDER', '')}".lower()
    if "podman" in provider or "nerdctl" in provider:
        run.problem("podman and nerdctl are not supported, only Docker Engine is")
        return False
    return True


def check_docker_host(run: Run) -> None:
    """Check that the engine is on this machine: what it publishes must be on our loopback."""
    host = run.environment.get("DOCKER_HOST")
    if host:
        if not host.startswith("unix:"):
            run.problem(f"a Docker Engine on another host is not supported: DOCKER_HOST={host}")
        return
    context = run.environment.get("DOCKER_CONTEXT")
    name = f"DOCKER_CONTEXT={context}" if context else "the context that `docker context use` chose"
    try:
        host = run.read("docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    except CommandError:
        run.problem(f"docker cannot inspect {name}: {run.last_line()}")
        return
    if not host.startswith("unix:"):
        run.problem(f"a Docker Engine on another host is not supported: {name} is {host or 'without a host'}")


def check_buildx(run: Run) -> None:
    """Check that the plugin is there that builds images."""
    if run.status("docker", "buildx", "version"):
        run.problem("docker has no buildx: install the plugin docker-buildx")


def check_engine(run: Run, gateway: str) -> None:
    """Check that addresses of Docker's networks are addresses of this machine."""
    try:
        system = run.read("docker", "info", "--format", "{{.OperatingSystem}} {{.SecurityOptions}}")
    except CommandError:
        run.problem(f"docker info fails: {run.last_line()}")
        return
    if "Docker Desktop" in system:
        run.problem(f"Docker Desktop is not supported: {gateway} would be an address inside its virtual machine")
    elif "name=rootless" in system:
        run.problem(f"rootless Docker is not supported: {gateway} would be an address inside its namespace")


def container(run: Run, name: str, *, running: bool = False) -> str:
    """Return the id of a container, or nothing where there is none of the name."""
    return run.read("docker", "ps", *(() if running else ("--all",)), "--quiet", "--filter", f"name=^{name}$")


def check_no_container(run: Run, name: str) -> None:
    """Check that no container has the name yet."""
    try:
        if container(run, name):
            run.problem(f"a container {name} is left from an earlier run: docker rm --force {name}")
    except CommandError:
        run.problem(f"docker cannot list its containers: {run.last_line()}")


def network(run: Run, name: str) -> str:
    """Return the id of a network, or nothing where there is none of the name."""
    return run.read("docker", "network", "ls", "--quiet", "--filter", f"name=^{name}$")


def remove_network(run: Run, name: str) -> None:
    """Remove a network that is there."""
    if network(run, name):
        run.run("docker", "network", "rm", name)


def remove_image(run: Run, image: str) -> None:
    """Remove an image that is there."""
    if run.read("docker", "image", "ls", "--quiet", image):
        run.run("docker", "image", "rm", "--force", image)
