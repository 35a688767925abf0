"""Jaeger's query API: the HTTP API v3 of Jaeger 2.6 and newer.

https://www.jaegertracing.io/docs/latest/architecture/apis/
"""

from __future__ import annotations

import mmap
import sys
import tempfile
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import httpx
import msgspec
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential
from tqdm import tqdm

from etcd_coverage.sources import jaeger_answer
from etcd_coverage.sources.http_client import (
    ClientError,
    http_client,
    is_loopback,
    proxies,
    secrets_of,
    without_secrets,
)
from etcd_coverage.sources.jaeger_answer import DepthError, JaegerError, NoTracesError, TransientError
from etcd_coverage.text import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

_T = TypeVar("_T")

# Jaeger starts to answer when it has the whole answer in memory: minutes, for gigabytes.
_TIMEOUT = httpx.Timeout(10, read=900)


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


class Jaeger:
    """The query API of a Jaeger server, asked with these headers.

    After a connection error or a status such as 503 it is asked again, up to `retries` times; the pause is `backoff`
    seconds and doubles each time, up to 30, or as long as the server asks for. What stays wrong is a JaegerError.
    Passwords and tokens of the URL and the headers are in no error.
    """

    def __init__(
        self, url: str, headers: Sequence[tuple[str, str]] = (), *, retries: int = 4, backoff: float = 1
    ) -> None:
        self._url = httpx.URL(url)
        self.url = without_secrets(self._url)
        """The URL without what is secret in it."""
        self._secrets = secrets_of(self._url, headers)
        try:
            self._client = http_client(self._url, headers, _TIMEOUT)
        except ClientError as error:
            raise JaegerError(str(error)) from None
        exponential = wait_exponential(multiplier=backoff, max=30)

        def pause(state: RetryCallState) -> float:
            error = state.outcome and state.outcome.exception()
            asked_for = error.retry_after if isinstance(error, TransientError) else 0
            return max(exponential(state), asked_for)

        self._retrying = Retrying(
            retry=retry_if_exception_type(TransientError),
            stop=stop_after_attempt(retries + 1),
            wait=pause,
            before_sleep=_report_retry,
            reraise=True,
        )

    def __enter__(self) -> Jaeger:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def services(self) -> list[str]:
        """Return the names of the services that Jaeger has spans of, sorted."""
        body = self._retried(lambda: self._get("/api/v3/services", {}, None))
        try:
            return sorted(msgspec.json.decode(body, type=dict[str, list[str]]).get("services", []))
        except (msgspec.DecodeError, RecursionError) as error:
            raise JaegerError(f"{self.url}/api/v3/services is no list of services: {error}") from None

    def find_traces(
        self, service: str, window: Window, num_traces: int, folder: Path | None = None
    ) -> Iterable[msgspec.Raw]:
        """Return the OTLP ResourceSpans of the traces with a span of this service that starts in the window.

        Their JSON texts are read from an unnamed file in the folder as they are iterated over; none if there is no such
        trace.
        """
        params = {
            "query.service_name": service,
            "query.start_time_min": window.start.isoformat(),
            "query.start_time_max": window.end.isoformat(),
            "query.num_traces": str(num_traces),
        }
        try:
            return self._retried(lambda: jaeger_answer.FoundSpans(self._get("/api/v3/traces", params, folder)))
        except NoTracesError:
            return []

    def max_traces(self, refused: int) -> int:
        """Return how many traces Jaeger lets a query ask for, given a number that it refuses.

        No call of the API returns `max_traces`, so it is searched for, with queries that match nothing.
        """
        epoch = datetime.fromtimestamp(0, UTC)

        def refuses(num_traces: int) -> bool:
            try:
                self.find_traces("", Window(epoch, epoch), num_traces)
            except DepthError:
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
            return any(True for _ in self.find_traces(service, window, 1))

        if not has(seconds[0], seconds[-1]):
            return None
        oldest = bisect_left(seconds, True, key=lambda second: has(seconds[0], second))
        newest = bisect_left(seconds, True, key=lambda second: not has(second, seconds[-1])) - 1
        return Window(*(tomorrow + timedelta(seconds=seconds[at]) for at in (oldest, newest)))

    def _retried(self, ask: Callable[[], _T]) -> _T:
        """Return what `ask` returns, asked again after each TransientError."""

        def attempt() -> _T:
            try:
                return ask()
            except JaegerError as error:
                if self._secrets:  # a server may repeat what it refuses
                    error.args = (self._secrets.sub("***", str(error)),)
                raise

        return self._retrying(attempt)

    def _get(self, path: str, params: dict[str, str], folder: Path | None) -> mmap.mmap:
        """Return the body that Jaeger answers, mapped from an unnamed file in the folder."""
        received = 0
        url = self._url.copy_with(path=self._url.path.rstrip("/") + path).copy_merge_params(params)
        try:
            with (
                tempfile.TemporaryFile(dir=folder) as file,
                tqdm(desc="Jaeger", unit="B", unit_scale=True, disable=None, leave=False) as bar,
                self._client.stream("GET", url) as response,
            ):
                if response.status_code != httpx.codes.OK:
                    raise jaeger_answer.refusal(response)
                content_type = response.headers.get("Content-Type", "")
                for chunk in response.iter_bytes():
                    if not received and jaeger_answer.is_web_page(content_type, chunk):
                        raise JaegerError(f"{self.url} answers with a web page: {jaeger_answer.WRONG_URL}")
                    received += file.write(chunk)
                    bar.update(len(chunk))
                if not received:
                    raise jaeger_answer.broken_off(received, "it is empty")
                file.flush()
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except httpx.ReadTimeout:
            minutes = (_TIMEOUT.read or 0) / 60
            raise JaegerError(
                f"Jaeger at {self.url} has said nothing for {minutes:.0f} minutes: "
                "see Jaeger's log, or ask in smaller windows (--window 10m)"
            ) from None
        except httpx.HTTPError as error:
            reason = escape(str(error)) or type(error).__name__
            if received and isinstance(error, httpx.TransportError):
                raise jaeger_answer.broken_off(received, reason) from None
            raise self._no_answer(error, reason) from None
        # What httpx lets through of names and numbers that only the resolver refuses.
        except (httpx.InvalidURL, UnicodeError, OverflowError) as error:
            raise self._no_answer(error, escape(str(error))) from None

    def _no_answer(self, error: Exception, reason: str) -> JaegerError:
        message = f"no answer from Jaeger at {self.url}: {reason}"
        if not is_loopback(self._url.host) and (variables := proxies()):
            message += f" (the environment names proxies: {variables})"
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            return JaegerError(f"{message}; name the file of its authority's certificate in SSL_CERT_FILE")
        is_transient = isinstance(error, httpx.NetworkError | httpx.TimeoutException | httpx.ProxyError)
        # The other end closed the connection; "illegal ..." is that it speaks another protocol.
        is_closed = isinstance(error, httpx.RemoteProtocolError) and "illegal" not in reason
        return TransientError(message) if is_transient or is_closed else JaegerError(message)


def _report_retry(state: RetryCallState) -> None:
    error = state.outcome and state.outcome.exception()
    tqdm.write(f"warning: {error}; trying again in {state.upcoming_sleep:.0f} s", file=sys.stderr)
