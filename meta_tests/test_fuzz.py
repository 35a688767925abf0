"""Files that are broken at random end in a usage or in one line; `make fuzz` tries others."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from meta_tests import fuzz

if TYPE_CHECKING:
    from pathlib import Path

SEEDS = range(150)


def test_broken_dump(tmp_path: Path) -> None:
    lines: Counter[str] = Counter()
    for seed in SEEDS:
        path = tmp_path / f"{seed}.json"
        path.write_bytes(fuzz.broken(seed, fuzz.dumps()))
        lines[(fuzz.check_dump(path) or "judged")[:12]] += 1
    # Else the seeds would try little.
    assert 15 < lines["judged"] < 100
    assert len(lines) > 10


def test_broken_dump_of_another_kind(tmp_path: Path) -> None:
    lines: Counter[str] = Counter()
    for seed in SEEDS:
        path = tmp_path / f"{seed}.json"
        path.write_bytes(fuzz.broken(seed, fuzz.kinds()))
        lines[(fuzz.check_dump(path) or "judged")[:12]] += 1
    assert 15 < lines["judged"] < 100
    assert len(lines) > 10


def test_broken_saved_usage(tmp_path: Path) -> None:
    for seed in SEEDS:
        path = tmp_path / f"{seed}.json"
        path.write_bytes(fuzz.broken(seed, fuzz.usages()))
        fuzz.check_saved(path)
