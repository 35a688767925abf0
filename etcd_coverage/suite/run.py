"""One run of the suite: the dumps to judge, what they are compared with, what was computed so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from etcd_coverage.comparing import advise, compare, gates, known_gaps, saved
from etcd_coverage.comparing.saved import Reference, Source
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.dumps.parts import size_of
from etcd_coverage.judging import usage
from etcd_coverage.judging.data_quality import Limits, with_quality_findings
from etcd_coverage.judging.origin_counts import MOST_SAVED
from etcd_coverage.releases import release_of
from etcd_coverage.reports import comparison as comparison_text
from etcd_coverage.suite import inputs
from etcd_coverage.text import counted, escape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from etcd_coverage.comparing.compare import Comparison
    from etcd_coverage.comparing.gates import Gates, Outcome
    from etcd_coverage.comparing.known_gaps import KnownGap
    from etcd_coverage.comparing.saved import Saved
    from etcd_coverage.judging.usage import Usage
    from etcd_coverage.reports.view import Report


RUN = pytest.StashKey["Run"]()
"""Where pytest's config keeps the run."""


def ascii_id(name: str) -> str:
    """Return the name as pytest writes it into test ids: as Python writes it into ASCII sources."""
    return name.encode("unicode_escape").decode()


class Run:
    """What one run judges and demands.

    ``sources`` holds what there is to judge, ``usages`` what was judged so far, both by printable name. An empty
    ``kubernetes_version`` stands for what each name says; with ``parts`` each folder given is one dump.
    ``empty_places`` are paths with nothing to judge.
    """

    def __init__(self, paths: Sequence[str], kubernetes_version: str = "", *, parts: bool = False) -> None:
        """Find the dumps at the paths; `DumpError`, a whole line, says where there is nothing."""
        found = {path: inputs.sources_at(path, parts=parts) for path in paths}
        self.place = ", ".join(map(escape, paths))
        self.empty_places = [escape(path) for path, sources in found.items() if not sources]
        self.sources = inputs.named([source for sources in found.values() for source in sources])
        self.usages: dict[str, Usage] = {}
        self.reference: Source | None = None
        self.gates = gates.Gates()
        self.limits = Limits()
        self.by_test = False
        self._reference_usage: Usage | None = None
        self._comparisons: dict[str, Comparison] = {}
        self._gaps: list[KnownGap] = []
        self._kubernetes_version = kubernetes_version

    def header(self) -> list[str]:
        """Return the lines that tell what will be judged."""
        if not self.sources:
            return [f'etcd coverage: NO DUMPS in {self.place}: NOTHING WILL BE JUDGED (README.md, "Collect a dump")']
        lines = [f"etcd coverage: {counted(len(self.sources), 'dump')} in {self.place}"]
        for name, source in self.sources.items():
            size = f"{size_of(source.path) / 1e6:.1f} MB" if source.path.is_file() else "not a file"
            if source.path.is_dir():
                size = f"a dump in parts, {size_of(source.path) / 1e6:.1f} MB"
            release = self.release(name)
            how = f", judged as Kubernetes {release}" if release else ""
            lines.append(f"  {name}: {size}{', a saved usage' if source.is_saved else how}")
        return lines

    def compare_with(
        self, reference: str, demanded: Gates, gaps: Path | None, *, known: Usage | None = None, read: bool = True
    ) -> None:
        """Take what the text names as reference, and hold every other dump to the gates.

        ``known`` is the reference's usage if another process computed it; without ``read`` it is not read now. Raises
        `DumpError`, a whole line, if the reference, the gaps or the dumps cannot be used.
        """
        try:
            self.reference = saved.find(reference)
        except DumpError as error:
            raise DumpError(f"--reference: {error}") from None
        self._reference_usage = known
        if read and (problem := self.reference_usage().error):
            raise DumpError(f"--reference: {problem}")
        if demanded.are_set and not self.subjects():
            raise DumpError(f"--reference: there is no dump in {self.place} to compare with {self.reference.name}")
        if read and demanded.min_runs > (runs := usage.runs_of(self.reference_usage())):
            merge = "merge usages with python -m etcd_coverage.merge"
            raise DumpError(f"--min-runs={demanded.min_runs}: the reference is of {counted(runs, 'run')}: {merge}")
        self.gates = demanded
        if gaps is not None:
            try:
                self._gaps = known_gaps.read_gaps(gaps)
            except known_gaps.GapsError as error:
                raise DumpError(f"{escape(str(gaps))} {error}") from None

    def release(self, name: str) -> str:
        """Return the Kubernetes release ("X.Y") that the dump of that name is judged as; empty for the newest."""
        return self._release_of(self.sources[name])

    def _release_of(self, source: Source) -> str:
        return self._kubernetes_version or release_of(source.entry or source.path.name)

    def judge(self, name: str) -> Usage:
        """Return the usage of the dump of that name, which is read once however often it is asked for."""
        source = self.sources[name]
        if name not in self.usages:
            if self._reference_usage is not None and self.reference and saved.same(source, self.reference):
                found = self._reference_usage
            else:
                found = saved.usage_of(source, self.release(name))
            self.usages[name] = with_quality_findings(found, self.limits)
        return self.usages[name]

    def reference_usage(self) -> Usage:
        """Return the usage of the reference, which must be there."""
        assert self.reference is not None
        if self._reference_usage is None:
            self._reference_usage = saved.usage_of(self.reference, self._release_of(self.reference))
        return self._reference_usage

    def subjects(self) -> list[str]:
        """Return the names of the dumps to compare: all but the reference itself; none without a reference."""
        if self.reference is None:
            return []
        return [name for name, source in self.sources.items() if not saved.same(source, self.reference)]

    def held_to_gates(self) -> list[str]:
        """Return the names of the dumps that gates judge: all to compare, or all if one is demanded of each dump."""
        return self.subjects() if self.gates.min_contract is None else list(self.sources)

    def comparisons(self) -> dict[str, Comparison]:
        """Return the comparisons of all subjects that were judged so far, by name."""
        judged = [name for name in self.subjects() if name in self.usages and self.usages[name].error is None]
        if not judged or self.reference_usage().error is not None:
            return {}
        return {name: self._compared(name) for name in sorted(judged)}

    def comparison(self, name: str) -> Comparison | None:
        """Return how a judged dump compares with the reference; None if it is not to be compared."""
        return self._compared(name) if name in self.subjects() else None

    def _compared(self, name: str) -> Comparison:
        """Return the comparison, made once: tests, tables, reports and the saved usages all ask for it."""
        if name not in self._comparisons:
            self._comparisons[name] = compare.compare(self.reference_usage(), self.usages[name])
        return self._comparisons[name]

    def outcome(self, name: str, comparison: Comparison | None) -> Outcome:
        """Return what the gates find in a judged dump, and in its comparison if there is one."""
        reference = self.reference_usage() if comparison is not None else None
        by_origin = gates.hold_origins(name, self.usages[name], self.gates, comparison, reference)
        if comparison is None:
            return by_origin
        found = gates.hold(name, comparison, self.gates, self._gaps)
        return replace(
            found,
            failures=found.failures + by_origin.failures,
            below=found.below | by_origin.below,
            new_callers=by_origin.new_callers,
            outside=by_origin.outside,
        )

    def failure(self, name: str, jaeger_url: str) -> str:
        """Return everything that the gates fail a judged dump for, and the command that accepts it; or ""."""
        subject, comparison = self.usages[name], self.comparison(name)
        outcome = self.outcome(name, comparison)
        if not outcome.failures:
            return ""
        reference = self.reference_usage() if comparison is not None else None
        text = comparison_text.gates_text(outcome, self.gates, reference, subject, jaeger_url)
        if self.reference is None or reference is None:
            return "\n".join([name, text, *advise.to_reach(outcome)])
        if advise.imitates(subject, reference):
            advice = advise.to_accept_imitation(name, self.gates, outcome)
        else:
            advice = advise.to_reach(outcome, advise.OF_EACH_DUMP)
            if advise.compared(outcome):
                command = self._command(self.sources[name])
                advice = [*advise.to_accept(name, subject, self.reference, command), *advice]
            if outcome.missing_rows:
                advice.append(f"or, for missing rows, add a [[gap]] to {known_gaps.KNOWN_GAPS}")
        return "\n".join([f"{name} against {self.reference.name}", text, *advice])

    def _command(self, source: Source) -> list[str]:
        """Return the command that judges the dump alone, in the folder in which this run was started."""
        version = [f"--kubernetes-version={self._kubernetes_version}"] if self._kubernetes_version else []
        path = f"{source.path}{saved.SEPARATOR}{source.entry}" if source.entry else str(source.path)
        # Else callers that are not among the heaviest would not be in the new reference.
        origins = ["--origins=all"] if self.gates.fail_on_new_caller else []
        if source.path.is_dir():
            version = ["--parts", *version]
        return ["etcd-coverage", path, *version, *origins]

    def unused_gaps(self) -> list[str]:
        """Return each known gap that matches nothing any more."""
        return list(known_gaps.unused(self._gaps, self.comparisons(), self.subjects()))

    def save(self, path: Path, origins: int | str | None = None) -> Saved:
        """Bring the file up to date with what was judged, with so many origins of a row by name, or "all"."""
        reference = None
        if self.comparisons():
            assert self.reference is not None
            reference = Reference(name=self.reference.name, usage=self.reference_usage(), subjects=self.subjects())
        most = None if origins == "all" else int(origins or MOST_SAVED)
        return saved.update(path, self.usages, reference, most)

    def properties(self) -> dict[str, str]:
        """Return counts and verdicts for the JUnit XML."""
        from etcd_coverage.reports import junit

        return junit.properties(self.report())

    def report(self, jaeger_url: str = "") -> Report:
        """Return what reports tell of everything that was judged."""
        from etcd_coverage.reports.view import Report

        comparisons = self.comparisons()
        outcomes = self.outcomes()
        return Report(
            usages=self.usages,
            releases={name: self.release(name) for name in self.usages},
            reference=self.reference.name if self.reference else "",
            comparisons=comparisons,
            comparison_notes={name: self._notes(name, comparisons[name], outcomes[name]) for name in comparisons},
            gate_failures={name: outcome.failures for name, outcome in outcomes.items()},
            jaeger_url=jaeger_url,
            by_test=self.by_test,
        )

    def outcomes(self) -> dict[str, Outcome]:
        """Return what the gates find in each dump that was judged so far and that they judge, by name."""
        comparisons = self.comparisons()
        judged = {name for name, one in self.usages.items() if one.error is None}
        return {
            name: self.outcome(name, comparisons.get(name))
            for name in self.held_to_gates()
            if name in judged and (name in comparisons or self.gates.min_contract is not None)
        }

    def _notes(self, name: str, comparison: Comparison, outcome: Outcome) -> list[str]:
        subject = self.usages[name]
        notes = [
            *comparison_text.comparison_notes(self.reference_usage(), subject),
            *comparison_text.gates_notes(outcome, self.gates),
        ]
        missing = [row for row in comparison.rows if row.status == compare.MISSING]
        if missing and (reasons := gates.doubts({row.grpc_method for row in missing}, subject)):
            notes.append(f"what is missing may be not recorded rather than not called: {', '.join(reasons)}")
        return notes

    def encoded_usages(self) -> dict[str, str]:
        """Return what was computed, as text, for another process of the same version."""
        return {name: usage.encode(one) for name, one in self.usages.items()}
