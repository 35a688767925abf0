"""The addresses of the kind collector's network: who else on this machine uses them."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_network
from typing import TYPE_CHECKING

from etcd_coverage.collecting.commands import CommandError

if TYPE_CHECKING:
    from etcd_coverage.collecting.run import Run

_FORMAT = "{{.Name}}{{range .IPAM.Config}} {{.Subnet}},{{.Gateway}}{{end}}"


def check_network(run: Run, name: str, subnet: IPv4Network, gateway: str) -> bool:
    """Return whether a network of the name is there already; it must be as the collector would make it.

    No other network and no route of this machine may use the same addresses.
    """
    try:
        ids = run.read("docker", "network", "ls", "--quiet").split()
        listing = run.read("docker", "network", "inspect", "--format", _FORMAT, *ids) if ids else ""
    except CommandError:
        run.problem(f"docker cannot list its networks: {run.last_line()}")
        return False
    is_there = False
    for line in filter(None, listing.splitlines()):
        other, *configs = line.split()
        if other == name:
            is_there = True
            if configs != [f"{subnet},{gateway}"]:
                found = " ".join(configs) or "empty"
                run.problem(f"the network {name} is not {subnet},{gateway} but {found}: docker network rm {name}")
            continue
        for taken in (config.partition(",")[0] for config in configs):
            if overlaps(taken, subnet):
                run.problem(
                    f"the Docker network {other} uses {taken}, and {subnet} is needed: docker network rm {other}"
                )
    if not is_there:
        _check_routes(run, subnet)
    return is_there


def overlaps(taken: str, subnet: IPv4Network) -> bool:
    """Return whether a subnet as Docker prints it has addresses of another; what is none overlaps nothing."""
    try:
        network = ip_network(taken, strict=False)
    except ValueError:
        return False
    return isinstance(network, IPv4Network) and network.overlaps(subnet)


def _check_routes(run: Run, subnet: IPv4Network) -> None:
    for scope in ("root", "match"):  # routes within our addresses, and routes around them
        try:
            routes = run.read("ip", "-4", "route", "show", scope, str(subnet))
        except CommandError:
            run.problem(f"ip cannot list the routes of this machine: {run.last_line()}")
            return
        for route in routes.splitlines():
            if route and not route.startswith("default"):
                run.problem(f"this machine has a route that takes {subnet}: {route}")
