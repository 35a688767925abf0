"""Scale a dump up: its traces again and again with fresh ids, until the file has a given size."""

from __future__ import annotations

import argparse
import gzip
import json
import re
from pathlib import Path

_ID = re.compile(rb'("(?:traceId|spanId|parentSpanId)":")([0-9a-f]{8})')


def scale(source: Path, target: Path, megabytes: float) -> None:
    """Write a dump of about ``megabytes`` MB (10^6 bytes) to ``target``, made of whole copies of ``source``.

    The first 8 digits of each id differ from copy to copy, so every copy has traces and spans of its own. Lease ids
    stay: the leases of all copies gather the transactions of all.
    """
    data = source.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    inside = data[data.index(b"[") + 1 : data.rindex(b"]")]
    json.loads(b"[" + inside + b"]")  # the cut was right
    with target.open("wb") as out:
        out.write(b'{"result":{"resourceSpans":[')
        for copy in range(max(1, round(megabytes * 1e6 / len(inside)))):
            mask = copy * 0x9E3779B1 % 2**32
            if copy:
                out.write(b",")
            out.write(_ID.sub(lambda found: found[1] + b"%08x" % (int(found[2], 16) ^ mask), inside))  # noqa: B023
        out.write(b"]}}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("megabytes", type=float)
    arguments = parser.parse_args()
    scale(arguments.source, arguments.target, arguments.megabytes)
