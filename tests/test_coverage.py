"""How each dump covers the reference: passes unless a gate is set and not met."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Verdict
    from etcd_coverage.usage import Usage


def test_coverage(verdict: Verdict, reference: Usage) -> None:
    verdict.expect_covered(reference)
