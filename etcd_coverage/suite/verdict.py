"""What the judging tests demand of a dump's usage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from etcd_coverage.reports import terminal as tables
from etcd_coverage.suite.run import RUN, UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from etcd_coverage.judging.usage import Finding, Usage

JUDGED_BY = "tests/test_interface_use.py::TestInterfaceUse::test_only_expected_methods_were_called"


class Verdict:
    """What the tests of one dump demand of its usage."""

    def __init__(self, name: str, judged: Usage, request: pytest.FixtureRequest) -> None:
        self._name = name
        self._usage = judged
        self._config = request.config
        self._run = request.config.stash[RUN]
        self._id = request.node.callspec.id
        self._properties = request.node.user_properties
        self._properties.append(("dump", name))
        self.kubernetes_version = self._run.release(name)

    @property
    def usage(self) -> Usage:
        """The usage; if the dump could not be read, its first test fails and says why, the others are skipped."""
        if self._usage.error is not None:
            unreadable = self._config.stash[UNREADABLE]
            if self._name in unreadable:
                pytest.skip("the dump cannot be judged: see its first failure")
            unreadable.add(self._name)
            pytest.fail(self._usage.error, pytrace=False)
        return self._usage

    def expect_none(self, findings: Sequence[Finding]) -> None:
        """Fail once with all of the findings, if there are any."""
        self._properties.append(("findings", len(findings)))
        if findings:
            pytest.fail(tables.failure_text(findings, self._config.getoption("jaeger_url")), pytrace=False)

    def expect_covered(self, reference: Usage) -> None:
        """Fail once with everything that the gates find in the comparison with the reference."""
        assert self.usage.error is None
        if reference.error is not None:
            pytest.fail(reference.error, pytrace=False)
        folder = self._config.getoption("testdata")
        text = self._run.failure(
            self._name,
            f"{JUDGED_BY}[{self._id}]",
            [f"--testdata={folder}"] if folder else [],
            self._config.getoption("jaeger_url"),
        )
        if text:
            pytest.fail(text, pytrace=False)
