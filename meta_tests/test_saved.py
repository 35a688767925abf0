"""Usages as files: the schema, what is loaded again, what is refused, what an update touches."""

from __future__ import annotations

import gzip
import json
import os
import re
import stat
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from etcd_coverage.atomic import write_atomically
from etcd_coverage.comparing import advise, saved
from etcd_coverage.comparing.saved import Reference, Source
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.usage import PRINTABLE
from meta_tests.builder import LEASE_GRANT, RANGE, call, complete, etcd, write
from tools import docs

if TYPE_CHECKING:
    from collections.abc import Callable

    from etcd_coverage.judging.usage import Usage

ROOT = Path(__file__).parents[1]
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "usage.schema.json").read_text()))
UNKNOWN = call(8, RANGE, {"range_begin": "\x1b\x00", "limit": 1}), call(9, LEASE_GRANT, {"ttl": 3})


MESSAGES = [
    re.escape(words).replace("N", r"\d+")
    for row in (ROOT / "docs" / "usage-format.md").read_text().partition("| message |")[2].splitlines()[2:]
    for words in re.findall(r"`([^`]+)`", row.split("|")[1])
]


def explained(message: str) -> bool:
    """Tell whether the document says what to do about the message."""
    return any(re.search(words, message) for words in MESSAGES)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.fixture
def usages(tmp_path: Path) -> dict[str, Usage]:
    """A usage of each kind: complete, with findings, of a dump that could not be judged, with a span told twice."""
    twice = [*complete(), *(one | {"status": {"code": 2}} for one in complete())]
    contents: dict[str, Any] = {"a.json": etcd(complete()), "b.json": etcd(complete(), *UNKNOWN), "c.json": "{}"}
    contents["d.json"] = etcd(twice)
    return {name: judge(write(tmp_path / name, content)) for name, content in contents.items()}


@pytest.mark.parametrize("name", ["usage.json", "usage.json.gz"])
def test_loads_back_to_the_same_value(tmp_path: Path, usages: dict[str, Usage], name: str) -> None:
    saved.update(tmp_path / name, usages)
    assert saved.load(tmp_path / name) == usages
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_what_is_written_fits_the_schema(tmp_path: Path, usages: dict[str, Usage]) -> None:
    SCHEMA.check_schema(SCHEMA.schema)
    reference = Reference(name="a.json", usage=usages["a.json"], subjects=["b.json", "c.json", "d.json"])
    saved.update(tmp_path / "usage.json", usages, reference)
    content = read(tmp_path / "usage.json")
    assert [error.message for error in SCHEMA.iter_errors(content)] == []
    assert sorted(content["comparison"]["subjects"]) == ["b.json", "d.json"]
    assert content["dumps"]["d.json"]["quality"]["conflicting_spans"] != []
    for path in sorted((ROOT / "usage").iterdir()):
        assert [error.message for error in SCHEMA.iter_errors(read(path))] == [], path.name


CHANGES: dict[str, Callable[[Any], object]] = {
    "format": lambda content: content.update(format=2),
    "no dumps": lambda content: content.pop("dumps"),
    "no error": lambda content: content["dumps"]["b.json"].pop("error"),
    "no calls": lambda content: content["dumps"]["b.json"]["rows"][0].update(calls=0),
    "args": lambda content: content["dumps"]["b.json"]["rows"][0].update(args="limit"),
    "control character": lambda content: content["dumps"]["b.json"]["rows"][0].update(key_pattern="\x1b"),
    "finding": lambda content: content["dumps"]["b.json"]["findings"][0].update(id="other"),
    "quality": lambda content: content["dumps"]["b.json"]["quality"].pop("spans"),
}


def test_schema_refuses_what_is_never_written(tmp_path: Path, usages: dict[str, Usage]) -> None:
    saved.update(tmp_path / "usage.json", usages)
    for name, change in CHANGES.items():
        content = read(tmp_path / "usage.json")
        change(content)
        assert not SCHEMA.is_valid(content), name


def test_schema_is_that_of_the_structs() -> None:
    """`make docs` writes it."""
    assert docs.SCHEMA.read_text() == docs.usage_schema()
    assert docs.main(["--check"]) == 0


def test_schema_lets_later_versions_add_fields(tmp_path: Path, usages: dict[str, Usage]) -> None:
    saved.update(tmp_path / "usage.json", usages)
    content = read(tmp_path / "usage.json")
    content["dumps"]["b.json"]["rows"][0]["later"] = content["later"] = 1
    assert SCHEMA.is_valid(content)


def test_texts_are_those_that_can_be_printed() -> None:
    """By the categories of Unicode, which `str.isprintable` follows."""
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category not in ("Cn", "Cs"):  # not assigned in this version of Python; no text in UTF-8
            matches = re.search(PRINTABLE, f"a{chr(code)}") is not None
            assert matches == chr(code).isprintable(), f"U+{code:04X}"


def good(**more: Any) -> Any:
    """A saved usage, written by hand."""
    quality = dict.fromkeys(("spans", "traces", "skipped_spans", "apiserver_traces", "duplicate_spans"), 0)
    quality |= dict.fromkeys(("calls_without_parent", "grpc_spans_without_call", "failed_without_call"), 0)
    row = {"grpc_method": RANGE, "call_pattern": "Get", "key_pattern": "/registry/{resource}", "args": ["limit"]}
    one: dict[str, Any] = {
        "calls": {RANGE: 1}, "rows": [row | {"calls": 1, "contract_calls": 0}], "leases": [], "findings": [],
        "quality": quality | {"conflicting_spans": []}, "error": None,
    }  # fmt: skip
    return {"format": 1, "dumps": {"a.json": one | more}}


def test_unknown_keys_an_absent_example_and_another_order_of_keys_are_read(tmp_path: Path) -> None:
    content = {"dumps": {}, "format": 1} | good(later=1)
    path = write(tmp_path / "usage.json", "\ufeff" + json.dumps(content, indent=8))
    ((name, found),) = saved.load(path).items()
    assert saved.is_saved(path)
    assert (name, found.calls, found.rows[0].args, found.rows[0].example) == ("a.json", {RANGE: 1}, ("limit",), None)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({"format": 2, "dumps": 7}, "is a saved usage of format 2, this version reads format 1"),
        ({"format": "1", "dumps": {}}, "is a saved usage of the unknown format 1"),
        ({"format": True, "dumps": {}}, "is a saved usage of the unknown format True"),
        ({"dumps": {}}, "is a saved usage of the unknown format None"),
        ({"format": 1}, "is a saved usage with a fault: Object missing required field `dumps`"),
        ({"format": 1, "dumps": {}}, "is a saved usage that holds no dump"),
        ({"format": 1, "dumps": {"a": {}}}, "dump 'a' has no calls, error, findings, leases, quality, rows"),
        (good(quality={"spans": 1}), "dump 'a.json' has no apiserver_traces, calls_without_parent"),
        (good(calls={}), "dump 'a.json' has neither calls nor an error"),
        (good(calls={RANGE: -1}), "Expected `int` >= 1 - at `$.calls[...]`"),
        (good(rows=[{}]), "Object missing required field `grpc_method`"),
        (good(error="\x1b[31m"), "dump 'a.json' holds a control character"),
        (json.dumps(good())[:-9], "is a saved usage with a fault: Input data was truncated"),
        ('{"format": ' + "[" * 100_000, "is JSON nested too deep"),
        (b'{"format": 1, "dumps": {"\xff": 1}}', "is a saved usage with a fault"),
        (b"\x1f\x8b\x08", "is a gzip file that was cut off after 0 unpacked bytes: save it again with --usage-json"),
        ('{"format": %s, "dumps": {}}' % ("1" * 5000), "is a saved usage of the unknown format 111"),
        (gzip.compress(json.dumps(good()).encode()[:-1] + b" " * 20_000_000), "unpacks to over 100 times its size"),
    ],
)
def test_bad_usage_is_one_line(tmp_path: Path, content: Any, line: str) -> None:
    path = tmp_path / "usage.json"
    write(path, content)
    with pytest.raises(DumpError) as error:
        saved.load(path)
    assert str(error.value).startswith(line) or line in str(error.value)
    assert "\n" not in str(error.value)
    assert str(error.value).isprintable()
    assert explained(str(error.value))
    if not isinstance(content, bytes):
        assert saved.sources(path) == [Source(path)]
        assert (saved.usage_of(Source(path)).error or "").startswith(f"{path}: is ")


@pytest.mark.parametrize(
    "content", [etcd(complete()), {"error": {}}, "", "[]", '{"formats": 1}', b"\x1f\x8b\x08", b"\x1f\x8b\xff\xff\xff"]
)
def test_other_files_are_no_saved_usages(tmp_path: Path, content: Any) -> None:
    assert not saved.is_saved(write(tmp_path / "a.json", content))
    assert not saved.is_saved(tmp_path)
    assert not saved.is_saved(tmp_path / "absent")


def test_file_of_several_usages_is_several_to_judge(tmp_path: Path, usages: dict[str, Usage]) -> None:
    path = tmp_path / "usage.json"
    saved.update(path, usages)
    found = saved.sources(path)
    assert [source.name for source in found] == [f"usage.json::{name}" for name in usages]
    assert {source.entry: saved.usage_of(source) for source in found} == usages
    assert saved.find(f"{path}::b.json") == Source(path, "b.json")
    for text, line in {
        str(path): f"holds 4 usages, name one of them: {path}::a.json, {path}::b.json",
        f"{path}::e.json": f"{path} holds no e.json, but a.json, b.json, c.json, d.json",
        f"{tmp_path}/absent.json": f"{tmp_path}/absent.json does not exist",
        str(tmp_path): "is a directory",
    }.items():
        with pytest.raises(DumpError) as error:
            saved.find(text)
        assert line in str(error.value)
    saved.update(tmp_path / "one.json", {"a.json": usages["a.json"]})
    assert saved.find(f"{tmp_path}/one.json") == saved.find(f"{tmp_path}/one.json::a.json")


def test_file_of_many_usages_is_loaded_once(
    tmp_path: Path, usages: dict[str, Usage], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    really_open = Path.open

    def noted(self: Path, *arguments: Any) -> Any:
        opened.append(self)
        return really_open(self, *arguments)

    path = tmp_path / "usage.json"
    saved.update(path, {f"{number:03}.json": usages["a.json"] for number in range(200)})
    monkeypatch.setattr(Path, "open", noted)
    found = saved.sources(path)
    assert [saved.usage_of(source) == usages["a.json"] for source in found] == [True] * 200
    # For its first bytes, and for all.
    assert opened == [path, path]
    reference = saved.find(f"{path}::007.json")
    for _ in range(3):
        assert saved.usage_of(reference) == usages["a.json"]
        advise.to_accept("007.json", usages["a.json"], reference, ["judge"])
    assert opened == [path] * 4


def test_update_touches_no_other_usage(tmp_path: Path, usages: dict[str, Usage]) -> None:
    path = tmp_path / "usage.json"
    one, other = usages["a.json"], usages["b.json"]
    saved.update(path, {"a.json": one, "b.json": other})
    before = read(path)["dumps"]["b.json"]
    done = saved.update(path, {"a.json": other, "e.json": one})
    assert (done.written, done.kept) == (["a.json", "e.json"], ["b.json"])
    assert saved.load(path) == {"a.json": other, "b.json": other, "e.json": one}
    assert read(path)["dumps"]["b.json"] == before


def test_dump_that_cannot_be_judged_replaces_no_usage(tmp_path: Path, usages: dict[str, Usage]) -> None:
    path = tmp_path / "usage.json"
    saved.update(path, {"a.json": usages["a.json"]})
    done = saved.update(path, {"a.json": usages["c.json"], "c.json": usages["c.json"]})
    assert (done.written, done.kept) == (["c.json"], ["a.json"])
    assert saved.load(path) == {"a.json": usages["a.json"], "c.json": usages["c.json"]}


def test_comparison_is_of_all_usages_in_the_file_and_never_of_an_older_one(
    tmp_path: Path, usages: dict[str, Usage]
) -> None:
    path = tmp_path / "usage.json"
    reference = Reference(name="a.json", usage=usages["a.json"], subjects=["b.json"])
    saved.update(path, usages)
    saved.update(path, {"b.json": usages["b.json"]}, reference)
    subjects = read(path)["comparison"]["subjects"]
    assert {name: one["shapes"]["covered"] for name, one in subjects.items()} == {"b.json": 5, "d.json": 5}
    saved.update(path, {"b.json": usages["b.json"]})
    assert "comparison" not in read(path)
    # A new dump of the reference's own name is compared, as in CI with the committed usage.
    saved.update(
        path, {"a.json": usages["b.json"]}, Reference(name="a.json", usage=usages["a.json"], subjects=["a.json"])
    )
    assert sorted(read(path)["comparison"]["subjects"]) == ["a.json", "b.json", "d.json"]


def test_target_that_holds_something_else_is_refused(tmp_path: Path, usages: dict[str, Usage]) -> None:
    saved.update(tmp_path / "usage.json", usages)
    for fine in ("usage.json", "absent.json", "empty.json"):
        (tmp_path / "empty.json").touch()
        saved.check_target(tmp_path / fine)
    for path, line in {
        write(tmp_path / "dump.json", etcd(complete())): "is no saved usage, and would be overwritten",
        write(tmp_path / "newer.json", {"format": 2, "dumps": {}}): "is a saved usage of format 2",
        Path("/dev/null"): "is no regular file, and would be replaced",
    }.items():
        with pytest.raises(DumpError, match=line) as error:
            saved.check_target(path)
        assert explained(str(error.value))
    for path in (tmp_path, tmp_path / "absent" / "usage.json"):
        with pytest.raises(DumpError, match="cannot be written: name a file in a folder that exists"):
            saved.check_target(path)


def test_saved_usage_stays_whole_if_it_cannot_be_written(
    tmp_path: Path, usages: dict[str, Usage], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "usage.json"
    saved.update(path, {"a.json": usages["a.json"]})
    before = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        saved.update(path, {"a.json": usages["b.json"]})
    assert path.read_bytes() == before
    assert [part for part in tmp_path.iterdir() if part.suffix == ".part"] == []


def test_packed_usage_is_the_same_each_time(tmp_path: Path, usages: dict[str, Usage]) -> None:
    for name in ("a.gz", "b.gz"):
        saved.update(tmp_path / name, usages)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()).startswith(b'{\n "format": 1,')


def test_file_and_folder_are_brought_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content before the name, else a crash could leave an empty file under it."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append(f"{'folder' if is_folder else 'file'}, {(tmp_path / 'usage.json').exists()}")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "usage.json", b"{}")
    assert synced == ["file, False", "folder, True"]
