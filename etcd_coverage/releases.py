"""Kubernetes releases, as "X.Y": which one a dump is of, and what it can call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from etcd_coverage.reference import GrpcMethod


def release_of(name: str) -> str:
    """Return the Kubernetes release that a dump's file name says, such as "1.36" of kubernetes-1.36.json.gz; or ""."""
    found = re.search(r"kubernetes-(\d+\.\d+)", name)
    return found[1] if found else ""


def can_call(method: GrpcMethod, kubernetes_version: str) -> bool:
    """Return whether the release ("X.Y", empty: the newest) knows the method."""
    return not kubernetes_version or not method.since or _numbers(kubernetes_version) >= _numbers(method.since)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
