"""Spans -> dump file: what the tools that write a dump share."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from etcd_coverage.dumps.kinds import read_dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedIOBase

HEAD = b'{"result":{"resourceSpans":['
"""What a dump starts with; its ResourceSpans follow, with a comma between them."""
TAIL = b"]}}\n"
"""What a dump ends with."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BufferedIOBase]:
    """Open a file beside ``path`` that takes its place when it holds a whole dump, and is removed when not.

    It is gzipped if the name ends in .gz. Raises `DumpError` if it is no dump.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            if path.suffix == ".gz":
                # Neither name nor time: the same dump is the same file.
                with gzip.GzipFile("", "wb", 6, file, mtime=0) as compressed:
                    yield compressed
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        read_dump(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def only_traces(resource_spans: msgspec.Raw, wanted: Callable[[str], bool]) -> bytes:
    """Return the JSON text with the spans of the traces whose id is wanted, where a store puts several into one."""
    decoded: Any = msgspec.json.decode(resource_spans)
    for scope in decoded["scopeSpans"]:
        scope["spans"] = [span for span in scope.get("spans", []) if wanted(span["traceId"])]
    return msgspec.json.encode(decoded)


def output_file(text: str) -> Path:
    """Return the path of a dump to be written, for argparse."""
    path = Path(text)
    if path.exists() and not path.is_file():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {str(path.parent)!r} does not exist")
    return path
