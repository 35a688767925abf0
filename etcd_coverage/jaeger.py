"""Downloads the traces that Jaeger holds of a service into a dump.

    python -m etcd_coverage.jaeger --url http://localhost:16686 --service etcd --since 5d -o traces.json

The work is done in `sources.download`.
"""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from etcd_coverage.cli import FAILED, INTERRUPTED, OK, count, duration, output_file, report, run
from etcd_coverage.sources.download import MOST_TRACES, download
from etcd_coverage.sources.jaeger_answer import JaegerError
from etcd_coverage.sources.jaeger_api import Jaeger, Window
from etcd_coverage.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_HEADERS = 1 << 20
# https://www.rfc-editor.org/rfc/rfc9110#section-5.1; more than ASCII is not the same text for every server.
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:[ \t]*([\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)[ \t]*")


def _url(text: str) -> str:
    # What is no URL may still hold a password.
    shown = repr(text) if text.isprintable() and not set("@?#") & set(text) else "the text given"
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise argparse.ArgumentTypeError(
            f"{shown} is no URL{f': {error}' if shown == repr(text) else ' such as http://localhost:16686'}"
        ) from None
    if url.scheme not in ("http", "https") or not url.host or not 0 < (url.port or 80) < 2**16:
        raise argparse.ArgumentTypeError(f"{shown} is no URL such as http://localhost:16686")
    return text


def _headers(text: str) -> list[tuple[str, str]]:
    """Return the headers, name and value, of `Name: value` or of the lines of a file, `@FILE`."""
    if not text.startswith("@"):
        return [_header(text, "it")]
    path = Path(text[1:])
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_HEADERS).decode()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{str(path)!r}: {error.strerror}") from None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{str(path)!r} is no text in UTF-8") from None
    lines = [(number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    if not lines:
        raise argparse.ArgumentTypeError(f"{str(path)!r} holds no header")
    return [_header(line, f"line {number} of {str(path)!r}") for number, line in lines]


def _header(line: str, place: str) -> tuple[str, str]:
    found = _HEADER.fullmatch(line)
    if not found:  # the line is not printed: it may be a token
        raise argparse.ArgumentTypeError(f"{place} is no header such as 'X-Scope-OrgID: name', in ASCII")
    return found[1], found[2]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m etcd_coverage.jaeger",
        description="Download the traces that Jaeger holds of a service into a dump.",
    )
    default = "(default: %(default)s)"
    parser.add_argument("--url", type=_url, default="http://localhost:16686", help=f"Jaeger's query API {default}")
    parser.add_argument(
        "--header",
        type=_headers,
        action="extend",
        default=[],
        metavar="'NAME: VALUE'",
        help="send a header with each request; @FILE sends those of a file, a line each, "
        "which keeps a token out of the list of processes; may be repeated",
    )
    parser.add_argument("--service", default="etcd", help=f"download each trace with a span of it {default}")
    parser.add_argument(
        "--since",
        type=duration,
        default="5d",
        metavar="AGO",
        help=f"how far back to go: 5d, 1h30m {default}",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=output_file,
        default="testdata/traces.json",
        metavar="FILE",
        help=f"the dump, compressed if its name ends in .gz {default}",
    )
    parser.add_argument(
        "--window",
        type=duration,
        metavar="LENGTH",
        help="ask in windows of this length, such as 10m, as Jaeger builds each answer in memory",
    )
    parser.add_argument(
        "--num-traces",
        type=count,
        metavar="N",
        help=f"most traces of one answer (default: as many as Jaeger keeps, {MOST_TRACES} at most)",
    )
    return parser


def main(arguments: Sequence[str] | None = None, *, backoff: float = 1) -> int:
    """Run the command line and return its exit code: 0, 1 where there is no dump, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    shown = printable(str(options.output))
    end = datetime.now(UTC)
    window = Window(end - options.since, end)
    try:
        with Jaeger(options.url, options.header, backoff=backoff) as jaeger:
            result = download(
                jaeger, options.service, window, options.output, split=options.window, num_traces=options.num_traces
            )
    except KeyboardInterrupt:
        report(f"interrupted: {shown} is as it was")
        return INTERRUPTED
    except JaegerError as error:
        report(f"error: {error}")
        return FAILED
    except OSError as error:
        report(f"error: {shown}: {error.strerror or error}")
        return FAILED
    times = f"from {result.times}" if result.times else "at unknown times"
    print(f"{shown}: {result.traces} traces, {result.spans} spans, {times}")
    if result.limit_reached:
        report(
            f"warning: {result.limit_reached} traces are as many as Jaeger was asked for or keeps, so older "
            "ones may be missing: raise --num-traces if you gave it, else Jaeger's max_traces"
        )
    late = result.times.start - window.start if result.times else timedelta()
    if late > timedelta(minutes=1):
        report(
            f"note: the oldest span starts {timedelta(late.days, late.seconds)} after the start of the time "
            "asked for: if there were traces before, Jaeger has evicted or never got them"
        )
    return OK


if __name__ == "__main__":
    run(main)
