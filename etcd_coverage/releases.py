"""Kubernetes releases, as "X.Y": which one a dump is of, and what it can call."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from etcd_coverage.reference import RELEASES

if TYPE_CHECKING:
    from etcd_coverage.reference import CallPattern, GrpcMethod


def release_of(name: str) -> str:
    """Return the Kubernetes release that a dump's file name says, such as "1.36" of kubernetes-1.36.json.gz; or ""."""
    found = re.search(r"kubernetes-(\d+\.\d+)", name)
    return found[1] if found else ""


def next_release() -> str:
    """Return the minor after the newest that the reference knows: dumps of it are what it is checked on next."""
    major, minor = _numbers(RELEASES[-1])
    return f"{major}.{minor + 1}"


def can_call(row: GrpcMethod | CallPattern, kubernetes_version: str) -> bool:
    """Return whether the release ("X.Y", empty: the newest) calls so."""
    return not why_not(row, kubernetes_version)


def why_not(row: GrpcMethod | CallPattern, kubernetes_version: str) -> str:
    """Return in words why the release ("X.Y", empty: any) does not call so, to follow the row's name; "" if it may."""
    if not kubernetes_version:
        return ""
    dump = _numbers(kubernetes_version)
    if row.since and dump < _numbers(row.since):
        return f"came with Kubernetes {row.since}, this dump is of {kubernetes_version}"
    if row.until and dump > _numbers(row.until):
        return f"ended with Kubernetes {row.until}, this dump is of {kubernetes_version}"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
