"""Downloads the traces that Jaeger holds of a service into a dump.

    python -m etcd_coverage.jaeger --url http://localhost:16686 --service etcd --since 5d -o traces.json

Speaks the HTTP API v3 of Jaeger 2.6 and newer (https://www.jaegertracing.io/docs/latest/architecture/apis/).
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import re
import signal
import sys
import tempfile
from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import httpx
import msgspec
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential
from tqdm import tqdm

from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.write import HEAD, TAIL, only_traces, output_file, replacing
from etcd_coverage.text import escape, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from io import BufferedIOBase
    from pathlib import Path

USUAL_TRACES = 100_000
"""`max_traces` of the memory store in Jaeger's own configuration files."""
MOST_TRACES = 20_000_000
"""`max_traces` of the Jaeger that the collect scripts start."""

# Jaeger starts to answer when it has the whole answer in memory: minutes, for gigabytes.
_TIMEOUT = httpx.Timeout(10, read=900)
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
# Where an answer ends and the next begins. It cannot be inside of one: quotes in a string are escaped, so the
# first quote would be the end of a string, and no letter follows that.
_GLUE = re.compile(rb'\}\s*(?=\{"(?:result|error)")')
_WRONG_URL = "--url is not that of Jaeger's query API (port 16686 unless configured)"


class JaegerError(Exception):
    """Why there is no dump, in one line."""


class _TransientError(JaegerError):
    """A failure that may be gone at the next attempt."""


class _NoTracesError(JaegerError):
    """No trace matches the query."""


class _DepthError(JaegerError):
    """The query asks for more traces than Jaeger keeps."""


class Window(NamedTuple):
    """A stretch of time, both ends included, as Jaeger takes it."""

    start: datetime
    end: datetime

    def split(self, length: timedelta) -> Iterator[Window]:
        """Return the windows of this length that make up this one, oldest first; the last may be shorter."""
        start = self.start
        while start + length < self.end:
            yield Window(start, start + length)
            start += length
        yield Window(start, self.end)

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M:%S} to {self.end:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True)
class Download:
    """What a download brought."""

    traces: int
    spans: int
    times: Window
    """Start of the oldest and of the newest span."""
    limit_reached: int | None
    """How many traces Jaeger was asked for or keeps, if it gave that many: there may have been more."""


class _Error(msgspec.Struct):
    message: str = ""


class _Result(msgspec.Struct, rename="camel"):
    resource_spans: list[msgspec.Raw] = []


class _Answer(msgspec.Struct):
    result: _Result | None = None
    error: _Error | None = None


class _Span(msgspec.Struct, rename="camel"):
    trace_id: str
    start_time_unix_nano: int = 0


class _ScopeSpans(msgspec.Struct):
    spans: list[_Span] = []


class _ResourceSpans(msgspec.Struct, rename="camel"):
    scope_spans: list[_ScopeSpans] = []


class Jaeger:
    """The query API of a Jaeger server.

    After a connection error or a status 5xx it is asked again, up to `retries` times; the pause is `backoff`
    seconds and doubles each time, up to 30. What stays wrong is a JaegerError.
    """

    def __init__(self, url: str, *, retries: int = 4, backoff: float = 1) -> None:
        self.url = url.rstrip("/")
        self._client = httpx.Client(timeout=_TIMEOUT, follow_redirects=True)
        self._retrying = Retrying(
            retry=retry_if_exception_type(_TransientError),
            stop=stop_after_attempt(retries + 1),
            wait=wait_exponential(multiplier=backoff, max=30),
            before_sleep=_tell_retry,
            reraise=True,
        )

    def __enter__(self) -> Jaeger:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def services(self) -> list[str]:
        """Return the names of the services that Jaeger has spans of, sorted."""
        body = self._retrying(self._get, "/api/v3/services", {}, None)
        try:
            return sorted(msgspec.json.decode(body, type=dict[str, list[str]]).get("services", []))
        except msgspec.DecodeError as error:
            raise JaegerError(f"{self.url}/api/v3/services is no list of services: {error}") from None

    def find_traces(
        self, service: str, window: Window, num_traces: int, folder: Path | None = None
    ) -> list[msgspec.Raw]:
        """Return the OTLP ResourceSpans of the traces with a span of this service that starts in the window.

        The JSON texts returned are views of an unnamed file in the folder. No such trace is an empty list.
        """
        params = {
            "query.service_name": service,
            "query.start_time_min": window.start.isoformat(),
            "query.start_time_max": window.end.isoformat(),
            "query.num_traces": str(num_traces),
        }
        try:
            return self._retrying(lambda: _resource_spans(self._get("/api/v3/traces", params, folder)))
        except _NoTracesError:
            return []

    def max_traces(self, refused: int) -> int:
        """Return how many traces Jaeger lets a query ask for, given a number that it refuses.

        No call of the API tells `max_traces`, so it is searched for, with queries that match nothing.
        """
        epoch = datetime.fromtimestamp(0, UTC)

        def refuses(num_traces: int) -> bool:
            try:
                self.find_traces("", Window(epoch, epoch), num_traces)
            except _DepthError:
                return True
            return False

        return bisect_left(range(1, refused), True, key=refuses)

    def times(self, service: str) -> Window | None:
        """Return when the oldest and the newest span of a service start, to the second, if within a year."""
        tomorrow = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
        seconds = range(-366 * 86400, 1)

        def has(first: int, last: int) -> bool:
            start, end = (tomorrow + timedelta(seconds=second) for second in (first, last))
            window = Window(start, end + timedelta(microseconds=999_999))
            return bool(self.find_traces(service, window, 1))

        if not has(seconds[0], seconds[-1]):
            return None
        oldest = bisect_left(seconds, True, key=lambda second: has(seconds[0], second))
        newest = bisect_left(seconds, True, key=lambda second: not has(second, seconds[-1])) - 1
        return Window(*(tomorrow + timedelta(seconds=seconds[at]) for at in (oldest, newest)))

    def _get(self, path: str, params: dict[str, str], folder: Path | None) -> mmap.mmap:
        """Return the body that Jaeger answers, mapped from an unnamed file in the folder."""
        received = 0
        try:
            with (
                tempfile.TemporaryFile(dir=folder) as file,
                tqdm(desc="Jaeger", unit="B", unit_scale=True, disable=None, leave=False) as bar,
                self._client.stream("GET", self.url + path, params=params) as response,
            ):
                if response.status_code != httpx.codes.OK:
                    raise _refusal(response)
                if response.headers.get("Content-Type", "").startswith("text/html"):
                    raise JaegerError(f"{self.url} answers with a web page: {_WRONG_URL}")
                for chunk in response.iter_bytes():
                    received += file.write(chunk)
                    bar.update(len(chunk))
                if not received:
                    raise _broken_off(received, "it is empty")
                file.flush()
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except httpx.ReadTimeout:
            minutes = (_TIMEOUT.read or 0) / 60
            raise JaegerError(
                f"Jaeger at {self.url} has said nothing for {minutes:.0f} minutes: "
                "see Jaeger's log, or ask in smaller windows (--window 10m)"
            ) from None
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            if received:
                raise _broken_off(received, reason) from None
            raise _TransientError(f"no answer from Jaeger at {self.url}: {reason}") from None
        except httpx.HTTPError as error:
            raise JaegerError(f"no answer from Jaeger at {self.url}: {error}") from None


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
            answer, limited = query.traces(part)
            limit_reached = limited or limit_reached
            dump.add(answer)
        if not dump.spans:
            raise JaegerError(_why_empty(jaeger, service, window))
        dump.close()
    traces = len(dump.trace_ids)
    if traces in (query.most, USUAL_TRACES):
        limit_reached = traces
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

    def traces(self, window: Window) -> tuple[list[msgspec.Raw], int | None]:
        """Return the ResourceSpans of the traces, and their number if it may be the limit that made it so."""
        limit = min(self.most, self._num_traces or USUAL_TRACES)
        while True:
            try:
                answer = self._jaeger.find_traces(self._service, window, limit, self._folder)
            except _DepthError:
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
            found = len({span.trace_id for text in answer for span in _spans(text)})
            if found < limit:
                return answer, None
            if limit == self.most:
                return answer, limit
            limit = self.most


class _Dump:
    """A dump in the making, `{"result": {"resourceSpans": [...]}}`: remembers trace ids, not traces."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._oldest, self._newest = sys.maxsize, 0
        self.trace_ids: set[str] = set()
        self.spans = 0
        file.write(HEAD)

    def add(self, answer: Sequence[msgspec.Raw]) -> None:
        """Write the traces of an answer that no earlier answer had.

        Jaeger puts a trace into the answer to each window in which one of its spans starts, whole each time.
        """
        trace_ids: set[str] = set()
        for text in answer:
            spans = _spans(text)
            own = {span.trace_id for span in spans}
            trace_ids |= own
            new = own - self.trace_ids
            if not new:
                continue
            self._file.write(b"," if self.spans else b"")
            self._file.write(text if new == own else only_traces(text, new.__contains__))
            spans = [span for span in spans if span.trace_id in new]
            self.spans += len(spans)
            self._oldest = min(self._oldest, *(span.start_time_unix_nano for span in spans))
            self._newest = max(self._newest, *(span.start_time_unix_nano for span in spans))
        self.trace_ids |= trace_ids

    def close(self) -> None:
        self._file.write(TAIL)

    @property
    def times(self) -> Window:
        return Window(*(datetime.fromtimestamp(time // 10**9, UTC) for time in (self._oldest, self._newest)))


def _spans(resource_spans: msgspec.Raw) -> list[_Span]:
    try:
        decoded = msgspec.json.decode(resource_spans, type=_ResourceSpans, strict=False)
    except msgspec.DecodeError as error:
        raise JaegerError(f"Jaeger's answer is not OTLP: {error}") from None
    return [span for scope in decoded.scope_spans for span in scope.spans]


def _resource_spans(text: mmap.mmap) -> list[msgspec.Raw]:
    """Return the ResourceSpans of an answer: one JSON text, or several in a row where Jaeger streams."""
    ends = [match.end() for match in _GLUE.finditer(text)]
    found: list[msgspec.Raw] = []
    try:
        for start, end in pairwise([0, *ends, len(text)]):
            answer = msgspec.json.decode(memoryview(text)[start:end], type=_Answer)
            if answer.error:
                raise _broken_off(start, escape(answer.error.message))
            if answer.result is None:
                raise JaegerError(f"the answer holds neither traces nor an error: {_WRONG_URL}")
            found += answer.result.resource_spans
    except msgspec.ValidationError as error:
        raise JaegerError(f"the answer is not that of Jaeger's API v3: {error}") from None
    except msgspec.DecodeError as error:
        glued = text.rfind(b'{"error"')
        message = _message(text[glued:]) if glued >= 0 else None
        raise _broken_off(len(text), message or f"not whole, {error}") from None
    return found


def _broken_off(received: int, reason: str) -> _TransientError:
    return _TransientError(
        f"Jaeger's answer broke off after {received} bytes ({reason}): "
        "see Jaeger's log; if its memory ran out, ask in smaller windows (--window 10m)"
    )


def _refusal(response: httpx.Response) -> JaegerError:
    """Return the error that an answer with another status than 200 stands for."""
    body = response.read()
    status = f"HTTP {response.status_code} {response.reason_phrase}"
    message = _message(body)
    if message is None:
        is_text = response.headers.get("Content-Type", "").startswith("text/plain")
        text = escape(shorten(body.decode(errors="replace").strip(), 200)) if is_text else ""
        answer = f"{status}: {text}" if text else status
        if response.is_server_error:
            return _TransientError(f"{response.url.host} answers {answer}")
        return JaegerError(f"{response.url.host} answers {answer}; is it Jaeger? {_WRONG_URL}")
    if response.status_code == httpx.codes.NOT_FOUND:
        return _NoTracesError(message)
    # The memory store's answer to a number of traces that it will never give, though its status is 500.
    if "search depth" in message:
        return _DepthError(message)
    if response.is_server_error:
        return _TransientError(f"Jaeger failed: {message} ({status})")
    return JaegerError(f"Jaeger refused the query: {message} ({status})")


def _message(body: bytes) -> str | None:
    """Return the message of an error body of Jaeger, None for any other body."""
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except msgspec.DecodeError:
        return None
    return escape(shorten(answer.error.message, 1000)) if answer.error else None


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


def _tell(message: str) -> None:
    tqdm.write(message, file=sys.stderr)


def _tell_retry(state: RetryCallState) -> None:
    error = state.outcome and state.outcome.exception()
    _tell(f"warning: {error}; trying again in {state.upcoming_sleep:.0f} s")


def _duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if not match or not text:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration, such as 5d, 10m or 1h30m")
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    try:
        duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        datetime.now(UTC) - duration
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is too long") from None
    if not duration:
        raise argparse.ArgumentTypeError(f"{text!r} is no time at all")
    return duration


def _url(text: str) -> str:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise argparse.ArgumentTypeError(f"{text!r} is no URL such as http://localhost:16686")
    return text


def _count(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 999999999")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m etcd_coverage.jaeger",
        description="Download the traces that Jaeger holds of a service into a dump.",
    )
    default = "(default: %(default)s)"
    parser.add_argument("--url", type=_url, default="http://localhost:16686", help=f"Jaeger's query API {default}")
    parser.add_argument("--service", default="etcd", help=f"download each trace with a span of it {default}")
    parser.add_argument(
        "--since",
        type=_duration,
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
        type=_duration,
        metavar="LENGTH",
        help="ask in windows of this length, such as 10m, as Jaeger builds each answer in memory",
    )
    parser.add_argument(
        "--num-traces",
        type=_count,
        metavar="N",
        help=f"most traces of one answer (default: as many as Jaeger keeps, {MOST_TRACES} at most)",
    )
    return parser


def main(arguments: Sequence[str] | None = None, *, backoff: float = 1) -> int:
    """Run the command line and return its exit code: 0, 1 where there is no dump, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    output: Path = options.output
    end = datetime.now(UTC)
    window = Window(end - options.since, end)
    try:
        with Jaeger(options.url, backoff=backoff) as jaeger:
            result = download(
                jaeger, options.service, window, output, split=options.window, num_traces=options.num_traces
            )
    except KeyboardInterrupt:
        _tell(f"interrupted: {output} is as it was")
        return 130
    except JaegerError as error:
        _tell(f"error: {error}")
        return 1
    except OSError as error:
        _tell(f"error: {error.filename or output}: {error.strerror or error}")
        return 1
    print(f"{output}: {result.traces} traces, {result.spans} spans, from {result.times}")
    if result.limit_reached:
        _tell(
            f"warning: {result.limit_reached} traces are as many as Jaeger was asked for or keeps, so older "
            "ones may be missing: raise --num-traces if you gave it, else Jaeger's max_traces"
        )
    late = result.times.start - window.start
    if late > timedelta(minutes=1):
        _tell(
            f"note: the oldest span starts {timedelta(late.days, late.seconds)} after the start of the time "
            "asked for: if there were traces before, Jaeger has evicted or never got them"
        )
    return 0


def _exit(number: int, _: object) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP, and that is to stay
            signal.signal(number, _exit)
    sys.exit(main())
