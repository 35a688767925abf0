"""Files: packed, odd, and those that are no dumps, each with its one line."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from etcd_coverage.dumps import files
from etcd_coverage.dumps.compressions import zstd
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.kinds import read_dump
from meta_tests.builder import GET, RANGE, call, etcd, write
from meta_tests.readings import ours

HERE = Path(__file__).parent

GOOD = json.dumps(etcd(call(1, RANGE, GET))).encode()


@pytest.mark.parametrize("name", ["dump.json", "dump.json.gz", "gzip-by-content-alone"])
def test_good_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(GOOD) if "gz" in name else GOOD)
    assert [len(spans) for _, spans in ours(path)] == [2]


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbf" + GOOD, b"\n \t" + GOOD + b"\n\n", gzip.compress(b"\xef\xbb\xbf" + GOOD)]
)
def test_byte_order_mark_and_space_are_accepted(tmp_path: Path, content: bytes) -> None:
    assert [len(spans) for _, spans in ours(write(tmp_path / "dump.json", content))] == [2]


def deep(levels: int) -> bytes:
    return GOOD[:-1] + b',"x":' + b"[" * levels + b"]" * levels + b"}"


def in_name(text: bytes) -> bytes:
    return GOOD.replace(b'"name": "range"', b'"name": "' + text + b'"')


BAD = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n", "is empty"),
    "only a byte-order mark": (b"\xef\xbb\xbf", "is empty"),
    "truncated": (GOOD[: len(GOOD) // 2], "truncated"),
    "without its last byte": (GOOD[:-1], "truncated"),
    "HTML": (b"<!doctype html><html><body>404</body></html>", "is HTML"),
    "plain text": (b"404 page not found\n", 'is plain text, not a dump ("404 page not found'),
    "git lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 1493816\n",
        "is a Git LFS pointer, not the dump itself: fetch that with git lfs pull",
    ),
    "null": (b"null", "is plain text"),
    "list": (b"[1, 2]", "not a dump"),
    "empty object": (b"{}", "it holds nothing"),
    "another object": (b'{"spans": []}', '"spans"'),
    "result of another type": (b'{"result": 5}', "another shape"),
    "resourceSpans of another type": (b'{"result": {"resourceSpans": {}}}', "another shape"),
    "both spellings": (b'{"result": {"resourceSpans": [], "resource_spans": []}}', "both"),
    "resource of another type": (b'{"result": {"resourceSpans": [5]}}', "resourceSpans[0]"),
    "text glued on": (GOOD + GOOD + b"x", "has more after the end of its JSON"),
    "error glued on": (GOOD + b'{"error":{"message":"x"}}', "document 2: is an error that Jaeger answered"),
    "error beside a result": (GOOD[:-1] + b',"error":{"httpCode":500,"message":"boom"}}', "boom"),
    "error in half a body": (GOOD[: len(GOOD) // 2] + b'{"error":{"code":2}}', "is not JSON"),
    "cut gzip": (gzip.compress(GOOD)[:-20], "gzip file that was cut off"),
    "broken gzip": (gzip.compress(GOOD)[:30] + b"\xff" * 40, "broken gzip"),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "gzip with a wrong checksum": (gzip.compress(GOOD)[:-8] + b"\0" * 8, "broken gzip"),
    "gzip of HTML": (gzip.compress(b"<html>"), "is HTML"),
    "cut zstd": (zstd.compress(GOOD)[:-20], "zstd file that was cut off"),
    "broken zstd": (zstd.compress(GOOD)[:9] + b"\xff" * 400, "broken zstd"),
    "zstd of nothing": (zstd.compress(b""), "is empty"),
    "zstd with a wrong checksum": (
        zstd.compress(GOOD, options={zstd.CompressionParameter.checksum_flag: 1})[:-4] + b"\0" * 4,
        "broken zstd",
    ),
    "zstd of HTML": (zstd.compress(b"<html>"), "is HTML"),
    "zstd that asks for 2 GB": (b"\x28\xb5\x2f\xfd\x00\xa8" + zstd.compress(GOOD)[6:], "broken zstd"),
    "bytes after the frame": (zstd.compress(GOOD) + b"more", "broken zstd"),
    "gzip in zstd": (zstd.compress(gzip.compress(GOOD)), "packed twice"),
    "zip": (b"PK\x03\x04\x00", "compressed with zip"),
    "binary": (b"\x7fELF\x02\x01\x01" + bytes(100), "is a binary file"),
    "UTF-16": (GOOD.decode().encode("utf-16"), "UTF-16"),
    "UTF-16 without a mark": (GOOD.decode().encode("utf-16-le"), "UTF-16"),
    "UTF-32": (GOOD.decode().encode("utf-32"), "UTF-16 or UTF-32"),
    "invalid UTF-8 in a name": (in_name(b"a\xffb"), "not valid UTF-8: byte 0xff at offset"),
    "invalid UTF-8 in a field that nobody reads": (GOOD[:-1] + b',"x": "\xc3"}', "not valid UTF-8: byte 0xc3"),
    "UTF-8 cut in a character": (GOOD[:-1] + b',"x": "\xc3', "not valid UTF-8: byte 0xc3"),
    "lone surrogate": (in_name(b"\\\\\\ud800"), "unpaired surrogate '\\\\ud800'"),
    "lone low surrogate": (in_name(b"\\udc00"), "unpaired surrogate"),
    "lone surrogate after a pair": (in_name(b"\\ud83d\\ude00\\ud83d x"), "unpaired surrogate"),
    "NaN": (GOOD.replace(b'"kind": 1', b'"kind": NaN'), "is not JSON: invalid character at byte"),
    "nested deep": (deep(100_000), "nested too deep"),
    "control character": (in_name(b"a\x1b[31mb"), "is not JSON"),
    "integer beyond int64": (GOOD.replace(b'"kind": 1', b'"kind": 9223372036854775808'), "resourceSpans[0]"),
}


@pytest.mark.parametrize(("content", "told"), BAD.values(), ids=BAD.keys())
def test_bad_file_is_told_in_one_printable_line(tmp_path: Path, content: bytes, told: str) -> None:
    with pytest.raises(DumpError) as error:
        ours(write(tmp_path / "dump.json", content))
    line = str(error.value)
    assert told in line
    assert line.isprintable()
    assert len(line) < 500


def test_file_cut_inside_a_surrogate_pair_is_truncated(tmp_path: Path) -> None:
    start = GOOD[: GOOD.index(b'"name": "range"')]
    for end in (b'"name": "\\ud83d', b'"name": "\\ud83d\\u', b'"name": "\\ud83d\\ude0'):
        with pytest.raises(DumpError, match="truncated"):
            read_dump(write(tmp_path / "dump.json", start + end))


def test_characters_may_lie_across_chunks(tmp_path: Path) -> None:
    for shift in range(4):
        text = GOOD.decode()[:-1] + f', "x": "{"a" * shift}{"😀é" * 100_000}"}}'
        assert len(ours(write(tmp_path / "dump.json", text))) == 1


def test_more_white_space_than_a_chunk_is_no_empty_file(tmp_path: Path) -> None:
    blank = b" " * (1 << 20)
    assert len(ours(write(tmp_path / "dump.json", blank + GOOD))) == 1
    assert len(ours(write(tmp_path / "dump.json.gz", blank + GOOD))) == 1


def test_rest_after_the_end_is_shown_from_its_first_character(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match=rf'at byte {len(GOOD)} \("xyz"\)'):
        read_dump(write(tmp_path / "dump.json", GOOD + b"xyz"))


def test_null_error_beside_a_result_is_none(tmp_path: Path) -> None:
    assert len(ours(write(tmp_path / "dump.json", GOOD[:-1] + b',"error":null}'))) == 1


def test_gzip_that_unpacks_to_far_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BOMB", 1 << 20)
    with pytest.raises(DumpError, match="unpacks to over 100 times its size"):
        read_dump(write(tmp_path / "dump.json.gz", b"{" + b" " * (4 << 20)))


def test_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: open("/dev/full", "wb", buffering=0))  # noqa: PTH123, SIM115
    with pytest.raises(DumpError, match="cannot be unpacked: No space left on device; free space in"):
        read_dump(write(tmp_path / "dump.json.gz", GOOD))


def test_surrogate_pair_is_no_lone_one(tmp_path: Path) -> None:
    content = in_name(b"\\ud83d\\ude00 \\\\ud800") + b"x"
    with pytest.raises(DumpError, match="has more after the end"):
        read_dump(write(tmp_path / "dump.json", content))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("bad_time.body", ("400", "query.start_time_min", "RFC 3339")),
        ("depth_zero.body", ("500", "search depth must be greater than 0", "max_traces")),
        ("empty_range.body", ("404", "No traces found", "window")),
        ("no_times.body", ("400", "query.startTimeMin and query.startTimeMax", "query.start_time_min")),
    ],
)
def test_error_that_jaeger_answered_is_told(body: str, told: tuple[str, ...]) -> None:
    with pytest.raises(DumpError) as error:
        read_dump(HERE / "jaeger_errors" / body)
    assert [part for part in told if part not in str(error.value)] == []


def test_unusual_error_of_jaeger_is_told_in_one_line(tmp_path: Path) -> None:
    numbers = '{"error": {"httpCode": true}}', '{"error": {"httpCode": %s, "message": "x"}}' % ("1" * 5000)
    for body in ('{"error": "text"}', '{"error": {"message": ["\\u001b[31m"]}}', '{"error": 5}', *numbers):
        with pytest.raises(DumpError, match="Jaeger answered") as error:
            read_dump(write(tmp_path / "dump.json", body))
        assert str(error.value).isprintable()


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="is a directory"):
        read_dump(tmp_path)


def test_missing_file(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "gone.json")
    with pytest.raises(DumpError, match="cannot be read: No such file"):
        read_dump(tmp_path / "link.json")


def test_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DumpError, match="not a regular file"):
        read_dump(tmp_path / "pipe")


def test_unreadable_file(tmp_path: Path) -> None:
    """In a process of its own, since root may read everything."""
    path = write(tmp_path / "dump.json", GOOD)
    path.chmod(0)
    code = f"""
import os
from pathlib import Path
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.kinds import read_dump
from etcd_coverage.judging.judge import judge
if os.getuid() == 0:
    os.setuid(65534)
try:
    read_dump(Path({str(path.name)!r}))
except DumpError as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stdout.startswith("cannot be read: Permission denied")


def test_no_spans_is_no_error_of_the_format(tmp_path: Path) -> None:
    for content in ('{"result": null}', '{"result": {}}', '{"result": {"resourceSpans": []}}'):
        assert read_dump(write(tmp_path / "dump.json", content)) == []
