"""The sampler on dumps written by hand, and on a real one."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from etcd_coverage import sample
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging import judge, usage
from meta_tests.builder import GET, JSON, LEASE_GRANT, PUT, RANGE, TXN, attributes, call, dump, resource, write

DUMPS = Path(__file__).parent / "dumps"


def trace(number: int, spans: list[JSON], service: str = "etcd", padding: str = "") -> JSON:
    """Return the spans as a trace of their own: Jaeger writes a resource for each."""
    made = resource([one | {"traceId": f"{number:032x}"} for one in spans], service)
    made["resource"]["attributes"] += attributes({"host.name": padding})
    return made


def traces_of(path: Path) -> list[int]:
    """Return the numbers of the traces in a dump, in its order."""
    data = path.read_bytes()
    content: Any = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    numbers = [
        int(span["traceId"], 16)
        for of_resource in content["result"]["resourceSpans"]
        for scope in of_resource["scopeSpans"]
        for span in scope["spans"]
    ]
    return list(dict.fromkeys(numbers))


def random_hex(number: int) -> str:
    """Return text that no compression makes small."""
    return "".join(hashlib.sha256(f"{number}-{part}".encode()).hexdigest() for part in range(8))


def test_all_of_a_small_dump_is_taken(tmp_path: Path) -> None:
    whole = dump(*(trace(number, call(1, RANGE, GET)) for number in range(1, 30)))
    path = write(tmp_path / "whole.json", whole)
    assert sample.sample(path, tmp_path / "sample.json") == (29, 29)
    assert json.loads((tmp_path / "sample.json").read_bytes()) == whole


def test_a_rare_row_is_in_and_the_size_is_kept(tmp_path: Path) -> None:
    usual = [trace(number, call(1, RANGE, GET), padding=random_hex(number)) for number in range(1, 400)]
    rare = trace(500, call(1, TXN, PUT), padding=random_hex(500))
    path = write(tmp_path / "whole.json.gz", dump(*usual[:200], rare, *usual[200:]))
    output = tmp_path / "sample.json.gz"
    taken, of = sample.sample(path, output, size=20_000)
    found = traces_of(output)
    assert (len(found), of) == (taken, 400)
    assert 500 in found
    assert 15_000 < output.stat().st_size <= 20_000
    # In the order of the dump.
    assert found[: found.index(500)] == [number for number in found if number <= 200]
    again = tmp_path / "again.json.gz"
    sample.sample(path, again, size=20_000)
    assert again.read_bytes() == output.read_bytes()


def test_a_lease_is_taken_with_all_its_transactions_or_not_at_all(tmp_path: Path) -> None:
    traces = []
    for lease in range(1, 41):
        grant = trace(lease * 100, call(1, LEASE_GRANT, {"id": lease, "ttl": 15}), padding=random_hex(lease))
        puts = [
            trace(lease * 100 + number, call(1, TXN, PUT | {"success_first_lease": lease}), padding=random_hex(number))
            for number in range(1, 4)
        ]
        traces += [puts[0], grant, *puts[1:]]
    path = write(tmp_path / "whole.json", dump(*traces))
    taken, of = sample.sample(path, tmp_path / "sample.json", size=10_000)
    assert (taken % 4, of) == (0, 160)
    found = traces_of(tmp_path / "sample.json")
    leases = {number // 100 for number in found}
    assert 4 <= len(leases) < 40
    assert sorted(found) == [lease * 100 + number for lease in sorted(leases) for number in range(4)]
    (row,) = judge.judge(tmp_path / "sample.json").leases
    assert (row.key_pattern, row.calls, row.uses) == (
        "/registry/{resource}/{namespace}/{name}",
        taken // 4,
        3 * taken // 4,
    )


def test_a_trace_is_taken_with_the_spans_of_every_service(tmp_path: Path) -> None:
    whole = dump(
        trace(1, call(1, RANGE, GET)),
        trace(2, call(1, RANGE, GET)),  # etcd's alone: the suite leaves it out where the apiserver has traces
        trace(1, [{"spanId": "00000000000000cc", "name": "List etcd3", "kind": 1}], "apiserver"),
    )
    path = write(tmp_path / "whole.json", whole)
    assert sample.sample(path, tmp_path / "sample.json") == (1, 1)
    first, _, third = whole["result"]["resourceSpans"]
    assert json.loads((tmp_path / "sample.json").read_bytes()) == dump(first, third)


def test_a_resource_of_several_traces_is_taken_apart(tmp_path: Path) -> None:
    several = [one | {"traceId": f"{number:032X}"} for number in range(1, 101) for one in call(number, RANGE, GET)]
    path = write(tmp_path / "whole.json", dump(resource(several)))
    taken, of = sample.sample(path, tmp_path / "sample.json", size=1500)
    assert (of, len(traces_of(tmp_path / "sample.json"))) == (100, taken)
    assert 4 <= taken < 100


@pytest.mark.parametrize(
    "name", [pytest.param("kubernetes-1.36.json.gz", marks=pytest.mark.integration), "robustness.json.gz"]
)
@pytest.mark.integration
def test_a_sample_has_every_row_and_finding_of_a_real_dump(tmp_path: Path, name: str) -> None:
    output = tmp_path / name
    assert sample.main([str(DUMPS / name), "-o", str(output), "--size", "300000"]) == 0
    whole, part = judge.judge(DUMPS / name), judge.judge(output)

    def rows(of: usage.Usage) -> set[tuple[object, ...]]:
        return {
            (row.grpc_method, row.call_pattern, row.key_pattern, row.args, row.contract_calls > 0) for row in of.rows
        }

    assert rows(part) == rows(whole)
    assert {(lease.key_pattern, lease.ttl_seconds // lease.calls) for lease in part.leases} == {
        (lease.key_pattern, lease.ttl_seconds // lease.calls) for lease in whole.leases
    }
    assert {(one.id, one.message) for one in part.findings} == {(one.id, one.message) for one in whole.findings}
    assert output.stat().st_size <= 300_000


@pytest.mark.parametrize(
    ("content", "size", "message"),
    [
        ({"result": {"resourceSpans": []}}, "10", "has no calls of etcd: there is nothing to sample"),
        (
            dump(trace(1, call(1, RANGE, GET))),
            "10",
            "bytes are the least that has all its rows and their leases: raise --size",
        ),
        ("{", "10", "is truncated JSON"),
        ('{"resourceSpans": []}', "10", "samples are made of answers of Jaeger's API v3 alone"),
    ],
)
def test_what_cannot_be_sampled_is_told(
    tmp_path: Path, content: JSON | str, size: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "whole.json", content)
    assert sample.main([str(path), "-o", str(tmp_path / "sample.json"), "--size", size]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {path}: ")
    assert message in line
    assert not (tmp_path / "sample.json").exists()


def test_a_missing_dump_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sample.main([str(tmp_path / "none.json"), "-o", str(tmp_path / "sample.json")]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}/none.json: cannot be read: No such file or directory")


def test_the_size_is_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        sample.main(["dump.json", "-o", str(tmp_path / "sample.json"), "--size", "2M"])
    assert "'2M' is no number of bytes" in capsys.readouterr().err


def test_an_unusual_spelling_is_refused(tmp_path: Path) -> None:
    path = write(
        tmp_path / "whole.json", json.dumps(dump(trace(1, call(1, RANGE, GET)))).replace("traceId", "trace_id")
    )
    with pytest.raises(DumpError, match="is not spelled as Jaeger does it"):
        sample.sample(path, tmp_path / "sample.json")


def test_a_dump_in_parts_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sample.main([str(tmp_path), "-o", str(tmp_path / "sample.json")]) == 1
    assert "is a dump in parts: samples are made of answers of Jaeger's API v3 alone" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
