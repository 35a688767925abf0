"""A dump in parts: split in any way, in kinds mixed, it gives the usage of the whole; and how folders are told apart."""

from __future__ import annotations

import copy
import gzip
from random import Random
from typing import TYPE_CHECKING

import msgspec
import pytest

from etcd_coverage.dumps.compressions import zstd
from etcd_coverage.dumps.parts import open_dump
from etcd_coverage.judging.judge import judge
from etcd_coverage.suite.run import Run
from meta_tests.builder import GET, RANGE, call, complete, dump, etcd, resource, span, write
from meta_tests.converters import CONVERTERS, JSON, compact
from meta_tests.test_kinds import DEMOS, some_traces

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from etcd_coverage.judging.usage import Usage


def by_spans(found: JSON, number: int, random: Random) -> list[JSON]:
    """Return the dump in so many parts: each span in one of them at random, so that traces are split."""
    parts = [copy.deepcopy(found) for _ in range(number)]
    for at, one in enumerate(found["result"]["resourceSpans"]):
        for scope_at, scope in enumerate(one["scopeSpans"]):
            chosen = [random.randrange(number) for _ in scope["spans"]]
            for part, taken in enumerate(parts):
                spans = [each for each, of in zip(scope["spans"], chosen, strict=True) if of == part]
                taken["result"]["resourceSpans"][at]["scopeSpans"][scope_at]["spans"] = spans
    return parts


def without_examples(usage: Usage) -> JSON:
    """Return the usage but for what is only the first of several: which one is first depends on the order of parts."""

    def strip(value: object) -> object:
        if isinstance(value, dict):
            return {key: strip(one) for key, one in value.items() if key not in ("example", "orphan", "attributes")}
        return [strip(one) for one in value] if isinstance(value, list) else value

    found = strip(msgspec.to_builtins(usage))
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def sample() -> JSON:
    return some_traces(DEMOS[-1], 40)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.integration
def test_parts_of_mixed_kinds_give_the_usage_of_the_whole(tmp_path: Path, sample: JSON, seed: int) -> None:
    random = Random(seed)
    whole = judge(write(tmp_path / "whole.json", sample))
    packs: list[Callable[[bytes], bytes]] = [gzip.compress, zstd.compress, bytes]
    for number, part in enumerate(by_spans(sample, 5, random)):
        name, convert = random.choice(list(CONVERTERS.items()))
        path = tmp_path / "parts" / random.choice(["a", "b", ""]) / f"{number} {name}".replace("/", " ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(random.choice(packs)(convert(part)))
    found = judge(tmp_path / "parts")
    assert found.error is None
    assert without_examples(found) == without_examples(whole)
    assert found.quality.conflicting_spans == []


@pytest.mark.parametrize("name", ["OTLP, lines", "OTLP, protobuf", "jaeger UI", "tempo"])
def test_a_span_in_two_parts_counts_once(tmp_path: Path, sample: JSON, name: str) -> None:
    """In two kinds, each spelled in its own way: it is no other content."""
    whole = judge(write(tmp_path / "whole.json", sample))
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder / "1.json", sample)
    write(folder / "2", CONVERTERS[name](sample))
    found = judge(folder)
    assert (found.calls, found.rows, found.leases) == (whole.calls, whole.rows, whole.leases)
    assert (
        found.quality.duplicate_spans
        == sum(len(scope["spans"]) for one in sample["result"]["resourceSpans"] for scope in one["scopeSpans"])
        - whole.quality.skipped_spans
    )
    conflicts = {(one.trace_id, one.span_id) for one in found.quality.conflicting_spans}
    # Jaeger makes texts of lists, which its UI's JSON does not have.
    assert conflicts == (with_lists(sample) if name == "jaeger UI" else set())


def with_lists(found: JSON) -> set[tuple[str, str]]:
    return {
        (each["traceId"], each["spanId"])
        for one in found["result"]["resourceSpans"]
        for scope in one["scopeSpans"]
        for each in scope["spans"]
        if any("arrayValue" in pair["value"] for pair in each.get("attributes", []))
    }


def test_another_content_in_another_part_is_a_conflict(tmp_path: Path) -> None:
    server, child = call(8, RANGE, GET)
    for number, limit in enumerate((1, 2)):
        write(
            tmp_path / f"{number}.json",
            etcd(
                [
                    *complete(),
                    server,
                    child | span(child["spanId"], server["spanId"], attributes=GET | {"limit": limit}),
                ]
            ),
        )
    found = judge(tmp_path).quality
    assert [one.span_id for one in found.conflicting_spans] == [child["spanId"]]


def test_an_error_names_the_part(tmp_path: Path) -> None:
    (tmp_path / "run" / "a").mkdir(parents=True)
    write(tmp_path / "run" / "good.json", etcd(complete()))
    write(tmp_path / "run" / "a" / "bad\x1b.json", '{"result": {')
    error = judge(tmp_path / "run").error
    assert error is not None
    assert error.startswith(
        f"{tmp_path}/run: part a/bad\\x1b.json: is truncated JSON: it ends at byte 12 in the middle"
    )
    write(tmp_path / "run" / "a" / "bad\x1b.json", dump({"resource": {}, "scopeSpans": []}))
    error = judge(tmp_path / "run").error
    assert error == (
        f"{tmp_path}/run: has a resource without service.name: a/bad\\x1b.json: resourceSpans[0]; "
        "OTLP demands it: check what exported these traces"
    )


def test_limit_noted_in_a_part_is_that_of_the_dump(tmp_path: Path) -> None:
    write(tmp_path / "1.json", compact(dump(resource(complete())) | {"etcdK8sCoverage": {"tracesLimit": 1}}))
    write(tmp_path / "2.json", dump(resource(call(9, RANGE, GET))))
    assert open_dump(tmp_path).traces_limit == 1
    assert judge(tmp_path).quality.is_clipped()


def test_dotfiles_and_links_to_folders_are_no_parts(tmp_path: Path) -> None:
    write(tmp_path / "1.json", etcd(complete()))
    write(tmp_path / ".index.json", "{}")
    (tmp_path / ".tmp").mkdir()
    write(tmp_path / ".tmp" / "half.json", "{")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert judge(tmp_path).error is None


def test_how_a_folder_of_dumps_and_a_dump_in_parts_are_told_apart(tmp_path: Path) -> None:
    for name in ("1.json", "run/1.json", "run/2.json", "received/1.json", "received/.index.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, etcd(complete()))

    def names(*paths: str, parts: bool = False) -> list[str]:
        return list(Run([str(tmp_path / path) for path in paths], parts=parts).sources)

    assert names("") == ["1.json", "received", "run"]
    assert names("run") == ["1.json", "2.json"]
    assert names("run", parts=True) == ["run"]
    assert names("received") == ["received"]
    assert names("run/", "received/", "1.json", parts=True) == ["run", "received", "1.json"]


def test_a_folder_that_is_given_from_within_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubernetes-1.36").mkdir()
    write(tmp_path / "kubernetes-1.36" / "1.json", etcd(complete()))
    monkeypatch.chdir(tmp_path / "kubernetes-1.36")
    run = Run(["."], parts=True)
    assert list(run.sources) == ["kubernetes-1.36"]
    assert run.release("kubernetes-1.36") == "1.36"
    size = (tmp_path / "kubernetes-1.36" / "1.json").stat().st_size / 1e6
    assert run.header() == [
        "etcd coverage: 1 dump in .",
        f"  kubernetes-1.36: a dump in parts, {size:.1f} MB, judged as Kubernetes 1.36",
    ]
