"""What the judging tests demand of a dump's usage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from etcd_coverage.reports import terminal
from etcd_coverage.suite.ledger import COMPARED, DUMP, FINDINGS, GATED
from etcd_coverage.suite.run import RUN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from etcd_coverage.judging.usage import Finding, Usage

UNREADABLE = pytest.StashKey[dict[str, object]]()
"""Where pytest's config keeps, by name of dump, the test that fails since the dump cannot be judged."""


class Verdict:
    """What the tests of one dump demand of its usage."""

    def __init__(self, name: str, judged: Usage, request: pytest.FixtureRequest) -> None:
        self._name = name
        self._usage = judged
        self._config = request.config
        self._run = request.config.stash[RUN]
        # The same at each attempt and each repetition of a test.
        self._test = (request.function.__qualname__, request.node.callspec.params.get("method"))
        self._properties = request.node.user_properties
        self._record(DUMP, name)
        self.kubernetes_version = self._run.release(name)

    @property
    def usage(self) -> Usage:
        """The usage; if the dump could not be read, its first test fails and says why, the others are skipped."""
        self._fail_if_unreadable()
        return self._usage

    def expect_none(self, findings: Sequence[Finding]) -> None:
        """Fail once with all of the findings, if there are any."""
        self._record(FINDINGS, len(findings))
        if findings:
            source = self._run.sources[self._name]
            dump = "" if source.is_saved else str(source.path)
            pytest.fail(terminal.failure_text(findings, self._config.getoption("jaeger_url"), dump), pytrace=False)

    def expect_gates_met(self, reference: Usage | None) -> None:
        """Fail once with everything that the gates find in the dump, and in its comparison if there is a reference."""
        self._fail_if_unreadable()
        if reference is not None and reference.error is not None:
            pytest.fail(reference.error, pytrace=False)
        if self._run.reference is not None and self._name in self._run.subjects():
            self._record(COMPARED, self._run.reference.name)
        self._record(GATED, self._name)
        if text := self._run.failure(self._name, self._config.getoption("jaeger_url")):
            pytest.fail(text, pytrace=False)

    def _record(self, name: str, value: str | int) -> None:
        """Record the property once, also where a plugin runs the test again."""
        if (name, value) not in self._properties:
            self._properties.append((name, value))

    def _fail_if_unreadable(self) -> None:
        if self._usage.error is None:
            return
        if self._config.stash[UNREADABLE].setdefault(self._name, self._test) != self._test:
            pytest.skip("the dump cannot be judged: see its first failure")
        pytest.fail(self._usage.error, pytrace=False)
