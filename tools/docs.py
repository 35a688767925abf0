"""The lists in README.md and docs/ that follow the code; ``make docs`` writes them, ``make check`` holds them to it.

Each function returns Markdown for cog (https://cog.readthedocs.io), which calls it from a comment in the document.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from etcd_coverage.comparing.compare import ComparedRow, Comparison, Coverage
from etcd_coverage.comparing.unseen import unseen
from etcd_coverage.comparing.usage_file import FORMAT, Against, UsageFile, always_written, load
from etcd_coverage.dumps.compressions import COMPRESSIONS
from etcd_coverage.dumps.kinds import KINDS
from etcd_coverage.judging.finding_kinds import EXPECTATIONS, NEXT_STEPS, QUALITY
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.usage import Example, Finding, Lease, Quality, Row, SpanCount, Text, Usage
from etcd_coverage.reference import GRPC_METHODS, SPECIAL_KEYS, SPECIAL_RESOURCES
from etcd_coverage.reports import terminal
from etcd_coverage.reports.view import quality_line
from etcd_coverage.suite.options import GATES, GROUP, all_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


__all__ = ["GATES", "GROUP"]

ROOT = Path(__file__).parents[1]
DEMO = "kubernetes-1.37.json.gz"
"""The demo dump whose output README shows."""


def kinds() -> str:
    """Return the table of the kinds of dump."""
    return _table(["kind", "recognised by", "usual names"], ([kind.name, kind.content, kind.files] for kind in KINDS))


def compressions() -> str:
    """Return the line on the compressions."""
    found = " or ".join(f"{one.name} (`{one.suffix}`)" for one in COMPRESSIONS)
    return (
        f"Each may be plain or packed with {found}, and several of the JSON objects may follow each other in one file."
    )


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


def options(group: str, docs: str = "docs/") -> str:
    """Return the table of the options in this group; ``docs`` leads from the document to that folder."""
    rows = [
        [
            f"`{f'{option.name} {option.metavar}'.strip()}`",
            re.sub(r"(?<![\w/])docs/(\w+-?\w+\.md)", rf"[docs/\1]({docs}\1)", option.help),
        ]
        for option in all_options()
        if option.group == group
    ]
    return _table(["option", "what it does"], rows)


def findings() -> str:
    """Return the table of the kinds of findings."""
    rows = [
        [f"`{kind.message}` (`{kind.id}`)", *map(_with_code, (kind.meaning, kind.next_step))]
        for kind in (*EXPECTATIONS, *QUALITY)
    ]
    return _table(["message", "meaning", "next step"], rows)


_CODE = re.compile(
    r"(?<![`\w])(--[a-z-]+|python -m [\w.]+|etcd_coverage/[\w/]+\.py|query\.\w+"
    r"|[A-Z][a-z]+(?:[A-Z][a-z]+)+|[A-Z]+(?:_[A-Z]+)+)"
)


def _with_code(text: str) -> str:
    """Return the text with names of the code set as such."""
    return _CODE.sub(r"`\1`", text)


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
    lines = [headers, ["---"] * len(headers), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


SCHEMA = ROOT / "docs" / "usage.schema.json"


def usage_schema() -> str:
    """Return the JSON Schema of saved usages: that of their Structs, what is always written being required."""
    (reference,), components = msgspec.json.schema_components([UsageFile], ref_template="#/$defs/{name}")
    (text,), _ = msgspec.json.schema_components([Text])
    for struct in _STRUCTS:
        definition = components[struct.__name__]
        definition["description"] = " ".join((struct.__doc__ or "").replace("``", "`").split())
        definition["required"] = always_written(struct)
        del definition["title"]
        for name in definition["required"]:
            definition["properties"][name].pop("default", None)
    components["Finding"]["properties"]["id"] = {"enum": list(NEXT_STEPS)}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Saved usage, format {FORMAT}",
        **reference,
        "$defs": {"Text": text} | _with_references(components, text["pattern"]),
    }
    return json.dumps(schema, indent=1) + "\n"


_STRUCTS = (
    UsageFile,
    Usage,
    Row,
    Lease,
    Finding,
    Quality,
    SpanCount,
    Example,
    Against,
    Comparison,
    ComparedRow,
    Coverage,
)


def _with_references(schema: Any, pattern: str) -> Any:
    """Return the schema with a reference to Text in place of each copy of it."""
    if isinstance(schema, list):
        return [_with_references(one, pattern) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("pattern") == pattern:
        return {"$ref": "#/$defs/Text"}
    return {name: _with_references(one, pattern) for name, one in schema.items()}


def main(arguments: Sequence[str]) -> int:
    """Write the schema, or with ``--check`` say whether it is as it would be written; return the exit code."""
    if arguments == ["--check"]:
        if SCHEMA.read_text() == usage_schema():
            return 0
        print(f"{SCHEMA.relative_to(ROOT)} is not what the Structs are: run: make docs", file=sys.stderr)
        return 1
    SCHEMA.write_text(usage_schema())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
