"""Takes a sample of a dump that is as telling and much smaller.

    python -m etcd_coverage.sample testdata/kubernetes-1.37-local.json.gz -o kubernetes-1.37.json.gz

The sample is made of whole traces, and of whole leases: a LeaseGrant call comes with every transaction under its lease.
It has some calls of each row of the suite's tables, so it leads to the same verdict; what room is left is filled with
traces taken at random, so it also shows how frequent the rows are. The same dump gives the same sample.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from etcd_coverage.attributes import get_int
from etcd_coverage.cli import FAILED, OK, output_file, run
from etcd_coverage.dumps import jaeger_v3
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.files import content
from etcd_coverage.dumps.kinds import kind_of
from etcd_coverage.dumps.spans import Span, same_id
from etcd_coverage.dumps.write import HEAD, only_traces, replacing, tail
from etcd_coverage.judging import span_maps
from etcd_coverage.judging.ancestors import Ancestors
from etcd_coverage.judging.classify import KeyPatterns, classify
from etcd_coverage.judging.leases import LEASE_GRANT
from etcd_coverage.judging.outcomes import Outcomes
from etcd_coverage.judging.usage import Quality
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.text import escape, printable

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from etcd_coverage.judging.span_maps import Call

SIZE = 2_000_000
"""Usual limit of a sample in bytes, gzipped."""
AT_LEAST = (4, 3, 2, 1)
"""How many groups of traces show a row, if there are so many: the first number that the size allows."""


@dataclass
class Group:
    """Traces that belong together, as one lease is used in all of them; most often it is one trace."""

    traces: list[str] = field(default_factory=list)
    rows: set[Hashable] = field(default_factory=set)
    size: int = 0
    """Bytes in the dump, not compressed."""


class _ResourceSpans(msgspec.Struct, rename="camel"):
    scope_spans: list[_ScopeSpans] = []


class _ScopeSpans(msgspec.Struct):
    spans: list[_Span] = []


class _Span(msgspec.Struct, rename="camel"):
    trace_id: str


class _Result(msgspec.Struct, rename="camel"):
    resource_spans: list[msgspec.Raw]


class _Dump(msgspec.Struct):
    result: _Result


def sample(path: Path, output: Path, size: int = SIZE) -> tuple[int, int]:
    """Write a sample of the dump at ``path`` to ``output``, at most ``size`` bytes gzipped.

    Returns how many traces it has, and how many the dump has; where the apiserver has traces, only those count. Raises
    `DumpError` if there is nothing to sample or the size is too small, OSError if a file cannot be read or written.
    """
    alone = "samples are made of answers of Jaeger's API v3 alone"
    if path.is_dir():
        raise DumpError(f"is a dump in parts: {alone} (COLLECTOR=jaeger of make local-coverage)")
    data = content(path)
    if kind_of(data).read is not jaeger_v3.read:
        raise DumpError(f"is {kind_of(data).name}: {alone}")
    groups = _groups(data)
    if not groups:
        raise DumpError("has no calls of etcd: there is nothing to sample")
    texts = _Texts(data)
    for group in groups:
        group.size = sum(texts.sizes[trace_id] for trace_id in group.traces)
    random.Random(0).shuffle(groups)
    for at_least in AT_LEAST:
        needed, others = _choose(groups, at_least)
        chosen = needed
        dump = texts.dump(chosen)
        compressed = len(gzip.compress(dump, 6))
        if compressed <= size:
            break
    else:
        raise DumpError(f"{compressed} bytes are the least that has all its rows and their leases: raise --size")
    # Compressed, the whole is nearly as many times smaller as a part is: a few attempts come close.
    budget = len(dump) * size / compressed
    for _ in range(5):
        attempt = needed + _first(others, budget - len(dump))
        candidate = texts.dump(attempt)
        compressed = len(gzip.compress(candidate, 6))
        if compressed <= size and len(attempt) > len(chosen):
            chosen = attempt
        budget *= 0.995 * size / compressed
    with replacing(output) as file:
        file.write(texts.dump(chosen))
    return sum(len(group.traces) for group in chosen), sum(len(group.traces) for group in groups)


def _first(groups: Iterable[Group], budget: float) -> list[Group]:
    """Return the first groups that together are not larger than the budget."""
    found = []
    for group in groups:
        budget -= group.size
        if budget < 0:
            break
        found.append(group)
    return found


def _choose(groups: Sequence[Group], at_least: int) -> tuple[list[Group], list[Group]]:
    """Return groups that show each row so many times, small ones first, and the others."""
    shown: Counter[Hashable] = Counter()
    chosen = set()
    for number, group in sorted(enumerate(groups), key=lambda item: item[1].size):
        if any(shown[row] < at_least for row in group.rows):
            shown.update(group.rows)
            chosen.add(number)
    parts: tuple[list[Group], list[Group]] = ([], [])
    for number, group in enumerate(groups):
        parts[number not in chosen].append(group)
    return parts


def _groups(data: memoryview) -> list[Group]:
    """Return the traces with calls of etcd, those of one lease together."""
    spans = span_maps.spans_map(jaeger_v3.read(data), Quality())
    grpc_spans = span_maps.grpc_spans(spans)
    calls = span_maps.calls_map(spans, grpc_spans, Quality())
    first: dict[str, str] = {}  # a forest: each trace's parent

    def root(trace_id: str) -> str:
        while (parent := first.setdefault(trace_id, trace_id)) != trace_id:
            first[trace_id] = first.setdefault(parent, parent)
            trace_id = parent
        return trace_id

    leases = span_maps.lease_map(calls)
    for grant in calls.get(LEASE_GRANT, []):
        for call in leases.get(get_int(grant.attributes, "id"), []):
            first[root(call.span.trace_id)] = root(grant.span.trace_id)
    groups: defaultdict[str, Group] = defaultdict(Group)
    rows = _rows(spans, grpc_spans, calls)
    for trace_id in spans:
        if trace_id in rows:
            group = groups[root(trace_id)]
            group.traces.append(trace_id)
            group.rows |= rows[trace_id]
    return list(groups.values())


def _rows(
    spans: span_maps.SpansMap, grpc_spans: dict[str, list[Span]], calls: dict[str, list[Call]]
) -> dict[str, set[Hashable]]:
    """Return which rows of the tables the calls of each trace are in, and whether they went through the contract."""
    ancestors, outcomes = Ancestors(spans), Outcomes(spans)
    patterns = KeyPatterns()
    rows: defaultdict[str, set[Hashable]] = defaultdict(set)
    for name, servers in grpc_spans.items():
        for server in servers:
            rows[server.trace_id].add(name)
    for method in GRPC_METHODS:
        for call in calls.get(method.name, []):
            (row,), _ = classify(method, [call], patterns, ancestors, outcomes)
            rows[call.span.trace_id].add(
                (method.name, row.call_pattern, row.key_pattern, row.args, row.known_key, row.contract_calls)
            )
    return rows


class _Texts:
    """The ResourceSpans of a dump as they are written there."""

    def __init__(self, data: memoryview) -> None:
        self._texts: list[tuple[msgspec.Raw, set[str]]] = []
        self.sizes: Counter[str] = Counter()
        """Bytes of each trace, by its id."""
        try:
            for text in msgspec.json.decode(data, type=_Dump).result.resource_spans:
                scopes = msgspec.json.decode(text, type=_ResourceSpans).scope_spans
                spans = Counter(same_id(span.trace_id) for scope in scopes for span in scope.spans)
                self._texts.append((text, set(spans)))
                for trace_id, count in spans.items():
                    self.sizes[trace_id] += len(memoryview(text)) * count // spans.total()
        except msgspec.DecodeError as error:
            raise DumpError(f"is not spelled as Jaeger does it: {error}") from None

    def dump(self, groups: Iterable[Group]) -> bytes:
        """Return a dump of these groups' traces, in the order of this one."""
        wanted = {trace_id for group in groups for trace_id in group.traces}
        found = [
            text if trace_ids <= wanted else only_traces(text, wanted.__contains__)
            for text, trace_ids in self._texts
            if not trace_ids.isdisjoint(wanted)
        ]
        return HEAD + b",\n".join(found) + tail()


def _size(text: str) -> int:
    if not re.fullmatch("[0-9]{1,12}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, or 1 where there is no sample."""
    parser = argparse.ArgumentParser(
        prog="python -m etcd_coverage.sample", description="Take a sample of whole traces of a dump."
    )
    parser.add_argument("dump", type=Path, metavar="DUMP", help="a dump, gzipped or not")
    parser.add_argument("-o", "--output", type=output_file, required=True, metavar="FILE", help="the sample")
    parser.add_argument(
        "--size", type=_size, default=SIZE, metavar="BYTES", help="its largest size, gzipped (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        taken, of = sample(options.dump, options.output, options.size)
    except DumpError as error:
        print(f"error: {escape(str(options.dump))}: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        print(f"error: {error.filename or options.output}: {error.strerror or error}", file=sys.stderr)
        return FAILED
    print(f"{printable(str(options.output))}: {taken} of {of} traces, {options.output.stat().st_size} bytes")
    return OK


if __name__ == "__main__":
    run(main)
