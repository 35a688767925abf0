"""Dumps of an apiserver with another --etcd-prefix than /registry."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from etcd_coverage.judging.data_quality import Limits, with_quality_findings
from etcd_coverage.judging.judge import judge
from meta_tests.builder import GET, RANGE, call, etcd, write

if TYPE_CHECKING:
    from etcd_coverage.judging.usage import Usage

DEMO = Path(__file__).parents[1] / "testdata" / "kubernetes-1.37.json.gz"


def counts(usage: Usage) -> set[tuple[object, ...]]:
    rows = {(row.grpc_method, row.call_pattern, row.key_pattern, row.args, row.calls) for row in usage.rows}
    return rows | {(lease.key_pattern, lease.uses, lease.calls) for lease in usage.leases}


def test_a_dump_under_another_prefix_is_judged_as_the_same_dump_under_registry(tmp_path: Path) -> None:
    """The keys of a real dump are written under another prefix, as the apiserver would: health key and all."""
    text = gzip.decompress(DEMO.read_bytes())
    path = tmp_path / "dump.json"
    path.write_bytes(text.replace(b'"/registry/', b'"/kube/a/').replace(b'"/registry"', b'"/kube/a"'))
    plain = judge(DEMO, "1.37")
    found = judge(path, "1.37", "/kube/a")
    assert found.findings == plain.findings == []
    assert counts(found) == counts(plain)
    assert ("/registry/health", "Healthcheck") in {(row.key_pattern, row.call_pattern) for row in found.rows}

    without = with_quality_findings(judge(path, "1.37"), Limits())
    hints = [one.message for one in without.findings if one.id == "other-prefix"]
    assert len(hints) == 1
    assert hints[0].endswith("are under /kube/a: the apiserver runs with --etcd-prefix=/kube/a")


@pytest.mark.parametrize(
    ("prefix", "key", "known"),
    [
        ("/kube", "/kube/pods/default/web", True),
        ("/kube", "/registry/pods/default/web", False),
        ("/kube", "/kubes/pods/default/web", False),
        ("/kube", "/kube", False),
        ("/kube", "compact_rev_key", True),
        ("/kube", "/compact_rev_key", False),
        ("", "/pods/default/web", True),
        ("", "compact_rev_key", True),
        ("/registry", "/registry/pods/default/web", True),
        ("/registry", "/kube/pods/default/web", False),
    ],
)
def test_keys_of_other_prefixes_are_unknown(tmp_path: Path, prefix: str, key: str, known: bool) -> None:
    path = write(tmp_path / "dump.json", etcd(call(1, RANGE, GET | {"range_begin": key})))
    (row,) = judge(path, "1.36", prefix).rows
    assert row.known_key is known
    if not known:
        assert row.key_pattern == key
