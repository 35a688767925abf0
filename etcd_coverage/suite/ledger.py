"""What a run was asked for, and what its tests judged: a run that asked for a verdict is not green without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from etcd_coverage.text import some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from etcd_coverage.suite.run import Run

LEDGER = pytest.StashKey["Ledger"]()
"""Where pytest's config keeps the ledger."""

DUMP = "dump"
"""The property of a test's report that names the dump it is about."""

FINDINGS = "findings"
"""The property that counts what a test found in the dump; a test that did not look has none."""

COMPARED = "compared"
"""The property that names what a test compared the dump with."""

GATED = "gated"
"""The property that says that a test held the dump to the gates."""


class Ledger:
    """What the tests of this run judged, by the properties of their reports, which come from workers too.

    ``findings`` holds, by name of dump, the number of findings of each failed or passed test; ``compared`` the dumps
    that were compared, ``gated`` those held to the gates; ``failed`` those of which a test failed.
    """

    def __init__(self) -> None:
        self.has_run = False
        self.findings: dict[str, dict[str, int]] = {}
        self.compared: set[str] = set()
        self.gated: set[str] = set()
        self.failed: set[str] = set()

    def record(self, report: pytest.TestReport, run: Run) -> None:
        """Take in the report of a test, if it is about a dump of this run."""
        properties = dict(report.user_properties)
        name = properties.get(DUMP)
        if not isinstance(name, str) or name not in run.sources:
            return
        if FINDINGS in properties:
            self.findings.setdefault(name, {})[report.nodeid] = int(str(properties[FINDINGS]))
        if COMPARED in properties:
            self.compared.add(name)
        if GATED in properties:
            self.gated.add(name)
        if report.failed:
            self.failed.add(name)

    def judged(self) -> set[str]:
        """Return the names of the dumps with any verdict."""
        return self.findings.keys() | self.compared | self.gated | self.failed

    def unreported(self, name: str, run: Run) -> int:
        """Return the number of findings in the dump that no test of this run reported."""
        usage = run.usages.get(name)
        if usage is None or usage.error is not None:
            return 0
        return max(0, len(usage.findings) - sum(self.findings.get(name, {}).values()))

    def lacking(self, asked: Sequence[str], run: Run) -> str:
        """Return, in one line, which verdict was asked for (by these options) and not given; empty if all were."""
        if not asked or not self.has_run:
            return ""
        options = ", ".join(asked)
        if not run.sources:
            return f"no dumps in {run.place}: NOTHING WAS JUDGED, though asked for by {options}"
        if run.empty_places:
            return f"no dumps in {', '.join(run.empty_places)}: NOTHING WAS JUDGED there, though asked for by {options}"
        if not self.judged():
            return f"NOTHING WAS JUDGED, though asked for by {options}: no test that judges a dump ran; {_SELECTION}"
        if run.gates.min_contract is not None and (left := self._not_held(run)):
            return f"NOT HELD TO THE GATES: {some(left)}, though asked for by {options}: {_NOT_RUN}"
        if run.reference is None:
            return self._not_judged(options, run)
        if not run.subjects():
            return f"NOTHING WAS COMPARED: no dump in {run.place} but the reference {run.reference.name} itself"
        if left := [name for name in run.subjects() if name not in self.compared | self.failed]:
            return f"NOT COMPARED: {some(left)}, though asked for by {options}: {_NOT_RUN}"
        return ""

    def _not_held(self, run: Run) -> list[str]:
        return [name for name in run.held_to_gates() if name not in self.gated | self.failed]

    def _not_judged(self, options: str, run: Run) -> str:
        if left := [name for name in run.sources if name not in self.judged()]:
            return f"NOT JUDGED: {some(left)}, asked for by {options}: to leave out dumps, name the others"
        if left := [name for name in run.sources if self.unreported(name, run)]:
            return f"FINDINGS NOT REPORTED: {some(left)}: the tests that report them did not run; {_SELECTION}"
        return ""


_SELECTION = "look at the paths, -k, -m, --deselect and --lf"
_NOT_RUN = f"test_coverage did not run; {_SELECTION}"
