"""Parity with etcd's tests/robustness/coverage, figure by figure, by running it beside this suite.

`make tools` compiles it from its Go module; none of its files is in this project. What differs on purpose stands in
`meta_tests.go_original_departures`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from etcd_coverage.judging.judge import judge
from meta_tests import go_original_departures as departures
from meta_tests import mutants
from meta_tests.go_original import its_rows_alone
from meta_tests.go_original_run import COLUMNS, DOES_NOT_END, PROGRAM, Figures, Output, judge_by_original

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from etcd_coverage.judging.usage import Usage
    from meta_tests.go_original_departures import JSON, InputDeparture, OutputDeparture, Refusal

ROOT = Path(__file__).parents[1]
# One of those with the same content: some dumps at hand are copies of the project's own.
DUMPS = {
    f"{path.parent.name}-{path.name}": path
    for path in {
        hashlib.sha256(path.read_bytes()).digest(): path
        for folder in (ROOT.parent / "shared" / "dumps", ROOT / "meta_tests" / "dumps", ROOT / "testdata")
        for path in sorted(folder.glob("*.gz"))
    }.values()
}
MUTANTS = 300
MALFORMED = 150
MINUTES = 10 * 60
HANGS = 5
"""Seconds after which a process that judges a dump of a few spans does not end."""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not PROGRAM.exists(), reason=f"no {PROGRAM.name} in .tools/bin: make parity"),
]


def usage_of(path: Path) -> Usage:
    """Return what this suite makes of a dump, by the rows of the reference that the original has too."""
    with its_rows_alone():
        return judge(path)


class Pair(NamedTuple):
    """A dump, judged by both."""

    original: Output
    usage: Usage


def compare(original: Output, usage: Usage) -> None:
    """Fail unless the figures are equal, and each example that the original prints is reported here too."""
    assert (usage.error, original.refusal) == (None, "")
    figures = with_any_invalid_key(original.figures())
    expected = departures.as_original_reports(usage)
    assert figures == expected
    for method in COLUMNS:
        unknown = departures.unknown_keys(usage, method)
        if not unknown and method in figures.tables:
            assert list(figures.tables[method].rows) == list(expected.tables[method].rows)
        # A text where a number is due is said to be one here, and to be false there.
        reported = {
            finding.message.replace("=text", "=false") for finding in usage.findings if finding.grpc_method == method
        }
        reported |= {departures.NEW_KEY + departures.as_original_prints(key) for key in unknown}
        assert set(original.examples(method)) <= reported


def with_any_invalid_key(figures: Figures) -> Figures:
    """Return the figures without the names of invalid keys of leases, of which the original prints any."""
    problems: Counter[str] = Counter()
    for message, number in figures.lease_problems.items():
        problems[departures.lease_problem(message)] += number
    return replace(figures, lease_problems=problems)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    folder = tmp_path_factory.mktemp("real")
    paths = {}
    for name, path in DUMPS.items():
        paths[name] = folder / name
        with gzip.open(path) as packed, paths[name].open("wb") as file:
            shutil.copyfileobj(packed, file)
    outputs = judge_by_original(paths, folder / "original", MINUTES)
    for unpacked in paths.values():
        unpacked.unlink()
    return {name: Pair(outputs[name], usage_of(path)) for name, path in DUMPS.items()}


@pytest.mark.parametrize("name", DUMPS)
def test_real_dump(real: dict[str, Pair], name: str) -> None:
    original, usage = real[name]
    assert original.figures().total_calls > 0
    compare(original, usage)


def judge_both(folder: Path, dumps: Iterable[JSON], as_original: Callable[[JSON], JSON]) -> list[Pair]:
    """Judge dumps by both, the original after what it reads otherwise was rewritten."""
    mine, rewritten = folder / "mine", folder / "rewritten"
    mine.mkdir()
    rewritten.mkdir()
    names = []
    for number, dump in enumerate(dumps):
        names.append(f"{number:04}.json")
        (mine / names[-1]).write_bytes(departures.written(dump))
        (rewritten / names[-1]).write_bytes(departures.written(as_original(dump)))
    outputs = judge_by_original({name: rewritten / name for name in names}, folder / "original", MINUTES)
    return [Pair(outputs[name], usage_of(mine / name)) for name in names]


@pytest.fixture(scope="module")
def base() -> list[JSON]:
    """Real dumps to make mutants of."""
    return [
        json.loads(gzip.decompress((ROOT / "meta_tests" / "dumps" / f"{name}.json.gz").read_bytes()))
        for name in ("kubernetes-1.36", "kubernetes-1.37", "robustness")
    ]


@pytest.fixture(scope="module")
def mutated(base: list[JSON], tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    dumps = (mutants.mutate(seed, base) for seed in range(MUTANTS))
    return judge_both(tmp_path_factory.mktemp("mutants"), dumps, departures.as_original_reads)


@pytest.fixture(scope="module")
def malformed(base: list[JSON], tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    dumps = (mutants.mutate_malformed(seed, base) for seed in range(MALFORMED))
    # As they are: both read the rest of these dumps alike.
    return judge_both(tmp_path_factory.mktemp("malformed"), dumps, lambda dump: dump)


@pytest.mark.parametrize("seed", range(MUTANTS))
def test_mutant(mutated: list[Pair], seed: int) -> None:
    judged_alike(*mutated[seed])


@pytest.mark.parametrize("seed", range(MALFORMED))
def test_malformed_mutant(malformed: list[Pair], seed: int) -> None:
    judged_alike(*malformed[seed])


def judged_alike(original: Output, usage: Usage) -> None:
    """Fail unless both refuse the dump, or both judge it with equal figures."""
    if original.refusal:
        assert usage.error, f"the original refuses it: {original.refusal}"
    elif not any(refusal.error in (usage.error or "") for refusal in departures.REFUSALS):
        compare(original, usage)


def test_most_mutants_are_judged(mutated: list[Pair], malformed: list[Pair]) -> None:
    """Else they would compare nothing."""
    assert sum(not original.refusal for original, _ in mutated) > MUTANTS * 0.8
    assert sum(bool(original.refusal) for original, _ in malformed) > MALFORMED * 0.8


def run_both(folder: Path, content: bytes, timeout_seconds: float = MINUTES) -> Pair:
    folder.mkdir()
    path = folder / "dump.json"
    path.write_bytes(content)
    return Pair(judge_by_original({path.name: path}, folder / "original", timeout_seconds)[path.name], usage_of(path))


@pytest.mark.parametrize("departure", departures.INPUT, ids=lambda row: row.id)
def test_departure_of_input(departure: InputDeparture, tmp_path: Path) -> None:
    """The original departs on the example, else the row is to go; of the example rewritten it reads the same."""
    hangs = departure.stops == DOES_NOT_END
    content = departure.write(departure.example)
    original, usage = run_both(tmp_path / "as it is", content, HANGS if hangs else MINUTES)
    assert usage.error is None
    if departure.stops:
        assert original.refusal.startswith(departure.stops)
    else:
        assert original.figures() != departures.as_original_reports(usage)
    rewritten, _ = run_both(tmp_path / "rewritten", departures.written(departure.as_original(departure.example)))
    compare(rewritten, usage)


@pytest.mark.parametrize("departure", departures.OUTPUT, ids=lambda row: row.id)
def test_departure_of_output(departure: OutputDeparture, tmp_path: Path) -> None:
    """The figures are equal, but not without the departure, else its row is to go."""
    original, usage = run_both(tmp_path / "dump", departures.written(departure.example))
    compare(original, usage)
    assert original.figures() != departures.as_original_reports(usage, but=departure.id)


@pytest.mark.parametrize("departure", departures.REFUSALS, ids=lambda row: row.id)
def test_refusal(departure: Refusal, tmp_path: Path) -> None:
    original, usage = run_both(tmp_path / "dump", departures.written(departure.example))
    assert departure.error in (usage.error or "")
    assert not original.refusal
