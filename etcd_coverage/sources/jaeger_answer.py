"""What Jaeger answers: traces in JSON, errors, and the answers of servers that are no Jaeger."""

from __future__ import annotations

import re
from array import array
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import httpx
import msgspec

from etcd_coverage.dumps.error import TOO_DEEP
from etcd_coverage.dumps.pieces import PIECE, Pieces, divide, release
from etcd_coverage.text import escape, quote, shorten

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

WRONG_URL = "--url is not that of Jaeger's query API (port 16686 unless configured)"

LONGEST_PAUSE = 300
"""Seconds: a server that asks for a longer pause is not asked again."""

# What starts an answer, if the text before it ends with a bracket: then it is none inside of another.
_START = re.compile(rb'\{"(?:result|error")')
_START_LENGTH = len(b'{"result')
_SPACE = b"\xef\xbb\xbf \t\r\n"
# 500 is how Jaeger reports that its store failed. The others: https://www.rfc-editor.org/rfc/rfc9110#section-15.
_TRANSIENT = {408, 429, 500, 502, 503, 504}


class JaegerError(Exception):
    """Why there is no dump, in one line."""


class TransientError(JaegerError):
    """A failure that may be gone at the next attempt, after a pause of ``retry_after`` seconds at least."""

    def __init__(self, message: str, retry_after: float = 0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NoTracesError(JaegerError):
    """No trace matches the query."""


class DepthError(JaegerError):
    """The query asks for more traces than Jaeger keeps."""


class _Error(msgspec.Struct):
    message: str = ""


class _Result(msgspec.Struct, rename="camel"):
    resource_spans: list[msgspec.Raw] | None = None


class _Answer(msgspec.Struct):
    result: _Result | None = None
    error: _Error | None = None


class FoundSpans:
    """The ResourceSpans of an answer, decoded anew, some MB at a time, each time that they are iterated over."""

    def __init__(self, text: mmap.mmap) -> None:
        """Raise JaegerError if the text is no answer of Jaeger's API v3, TransientError if it is not a whole one.

        It is one JSON text, or several in a row where Jaeger streams.
        """
        self._text = memoryview(text)
        start = text[:100].lstrip(_SPACE)
        if start and not start.startswith((b"{", b"[")):
            shown = quote(start[:60].decode(errors="replace"))
            raise JaegerError(f"the answer is not that of Jaeger's API v3: it starts with {shown}; {WRONG_URL}")
        self._ends = array("Q", [0, *_answers_after(text), len(text)])
        self._divided: dict[int, Pieces] = {}
        try:
            for begin, pieces in self._pieces():
                if pieces.lists:
                    self._divided[begin] = pieces
                answer = msgspec.json.decode(pieces.document(self._text), type=_Answer)
                if answer.error:
                    raise broken_off(begin, escape(shorten(answer.error.message, 1000)))
                if answer.result is None:
                    raise JaegerError(f"the answer holds neither traces nor an error: {WRONG_URL}")
        except RecursionError:
            raise JaegerError(f"Jaeger's answer: {TOO_DEEP}") from None
        except msgspec.ValidationError as error:
            raise JaegerError(f"the answer is not that of Jaeger's API v3: {error}") from None
        except msgspec.DecodeError as error:
            glued = text.rfind(b'{"error"')
            message = _message(text[glued:]) if glued >= 0 else None
            raise broken_off(len(text), message or f"not whole, {error}") from None

    def __iter__(self) -> Iterator[msgspec.Raw]:
        for _, pieces in self._pieces():
            yield from pieces.resources(self._text)
            result = msgspec.json.decode(pieces.document(self._text), type=_Answer).result
            yield from (result and result.resource_spans) or []

    def _pieces(self) -> Iterator[tuple[int, Pieces]]:
        """Yield where each answer begins, and its pieces; there may be as many answers as traces."""
        for begin, end in pairwise(self._ends):
            yield begin, self._divided.get(begin) or divide(self._text, begin, end)
            if begin // PIECE != end // PIECE:
                release(self._text)


def _answers_after(text: mmap.mmap) -> Iterator[int]:
    """Yield where each answer but the first begins."""
    data = memoryview(text)
    for window in range(0, len(text), PIECE):
        for match in _START.finditer(data[window : window + PIECE + _START_LENGTH - 1]):
            before = at = window + match.start()
            while before and text[before - 1 : before].isspace():
                before -= 1
            if before and text[before - 1 : before] == b"}":
                yield at
        release(data)


def is_web_page(content_type: str, start: bytes) -> bool:
    """Return whether an answer of this type that starts so is HTML or XML, which no other attempt changes."""
    return content_type.lower().startswith("text/html") or start.lstrip(_SPACE).startswith(b"<")


def broken_off(received: int, reason: str) -> TransientError:
    """Return the error that an answer ended after so many bytes."""
    return TransientError(
        f"Jaeger's answer broke off after {received} bytes ({reason}): "
        "see Jaeger's log; if its memory ran out, ask in smaller windows (--window 10m)"
    )


def refusal(response: httpx.Response) -> JaegerError:
    """Return the error that an answer with another status than 200 stands for."""
    body = response.read()
    code = response.status_code
    status = f"HTTP {code} {escape(response.reason_phrase)}".rstrip()
    message = _message(body)
    if message and code == httpx.codes.NOT_FOUND:
        return NoTracesError(message)
    # The memory store's answer to a number of traces that it will never give, though its status is 500.
    if message and "search depth" in message:
        return DepthError(message)
    if message is None:
        is_text = response.headers.get("Content-Type", "").lower().startswith("text/plain")
        text = escape(shorten(body.decode(errors="replace").strip(), 200)) if is_text else ""
        reason = f"{response.url.host} answers {status}" + (f": {text}" if text else "")
        advice = f"; is it Jaeger? {WRONG_URL}"
    else:
        reason = f"Jaeger {'failed' if response.is_server_error else 'refused the query'}: {message} ({status})"
        advice = ""
    if code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return JaegerError(f"{reason}; give what it asks for by --header @FILE, a line 'Authorization: Bearer TOKEN'")
    if code == httpx.codes.PROXY_AUTHENTICATION_REQUIRED:
        return JaegerError(f"{reason}; name the proxy as http://USER:PASSWORD@HOST:PORT, or name Jaeger in no_proxy")
    if code in _TRANSIENT:
        pause = _retry_after(response)
        if pause <= LONGEST_PAUSE:
            return TransientError(reason, pause)
        return JaegerError(f"{reason}; it asks to wait for {pause:.0f} s: try again then")
    return JaegerError(reason + advice)


def _retry_after(response: httpx.Response) -> float:
    """Return the seconds that the header Retry-After asks for, https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3."""
    text = response.headers.get("Retry-After", "").strip()
    if re.fullmatch("[0-9]{1,9}", text):
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return 0
    return max(0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _message(body: bytes) -> str | None:
    """Return the message of an error body of Jaeger, None for any other body."""
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.DecodeError, RecursionError):
        return None
    return escape(shorten(answer.error.message, 1000)) if answer.error else None
