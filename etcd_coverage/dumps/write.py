"""Spans -> dump file: what the tools that write a dump share."""

from __future__ import annotations

import contextlib
import gzip
from typing import TYPE_CHECKING

import msgspec

from etcd_coverage import atomic
from etcd_coverage.dumps import jaeger_v3
from etcd_coverage.dumps.files import content
from etcd_coverage.dumps.otlp_json import list_of
from etcd_coverage.dumps.spans import same_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedIOBase
    from pathlib import Path

HEAD = b'{"result":{"resourceSpans":['
"""What a dump starts with; its ResourceSpans follow, with a comma between them, then `tail`."""


def tail(traces_limit: int | None = None) -> bytes:
    """Return what a dump ends with; ``traces_limit`` notes in it that it was cut at this number of traces, or may be.

    The note is a field beside ``result``: ``"etcdK8sCoverage": {"tracesLimit": N}``.
    """
    note = b"" if traces_limit is None else b',"etcdK8sCoverage":{"tracesLimit":%d}' % traces_limit
    return b"]}" + note + b"}\n"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file that takes the place of ``path`` when it holds a whole dump, as `atomic.replacing` does.

    It is gzipped if the name ends in .gz. Raises `DumpError` if it is no dump that the suite reads.
    """
    with atomic.replacing(path, check=lambda part: jaeger_v3.check(content(part))) as file:
        if path.suffix == ".gz":
            # Neither name nor time: the same dump is the same file.
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as compressed:
                yield compressed
        else:
            yield file


class _TraceId(msgspec.Struct):
    camel: str | None = msgspec.field(name="traceId", default=None)
    snake: str | None = msgspec.field(name="trace_id", default=None)


def only_traces(resource_spans: msgspec.Raw, wanted: Callable[[str], bool]) -> bytes:
    """Return the JSON text with the spans of the traces whose id is wanted, where a store puts several into one.

    What it keeps stays as it is spelled. The ids are asked for as `spans.same_id` has them.
    """

    def is_wanted(span: msgspec.Raw) -> bool:
        spelled = msgspec.json.decode(span, type=_TraceId)
        return wanted(same_id(spelled.camel or spelled.snake or ""))

    scopes = []
    found = msgspec.json.decode(resource_spans, type=dict[str, msgspec.Raw])
    for text in list_of(found, "scopeSpans", "scope_spans", "a resource"):
        scope = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        spans = [span for span in list_of(scope, "spans", "spans", "a scope") if is_wanted(span)]
        scopes.append({**scope, "spans": spans})
    members = {name: value for name, value in found.items() if name != "scope_spans"}
    return msgspec.json.encode({**members, "scopeSpans": scopes})
