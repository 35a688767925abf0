"""Jaeger's traces -> a dump: asked for in windows, checked, written whole or not at all."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tqdm import tqdm

from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.jaeger_v3 import read_resource_spans
from etcd_coverage.dumps.write import HEAD, only_traces, replacing, tail
from etcd_coverage.sources.jaeger_answer import DepthError, JaegerError
from etcd_coverage.sources.jaeger_api import Jaeger, Window
from etcd_coverage.text import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import timedelta
    from io import BufferedIOBase
    from pathlib import Path

    import msgspec

USUAL_TRACES = 100_000
"""`max_traces` of the memory store in Jaeger's own configuration files."""
MOST_TRACES = 20_000_000
"""`max_traces` of the Jaeger that the collect scripts start."""

# In a text inside of the JSON the first quote would be an escaped one.
_START_TIME = re.compile(rb'"start(?:TimeUnixNano|_time_unix_nano)"\s*:\s*"?([0-9]{1,20})(?=["\s,}])')


@dataclass(frozen=True)
class Download:
    """What a download brought."""

    traces: int
    spans: int
    times: Window | None
    """Start of the oldest and of the newest span; None if no span has a start."""
    limit_reached: int | None
    """How many traces Jaeger was asked for or keeps, if it gave that many: there may have been more."""


def download(
    jaeger: Jaeger,
    service: str,
    window: Window,
    output: Path,
    *,
    split: timedelta | None = None,
    num_traces: int | None = None,
) -> Download:
    """Write the traces with a span of this service that starts in the window to `output`, a dump.

    It is gzipped if its name ends in .gz, and replaces what was there once it is whole. `split` asks in
    windows of that length, since Jaeger builds each answer in memory. `num_traces` limits the traces of one
    answer. Raises JaegerError, and OSError if the dump cannot be written.
    """
    output = output.resolve()
    limit_reached = None
    with _replacing(output) as file:
        dump = _Dump(file)
        query = _Query(jaeger, service, output.parent, num_traces)
        windows = list(window.split(split or window.end - window.start))
        for part in tqdm(windows, unit="window", disable=None if len(windows) > 1 else True, leave=False):
            limit_reached = query.add_traces(part, dump) or limit_reached
        if not dump.spans:
            raise JaegerError(_why_empty(jaeger, service, window))
        traces = len(dump.trace_ids)
        if traces in (query.most, USUAL_TRACES):
            limit_reached = traces
        dump.close(limit_reached)
    return Download(traces, dump.spans, dump.times, limit_reached)


class _Query:
    """Asks for all the traces of a service in a window, with a number of traces that Jaeger takes.

    Without a number, newer releases answer with 100 traces or none at all. Since 2.7 the memory store refuses
    a number above its `max_traces`, and takes memory for as many traces as it is asked for: for 20 million
    that is 1.6 GB and half a second a query, even where it finds none (measured with 2.13).
    """

    def __init__(self, jaeger: Jaeger, service: str, folder: Path, num_traces: int | None) -> None:
        self._jaeger = jaeger
        self._service = service
        self._folder = folder
        self._num_traces = num_traces
        self.most = num_traces or MOST_TRACES
        """The most traces that make sense to ask for: the user's limit, or what Jaeger keeps, once known."""

    def add_traces(self, window: Window, dump: _Dump) -> int | None:
        """Add the traces of a window to the dump; return their number if it may be the limit that made it so."""
        limit = min(self.most, self._num_traces or USUAL_TRACES)
        while True:
            try:
                found = dump.add(self._jaeger.find_traces(self._service, window, limit, self._folder))
            except DepthError:
                self.most = self._jaeger.max_traces(refused=limit)
                if self._num_traces:
                    raise JaegerError(
                        f"Jaeger keeps {self.most} traces at most (max_traces), fewer than the {limit} asked "
                        f"for: use --num-traces {self.most}, or start Jaeger with a higher max_traces"
                    ) from None
                if not self.most:
                    raise
                limit = self.most
                continue
            if found < limit:
                return None
            if limit == self.most:
                return limit
            limit = self.most


class _Dump:
    """A dump in the making, `{"result": {"resourceSpans": [...]}}`: remembers trace ids, not traces."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._oldest, self._newest = 2**64, 0
        self.trace_ids: set[str] = set()
        self.spans = 0
        file.write(HEAD)

    def add(self, answer: Iterable[msgspec.Raw]) -> int:
        """Write the traces of an answer that no earlier answer had; return how many traces the answer has.

        Jaeger puts a trace into the answer to each window in which one of its spans starts, whole each time.
        Raises `DumpError` for what the suite does not read.
        """
        trace_ids: set[str] = set()
        for number, text in enumerate(answer):
            spans = read_resource_spans(text, f"resourceSpans[{number}]").spans
            own = {span.trace_id for span in spans}
            if "" in own:
                raise DumpError(f"has a span without a trace id: resourceSpans[{number}]")
            new = own - self.trace_ids
            trace_ids |= own
            if not new:
                continue
            written = memoryview(text) if new == own else memoryview(only_traces(text, new.__contains__))
            self._file.write(b"," if self.spans else b"")
            self._file.write(written)
            self.spans += sum(span.trace_id in new for span in spans)
            self._note_times(written)
        self.trace_ids |= trace_ids
        return len(trace_ids)

    def _note_times(self, text: memoryview) -> None:
        # The suite never reads times, so a dump is none the worse for one that is absent, 0 or beyond 64 bits.
        for digits in _START_TIME.findall(text):
            if 0 < (time := int(digits)) < 2**64:
                self._oldest = min(self._oldest, time)
                self._newest = max(self._newest, time)

    def close(self, traces_limit: int | None) -> None:
        self._file.write(tail(traces_limit))

    @property
    def times(self) -> Window | None:
        if not self._newest:
            return None
        return Window(*(datetime.fromtimestamp(time // 10**9, UTC) for time in (self._oldest, self._newest)))


def _why_empty(jaeger: Jaeger, service: str, window: Window) -> str:
    services = [escape(name) for name in jaeger.services()]
    if not services:
        return f"Jaeger at {jaeger.url} holds no traces at all: is anything sending to it (OTLP, port 4317)?"
    if service not in services:
        return f"Jaeger has no service {service!r}, it has: {', '.join(services)} (--service)"
    times = jaeger.times(service)
    held = f"its spans start from {times} (--since)" if times else "none of its spans is from the last year"
    others = ", ".join(name for name in services if name != service) or "none"
    return f"Jaeger has no traces of {service!r} from {window}: {held}; other services: {others}"


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BufferedIOBase]:
    try:
        with replacing(path) as file:
            yield file
    except DumpError as error:
        raise JaegerError(f"Jaeger's answer: {error}") from None
