"""How rows came, went and moved from release to release."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from etcd_coverage.comparing import gates, known_gaps, saved
from etcd_coverage.comparing.compare import compare
from etcd_coverage.comparing.history import history
from etcd_coverage.comparing.moves import moves
from etcd_coverage.dumps.error import DumpError
from etcd_coverage.judging.usage import Origin, Row, Usage
from etcd_coverage.reports import history as reports
from etcd_coverage.reports.comparison import comparison_notes, gates_text
from etcd_coverage.suite.demands import demanded_history
from meta_tests.builder import RANGE, RANGE_STREAM, TXN, WATCH

ROOT = Path(__file__).parents[1]
PODS = "/registry/{resource}/"
NODE = "/registry/{resource}/{name}"
PAGED, WHOLE = ("limit", "rangeEnd"), ("rangeEnd",)


def row(
    method: str, call: str, key: str, args: tuple[str, ...], calls: int = 9, by: str = "kubectl", verb: str = "LIST"
) -> Row:
    origin = Origin(
        component=by, role="" if verb else f"{method}!", verb=verb, resource="", calls=calls, contract_calls=0
    )
    return Row(
        grpc_method=method,
        call_pattern=call,
        key_pattern=key,
        args=args,
        calls=calls,
        contract_calls=0,
        origins=[origin],
    )


def usage(*rows: Row) -> Usage:
    return Usage(rows=list(rows))


@pytest.fixture(scope="module")
def committed() -> dict[str, Usage]:
    return {name: one for path in sorted((ROOT / "usage").glob("*.json")) for name, one in saved.load(path).items()}


def test_what_changed_from_1_34_to_1_38_is_three_lines(committed: dict[str, Usage]) -> None:
    """By hand: leases of peerserverleases came in 1.36, lists are streamed in 1.37, watches lost prev_kv in 1.38.

    How many rows moved is left out: a new special resource makes a row of its own.
    """
    found = [re.sub(r"(: \d+ rows)? \(.*", "", line) for line in reports.lines(history(committed))]
    assert found == [
        "1.36: new: KV/Txn OptimisticPut(getOnFailure,lease) /registry/{resource}/{name}",
        "1.37: moved: KV/Range List -> KV/RangeStream List",
        "1.38: moved: Watch/Watch Watch -> Watch/Watch WatchWithoutPrevKV without prev_kv",
    ]


def test_a_row_moves_to_the_most_alike_one_of_its_key_pattern_and_caller() -> None:
    earlier = usage(row(RANGE, "List", PODS, PAGED, 7), row(RANGE, "List", PODS, (*PAGED, "rev"), 3))
    later = usage(row(RANGE_STREAM, "List", PODS, WHOLE, 8), row(RANGE_STREAM, "List", PODS, (*PAGED, "rev"), 4))
    (move,) = moves(earlier, later)
    assert [(one.args, one.to_args, one.calls, one.to_calls) for one in move.rows] == [
        (PAGED, WHOLE, 7, 8),
        ((*PAGED, "rev"), (*PAGED, "rev"), 3, 4),
    ]
    assert move.text() == "KV/Range List -> KV/RangeStream List: 2 rows (10 calls, now 12)"


@pytest.mark.parametrize(
    ("earlier", "later", "is_move"),
    [
        (row(RANGE, "List", PODS, PAGED), row(RANGE_STREAM, "List", PODS, PAGED), True),
        (row(RANGE, "List", PODS, PAGED), row(RANGE_STREAM, "List", NODE, PAGED), False),
        (row(RANGE, "List", PODS, PAGED), row(RANGE_STREAM, "List", PODS, PAGED, by="kwok"), False),
        (row(RANGE, "List", PODS, PAGED, verb=""), row(RANGE_STREAM, "List", PODS, PAGED, verb=""), True),
        (row(RANGE, "List", PODS, PAGED), row(RANGE, "List", PODS, WHOLE), True),
        (row(WATCH, "Watch", PODS, ("prev_kv",)), row(WATCH, "WatchWithoutPrevKV", PODS, ()), True),
        (row(TXN, "OptimisticPut", NODE, ()), row(TXN, "OptimisticDelete", NODE, ()), False),
        (row(RANGE, "Get", NODE, ()), row(TXN, "OptimisticPut", NODE, ()), False),
        (row(RANGE, "", PODS, PAGED), row(RANGE_STREAM, "", PODS, PAGED), False),
    ],
)
def test_a_move_has_key_pattern_and_caller_in_common(earlier: Row, later: Row, is_move: bool) -> None:
    assert bool(moves(usage(earlier), usage(later))) is is_move


def test_what_is_still_there_did_not_move() -> None:
    old, new = row(RANGE, "List", PODS, PAGED), row(RANGE_STREAM, "List", PODS, PAGED)
    assert moves(usage(old), usage(old, new)) == []
    assert moves(usage(old, new), usage(new)) == []


@pytest.mark.parametrize(
    ("calls", "new_in", "gone_since", "is_volatile"),
    [
        ((0, 5, 5, 5), "1.35", "", False),
        ((5, 5, 0, 0), "", "1.36", False),
        ((0, 5, 5, 0), "1.35", "1.37", False),
        ((0, 4, 4, 4), "", "", True),
        ((4, 0, 0, 0), "", "", True),
        ((9, 0, 9, 9), "", "", True),
        ((0, 9, 0, 9), "", "", True),
        ((900, 1, 1, 900), "", "", False),
    ],
)
def test_seldom_rows_and_counts_are_no_change(
    calls: tuple[int, ...], new_in: str, gone_since: str, is_volatile: bool
) -> None:
    always = row(TXN, "OptimisticPut", NODE, ())
    usages = {
        f"kubernetes-1.{34 + number}.json": usage(always, *([row(RANGE, "List", PODS, PAGED, count)] if count else []))
        for number, count in enumerate(calls)
    }
    found = history(dict(reversed(usages.items())))
    assert [column.label for column in found.columns] == ["1.34", "1.35", "1.36", "1.37"]
    (one,) = [one for one in found.rows if one.grpc_method == RANGE]
    assert (one.calls, one.new_in, one.gone_since, one.is_volatile) == (list(calls), new_in, gone_since, is_volatile)
    (other,) = [one for one in found.rows if one.grpc_method == TXN]
    assert (other.new_in, other.gone_since, other.is_volatile) == ("", "", False)


def test_what_only_one_of_two_runs_of_a_release_has_is_volatile() -> None:
    both = row(TXN, "OptimisticPut", NODE, ())
    found = history(
        {"kubernetes-1.37-a.json": usage(both), "kubernetes-1.37-b.json": usage(both, row(RANGE, "List", PODS, PAGED))}
    )
    assert [column.label for column in found.columns] == ["kubernetes-1.37-a.json", "kubernetes-1.37-b.json"]
    assert [(one.new_in, one.is_volatile) for one in found.rows] == [("", True), ("", False)]
    assert list(reports.lines(found)) == []


def test_forms_agree(committed: dict[str, Usage]) -> None:
    found = history(committed)
    as_json = json.loads(reports.json(found))
    assert as_json["format"] == 1
    assert [column["label"] for column in as_json["columns"]] == ["1.34", "1.35", "1.36", "1.37", "1.38"]
    rows = [line for line in reports.markdown(found).splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len(as_json["rows"]) == reports.html(found).count("<tr><td>")
    streams = next(line for line in rows if "RangeStream" in line and "/registry/masterleases/" in line)
    # 7 of 2,124 calls with rows, by the tables that the suite prints of the demo dump.
    assert streams.split(" | ")[3:9] == ["1.37", "", "", "", "", "7 (0.33%)"]


def test_texts_of_a_dump_are_escaped_in_html() -> None:
    found = history({"<b>1": usage(row(RANGE, "List", "/registry/<i>", PAGED)), "kubernetes-1.37": usage()})
    page = reports.html(found)
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;1" in page


def test_a_comparison_says_what_moved(committed: dict[str, Usage]) -> None:
    old, new = (committed[f"kubernetes-{release}.json.gz"] for release in ("1.36", "1.37"))
    moved = "moved: KV/Range List -> KV/RangeStream List: 14 rows (117 calls, now 110)"
    assert moved in comparison_notes(old, new)
    outcome = gates.hold("new", compare(old, new), gates.Gates(fail_on_missing=True))
    text = gates_text(outcome, gates.Gates(fail_on_missing=True), old, new)
    assert outcome.failures == ["--fail-on-missing: 14 rows (117 calls) of the reference not seen"]
    assert moved.removeprefix("moved: ") in text
    assert "missing rows" not in text


def test_a_known_move_is_no_missing_row(committed: dict[str, Usage]) -> None:
    known = known_gaps.read_moves(ROOT / "known_gaps.toml")
    demanded = gates.Gates(fail_on_missing=True)
    for one, other in (("1.36", "1.37"), ("1.37", "1.38")):
        old, new = (committed[f"kubernetes-{release}.json.gz"] for release in (one, other))
        assert gates.hold("new", compare(old, new), demanded).failures
        moved = known_gaps.moved_rows(known, moves(old, new), "new")
        outcome = gates.hold("new", compare(old, new), demanded, moved=moved)
        # The stream of a resource by name is in the demo dump of 1.37 alone, with 2 calls.
        missing = [] if other == "1.37" else ["--fail-on-missing: 1 row (2 calls) of the reference not seen"]
        assert outcome.failures == missing


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('rows = "KV/Range Lists"', "[[move]] number 1: there is no 'KV/Range Lists', a method and its call pattern"),
        ('since = "1.40"', "[[move]] number 1: since '1.40' is none of 1.34,"),
        ('link = "here"', "[[move]] number 1: a reason and a link (https://...) are needed"),
    ],
)
def test_a_wrong_move_is_reported(tmp_path: Path, entry: str, message: str) -> None:
    entries = {
        "rows": 'rows = "KV/Range List"',
        "to": 'to = "KV/RangeStream List"',
        "since": 'since = "1.37"',
        "reason": 'reason = "streams"',
        "link": 'link = "https://example.com"',
    }
    path = tmp_path / "gaps.toml"
    path.write_text("\n".join(["[[move]]", *(entries | {entry.split()[0]: entry}).values()]))
    with pytest.raises(known_gaps.GapsError) as error:
        known_gaps.read_moves(path)
    assert str(error.value).startswith(message)


def test_the_option_writes_the_form_that_the_name_ends_in(tmp_path: Path) -> None:
    """What is judged, here the newest usage, counts in place of the saved usage of its name."""
    target = tmp_path / "history.html"
    command = [sys.executable, "-m", "etcd_coverage", "usage/kubernetes-1.38.json", "--history=usage", "-q"]
    done = subprocess.run(
        [*command, f"--history-report={target}"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout
    assert "history of 1.34, 1.35, 1.36, 1.37, 1.38:\n" in done.stdout
    assert "  1.37: moved: KV/Range List -> KV/RangeStream List: 14 rows" in done.stdout
    assert f"history written to {target}\n" in done.stdout
    assert target.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--history-report=h.md"], "--history-report: name usages of other releases with --history"),
        (["--history=nowhere"], "--history: nowhere"),
        (["--history=empty"], "--history: there is no dump and no saved usage in empty"),
        (["--history=usage", "--history-report=h.txt"], "--history-report: h.txt ends in none of .md, .html and .json"),
        (["--history=usage", "--history-report=no/h.md"], "--history-report: no/h.md cannot be written"),
    ],
)
def test_wrong_options_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "usage").symlink_to(ROOT / "usage")
    monkeypatch.chdir(tmp_path)
    given = dict(option.removeprefix("--").split("=") for option in options)
    history_of = [given["history"]] if "history" in given else []
    with pytest.raises(DumpError) as error:
        demanded_history(Namespace(history=history_of, history_report=given.get("history-report")))
    assert str(error.value).startswith(message)
