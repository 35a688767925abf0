"""How each dump covers the reference, and meets the gates: passes unless a gate is set and not met."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from etcd_coverage.judging.usage import Usage
    from etcd_coverage.suite.verdict import Verdict


def test_coverage(etcd_verdict: Verdict, etcd_reference: Usage | None) -> None:
    etcd_verdict.expect_gates_met(etcd_reference)
