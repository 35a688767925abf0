"""The download: against a server on loopback that answers as Jaeger does, well and badly."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import resource
import signal
import socket
import subprocess
import sys
import termios
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from etcd_coverage import jaeger
from etcd_coverage.sources import download, jaeger_api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(autouse=True)
def fresh_now() -> None:
    """Windows end at the time of the call: traces that were dated long before, on a slow machine, would leave them."""
    global NOW
    NOW = datetime.now(UTC).replace(microsecond=0)


GOOD_DUMP = b'{"result":{"resourceSpans":[]}}\n'

# What Jaeger really answers in place of traces.
NO_TRACES = b'{"error":{"httpCode":404,"message":"No traces found"}}\n'
DEPTH = b'{"error":{"httpCode":500,"message":"search depth must be greater than 0 and less than max traces"}}\n'
BAD_TIME = (
    b'{"error":{"httpCode":400,"message":"malformed parameter query.start_time_min: parsing time '
    b'\\"yesterday\\" as \\"2006-01-02T15:04:05.999999999Z07:00\\": '
    b'cannot parse \\"yesterday\\" as \\"2006\\""}}\n'
)

Trace = list[dict[str, Any]]
Respond = "Callable[[BaseHTTPRequestHandler], None]"


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


def nanoseconds(time: datetime) -> int:
    return int(time.timestamp()) * 10**9


def resource_spans(service: str, *spans: tuple[int, datetime]) -> dict[str, Any]:
    """Return one OTLP ResourceSpans; a span is its trace's number and its start."""
    return {
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]},
        "scopeSpans": [
            {
                "scope": {},
                "spans": [
                    {"traceId": f"{trace:032x}", "name": "}{", "startTimeUnixNano": str(nanoseconds(start))}
                    for trace, start in spans
                ],
            }
        ],
    }


def etcd_traces(*starts: datetime) -> list[Trace]:
    return [[resource_spans("etcd", (number, start))] for number, start in enumerate(starts, 1)]


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/api/v3/services":
            self.answer(200, json.dumps({"services": self.server.services}).encode())
        elif url.path == "/api/v3/traces":
            self.find_traces(dict(parse_qsl(url.query)))
        else:
            self.answer(404, b"404 page not found\n", "text/plain; charset=utf-8")

    def find_traces(self, query: dict[str, str]) -> None:
        """Answer as the memory store does: by span start, both ends included, newest trace first."""
        limit = int(query["query.num_traces"])
        first, last = (nanoseconds(datetime.fromisoformat(query[f"query.start_time_{end}"])) for end in ("min", "max"))
        if last > 0:
            self.server.queries.append(query)
            if self.server.script:
                self.server.script.pop(0)(self)
                return None
        if limit > self.server.max_traces:
            return self.answer(500, DEPTH, "text/plain; charset=utf-8")
        found = [
            trace
            for trace in reversed(self.server.traces)
            if any(
                entry["resource"]["attributes"][0]["value"]["stringValue"] == query.get("query.service_name")
                and first <= int(span["startTimeUnixNano"]) <= last
                for entry in trace
                for span in entry["scopeSpans"][0]["spans"]
            )
        ]
        if not found:
            return self.answer(404, NO_TRACES, "text/plain; charset=utf-8")
        entries = [entry for trace in found[:limit] for entry in trace]
        return self.answer(200, json.dumps({"result": {"resourceSpans": entries}}).encode())


class Server(ThreadingHTTPServer):
    """A Jaeger with these traces; `script` answers the first requests for traces in its place."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.services = ["etcd"]
        self.traces: list[Trace] = []
        self.max_traces = download.MOST_TRACES
        self.queries: list[dict[str, str]] = []
        self.script: list[Callable[[Handler], object]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # a client may hang up, nothing else may happen
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture(autouse=True)
def no_certificates(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep every client from loading the certificates of all authorities, 0.1 s each time."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path_factory.getbasetemp()))


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return the path of a dump that is there already."""
    path = tmp_path / "traces.json"
    path.write_bytes(GOOD_DUMP)
    return path


def run(server: Server, target: Path, *options: str) -> int:
    return jaeger.main(["--url", server.url, "-o", str(target), *options], backoff=0)


def spans(text: bytes) -> list[tuple[int, int]]:
    """Return the trace's number and the start of each span of a dump, sorted."""
    return sorted(
        (int(span["traceId"], 16), int(span["startTimeUnixNano"]))
        for entry in json.loads(text)["result"]["resourceSpans"]
        for scope in entry["scopeSpans"]
        for span in scope["spans"]
    )


def expected(traces: list[Trace]) -> list[tuple[int, int]]:
    return spans(json.dumps({"result": {"resourceSpans": [entry for trace in traces for entry in trace]}}).encode())


def assert_untouched(target: Path) -> None:
    assert target.read_bytes() == GOOD_DUMP
    assert list(target.parent.iterdir()) == [target]


def assert_fails(server: Server, target: Path, capsys: pytest.CaptureFixture[str], message: str, *options: str) -> None:
    """Assert exit code 1, `message` as the one error line, and that the dump that was there is as it was."""
    assert run(server, target, *options) == 1
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("warning: ")]
    assert lines == [f"error: {message.format(url=server.url)}"]
    assert out == ""
    assert_untouched(target)


# What arrives


def test_every_trace_of_the_service_arrives_whole(
    server: Server, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = [[resource_spans("apiserver", (200, ago(hours=1)))]]
    shared = [[resource_spans("apiserver", (201, ago(hours=1))), resource_spans("etcd", (201, ago(hours=1)))]]
    many = etcd_traces(*[ago(minutes=number) for number in range(1, 151)])
    server.traces = [*many, *other, *shared]
    assert run(server, target) == 0
    assert spans(target.read_bytes()) == expected([*many, *shared])
    assert list(target.parent.iterdir()) == [target]
    out, err = capsys.readouterr()
    oldest, newest = (f"{time:%Y-%m-%d %H:%M:%S}" for time in (ago(minutes=150), ago(minutes=1)))
    assert out == f"{target}: 151 traces, 152 spans, from {oldest} to {newest} UTC\n"
    assert err.startswith("note: the oldest span starts 4 days, 21:")


def test_the_query_names_service_times_and_number(server: Server, target: Path) -> None:
    server.traces = [[resource_spans("my etcd", (1, ago(minutes=1)))]]
    assert run(server, target, "--since", "1d2h3m4s", "--service", "my etcd", "--num-traces", "7") == 0
    [query] = server.queries
    start, end = (datetime.fromisoformat(query.pop(f"query.start_time_{end}")) for end in ("min", "max"))
    assert query == {"query.service_name": "my etcd", "query.num_traces": "7"}
    assert end - start == timedelta(days=1, hours=2, minutes=3, seconds=4)
    assert NOW <= end <= datetime.now(UTC)


def test_a_name_in_gz_compresses(server: Server, tmp_path: Path) -> None:
    server.traces = etcd_traces(ago(minutes=1), ago(minutes=2))
    assert run(server, tmp_path / "traces.json.gz") == 0
    assert spans(gzip.decompress((tmp_path / "traces.json.gz").read_bytes())) == expected(server.traces)


def test_a_link_to_a_dump_stays_a_link(server: Server, target: Path) -> None:
    link = target.with_name("link.json")
    link.symlink_to(target)
    server.traces = etcd_traces(ago(minutes=1))
    assert run(server, link) == 0
    assert link.is_symlink()
    assert spans(target.read_bytes()) == expected(server.traces)


@pytest.mark.parametrize("glue", [b"", b"\n"])
def test_an_answer_in_several_pieces_is_one_dump(server: Server, target: Path, glue: bytes) -> None:
    traces = etcd_traces(ago(minutes=1), ago(minutes=2), ago(minutes=3))
    pieces = [json.dumps({"result": {"resourceSpans": trace}}).encode() for trace in traces]
    server.script = [lambda handler: handler.answer(200, glue.join(pieces))]
    assert run(server, target) == 0
    assert spans(target.read_bytes()) == expected(traces)


# The number of traces


def test_as_many_traces_are_asked_for_as_jaeger_keeps(server: Server, target: Path) -> None:
    server.max_traces = 137
    server.traces = etcd_traces(*[ago(minutes=1)] * 120)
    assert run(server, target) == 0
    assert [query["query.num_traces"] for query in server.queries] == ["100000", "137"]
    assert len(spans(target.read_bytes())) == 120


def test_more_traces_than_usual_are_asked_for_when_there_may_be_more(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(download, "USUAL_TRACES", 10)
    server.traces = etcd_traces(*[ago(minutes=15)] * 11, *[ago(minutes=5)] * 9)
    assert run(server, target, "--since", "20m", "--window", "10m") == 0
    assert [query["query.num_traces"] for query in server.queries] == ["10", "20000000", "10"]
    assert spans(target.read_bytes()) == expected(server.traces)
    assert "warning" not in capsys.readouterr().err


def test_the_usual_number_is_asked_for_first(server: Server, target: Path) -> None:
    server.traces = etcd_traces(ago(minutes=1))
    assert run(server, target) == 0
    assert [query["query.num_traces"] for query in server.queries] == ["100000"]


def test_a_jaeger_that_takes_no_number(server: Server, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.max_traces = 0
    message = "search depth must be greater than 0 and less than max traces"
    assert_fails(server, target, capsys, message)


def test_more_than_jaeger_keeps(server: Server, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.max_traces = 99
    server.traces = etcd_traces(ago(minutes=1))
    message = (
        "Jaeger keeps 99 traces at most (max_traces), fewer than the 100 asked for: "
        "use --num-traces 99, or start Jaeger with a higher max_traces"
    )
    assert_fails(server, target, capsys, message, "--num-traces", "100")
    assert len(server.queries) == 1


@pytest.mark.parametrize(
    ("options", "max_traces", "limit"),
    [
        (["--num-traces", "3"], 1000, 3),
        ([], 4, 4),
        (["--window", "10m"], 4, 4),
        (["--window", "10m", "--num-traces", "2"], 1000, 2),
    ],
    ids=["asked", "kept", "kept-in-windows", "asked-in-windows"],
)
def test_as_many_traces_as_asked_for_or_kept_are_a_warning(
    server: Server,
    target: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    max_traces: int,
    limit: int,
) -> None:
    server.max_traces = max_traces
    server.traces = etcd_traces(ago(minutes=21), ago(minutes=20), ago(minutes=2), ago(minutes=1))
    assert run(server, target, "--since", "30m", *options) == 0
    assert f"warning: {limit} traces are as many as Jaeger was asked for or keeps" in capsys.readouterr().err


def test_as_many_traces_as_jaeger_usually_keeps_are_a_warning(
    server: Server, target: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "USUAL_TRACES", 3)
    server.traces = etcd_traces(ago(minutes=15), ago(minutes=14), ago(minutes=5))
    assert run(server, target, "--since", "20m", "--window", "10m") == 0
    assert "warning: 3 traces are as many as Jaeger was asked for or keeps" in capsys.readouterr().err


def test_fewer_traces_than_asked_for_are_no_warning(
    server: Server, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.max_traces = 3
    server.traces = etcd_traces(ago(minutes=1), ago(seconds=30))
    assert run(server, target, "--since", "90s") == 0
    assert capsys.readouterr().err == ""


# Windows


def test_a_trace_in_several_windows_is_in_the_dump_once(server: Server, target: Path) -> None:
    server.traces = [
        [resource_spans("etcd", (1, ago(minutes=25)), (1, ago(minutes=15)), (1, ago(minutes=5)))],
        [resource_spans("etcd", (2, ago(minutes=15))), resource_spans("apiserver", (2, ago(minutes=5)))],
        [resource_spans("etcd", (3, ago(minutes=5))), resource_spans("etcd", (3, ago(minutes=4)))],
    ]
    assert run(server, target, "--since", "30m", "--window", "10m") == 0
    assert spans(target.read_bytes()) == expected(server.traces)
    times = [(query["query.start_time_min"], query["query.start_time_max"]) for query in server.queries]
    assert len(times) == 3
    assert times[0][1] == times[1][0]
    assert times[1][1] == times[2][0]


def test_traces_that_share_a_resource_are_told_apart(server: Server, target: Path) -> None:
    old, both, new = (1, ago(minutes=15)), (2, ago(minutes=12)), (3, ago(minutes=5))
    answers = [[resource_spans("etcd", old, both)], [resource_spans("etcd", both, new)]]
    bodies = [json.dumps({"result": {"resourceSpans": answer}}).encode() for answer in answers]
    server.script = [
        lambda handler: handler.answer(200, bodies[0]),
        lambda handler: handler.answer(200, bodies[1]),
    ]
    assert run(server, target, "--since", "20m", "--window", "10m") == 0
    assert spans(target.read_bytes()) == expected([[resource_spans("etcd", old, both, new)]])


def test_the_last_window_ends_with_the_time_asked_for(server: Server, target: Path) -> None:
    server.traces = etcd_traces(ago(minutes=1))
    assert run(server, target, "--since", "25m", "--window", "10m") == 0
    start, end = (
        datetime.fromisoformat(server.queries[at][f"query.start_time_{key}"]) for at, key in ((0, "min"), (-1, "max"))
    )
    assert len(server.queries) == 3
    assert end - start == timedelta(minutes=25)


# No traces


def test_nothing_in_the_window(server: Server, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.services = ["jaeger", "etcd"]
    server.traces = etcd_traces(ago(days=9), ago(days=8), ago(days=7, hours=1))
    assert run(server, target) == 1
    oldest, newest = (f"{time:%Y-%m-%d %H:%M:%S}" for time in (ago(days=9), ago(days=7, hours=1)))
    error = capsys.readouterr().err
    assert error.startswith("error: Jaeger has no traces of 'etcd' from ")
    assert error.endswith(f": its spans start from {oldest} to {newest} UTC (--since); other services: jaeger\n")
    assert_untouched(target)


def test_no_traces_for_a_year(server: Server, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server, target, "--window", "1d") == 1
    assert capsys.readouterr().err.endswith(": none of its spans is from the last year; other services: none\n")
    assert_untouched(target)


def test_another_service(server: Server, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.services = ["jaeger", "apiserver"]
    assert_fails(server, target, capsys, "Jaeger has no service 'etcd', it has: apiserver, jaeger (--service)")


def test_nothing_at_all(server: Server, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.services = []
    message = "Jaeger at {url} holds no traces at all: is anything sending to it (OTLP, port 4317)?"
    assert_fails(server, target, capsys, message)


@pytest.mark.parametrize("body", [b'{"result":{}}', b'{"result":{"resourceSpans":[]}}'])
def test_older_releases_answer_with_no_spans(
    server: Server, target: Path, capsys: pytest.CaptureFixture[str], body: bytes
) -> None:
    server.services = ["apiserver"]
    server.script = [lambda handler: handler.answer(200, body)]
    assert_fails(server, target, capsys, "Jaeger has no service 'etcd', it has: apiserver (--service)")


# What goes wrong


def test_a_5xx_is_tried_again(server: Server, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.traces = etcd_traces(ago(minutes=1))
    server.script = [lambda handler: handler.answer(503, b"no healthy upstream", "text/plain")] * 2
    assert run(server, target, "--since", "90s") == 0
    assert spans(target.read_bytes()) == expected(server.traces)
    line = "warning: 127.0.0.1 answers HTTP 503 Service Unavailable: no healthy upstream; trying again in 0 s"
    assert capsys.readouterr().err.splitlines() == [line, line]


@pytest.mark.parametrize("status", [408, 429, 502, 504])
def test_what_may_pass_is_tried_again(server: Server, target: Path, status: int) -> None:
    server.traces = etcd_traces(ago(minutes=1))
    server.script = [lambda handler: handler.answer(status, b"", "text/plain")] * 2
    assert run(server, target, "--since", "90s") == 0
    assert spans(target.read_bytes()) == expected(server.traces)
    assert len(server.queries) == 3


def test_headers_are_sent_and_never_printed(
    server: Server, target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[tuple[str | None, str | None]] = []

    def refuse(handler: Handler) -> None:
        sent.append((handler.headers["X-Scope-OrgID"], handler.headers["Authorization"]))
        handler.answer(403, b"", "text/plain")

    server.script = [refuse]
    secret = tmp_path / "headers"
    secret.write_text("Authorization: Bearer secret\n")
    assert run(server, target, "--header", "X-Scope-OrgID: a", "--header", f"@{secret}") == 1
    assert sent == [("a", "Bearer secret")]
    assert "secret" not in capsys.readouterr().err


def test_password_of_the_url_is_never_printed(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing listens at port 1."""
    assert jaeger.main(["--url", "http://user:hunter2@127.0.0.1:1/?token=abc123", "-o", str(target)], backoff=0) == 1
    printed = capsys.readouterr()
    assert "127.0.0.1:1" in printed.err
    assert "hunter2" not in printed.err + printed.out
    assert "abc123" not in printed.err + printed.out


BROKEN_STORE = b'{"error":{"httpCode":500,"message":"context deadline exceeded"}}'


def test_a_5xx_that_stays(server: Server, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.script = [lambda handler: handler.answer(500, BROKEN_STORE, "text/plain")] * 9
    message = "Jaeger failed: context deadline exceeded (HTTP 500 Internal Server Error)"
    assert_fails(server, target, capsys, message)
    assert len(server.queries) == 5


WRONG_URL = "--url is not that of Jaeger's query API (port 16686 unless configured)"


@pytest.mark.parametrize(
    ("status", "content_type", "body", "message"),
    [
        (
            400,
            "text/plain",
            BAD_TIME,
            "Jaeger refused the query: malformed parameter query.start_time_min: parsing time "
            '"yesterday" as "2006-01-02T15:04:05.999999999Z07:00": cannot parse "yesterday" as "2006" '
            "(HTTP 400 Bad Request)",
        ),
        (
            404,
            "text/plain",
            b"404 page not found\n",
            "127.0.0.1 answers HTTP 404 Not Found: 404 page not found; ",
        ),
        (
            403,
            "text/html",
            b"<html>no</html>",
            "127.0.0.1 answers HTTP 403 Forbidden; give what it asks for by --header @",
        ),
        (401, "text/plain", b"", "127.0.0.1 answers HTTP 401 Unauthorized; give what it asks for by --header @FILE"),
        (200, "text/html; charset=utf-8", b"<!doctype html>", "{url} answers with a web page: " + WRONG_URL),
        (
            200,
            "application/json",
            b'{"data": []}',
            "the answer holds neither traces nor an error: " + WRONG_URL,
        ),
        (
            200,
            "application/json",
            b"[1]",
            "the answer is not that of Jaeger's API v3: Expected `object`, got `array`",
        ),
        (
            200,
            "application/json",
            b'{"result":{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}}',
            "Jaeger's answer: has a span without a trace id: resourceSpans[0]",
        ),
    ],
    ids=["bad-time", "404", "403", "401", "web-page", "other-api", "array", "no-trace-id"],
)
def test_an_answer_that_no_second_try_mends(
    server: Server,
    target: Path,
    capsys: pytest.CaptureFixture[str],
    status: int,
    content_type: str,
    body: bytes,
    message: str,
) -> None:
    server.script = [lambda handler: handler.answer(status, body, content_type)] * 9
    assert run(server, target) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: " + message.format(url=server.url))
    assert len(server.queries) == 1
    assert_untouched(target)


HALF = b'{"result":{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01"},{"name":"comp'


def cut(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(HALF)
    handler.close_connection = True


def cut_in_chunk(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(HALF), HALF))
    handler.close_connection = True


def end_early(handler: Handler) -> None:
    handler.answer(200, HALF)


def answer_nothing(handler: Handler) -> None:
    handler.answer(200, b"")


def end_in_error(handler: Handler) -> None:
    handler.answer(200, HALF + BROKEN_STORE)


def end_in_error_between_values(handler: Handler) -> None:
    handler.answer(200, HALF[: HALF.rindex(b",")] + BROKEN_STORE)


def end_in_error_after_piece(handler: Handler) -> None:
    handler.answer(200, GOOD_DUMP + BROKEN_STORE)


@pytest.mark.parametrize(
    ("break_off", "received", "reason"),
    [
        (
            cut,
            83,
            "peer closed connection without sending complete message body (received 83 bytes, expected 1000)",
        ),
        (
            cut_in_chunk,
            83,
            "peer closed connection without sending complete message body (incomplete chunked read)",
        ),
        (end_early, 83, "not whole, Input data was truncated"),
        (answer_nothing, 0, "it is empty"),
        (end_in_error, 147, "context deadline exceeded"),
        (end_in_error_between_values, 133, "context deadline exceeded"),
        (end_in_error_after_piece, 32, "context deadline exceeded"),
    ],
)
class TestAnswerThatBreaksOff:
    def test_is_told(
        self,
        server: Server,
        target: Path,
        capsys: pytest.CaptureFixture[str],
        break_off: Callable[[Handler], None],
        received: int,
        reason: str,
    ) -> None:
        server.script = [break_off] * 9
        message = (
            f"Jaeger's answer broke off after {received} bytes ({reason}): see Jaeger's log; "
            "if its memory ran out, ask in smaller windows (--window 10m)"
        )
        assert_fails(server, target, capsys, message)
        assert len(server.queries) == 5

    def test_is_asked_for_again(
        self, server: Server, target: Path, break_off: Callable[[Handler], None], received: int, reason: str
    ) -> None:
        del received, reason
        server.traces = etcd_traces(ago(minutes=1))
        server.script = [break_off]
        assert run(server, target) == 0
        assert spans(target.read_bytes()) == expected(server.traces)
        assert len(server.queries) == 2


def test_a_window_that_fails_fails_the_download(
    server: Server, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.traces = etcd_traces(ago(minutes=25), ago(minutes=15))
    server.script = [
        lambda handler: handler.answer(404, NO_TRACES),
        lambda handler: handler.answer(400, BAD_TIME),
    ]
    assert run(server, target, "--since", "30m", "--window", "10m") == 1
    assert "malformed parameter query.start_time_min" in capsys.readouterr().err
    assert len(server.queries) == 2
    assert_untouched(target)


def test_a_dump_that_the_suite_cannot_read(server: Server, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = b'{"result":{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01","kind":"ODD"}]}]}]}}'
    server.script = [lambda handler: handler.answer(200, body)]
    assert run(server, target) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: Jaeger's answer: resourceSpans[0]: span ")
    assert_untouched(target)


def test_a_jaeger_that_says_nothing(
    server: Server, target: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(jaeger_api, "_TIMEOUT", httpx.Timeout(10, read=0.1))
    server.script = [lambda _: over.wait(60)]
    message = (
        "Jaeger at {url} has said nothing for 0 minutes: see Jaeger's log, or ask in smaller windows (--window 10m)"
    )
    assert_fails(server, target, capsys, message)
    over.set()


def test_a_port_where_nothing_listens(target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert jaeger.main(["--url", url, "-o", str(target)], backoff=0) == 1
    *retries, line = capsys.readouterr().err.splitlines()
    reason = f"no answer from Jaeger at {url}: [Errno 111] Connection refused"
    assert retries == [f"warning: {reason}; trying again in 0 s"] * 4
    assert line == f"error: {reason}"
    assert_untouched(target)


def test_services_that_are_none(server: Server, target: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.services = None  # type: ignore[assignment]
    message = "{url}/api/v3/services is no list of services: Expected `array`, got `null` - at `$[...]`"
    assert_fails(server, target, capsys, message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--since", "5"], "--since: '5' is no duration, such as 5d, 10m or 1h30m"),
        (["--since", ""], "--since: '' is no duration, such as 5d, 10m or 1h30m"),
        (["--since", "1m1h"], "--since: '1m1h' is no duration, such as 5d, 10m or 1h30m"),
        (["--window", "0m"], "--window: '0m' is no time at all"),
        (["--since", "999999d"], "--since: '999999d' is too long"),
        (["--since", "9999999999999d"], "--since: '9999999999999d' is too long"),
        (["--num-traces", "0"], "--num-traces: '0' is no number from 1 to 999999999"),
        (["--num-traces", "-1"], "--num-traces: '-1' is no number from 1 to 999999999"),
        (["--url", "localhost:16686"], "--url: 'localhost:16686' is no URL such as http://localhost:16686"),
        (["--url", "http://"], "--url: 'http://' is no URL such as http://localhost:16686"),
        (["--url", "http://[::"], "--url: 'http://[::' is no URL: "),
        (["-o", os.devnull], "-o/--output: '/dev/null' is not a file"),
        (["-o", "no/such/folder/traces.json"], "-o/--output: the folder 'no/such/folder' does not exist"),
        (["traces.json"], "unrecognized arguments: traces.json"),
    ],
)
def test_usage(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        jaeger.main(options)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


# The program, as the shell sees it


@contextmanager
def program(server: Server, target: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "etcd_coverage.jaeger", "--url", server.url, "-o", str(target)]
    with subprocess.Popen(command, **{"stderr": subprocess.PIPE, "text": True, **options}) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("number", "exit_code", "line"),
    [
        (signal.SIGINT, 130, "interrupted: {target} is as it was\n"),
        (signal.SIGTERM, 143, ""),
        (signal.SIGHUP, 129, ""),
    ],
)
def test_a_signal_leaves_nothing_behind(
    server: Server, target: Path, number: signal.Signals, exit_code: int, line: str
) -> None:
    answering, over = threading.Event(), threading.Event()

    def stall(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(HALF)
        answering.set()
        over.wait(60)
        handler.close_connection = True

    server.script = [stall]
    with program(server, target) as process:
        assert answering.wait(60)
        assert len(list(target.parent.iterdir())) == 2
        process.send_signal(number)
        assert process.communicate(timeout=60)[1] == line.format(target=target)
        assert process.returncode == exit_code
    over.set()
    assert_untouched(target)


def test_a_dump_that_does_not_fit_on_the_disk(server: Server, target: Path) -> None:
    server.traces = etcd_traces(*[ago(minutes=1)] * 1000)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    with program(server, target, preexec_fn=limit) as process:
        assert process.communicate(timeout=60)[1] == f"error: {target}: File too large\n"
        assert process.returncode == 1
    assert_untouched(target)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_progress_bar_on_a_terminal_alone(server: Server, target: Path, is_terminal: bool) -> None:
    server.traces = etcd_traces(ago(minutes=1))
    terminal, stderr = pty.openpty() if is_terminal else os.pipe()
    if is_terminal:
        termios.tcsetwinsize(stderr, (24, 80))
    with program(server, target, stderr=stderr, stdout=subprocess.DEVNULL) as process:
        assert process.wait(60) == 0
        os.close(stderr)
        shown = b""
        while chunk := read(terminal):
            shown += chunk
    os.close(terminal)
    assert (re.search(rb"\d+B \[", shown) is not None) is is_terminal


def read(file: int) -> bytes:
    try:
        return os.read(file, 1 << 16)
    except OSError:  # how Linux ends a terminal, https://man7.org/linux/man-pages/man4/pts.4.html
        return b""
