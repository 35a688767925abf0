"""Answers of Jaeger that are long are read a piece at a time: the same traces, and memory that does not grow with them."""

from __future__ import annotations

import gzip
import json
import mmap
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from etcd_coverage.dumps import jaeger_v3, pieces
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.sources import jaeger_answer
from etcd_coverage.sources.jaeger_answer import FoundSpans, JaegerError

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = 700
"""Bytes of a piece: less than most of the resources below."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pieces, jaeger_answer):
        monkeypatch.setattr(module, "PIECE", SMALL)


def mapped(folder: Path, text: bytes) -> mmap.mmap:
    path = folder / "answer.json"
    path.write_bytes(text)
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def found(folder: Path, text: bytes) -> list[Any]:
    spans = FoundSpans(mapped(folder, text))
    first, second = ([json.loads(bytes(raw)) for raw in spans] for _ in range(2))
    assert first == second
    return first


ENTRIES: list[Any] = json.loads(
    gzip.decompress((Path(__file__).parent / "dumps" / "kubernetes-1.37.json.gz").read_bytes())
)["result"]["resourceSpans"][:300]
# What stands between two resources, inside of a text and of an attribute nobody knows.
TRAPS = [
    {"resource": {}, "scopeSpans": [{"spans": [{"traceId": "1", "name": ']},{"resource":{}},{"result":' * 9}]}]},
    {"resource": {}, "x": [{"scopeSpans": []}, *[{"resource": number} for number in range(100)]], "scopeSpans": []},
    {"scopeSpans": [], "resource": {}},
]
SPELLINGS: dict[str, dict[str, Any]] = {
    "as Jaeger does": {"separators": (",", ":")},
    "with spaces": {},
    "indented": {"indent": 2},
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_resources_of_an_answer_are_those_of_the_json(tmp_path: Path, spelling: str) -> None:
    entries = [*ENTRIES, *TRAPS, *ENTRIES[:5]]
    text = json.dumps({"result": {"resourceSpans": entries}}, **SPELLINGS[spelling]).encode()
    assert found(tmp_path, text) == entries
    assert len(pieces.divide(memoryview(text), 0, len(text)).lists) > 100


@pytest.mark.parametrize("glue", [b"", b"\n", b" " * 2 * SMALL])
@pytest.mark.parametrize("many", [1, 7, 100])
@pytest.mark.integration
def test_several_answers_in_a_row(tmp_path: Path, glue: bytes, many: int) -> None:
    batches = [ENTRIES[start : start + many] for start in range(0, len(ENTRIES), many)]
    text = glue.join(json.dumps({"result": {"resourceSpans": batch}}).encode() for batch in batches)
    assert found(tmp_path, text) == ENTRIES


@pytest.mark.parametrize("padding", range(SMALL - 12, SMALL + 3))
def test_an_answer_that_begins_where_a_piece_ends(tmp_path: Path, padding: int) -> None:
    first = '{"result":{"resourceSpans":[]}}'.ljust(padding)
    assert found(tmp_path, f'{first}{{"result":{{"resourceSpans":[{{"x":1}}]}}}}'.encode()) == [{"x": 1}]
    text = mapped(tmp_path, f'{first}{{"error":{{"message":"gone"}}}}'.encode())
    with pytest.raises(JaegerError, match=rf"broke off after {padding} bytes \(gone\)"):
        FoundSpans(text)


@pytest.mark.parametrize("end", [-1, -3, -400, 40_000, 10_000])
def test_an_answer_that_breaks_off(tmp_path: Path, end: int) -> None:
    text = json.dumps({"result": {"resourceSpans": ENTRIES}}, separators=(",", ":")).encode()[:end]
    with pytest.raises(JaegerError, match=f"broke off after {len(text)} bytes"):
        FoundSpans(mapped(tmp_path, text))


BROKEN = {
    "bytes that are no UTF-8": (b'"name":"', b'"name":"\xff', "is not valid UTF-8: byte 0xff at offset {at}"),
    "a bracket too many": (b'"name":', b'"name":]', "is not JSON: invalid character at byte {at}"),
    "a kind": (b'"kind":', b'"kind":9999999999,"x":', "kind is 9999999999"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_what_is_wrong_in_a_long_dump_is_named_with_its_place_in_the_whole(fault: str) -> None:
    text = json.dumps({"result": {"resourceSpans": ENTRIES}}, separators=(",", ":")).encode()
    jaeger_v3.check(memoryview(text))
    old, new, message = BROKEN[fault]
    at = text.index(old, len(text) // 2)
    broken = text[:at] + new + text[at + len(old) :]
    with pytest.raises(DumpError) as error:
        jaeger_v3.check(memoryview(broken))
    assert message.format(at=at + len(new) - 1) in str(error.value)
    with pytest.raises(DumpError) as other:
        jaeger_v3.read(memoryview(broken))
    assert str(other.value) == str(error.value)


def test_a_list_of_resources_that_comes_twice_in_a_long_dump() -> None:
    text = json.dumps({"resourceSpans": ENTRIES}, separators=(",", ":"))[1:-1]
    with pytest.raises(DumpError, match='"resourceSpans" twice in one object'):
        jaeger_v3.check(memoryview(f'{{"result":{{{text},{text}}}}}'.encode()))


PROGRAM = """
import sys
from etcd_coverage import jaeger
code = jaeger.main(sys.argv[1:])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak.split()[1])
sys.exit(code)
"""


class Handler(BaseHTTPRequestHandler):
    """Answers with resources of some 9 kB each, as many as make up ``length`` bytes."""

    length = 0

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        span = b'{"traceId":"%032x","spanId":"0000000000000001","name":"%b"}' % (0, b"n" * 400)
        spans = b",".join([span] * 20)
        entry = b'{"resource":{},"scopeSpans":[{"scope":{},"spans":[%b]}]}' % spans
        self.wfile.write(b'{"result":{"resourceSpans":[')
        for number in range(self.length // len(entry)):
            self.wfile.write(b"," * bool(number) + entry.replace(b"0" * 32, b"%032x" % (number + 1)))
        self.wfile.write(b"]}}")


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def peak(url: str, target: Path, length: int) -> int:
    """Return the most bytes of memory that a download of so many bytes has had at once, mapped files included."""
    Handler.length = length
    command = [sys.executable, "-c", PROGRAM, "--url", url, "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    # Else this would measure the download of less.
    assert 0.9 * length < target.stat().st_size < 1.1 * length
    return int(done.stdout.split()[-1]) << 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says what a process had at most")
def test_memory_of_a_download_is_far_below_what_it_brings(url: str, tmp_path: Path) -> None:
    short, long = (peak(url, tmp_path / "traces.json", length) for length in (1 << 20, 24 << 20))
    assert long - short < 12 << 20


@pytest.mark.integration
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says what a process had at most")
def test_memory_of_a_download_of_a_gigabyte(url: str, tmp_path: Path) -> None:
    assert peak(url, tmp_path / "traces.json", 1 << 30) < 150 << 20
