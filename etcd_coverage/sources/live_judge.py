"""Requests as they are written -> lines about what nobody expected, made by a process of its own.

It reads what the receiver has written, so that nothing waits for it, and what waits for it is on the disk.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from etcd_coverage.dumps import kinds
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging.live import LiveFindings
from etcd_coverage.judging.origins import origin_text
from etcd_coverage.sources.parts import read_frame
from etcd_coverage.text import counted, printable, some

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from etcd_coverage.judging.usage import Finding
    from etcd_coverage.sources.parts import Place
    from etcd_coverage.sources.trace_requests import Request

_BATCH = 50
"""Requests that are judged before those waiting are looked at again."""

_ONLY_WITHOUT = " (counts only if the apiserver sends no traces)"


class LiveJudge:
    """Judges requests while others come; `put` may be called by any thread."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._places: deque[Place] = deque()
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_start)
        self._work: Future[list[str]] | None = self._pool.submit(_judge, [])

    def put(self, _: Request, place: Place) -> None:
        """Have a request judged."""
        self._places.append(place)

    def step(self) -> None:
        """Report what was found, and give the process what has come since; does not wait."""
        if self._work is None or not self._work.done():
            return
        try:
            for line in self._work.result():
                self._report(line)
            taken = [self._places.popleft() for _ in range(min(_BATCH, len(self._places)))]
            self._work = self._pool.submit(_judge, taken)
        except BrokenProcessPool:
            self._work = None
            self._report("warning: the process that judges has ended (no memory?): the rest is judged at the end")

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown(cancel_futures=True)


_live = LiveFindings()
"""Of the process that judges."""


def _start() -> None:
    """Leave it to the receiver to end this process: Ctrl-C reaches both."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _judge(places: Sequence[Place]) -> list[str]:
    for place in places:
        # What cannot be read is reported by the judgement at the end.
        with contextlib.suppress(DumpError, OSError):
            _live.add(kinds.read(memoryview(read_frame(place))), time.monotonic())
    return [line_of(finding) + _ONLY_WITHOUT * only for finding, only in _live.due(time.monotonic())]


def line_of(finding: Finding) -> str:
    """Return a finding in one line: what, from whom, and a span that shows it."""
    origins = some([origin_text(origin) for origin in finding.origins])
    place = f"; see span {finding.example.span_id} of trace {finding.example.trace_id}" if finding.example else ""
    return printable(
        f"{finding.grpc_method}: {finding.message}, {counted(finding.count, 'call')} from {origins}{place}"
    )
