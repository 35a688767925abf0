"""One run of the suite: the dumps to judge, what they are compared with, what was computed so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from etcd_coverage.comparing import compare, gates, known_gaps, saved
from etcd_coverage.comparing.saved import Reference, Source
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging import usage
from etcd_coverage.releases import release_of
from etcd_coverage.reports import comparison as comparison_text
from etcd_coverage.reports import terminal as tables
from etcd_coverage.reports.view import quality_line
from etcd_coverage.text import escape

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from etcd_coverage.comparing.compare import Comparison
    from etcd_coverage.comparing.gates import Gates, Outcome
    from etcd_coverage.comparing.known_gaps import KnownGap
    from etcd_coverage.comparing.saved import Saved
    from etcd_coverage.judging.usage import Usage
    from etcd_coverage.reports.view import Report


RUN = pytest.StashKey["Run"]()
"""Where pytest's config keeps the run."""

UNREADABLE = pytest.StashKey[set[str]]()
"""Where it keeps the names of the dumps that could not be judged and failed for that."""


def ascii_id(name: str) -> str:
    """Return the name as pytest writes it into test ids: as Python writes it into ASCII sources."""
    return name.encode("unicode_escape").decode()


class Run:
    """What one run judges and demands.

    ``sources`` holds what there is to judge, ``usages`` what was judged so far, both by printable name. An empty
    ``kubernetes_version`` stands for what each name tells.
    """

    def __init__(self, folder: Path, kubernetes_version: str = "") -> None:
        self.place = escape(str(folder))
        self.usages: dict[str, Usage] = {}
        self.sources: dict[str, Source] = {}
        self.reference: Source | None = None
        self._reference_usage: Usage | None = None
        self._gates: Gates | None = None
        self._gaps: list[KnownGap] = []
        self._kubernetes_version = kubernetes_version
        if folder.is_dir():
            paths = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
            self.sources = {source.name: source for path in paths for source in saved.sources(path)}

    def header(self) -> list[str]:
        """Return the lines that tell what will be judged."""
        if not self.sources:
            return [f'etcd coverage: NO DUMPS in {self.place}: NOTHING WILL BE JUDGED (README.md, "Collect a dump")']
        number = "1 dump" if len(self.sources) == 1 else f"{len(self.sources)} dumps"
        lines = [f"etcd coverage: {number} in {self.place}"]
        for name, source in self.sources.items():
            size = f"{source.path.stat().st_size / 1e6:.1f} MB" if source.path.is_file() else "not a file"
            release = self.release(name)
            how = f", judged as Kubernetes {release}" if release else ""
            lines.append(f"  {name}: {size}{', a saved usage' if saved.is_saved(source.path) else how}")
        return lines

    def summary(self, verbosity: int, compared: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield what was found: kind ("section", "line" or "warning") and text.

        Tables are told from ``verbosity`` 1 on, and of what failed. ``compared`` names the dumps whose comparison was
        tested, as they stand in test ids.
        """
        if not self.sources:
            yield "warning", f"no dumps in {self.place}: NOTHING WAS JUDGED"
        judged = {name: one for name, one in sorted(self.usages.items()) if one.error is None}
        with_tables = {name for name, one in judged.items() if one.findings or verbosity > 0}
        if judged.keys() - with_tables and verbosity == 0:
            yield "section", "etcd coverage (-v shows the tables)"
        for name, one in judged.items():
            if name in with_tables:
                yield "section", f"etcd coverage: {name}"
                for title, table in tables.tables(one):
                    yield "line", f"{title}\n{table}\n"
                yield "line", f"data quality: {quality_line(one.quality)}"
            elif verbosity == 0:
                yield "line", f"{name}: {quality_line(one.quality)}"
            else:
                continue
            for warning in one.quality.warnings():
                yield "warning", f"warning: {warning}"
        for name, comparison in self.comparisons().items():
            assert self.reference is not None
            yield "section", f"etcd coverage: {name} against {self.reference.name}"
            was_tested = ascii_id(name) in compared
            for line in self.comparison_lines(name, comparison, verbose=verbosity > 0, was_tested=was_tested):
                yield "warning" if line.startswith("warning:") else "line", line
        for line in self.unused_gaps():
            yield "warning", line

    def compare_with(self, reference: str, demanded: Gates, gaps: Path | None) -> None:
        """Take what the text names as reference, and hold every other dump to the gates.

        Raises `DumpError`, a whole line, if the reference, the gaps or the dumps cannot be used.
        """
        try:
            self.reference = saved.find(reference)
        except DumpError as error:
            raise DumpError(f"--reference: {error}") from None
        # A dump may be large: it is read when its first test runs.
        if saved.is_saved(self.reference.path) and (problem := self.reference_usage().error):
            raise DumpError(f"--reference: {problem}")
        if demanded.are_set and not self.subjects():
            raise DumpError(f"--reference: there is no dump in {self.place} to compare with {self.reference.name}")
        self._gates = demanded
        if gaps is not None:
            try:
                self._gaps = known_gaps.read_gaps(gaps)
            except known_gaps.GapsError as error:
                raise DumpError(f"{escape(str(gaps))} {error}") from None

    def release(self, name: str) -> str:
        """Return the Kubernetes release ("X.Y") that the dump of that name is judged as; empty for the newest."""
        return self._kubernetes_version or release_of(name.rpartition(saved.SEPARATOR)[2])

    def judge(self, name: str) -> Usage:
        """Return the usage of the dump of that name."""
        source = self.sources[name]
        if self._reference_usage is not None and self.reference and saved.same(source, self.reference):
            self.usages[name] = self._reference_usage
        else:
            self.usages[name] = saved.usage_of(source, self.release(name))
        return self.usages[name]

    def reference_usage(self) -> Usage:
        """Return the usage of the reference, which must be there."""
        assert self.reference is not None
        if self._reference_usage is None:
            judged = None if self.reference.name in self.subjects() else self.usages.get(self.reference.name)
            self._reference_usage = judged or saved.usage_of(self.reference, self.release(self.reference.name))
        return self._reference_usage

    def subjects(self) -> list[str]:
        """Return the names of the dumps to compare: all but the reference itself; none without a reference."""
        if self.reference is None:
            return []
        return [name for name, source in self.sources.items() if not saved.same(source, self.reference)]

    def comparisons(self) -> dict[str, Comparison]:
        """Return the comparisons of all subjects that were judged so far, by name."""
        judged = [name for name in self.subjects() if name in self.usages and self.usages[name].error is None]
        if not judged or self.reference_usage().error is not None:
            return {}
        return {name: compare.compare(self.reference_usage(), self.usages[name]) for name in sorted(judged)}

    def outcome(self, name: str, comparison: Comparison) -> Outcome:
        """Return what the gates find."""
        return gates.hold(name, comparison, self._demanded, self._gaps)

    def failure(self, name: str, test_id: str, options: Sequence[str], jaeger_url: str) -> str:
        """Return everything that the gates fail a judged subject for, and the command that accepts it; or "".

        ``test_id`` names the test that judges this dump alone, ``options`` are those that it needs to find it.
        """
        assert self.reference is not None
        comparison = compare.compare(self.reference_usage(), self.usages[name])
        outcome = self.outcome(name, comparison)
        if not outcome.failures:
            return ""
        text = comparison_text.gates_text(
            outcome, self._demanded, self.reference_usage(), self.usages[name], jaeger_url
        )
        accept = saved.accept_command(name, self.reference, test_id, options)
        gap = f"\nor, for missing rows, add a [[gap]] to {known_gaps.KNOWN_GAPS}" if outcome.missing_rows else ""
        return f"{name} against {self.reference.name}\n{text}\nto accept the change: {accept}{gap}"

    def comparison_lines(self, name: str, comparison: Comparison, *, verbose: bool, was_tested: bool) -> Iterator[str]:
        """Yield what is told of a comparison: its tables if asked for or if a gate fails, then its summary."""
        outcome = self.outcome(name, comparison)
        if verbose or outcome.failures:
            for title, table in comparison_text.comparison_tables(comparison):
                yield f"{title}\n{table}\n"
        yield from comparison_text.comparison_summary(comparison, self.reference_usage(), self.usages[name])
        yield from comparison_text.gates_notes(outcome, self._demanded)
        if self._demanded.are_set and not was_tested:
            yield "warning: the gates were not judged: test_coverage did not run"

    def unused_gaps(self) -> Iterator[str]:
        """Yield a line for each known gap that matches nothing any more."""
        for gap in known_gaps.unused(self._gaps, self.comparisons(), self.subjects()):
            yield f"known gap that matches nothing any more, remove it: {gap}"

    def save(self, path: Path) -> Saved:
        """Bring the file up to date with what was judged."""
        reference = None
        if self.comparisons():
            assert self.reference is not None
            reference = Reference(name=self.reference.name, usage=self.reference_usage(), subjects=self.subjects())
        return saved.update(path, self.usages, reference)

    def properties(self) -> dict[str, str]:
        """Return counts and verdicts for the JUnit XML."""
        from etcd_coverage.reports import junit

        return junit.properties(self.report())

    def report(self, jaeger_url: str = "") -> Report:
        """Return what reports tell of everything that was judged."""
        from etcd_coverage.reports.view import Report

        comparisons = self.comparisons()
        outcomes = {name: self.outcome(name, comparison) for name, comparison in comparisons.items()}
        return Report(
            usages=self.usages,
            releases={name: self.release(name) for name in self.usages},
            reference=self.reference.name if self.reference else "",
            comparisons=comparisons,
            comparison_notes={name: self._notes(name, comparisons[name], outcomes[name]) for name in comparisons},
            gate_failures={name: outcome.failures for name, outcome in outcomes.items()},
            jaeger_url=jaeger_url,
        )

    def _notes(self, name: str, comparison: Comparison, outcome: Outcome) -> list[str]:
        subject = self.usages[name]
        notes = [
            *comparison_text.comparison_notes(self.reference_usage(), subject),
            *comparison_text.gates_notes(outcome, self._demanded),
        ]
        missing = [row for row in comparison.rows if row.status == compare.MISSING]
        if missing and (reasons := gates.doubts({row.grpc_method for row in missing}, subject)):
            notes.append(f"what is missing may be not recorded rather than not called: {', '.join(reasons)}")
        return notes

    def handed_over(self) -> dict[str, object]:
        """Return what was computed, as text, for another process of the same version."""
        computed = {name: usage.encode(one) for name, one in self.usages.items()}
        reference = usage.encode(self._reference_usage) if self._reference_usage else None
        return {"usages": computed, "reference": reference}

    def take_over(self, usages: dict[str, str], reference: str | None) -> None:
        """Add what another process computed."""
        self.usages |= {name: usage.decode(text) for name, text in usages.items()}
        if reference is not None:
            self._reference_usage = usage.decode(reference)

    @property
    def _demanded(self) -> Gates:
        return self._gates or gates.Gates()
