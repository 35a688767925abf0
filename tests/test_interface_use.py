"""How Kubernetes used etcd, judged dump by dump: the suite's own purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from etcd_coverage.classify import LEASE_GRANT, UNEXPECTED_METHOD
from etcd_coverage.reference import GRPC_METHODS, GrpcMethod
from etcd_coverage.usage import can_call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from etcd_coverage.classify import Finding
    from etcd_coverage.usage import Usage

    ExpectNone = Callable[[Sequence[Finding]], None]

WITH_CALL_PATTERNS = [pytest.param(method, id=method.name) for method in GRPC_METHODS if method.call_patterns]


class TestInterfaceUse:
    """Each test fails once, with all that nobody expected."""

    def test_only_expected_methods_were_called(self, judged: Usage, expect_none: ExpectNone) -> None:
        expect_none([finding for finding in judged.findings if finding.id == UNEXPECTED_METHOD])

    @pytest.mark.parametrize("method", WITH_CALL_PATTERNS)
    def test_method_usage(
        self, judged: Usage, method: GrpcMethod, kubernetes_version: str, expect_none: ExpectNone
    ) -> None:
        called = any(row.grpc_method == method.name for row in judged.rows)
        if not called and not can_call(method, kubernetes_version):
            pytest.skip(f"{method.name} came with Kubernetes {method.since}, this dump is of {kubernetes_version}")
        expect_none([finding for finding in judged.findings if finding.grpc_method == method.name])

    def test_lease_grant(self, judged: Usage, expect_none: ExpectNone) -> None:
        expect_none([finding for finding in judged.findings if finding.grpc_method == LEASE_GRANT])
