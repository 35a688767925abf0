"""What the reference expects and no usage has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from etcd_coverage import unseen
from etcd_coverage.reference import short_name
from meta_tests.builder import complete, etcd, write
from meta_tests.go_original import CALL_PATTERNS, KEYS, RESOURCES

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[1]
# By hand: neither a demo dump's tables nor those of Kubernetes 1.36 and 1.37 in meta_tests/dumps/ have these.
NEVER = [
    "call pattern Keys of KV/Range",
    "arg keysOnly of KV/Range",
    "arg readOnly of KV/Txn",
    "arg physical of KV/Compact",
    "arg fragment of Watch/Watch",
]


# The rows that the Go original has: what else is listed comes from rows added to them.
METHODS = tuple(short_name(method) for method in CALL_PATTERNS)
KNOWN = re.compile(
    f"gRPC method ({'|'.join(METHODS)})"
    + "".join(
        f"|call pattern ({'|'.join(names)}) of {short_name(method)}" for method, names in CALL_PATTERNS.items() if names
    )
    + f"|arg [A-Za-z_]+ of ({'|'.join(METHODS)})|special key ({'|'.join(KEYS)})|special resource ({'|'.join(RESOURCES)})"
)


def known(lines: list[str]) -> list[str]:
    return [line for line in lines if KNOWN.fullmatch(line)]


def test_rows_that_no_demo_dump_has(capsys: pytest.CaptureFixture[str]) -> None:
    usages = [str(path) for path in sorted((ROOT / "usage").glob("*.json"))]
    assert unseen.main(usages) == 0
    assert known(capsys.readouterr().out.splitlines()) == NEVER


def test_a_release_without_a_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert unseen.main([str(ROOT / "usage" / "kubernetes-1.34.json")]) == 0
    assert known(capsys.readouterr().out.splitlines())[:3] == [*NEVER[:2], "gRPC method KV/RangeStream"]


def test_rows_that_a_small_dump_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "dump.json", etcd(complete()))
    assert unseen.main([str(path)]) == 0
    found = capsys.readouterr().out.splitlines()
    assert "call pattern Healthcheck of KV/Range" in found
    assert "special key /registry/health" in found
    assert "special resource services" in found
    assert "call pattern Get of KV/Range" not in found
    # It is declared as shadowed: it can never be chosen.
    assert not [line for line in found if "GetCurrentRevision" in line]


def test_a_file_that_is_no_dump_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "dump.json", "[1]")
    assert unseen.main([str(path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith(f"error: {path}: is JSON, but not a dump")
    assert unseen.main([str(tmp_path / "gone.json")]) == 1
    assert "does not exist" in capsys.readouterr().err
