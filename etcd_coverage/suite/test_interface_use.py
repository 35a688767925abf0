"""How Kubernetes used etcd, judged dump by dump: the suite's own purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from etcd_coverage.judging.finding_kinds import QUALITY_IDS, UNEXPECTED_METHOD
from etcd_coverage.judging.leases import LEASE_GRANT
from etcd_coverage.reference import GRPC_METHODS, GrpcMethod
from etcd_coverage.releases import why_not

if TYPE_CHECKING:
    from etcd_coverage.judging.usage import Finding
    from etcd_coverage.suite.verdict import Verdict

# The other methods may be called in any way, or not at all; leases have a test of their own.
DEMANDED = [
    pytest.param(method, id=method.name)
    for method in GRPC_METHODS
    if (method.call_patterns or method.required) and method.name != LEASE_GRANT
]


class TestInterfaceUse:
    """Each test fails once, with all that nobody expected."""

    def test_only_expected_methods_were_called(self, etcd_verdict: Verdict) -> None:
        etcd_verdict.expect_none(
            [finding for finding in etcd_verdict.usage.findings if finding.id == UNEXPECTED_METHOD]
        )

    @pytest.mark.parametrize("method", DEMANDED)
    def test_method_usage(self, etcd_verdict: Verdict, method: GrpcMethod) -> None:
        called = method.name in etcd_verdict.usage.calls
        if not called and (why := why_not(method, etcd_verdict.kubernetes_version)):
            pytest.skip(f"{method.name} {why}")
        etcd_verdict.expect_none(_of_method(etcd_verdict, method.name))

    def test_lease_grant(self, etcd_verdict: Verdict) -> None:
        etcd_verdict.expect_none(_of_method(etcd_verdict, LEASE_GRANT))

    def test_data_quality(self, etcd_verdict: Verdict) -> None:
        etcd_verdict.expect_none([finding for finding in etcd_verdict.usage.findings if finding.id in QUALITY_IDS])


def _of_method(verdict: Verdict, method: str) -> list[Finding]:
    found = [finding for finding in verdict.usage.findings if finding.grpc_method == method]
    return [finding for finding in found if finding.id not in QUALITY_IDS]
