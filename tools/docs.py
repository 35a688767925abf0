"""The lists in README.md and docs/ that follow the code; ``make docs`` writes them, ``make check`` holds them to it.

Each function returns Markdown for cog (https://cog.readthedocs.io), which calls it from a comment in the document.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

from etcd_coverage.comparing.saved import load
from etcd_coverage.comparing.unseen import unseen
from etcd_coverage.judging.judge import judge
from etcd_coverage.reference import GRPC_METHODS, SPECIAL_KEYS, SPECIAL_RESOURCES
from etcd_coverage.reports import terminal
from etcd_coverage.reports.view import quality_line
from etcd_coverage.suite.options import GATES, GROUP, add_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pytest

__all__ = ["GATES", "GROUP"]

ROOT = Path(__file__).parents[1]
DEMO = "kubernetes-1.37.json.gz"
"""The demo dump whose output README shows."""


def expected_methods() -> str:
    """Return the table of the gRPC methods with their call patterns."""
    rows = [
        [
            f"`{method.name}`"
            + (f" (from {method.since} on)" if method.since else "")
            + ("" if method.required else " (may be called)"),
            ", ".join(pattern.name for pattern in method.call_patterns) or "any",
        ]
        for method in GRPC_METHODS
    ]
    return _table(["gRPC method", "call patterns, in order"], rows)


def expected_keys() -> str:
    """Return the paragraph on the resources and keys that have a name of their own."""
    resources = ", ".join(f"`{special.name}`" for special in SPECIAL_RESOURCES)
    keys = ", ".join(f"`{special.key}`" for special in SPECIAL_KEYS)
    return (
        "Keys: `/registry/{resource}/{namespace}/{name}` and shorter,\n"
        "`/registry/{api-group}/{resource}/...` where the "
        f"first segment has a dot. By their own names: {resources}.\nThese stand for themselves: {keys}."
    )


class _Options:
    """Takes the suite's options as pytest's parser and its groups do."""

    def __init__(self) -> None:
        self.rows: dict[str, list[list[str]]] = {}
        self._group = ""

    def getgroup(self, name: str) -> _Options:
        self._group = name
        return self

    def addoption(self, name: str, *, help: str, metavar: str = "", **_: object) -> None:  # noqa: A002
        text = re.sub(r"(?<![\w/])docs/(\w+-?\w+\.md)", r"[docs/\1](\1)", help.replace("%%", "%"))
        self.rows.setdefault(self._group, []).append([f"`{f'{name} {metavar}'.strip()}`", text])


def options(group: str, docs: str = "docs/") -> str:
    """Return the table of the options in this group; ``docs`` leads from the document to that folder."""
    recorder = _Options()
    add_options(cast("pytest.Parser", recorder))
    return _table(["option", "what it does"], recorder.rows[group]).replace("](", f"]({docs}")


def output() -> str:
    """Return the end of what a judged demo dump prints, its middle left out."""
    usage = judge(ROOT / "testdata" / DEMO)
    tables = dict(terminal.tables(usage))
    lines = [
        f" etcd coverage: {DEMO} ".center(80, "="),
        *("calls", tables["calls"], "", "...", ""),
        *("etcdserverpb.Watch/Watch", tables["etcdserverpb.Watch/Watch"], ""),
        *("leases", tables["leases"], ""),
        f"data quality: {quality_line(usage.quality)}",
    ]
    return "\n".join(["```", *lines, "```"])


def never_seen() -> str:
    """Return the list of the reference's parts that no saved usage of a demo dump has."""
    usages = [usage for path in sorted((ROOT / "usage").glob("*.json")) for usage in load(path).values()]
    return "\n".join(f"- {text}" for text in unseen(usages))


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, ["---"] * len(headers), *rows))
