"""Makes one usage of those of several runs, and reports which rows not every run has.

python -m etcd_coverage.merge monday.json tuesday.json wednesday.json --name kubernetes-1.37 -o week.json
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from etcd_coverage.cli import FAILED, OK, output_file, report, run
from etcd_coverage.comparing import saved
from etcd_coverage.comparing.merge import merge
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging.usage import runs_of
from etcd_coverage.releases import release_of
from etcd_coverage.text import counted, escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from etcd_coverage.judging.usage import Usage


def usages_by_name(files: Iterable[str], name: str = "") -> dict[str, list[tuple[str, Usage]]]:
    """Return the usages to merge, each with the file it is from, by the name of what is made of them.

    That is ``name``, or else the name each has. Raises `DumpError`, a whole line, where a file cannot be used, or no
    two usages have the same name.
    """
    found: defaultdict[str, list[tuple[str, Usage]]] = defaultdict(list)
    for file in files:
        for own_name, usage in _usages(file):
            found[escape(name) or own_name].append((file, usage))
    if all(len(same) == 1 for same in found.values()):
        names = ", ".join(found)
        raise DumpError(f"nothing to merge, each usage has a name of its own ({names}): give one name with --name")
    return dict(found)


def _usages(file: str) -> Iterator[tuple[str, Usage]]:
    path = Path(file)
    for source in saved.sources(path) if path.is_file() else [saved.find(file)]:
        names = list(source.opened.usages) if source.is_saved else [source.name]
        name = source.entry or names[0]
        yield name, saved.usage_of(source, release_of(name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, or 1 where nothing was merged."""
    parser = argparse.ArgumentParser(
        prog="python -m etcd_coverage.merge", description="Make one usage of those of several runs."
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a saved usage or dump; FILE::NAME for one of several")
    parser.add_argument(
        "-o", "--output", type=output_file, required=True, metavar="FILE", help="what it holds of other names stays"
    )
    parser.add_argument(
        "--name", metavar="NAME", default="", help="merges all into one of this name (default: those of the same name)"
    )
    options = parser.parse_args(arguments)
    merged = {}
    try:
        for name, same in usages_by_name(options.files, options.name).items():
            try:
                merged[name] = merge([usage for _, usage in same])
            except DumpError as error:
                files = ", ".join(f"{number} is of {escape(file)}" for number, (file, _) in enumerate(same, 1))
                raise DumpError(f"{name}: {error} ({files})") from None
        try:
            saved.check_target(options.output)
        except DumpError as error:
            raise DumpError(f"{escape(str(options.output))} {error}") from None
        saved.update(options.output, merged, origins=None)
    except DumpError as error:
        report(f"error: {error}")
        return FAILED
    for name, usage in merged.items():
        print("\n".join(_lines(name, usage)))
    return OK


def _lines(name: str, usage: Usage) -> list[str]:
    runs = runs_of(usage)
    volatile = [row for row in usage.rows if row.runs < runs]
    lines = [f"{name}: {counted(runs, 'run')}, {counted(len(usage.rows), 'row')}, {len(volatile)} not in every run"]
    for row in volatile:
        pattern = f"{row.call_pattern or 'unknown'}({','.join(row.args)})"
        calls = counted(row.calls, "call")
        lines.append(f"  {row.runs} of {runs} runs: {row.grpc_method} {pattern} {row.key_pattern}, {calls}".rstrip())
    return lines


if __name__ == "__main__":
    run(main)
