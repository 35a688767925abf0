"""Reference x usages -> what is expected and was never seen: rows that may be dead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etcd_coverage.reference import GRPC_METHODS, SPECIAL_KEYS, SPECIAL_RESOURCES, short_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from etcd_coverage.judging.usage import Usage


def unseen(usages: Iterable[Usage]) -> Iterator[str]:
    """Yield each gRPC method, call pattern, arg, special key and special resource that no usage has, in table order.

    Rows declared as shadowed are left out, since they can never be chosen.
    """
    usages = list(usages)
    calls = {name for usage in usages for name in usage.calls}
    rows = [row for usage in usages for row in usage.rows]
    patterns = {(row.grpc_method, row.call_pattern) for row in rows}
    args = {(row.grpc_method, arg) for row in rows for arg in row.args}
    # An unknown key may look like a key pattern.
    keys = {row.key_pattern for row in rows if row.known_key} | {
        lease.key_pattern for usage in usages for lease in usage.leases
    }
    for method in GRPC_METHODS:
        name = short_name(method.name)
        if method.name not in calls:
            yield f"gRPC method {name}"
            continue
        for pattern in method.call_patterns:
            if (method.name, pattern.name) not in patterns and not pattern.shadowed_by:
                yield f"call pattern {pattern.name} of {name}"
        for arg in method.args:
            if (method.name, arg.name) not in args:
                yield f"arg {arg.name} of {name}"
    for special in SPECIAL_KEYS:
        if special.key not in keys:
            yield f"special key {special.key}"
    for resource in SPECIAL_RESOURCES:
        start = f"/registry/{resource.name}"
        if not any(key == start or key.startswith(f"{start}/") for key in keys):
            yield f"special resource {resource.name}"
