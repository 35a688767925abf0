"""Shows etcd calls of a dump and who made them, and the tree of a trace.

python -m etcd_coverage.show testdata/kubernetes-1.37.json.gz --row "KV/Range Count /registry/events/"
"""

from __future__ import annotations

import argparse
import gc
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from etcd_coverage.cli import FAILED, OK, count, report, run
from etcd_coverage.comparing import saved
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.parts import open_dump
from etcd_coverage.dumps.spans import same_id
from etcd_coverage.judging import span_maps
from etcd_coverage.judging.usage import Quality
from etcd_coverage.showing import plain
from etcd_coverage.showing.calls import matching, row_wanted
from etcd_coverage.showing.tree import tree_of
from etcd_coverage.text import escape, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CALLS = 20
"""How many calls are shown unless more are asked for."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m etcd_coverage.show",
        description="Show etcd calls of a dump and who made them, or the tree of a trace.",
    )
    parser.add_argument("dump", metavar="DUMP", help="a dump, as the suite reads it")
    parser.add_argument("--trace", metavar="ID", default="", help="show the span tree of this trace")
    parser.add_argument("--span", metavar="ID", default="", help="of the trace, only what is above and below this span")
    parser.add_argument(
        "--row",
        metavar="ROW",
        default="",
        help="only calls of this gRPC method, call pattern and key pattern, as in 'KV/Range List /registry/events/'; "
        "the call pattern is 'unknown' where there is none",
    )
    parser.add_argument(
        "--origin",
        metavar="NAME",
        default="",
        help="only calls of this component, role (namespace-controller), COMPONENT/ROLE or e2e test",
    )
    parser.add_argument(
        "--limit", metavar="N", type=count, default=CALLS, help="show N calls at most (default: %(default)s)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, or 1 where there is nothing to show."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.span and not options.trace:
        parser.error("--span needs --trace: ids of spans are unique only within a trace")
    if options.trace and (options.row or options.origin):
        parser.error("--trace shows one trace: leave out --row and --origin")
    path = Path(options.dump)
    try:
        if saved.is_saved(path):
            raise DumpError("is a saved usage, which holds no spans: name the dump that it was made of")
        if options.trace:
            _show_trace(path, same_id(options.trace), same_id(options.span))
        else:
            for line in _calls(path, options):
                print(line)
    except DumpError as error:
        report(f"error: {escape(str(path))}: {error}")
        return FAILED
    return OK


def _calls(path: Path, options: argparse.Namespace) -> Iterator[str]:
    spans = span_maps.spans_map(open_dump(path).resources, Quality())
    calls = matching(spans, row_wanted(options.row, options.origin))
    shown = [plain.call_line(call) for call in islice(calls, options.limit)]
    if not shown:
        asked = " and ".join(filter(None, (options.row, options.origin)))
        raise DumpError(f"holds no etcd call of {quote(asked)}" if asked else "holds no etcd call")
    yield from shown
    more = sum(1 for _ in calls)
    if more:
        yield f"... and {more} more: --limit {options.limit + more} shows all"


def _show_trace(path: Path, trace_id: str, span_id: str) -> None:
    spans = {
        span.span_id: span
        for resource in open_dump(path).resources
        for span in resource.spans
        if span.trace_id == trace_id
    }
    if not spans:
        raise DumpError(f"holds no trace {quote(trace_id)}")
    if span_id and span_id not in spans:
        raise DumpError(f"holds no span {quote(span_id)} in the trace {quote(trace_id)}")
    tree = tree_of(spans, span_id)
    if sys.stdout.isatty():
        # Here, since a pipe needs none of it.
        from rich.console import Console

        from etcd_coverage.showing.terminal import rendered

        console = Console(highlight=False)
        for part in rendered(tree):
            console.print(part)
    else:
        for line in plain.tree_lines(tree):
            print(line)


if __name__ == "__main__":
    gc.disable()  # as in judging/judge.py: nothing here makes cycles
    run(main)
