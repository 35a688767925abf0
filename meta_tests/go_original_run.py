"""Run etcd's tests/robustness/coverage, compiled by ``make tools``, and read what it prints."""

from __future__ import annotations

import re
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = Path(__file__).parents[1] / ".tools" / "bin" / "go_original.test"

EXPECTED_METHODS = "only_expected_methods_were_called"
LEASE_GRANT = "etcdserverpb.Lease/LeaseGrant"
COLUMNS = {
    "etcdserverpb.KV/Range": ("limit", "rangeEnd", "rev", "countOnly", "keysOnly"),
    "etcdserverpb.KV/Txn": ("getOnFailure", "readOnly", "lease"),
    "etcdserverpb.KV/Compact": ("rev", "physical"),
    "etcdserverpb.Watch/Watch": ("range_end", "start_rev", "prev_kv", "fragment", "progress_notify"),
}
"""The args of each gRPC method that has a table, as the original names its columns."""

DOES_NOT_END = "does not end"

RowKey = tuple[str, str, tuple[str, ...]]
"""Call pattern, key pattern, names of the set args."""


@dataclass
class Table:
    """The table of a gRPC method: contract share, calls and percent of each row; the numbers of the footer."""

    rows: dict[RowKey, tuple[str, int, str]] = field(default_factory=dict)
    set_args: dict[str, int] = field(default_factory=dict)
    contract_calls: int = 0
    calls: int = 0


@dataclass
class Figures:
    """All that the original prints of a dump but the examples, which it picks at random.

    ``calls`` holds calls and percent of each gRPC method, ``leases`` average uses, average TTL, calls and percent of
    each key pattern. ``problems`` counts the messages on new patterns of each gRPC method, ``lease_problems`` those on
    leases by what they say.
    """

    calls: dict[str, tuple[int, str]] = field(default_factory=dict)
    total_calls: int = 0
    tables: dict[str, Table] = field(default_factory=dict)
    leases: dict[str, tuple[str, str, int, str]] | None = None
    total_leases: int = 0
    verdicts: dict[str, bool] = field(default_factory=dict)
    unexpected: set[str] = field(default_factory=set)
    not_called: set[str] = field(default_factory=set)
    problems: dict[str, int] = field(default_factory=dict)
    lease_problems: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)


@dataclass
class Output:
    """What the original printed of one dump: messages and verdict by subtest, "" being the dump's own test.

    ``stopped`` is empty, or what kept the process from ending: a panic, or `DOES_NOT_END`.
    """

    messages: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    verdicts: dict[str, bool] = field(default_factory=dict)
    stopped: str = ""

    @property
    def refusal(self) -> str:
        """Why the dump was not judged; empty if it was."""
        if self.stopped:
            return self.stopped
        return "" if EXPECTED_METHODS in self.verdicts else "; ".join(self.messages[""])

    def examples(self, method: str) -> list[str]:
        """Return the messages on new patterns of a gRPC method, keys escaped."""
        return [escaped(message) for message in self.messages[method] if message.startswith("New ")]

    def figures(self) -> Figures:
        """Return the numbers of a dump that was judged."""
        assert not self.refusal
        found = Figures()
        for message in self.messages[""]:
            if message.startswith("WARN: "):
                found.warnings.append(message.removeprefix("WARN: "))
            else:
                _, rows, footer = _cells(message)
                found.calls = {escaped(name): (int(calls), percent) for name, calls, percent in rows}
                assert len(found.calls) == len(rows)
                found.total_calls = int(footer[1])
        found.verdicts = {subtest: passed for subtest, passed in self.verdicts.items() if subtest}
        found.unexpected = {escaped(message) for message in self.messages[EXPECTED_METHODS]}
        for method in (*COLUMNS, LEASE_GRANT):
            for message in self.messages[method]:
                if message.startswith("expected "):
                    found.not_called.add(message)
                elif message.startswith(("New ", "Lease without ")):
                    if method == LEASE_GRANT:
                        # The original prints the whole span of a lease without id or TTL.
                        says = re.sub(r"^(Lease without \w+): .*", r"\1", message, flags=re.DOTALL)
                        found.lease_problems[escaped(says)] += 1
                    else:
                        found.problems[method] = found.problems.get(method, 0) + 1
                elif method == LEASE_GRANT:
                    _, rows, footer = _cells(message)
                    found.leases = {row[0]: (row[1], row[2], int(row[3]), row[4]) for row in rows}
                    found.total_leases = int(footer[3])
                else:
                    found.tables[method] = _table(message, COLUMNS[method])
        return found


def judge_by_original(dumps: Mapping[str, Path], folder: Path, timeout_seconds: float) -> dict[str, Output]:
    """Return what the original prints of each dump, by its name.

    One process judges all, in the order of their names; one that panics or does not end within ``timeout_seconds`` is
    followed by another for the dumps behind the one that stopped it. ``folder`` must not exist yet.
    """
    testdata = folder / "testdata"
    testdata.mkdir(parents=True)
    found: dict[str, Output] = {}
    for name, path in dumps.items():
        (testdata / name).symlink_to(path.resolve())
    while waiting := sorted(dumps.keys() - found.keys()):
        judged = _run(folder, timeout_seconds)
        assert judged, f"{PROGRAM} judged none of {waiting}"
        found |= judged
        for name in judged:
            (testdata / name).unlink()
    return found


def _run(folder: Path, timeout_seconds: float) -> dict[str, Output]:
    # The marker before each line of the framework's own: nothing in a dump can be taken for one.
    command = [str(PROGRAM), "-test.v=test2json", "-test.run=^TestInterfaceUse$"]
    printed = folder / "output"
    with printed.open("wb") as output:
        try:
            run = subprocess.run(
                command, cwd=folder, stdout=output, stderr=subprocess.PIPE, timeout=timeout_seconds, check=False
            )
            panic = re.search(r"^panic: .*", run.stderr.decode("utf-8", "replace"), re.MULTILINE)
            stopped = panic[0] if panic else ""
            assert stopped or run.returncode in (0, 1), run.stderr.decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            stopped = DOES_NOT_END
    found: dict[str, Output] = {}
    name = subtest = ""
    # Not splitlines(), which would split at control characters in keys.
    for line in printed.read_bytes().decode("utf-8", "replace").split("\n"):
        if line.startswith("\x16"):
            if at := re.fullmatch(r"=== (?:RUN|NAME) +TestInterfaceUse/([^/]+)/?(.*)", line[1:]):
                name, subtest = at[1], at[2]
                found.setdefault(name, Output())
            elif end := re.fullmatch(r"--- (PASS|FAIL): TestInterfaceUse/([^/]+)/?(.*) \(\S+\)", line[1:]):
                found[end[2]].verdicts[end[3]] = end[1] == "PASS"
        elif start := re.fullmatch(r" {4}\w+\.go:\d+: (.*)", line, re.DOTALL):
            found[name].messages[subtest].append(start[1])
        elif name and line.startswith(" " * 8):
            found[name].messages[subtest][-1] += "\n" + line[8:]
    if stopped:
        found[name].stopped = stopped
    return found


def _table(message: str, columns: tuple[str, ...]) -> Table:
    header, rows, footer = _cells(message)
    # The table writer turns getOnFailure and range_end into GET ON FAILURE and RANGE END.
    titles = [re.sub(r"_|(?<=[a-z])(?=[A-Z])", " ", column).upper() for column in columns]
    assert header == ["METHOD", "PATTERN", *titles, "CONTRACT", "CALLS", "PERCENT"]
    table = Table(
        set_args=dict(zip(columns, map(int, footer[2:-3]), strict=True)),
        contract_calls=int(footer[-3]),
        calls=int(footer[-2]),
    )
    for call_pattern, key_pattern, *marks, contract, calls, percent in rows:
        args = tuple(column for column, mark in zip(columns, marks, strict=True) if mark == "X")
        table.rows[call_pattern, escaped(key_pattern), args] = (contract, int(calls), percent)
    assert len(table.rows) == len(rows)
    return table


def _cells(message: str) -> tuple[list[str], list[list[str]], list[str]]:
    """Return the cells of a printed table: header, rows, footer."""
    lines = [line for line in message.split("\n") if line.startswith("│")]
    # Not strip(), which would take control characters for blanks.
    header, *rows, footer = ([cell.strip(" ") for cell in line.split("│")[1:-1]] for line in lines)
    return header, rows, footer


def escaped(text: str) -> str:
    r"""Return the text with backslashes and what is not printable as Python escapes, as the suite prints keys."""
    return "".join(
        char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode() for char in text
    )
