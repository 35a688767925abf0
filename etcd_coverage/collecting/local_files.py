"""The files by which the servers of a control plane on loopback find and trust each other."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PORTS = ("jaeger_grpc", "jaeger_http", "otlp", "etcd", "apiserver", "controllers", "scheduler", "kwok")
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"


def choose_ports(listeners: str) -> dict[str, int]:
    """Return a port for each of `PORTS` on which nothing of the listing of `ss -Hltn` listens.

    They are below those that Linux hands out by itself.
    """
    taken = {int(port) for port in re.findall(r"^(?:\S+\s+){3}\S*:(\d+)\s", listeners, re.MULTILINE)}
    free = [port for port in range(10000, 32000) if port not in taken]
    return dict(zip(PORTS, random.sample(free, len(PORTS)), strict=True))


def jaeger_config(ports: Mapping[str, int]) -> str:
    """Return Jaeger's configuration: https://www.jaegertracing.io/docs/latest/deployment/configuration/."""

    def endpoint(name: str) -> dict[str, str]:
        return {"endpoint": f"127.0.0.1:{ports[name]}"}

    config = {
        "service": {
            "extensions": ["jaeger_storage", "jaeger_query"],
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}},
            "telemetry": {"metrics": {"level": "none"}},
        },
        "extensions": {
            "jaeger_query": {
                "storage": {"traces": "some_storage"},
                "http": endpoint("jaeger_http"),
                "grpc": endpoint("jaeger_grpc"),
            },
            "jaeger_storage": {"backends": {"some_storage": {"memory": {}}}},
        },
        "receivers": {"otlp": {"protocols": {"grpc": endpoint("otlp")}}},
        "exporters": {"jaeger_storage_exporter": {"trace_storage": "some_storage"}},
    }
    return json.dumps(config, indent=2)


def tracing_config(shared: Path, ports: Mapping[str, int]) -> str:
    """Return the apiserver's tracing configuration, sent to this run's Jaeger."""
    text = shared.read_text(encoding="utf-8")
    return re.sub(r"^endpoint: .*", f"endpoint: 127.0.0.1:{ports['otlp']}", text, flags=re.MULTILINE)


def kubeconfig(ports: Mapping[str, int], token: str) -> str:
    """Return the access of the administrator; YAML reads JSON."""
    server = f"https://127.0.0.1:{ports['apiserver']}"
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "local",
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local-admin"}}],
            "users": [{"name": "local-admin", "user": {"token": token}}],
            "clusters": [
                {
                    "name": "local",
                    "cluster": {"server": server, "certificate-authority": "certificates/apiserver.crt"},
                }
            ],
        },
        indent=2,
    )


def authority(certificates: str) -> str:
    """Return the last of the certificates, that of the authority."""
    return _CERTIFICATE + certificates.rpartition(_CERTIFICATE)[2]


def nodes(count: int) -> str:
    """Return a manifest of nodes that only the API knows."""
    resources = {"cpu": 32, "memory": "256Gi", "pods": 110}
    names = [f"node-{number}" for number in range(1, count + 1)]
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": resources, "capacity": resources},
        }
        for name in names
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2)
