"""Files that are broken at random: real ones, mutated as bytes, as JSON tokens, as a tree. A seed makes always the same.

`check_dump` and `check_saved` hold what the readers promise of any file: a usage, or one printable line.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

from etcd_coverage import sample
from etcd_coverage.comparing import known_gaps, saved
from etcd_coverage.comparing.known_gaps import GapsError
from etcd_coverage.dumps import jaeger_v3, pieces
from etcd_coverage.dumps.compressions import zstd
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.files import content
from etcd_coverage.judging import usage
from etcd_coverage.judging.judge import judge
from meta_tests import mutants
from meta_tests.converters import CONVERTERS

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
LONGEST_LINE = 2_000
SMALL_PIECE = 1_000
"""Bytes: a few spans of these dumps, which are read as one piece else."""

ODD_BYTES = (
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xef\xbb\xbf", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n",
    b"\\ud800", b"\\u0000", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x0a", b"\x12", b"\x0a\xff\xff\xff\xff\x0f", b"\x1b[31m", b"\xf4\x90\x80\x80", b"-", b"e", b".",
)  # fmt: skip
ODD_TOKENS = (
    "1e999999999999999999999", "-1e999999999999999999999", "1e-999999999999999999999", "9" * 5000, "-" + "9" * 5000,
    "0." + "3" * 5000, "1" + "0" * 400 + ".5", "1E400", "-0", "-0.0", "0e0", "01", "+1", ".5", "1.", "NaN", "Infinity",
    "null", "true", "false", "{}", "[]", '""', '"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '"' + "\\u001b" * 2000 + '"',
    '"2"', '"01"', '"1e999999999999999999999"', '"' + "9" * 5000 + '"', '"NaN"', "2", "9223372036854775808", "1.5",
    "[" * 2000 + "]" * 2000, '{"a":' * 3000 + "1" + "}" * 3000, "[" * 200_000, '{"stringValue":"a","stringValue":"b"}',
    '{"arrayValue":' * 500 + "{}" + "}" * 500, '{"kvlistValue":{"values":[{"key":"a","value":' * 400 + "{}" + "}]}}" * 400,
    '{"bytesValue":"?"}', '{"doubleValue":true}', "[null]", '"SPAN_KIND_SERVER"', '"\u202e"', '"\U000e0001"',
)  # fmt: skip
NAMES = (
    "result", "error", "resourceSpans", "resource_spans", "ResourceSpans", "resource", "scopeSpans", "scope_spans", "spans",
    "Spans", "instrumentationLibrarySpans", "traceId", "trace_id", "spanId", "span_id", "parentSpanId", "parent_span_id",
    "name", "kind", "attributes", "events", "status", "code", "key", "value", "stringValue", "string_value", "intValue",
    "int_value", "boolValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue", "values", "links", "x", "",
    "format", "dumps", "comparison", "calls", "rows", "quality", "findings", "leases", "etcdK8sCoverage", "data", "\u0000",
)  # fmt: skip
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[{}\[\],:]')


def mutate_bytes(random: Random, text: bytes) -> bytes:
    """Return the text with some bytes changed, cut, doubled, or put elsewhere."""
    data = bytearray(text)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        at, other = random.randrange(len(data) + 1), random.randrange(len(data) + 1)
        length = random.choice((1, 2, 10, 100, 1000))
        match random.randrange(6):
            case 0:
                data[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                data[at:at] = random.choice(ODD_BYTES)
            case 2:
                del data[at : at + length]
            case 3:
                data[at:at] = data[other : other + length]
            case 4:
                data[at : at + length] = data[other : other + length]
            case _:
                del data[max(at, len(data) // 2) :]
    return bytes(data)


def mutate_tokens(random: Random, text: bytes) -> bytes:
    """Return the text with some JSON tokens replaced, swapped, doubled or left out."""
    tokens = _TOKEN.findall(text.decode())
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at, other = random.randrange(len(tokens)), random.randrange(len(tokens))
        match random.randrange(6):
            case 0 | 1:
                tokens[at] = random.choice(ODD_TOKENS)
            case 2:
                tokens[at] = tokens[other]
            case 3:
                del tokens[at]
            case 4:
                tokens.insert(at, tokens[other])
            case _:
                names = [index for index, token in enumerate(tokens) if token == ":"]
                tokens[random.choice(names) - 1] = json.dumps(random.choice(NAMES))
    return "".join(tokens).encode()


def mutate_tree(random: Random, text: bytes) -> bytes:
    """Return the text with some values replaced by others, moved, or under another name; it stays JSON mostly."""
    places: list[tuple[Any, Any]] = []
    tree = json.loads(text)

    def walk(node: Any) -> None:
        inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for name, inner in inside:
            places.append((node, name))
            walk(inner)

    walk(tree)
    odd: dict[str, str] = {}
    for _ in range(random.choice((1, 1, 2, 4))):
        node, name = random.choice(places)
        other, other_name = random.choice(places)
        mark = f"\u0001{len(odd)}"
        try:
            match random.randrange(5):
                case 0 | 1:
                    node[name] = mark
                    odd[json.dumps(mark)] = random.choice(ODD_TOKENS)
                case 2:
                    node[name] = json.loads(json.dumps(other[other_name]))
                case 3 if isinstance(node, dict):
                    node[random.choice(NAMES)] = node.pop(name)
                case _:
                    del node[name]
        except (KeyError, IndexError):
            continue
    mutated = json.dumps(tree, separators=random.choice(((",", ":"), (", ", ": "))))
    for quoted, token in odd.items():
        mutated = mutated.replace(quoted, token)
    return mutated.encode()


MUTATIONS: tuple[Callable[[Random, bytes], bytes], ...] = (mutate_bytes, mutate_tokens, mutate_tree)


@functools.lru_cache
def dumps() -> tuple[bytes, ...]:
    """Return small real dumps: some traces with calls of etcd, each dump in two spellings."""
    found = []
    for name in ("kubernetes-1.37", "robustness"):
        dump = json.loads(gzip.decompress((ROOT / "meta_tests" / "dumps" / f"{name}.json.gz").read_bytes()))
        sampled = mutants.Mutant(0, mutants.sample(Random(0), dump))
        traces = {call["traceId"] for call in sampled.judged_calls()[:8]}
        for spans in sampled.lists:
            spans[:] = [span for span in spans if span["traceId"] in traces]
        sampled.resources[:] = [
            resource for resource in sampled.resources if any(scope["spans"] for scope in resource["scopeSpans"])
        ]
        found.append(json.dumps(sampled.dump, separators=(",", ":")).encode())
        other = mutants.Mutant(0, sampled.dump)
        for spelling in mutants.SPELLINGS:
            spelling(other)
        found.append(json.dumps(other.dump).encode())
    return tuple(found)


@functools.lru_cache
def kinds() -> tuple[bytes, ...]:
    """Return a small real dump in each kind, and some of them packed."""
    dump = json.loads(dumps()[0])
    found = [convert(dump) for convert in CONVERTERS.values()]
    return (*found, *map(zstd.compress, found[::4]))


@functools.lru_cache
def usages() -> tuple[bytes, ...]:
    """Return saved usages."""
    return tuple(path.read_bytes() for path in sorted((ROOT / "usage").glob("*.json"))[-2:])


def broken(seed: int, bases: tuple[bytes, ...]) -> bytes:
    """Return one of the files, broken; sometimes packed, and then perhaps broken again."""
    random = Random(seed)
    base = random.choice(bases)
    try:
        data = MUTATIONS[seed % len(MUTATIONS)](random, base)
    except ValueError:
        # Not of JSON.
        data = mutate_bytes(random, base)
    if random.random() < 0.1:
        data = gzip.compress(data, 1) if random.random() < 0.5 else zstd.compress(data, 1)
        if random.random() < 0.7:
            data = mutate_bytes(random, data)
    return data


def check_line(line: str) -> None:
    """Fail unless the text is one line that can be printed, of a length that a person reads."""
    assert line
    assert line.isprintable(), repr(line)
    assert len(line) < LONGEST_LINE, line


def check_dump(path: Path) -> str | None:
    """Fail unless the readers of dumps return a usage that can be saved, or raise one `DumpError` with one line.

    Returns the line of `judge`, without the path; None if the dump could be judged.
    """
    found = judge(path)
    assert usage.decode(usage.encode(found)) == found
    if found.error is not None:
        check_line(found.error)
    line = checked(path)
    with mock.patch.object(pieces, "PIECE", SMALL_PIECE):
        assert checked(path) == line
    try:
        sample.sample(path, path.with_suffix(".sample"))
    except DumpError as error:
        check_line(str(error))
    return found.error and found.error.removeprefix(f"{path}: ")


def checked(path: Path) -> str | None:
    """Return the line by which the check of a new dump refuses the file; None if it does not."""
    try:
        jaeger_v3.check(content(path))
    except DumpError as error:
        check_line(str(error))
        return str(error)
    return None


def check_saved(path: Path) -> None:
    """Fail unless the readers of saved usages, and of known gaps, return them or raise one line."""
    for source in saved.sources(path):
        found = saved.usage_of(source)
        assert usage.decode(usage.encode(found)) == found
        if found.error is not None:
            check_line(found.error)
    try:
        known_gaps.read_gaps(path)
    except GapsError as error:
        check_line(str(error))
