"""What a receiver shows while it runs: a line on a terminal, and the index of what it wrote."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING

from tqdm import tqdm

from etcd_coverage.sources.trace_requests import server_spans
from etcd_coverage.text import escape, shorten, some

if TYPE_CHECKING:
    from etcd_coverage.sources.parts import Parts
    from etcd_coverage.sources.trace_requests import Request


class LiveLine:
    """A line that says how much comes, of whom; on a terminal alone."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._calls: Counter[str] = Counter()
        self._lock = threading.Lock()
        # None: only on a terminal.
        self._bar = tqdm(
            unit=" spans", unit_scale=True, disable=None, dynamic_ncols=True, file=sys.stderr, bar_format=_FORMAT
        )

    def count(self, request: Request) -> None:
        """Count the etcd calls of a request, if they are shown."""
        if not self._bar.disable:
            calls = server_spans(request.data)
            with self._lock:
                self._calls.update(calls)

    def refresh(self) -> None:
        """Show what there is now."""
        if self._bar.disable:
            return
        with self._lock:
            calls = self._calls.most_common()
        methods = ", ".join(f"{escape(name)} {tqdm.format_sizeof(number)}" for name, number in calls[:6])
        parts = [f"{tqdm.format_sizeof(self._parts.bytes, divisor=1024)}B", services(self._parts), methods]
        self._bar.set_postfix_str("; ".join(filter(None, parts)), refresh=False)
        self._bar.update(self._parts.spans - self._bar.n)
        self._bar.refresh()

    def close(self) -> None:
        """Leave the line as it is."""
        self.refresh()
        self._bar.close()


_FORMAT = "{n_fmt}{unit}, {rate_fmt}{postfix}"


def services(parts: Parts) -> str:
    """Return the names of the services that have sent spans, the most frequent first."""
    return some([escape(shorten(name, 80)) or "(no name)" for name, _ in parts.services.most_common()], 5)
