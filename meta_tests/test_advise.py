"""What is proposed where the change that fails a gate is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from etcd_coverage.comparing import saved
from etcd_coverage.comparing.advise import imitates, to_accept, to_accept_imitation
from etcd_coverage.comparing.compare import compare
from etcd_coverage.comparing.gates import Gates, hold
from etcd_coverage.comparing.saved import Source
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.usage import Finding, Usage
from etcd_coverage.reports.comparison import comparison_notes
from meta_tests.builder import RANGE
from meta_tests.test_compare import row, usage

ROOT = Path(__file__).parents[1]
SAME = "both are usages of the same dump: the comparison shows no change of Kubernetes or etcd"


def test_a_usage_of_that_name_is_replaced_and_another_one_gets_a_file_beside(tmp_path: Path) -> None:
    path = tmp_path / "usage.json"
    saved.update(path, {"a.json": usage(row(1))})
    assert to_accept("a.json", usage(row(2)), Source(path), ["judge", "a b"]) == [
        f"to accept the change: judge 'a b' --usage-json={path}"
    ]
    assert to_accept("b c.json.gz", usage(row(2)), Source(path), ["judge", "--x"]) == [
        f"to accept the change: judge --x '--usage-json={tmp_path}/b c.json'",
        f"and compare with it from then on: --reference='{tmp_path}/b c.json'",
    ]


def test_a_dump_as_reference_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dump = tmp_path / "kubernetes-1.36.json.gz"
    dump.touch()
    assert to_accept("folder.json::k.json", usage(), Source(dump), ["judge"])[0].endswith(" --usage-json=k.json")
    (tmp_path / "usage").mkdir()
    assert to_accept("k.json.gz", usage(), Source(dump), ["judge"])[0].endswith(" --usage-json=usage/k.json")


def test_usage_with_findings_is_no_reference(tmp_path: Path) -> None:
    odd = Usage(findings=[Finding(id="new-key-pattern", grpc_method=RANGE, message="k", count=1)])
    (line,) = to_accept("a.json", odd, Source(tmp_path / "usage.json"), ["judge"])
    assert line == "to accept the change, see to the 1 finding of a.json first: what nobody expects is no reference"


def test_limit_that_is_proposed_is_reached() -> None:
    reference = usage(row(2), row(1, RANGE, "Get", "/registry/{resource}"))
    gates = Gates(min_coverage=90, min_shape_coverage=100)
    made = compare(reference, usage(row(1)))
    assert to_accept_imitation("a.json", gates, hold("a.json", made, gates)) == [
        "to accept the change (a.json has no traces of an apiserver, so it is no reference itself):",
        "    set a limit that it reaches: --min-coverage=66.66",
    ]
    assert hold("a.json", made, Gates(min_coverage=66.66)).failures == []
    nothing = hold("a.json", compare(Usage(), Usage()), gates)
    assert nothing.failures != []
    assert to_accept_imitation("a.json", gates, nothing) == []


def test_robustness_dump_imitates_kubernetes_and_releases_do_not() -> None:
    names = ("kubernetes-1.36", "kubernetes-1.37", "robustness")
    old, new, robustness = (judge(ROOT / "meta_tests" / "dumps" / f"{name}.json.gz") for name in names)
    assert imitates(robustness, old)
    assert not imitates(new, old)
    assert not imitates(robustness, robustness)
    assert SAME not in comparison_notes(old, new)
    assert SAME not in comparison_notes(old, robustness)


@pytest.mark.parametrize("name", ["kubernetes-1.36", "kubernetes-1.37"])
def test_dump_compared_with_its_own_usage_is_noted(name: str) -> None:
    (own,) = saved.load(ROOT / "usage" / f"{name}.json").values()
    (other,) = saved.load(ROOT / "usage" / "kubernetes-1.35.json").values()
    judged = judge(ROOT / "testdata" / f"{name}.json.gz", name[-4:])
    assert SAME in comparison_notes(own, judged)
    assert SAME not in comparison_notes(other, judged)
    assert SAME not in comparison_notes(Usage(), Usage())
