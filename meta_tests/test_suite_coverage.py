"""The suite as a product: dumps compared with a reference, gates, saved usages."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from etcd_coverage.comparing import saved
from etcd_coverage.judging.judge import judge
from meta_tests.builder import (
    COMPACT,
    GET,
    PODS,
    RANGE,
    TRACE,
    UNEXPECTED_KEY,
    call,
    complete,
    dump,
    etcd,
    resource,
    span,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

ROOT = Path(__file__).parents[1]
TESTS = (ROOT / "tests" / "test_interface_use.py", ROOT / "tests" / "test_coverage.py")
LINK = "http://localhost:16686"
COUNT = PODS | {"count_only": True}
ALL_GATES = ("--min-coverage=100", "--min-shape-coverage=99.5", "--fail-on-new", "--fail-on-missing")


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the suite on the dumps in the folder ``dumps``, as a user would."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PY_COLORS", "0")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (pytester.path / "dumps").mkdir()

    def suite(*options: str | Path, tests: tuple[str | Path, ...] = TESTS) -> pytest.RunResult:
        return pytester.runpytest_inprocess(
            "-c", ROOT / "pyproject.toml", "--rootdir", ROOT, *tests, "-p", "no:cacheprovider",
            "--testdata=dumps", *options,
        )  # fmt: skip

    return suite


def save(path: Path, **dumps: list[Any]) -> Path:
    """Save usages of the spans, as a run on dumps of these names would."""
    usages = {f"{name}.json": judge(write(path.with_name("made.json"), etcd(spans))) for name, spans in dumps.items()}
    saved.update(path, usages)
    path.with_name("made.json").unlink()
    return path


def lost_and_new() -> list[Any]:
    """Return the complete calls, with a paged list in place of the compaction, and an odd watch span."""
    kept = [one for one in complete() if not one["spanId"].startswith("00000004")]
    return [*kept, *call(8, RANGE, PODS | {"limit": 5}), *call(9, COMPACT, {})[:1]]


def test_gates_fail_once_with_everything(run: Run, pytester: pytest.Pytester) -> None:
    reference = save(pytester.path / "reference.json", good=complete(), lost=complete(), other=complete())
    for name, spans in (("good", complete()), ("lost", lost_and_new())):
        write(pytester.path / "dumps" / f"{name}.json", etcd(spans))
    options = ("-k", "test_coverage or deselected", f"--reference={reference}::lost.json", *ALL_GATES)
    result = run(*options, f"--jaeger-url={LINK}", "--usage-json=usage.json")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    lines = result.outlines
    start = lines.index("lost.json against reference.json::lost.json")
    place = f"{TRACE} span {{}}000000bb ({LINK}/trace/{TRACE})"
    assert lines[start + 1 : start + 14] == [
        "--min-coverage=100: 80.00% of the reference's calls are covered (4 of 5 rows, 4 of 5 calls)",
        "--min-shape-coverage=99.5: 80.00% of the reference's calls are covered (4 of 5 call shapes, 4 of 5 calls)",
        "--fail-on-missing: 1 row (1 call) of the reference not seen",
        "--fail-on-new: 1 row (1 call) that the reference does not have",
        "missing call shapes, the heaviest first:",
        "    KV/Compact Compact(rev,physical): 1 call",
        "missing rows, the heaviest first:",
        "    KV/Compact Compact(rev,physical)",
        f"        1 call, 20.00% of all, for example trace {place.format('00000004')}",
        "new rows, the heaviest first:",
        "    KV/Range List(limit,rangeEnd) /registry/{resource}/",
        f"        1 call, 20.00% of all, for example trace {place.format('00000008')}",
        "may be not recorded rather than not called: 1 KV/Compact spans without call",
    ]
    assert lines[start + 14 : start + 16] == [
        # The dump has a finding of its own, a span without call: saving it would not end with exit code 0.
        "to accept the change, see to the 2 findings of lost.json first: what nobody expects is no reference",
        "or, for missing rows, add a [[gap]] to known_gaps.toml",
    ]
    # The tables of the dump that failed are there unasked, the summary of both is.
    assert sum("1 of 2 covered" in line or "0 of 1 covered" in line for line in lines) == 1
    assert lines.count("rows covered: 5 of 5, 100.00% of the reference's calls") == 1
    assert lines.count("rows covered: 4 of 5, 80.00% of the reference's calls") == 1
    assert "usage.json: saved good.json, lost.json" in lines
    written = json.loads((pytester.path / "usage.json").read_text())["comparison"]
    assert written["reference"] == "reference.json::lost.json"
    assert {name: one["key_patterns"]["covered"] for name, one in written["subjects"].items()} == {
        "good.json": 5,
        "lost.json": 4,
    }


def test_command_that_accepts_the_change_exits_0_and_then_it_is_accepted(run: Run, pytester: pytest.Pytester) -> None:
    with_count = [*complete(), *call(8, RANGE, COUNT)]
    reference = save(pytester.path / "reference.json", good=complete(), changed=with_count)
    changed = [*complete(), *call(9, RANGE, PODS | {"limit": 5})]
    write(pytester.path / "dumps" / "changed.json", etcd(changed))
    options = (f"--reference={reference}::changed.json", "--fail-on-new", "--fail-on-missing")
    result = run("-k", "test_coverage", *options)
    result.assert_outcomes(failed=1)
    command = shlex.join(["etcd-coverage", "dumps/changed.json", f"--usage-json={reference}"])
    start = result.outlines.index(f"to accept the change: {command}")
    assert result.outlines[start + 1] == "or, for missing rows, add a [[gap]] to known_gaps.toml"

    before = json.loads(reference.read_text())["dumps"]
    program, *rest = shlex.split(command)
    assert program == "etcd-coverage"
    accepted = pytester.run(sys.executable, "-m", "etcd_coverage", *rest)
    assert accepted.ret == 0
    accepted.assert_outcomes(passed=8, skipped=1)
    assert f"{reference}: left as they were: good.json" in accepted.outlines
    after = json.loads(reference.read_text())["dumps"]
    assert {name for name in after if after[name] != before[name]} == {"changed.json"}
    again = run("-k", "test_coverage", *options)
    again.assert_outcomes(passed=1)
    assert again.ret == 0


def asked_by(agent: str, number: int) -> list[Any]:
    """Return a Get below a request of this user agent."""
    request = f"{number:08x}000000cc"
    server, called = call(number, RANGE, GET)
    return [
        span(request, name="Get", attributes={"verb": "GET", "resource": "pods", "user-agent": agent}),
        server | {"parentSpanId": request},
        called,
    ]


def test_each_dump_is_held_to_the_contract_without_a_reference(run: Run, pytester: pytest.Pytester) -> None:
    write(pytester.path / "dumps" / "a.json", etcd(complete()))
    result = run("--min-contract=50", "--usage-markdown=a.md", "--usage-html=a.html")
    result.assert_outcomes(passed=8, failed=1)
    lines = result.outlines
    start = lines.index("a.json")
    assert lines[start + 1 : start + 3] == [
        "--min-contract=50: 0.00% of the calls are below a contract event (0 of 5 calls)",
        "calls outside the interface, the most first:",
    ]
    assert lines[start + 3 : start + 5] == [
        "    KV/Range Get(limit) /registry/{resource}/{namespace}/{name}",
        "        1 of 1 call, from etcd/etcdserverpb.KV/Range (1)",
    ]
    assert "set a limit that it reaches: --min-contract=0" in lines
    assert not [line for line in lines if "to accept" in line]
    assert "FAIL a.json: --min-contract=50" in lines
    assert "Gate failed: `--min-contract=50: 0.00% of the calls" in (pytester.path / "a.md").read_text()
    assert "<strong>Gate failed:</strong> --min-contract" in (pytester.path / "a.html").read_text()
    again = run("--min-contract=0")
    assert again.ret == 0
    assert "PASS a.json: as expected, --min-contract is met" in again.outlines
    assert run("--min-contract=0", "-k", "interface").ret == pytest.ExitCode.TESTS_FAILED


def test_rows_by_e2e_test_are_shown_if_asked_for(run: Run, pytester: pytest.Pytester) -> None:
    agent = "e2e.test/v1.37.0 (linux/amd64) kubernetes/abc -- [sig-node] Pods run [Conformance]"
    write(pytester.path / "dumps" / "a.json", etcd(asked_by(agent, 1), complete()[2:]))
    result = run("--by-test", "--usage-markdown=a.md")
    assert result.ret == 0
    lines = [" ".join(line.split()) for line in result.outlines]
    start = lines.index("rows that only one e2e test reaches")
    assert lines[start + 3] == (
        "[sig-node] Pods run [Conformance] KV/Range Get(limit) /registry/{resource}/{namespace}/{name} 1"
    )
    assert "4 of 5 rows 4" in lines[lines.index("rows that no conformance test reaches") :]
    assert "<summary>By e2e test</summary>" in (pytester.path / "a.md").read_text()
    assert "rows that only one e2e test reaches" not in run().outlines
    # A run that was asked for them is not green without them.
    assert run("--by-test", "-k", "test_sort").ret == pytest.ExitCode.TESTS_FAILED


def test_reference_among_the_dumps_is_held_to_the_contract_too(run: Run, pytester: pytest.Pytester) -> None:
    for name in ("a", "b"):
        write(pytester.path / "dumps" / f"{name}.json", etcd(complete()))
    result = run("-k", "test_coverage", "--reference=dumps/a.json", "--min-contract=1", "--fail-on-new")
    result.assert_outcomes(failed=2)
    assert result.outlines.count("set a limit that it reaches: --min-contract=0") == 2
    # Another reference would not change the share.
    assert not [line for line in result.outlines if "to accept" in line]


def test_new_caller_fails_until_it_is_accepted(run: Run, pytester: pytest.Pytester) -> None:
    rest = complete()[2:]
    reference = save(pytester.path / "reference.json", changed=[*asked_by("kubectl/v1", 1), *rest])
    write(pytester.path / "dumps" / "changed.json", etcd(asked_by("kubectl/v1", 1), asked_by("scheduler/v1", 7), rest))
    options = ("-k", "test_coverage", f"--reference={reference}", "--fail-on-new-caller")
    result = run(*options)
    result.assert_outcomes(failed=1)
    start = result.outlines.index("changed.json against reference.json")
    command = shlex.join(["etcd-coverage", "dumps/changed.json", "--origins=all", f"--usage-json={reference}"])
    assert result.outlines[start + 1 : start + 6] == [
        "--fail-on-new-caller: 1 caller (1 call) of a row that the reference does not have for it",
        "new callers, the heaviest first:",
        "    KV/Range Get(limit) /registry/{resource}/{namespace}/{name}",
        "        1 call, from scheduler",
        f"to accept the change: {command}",
    ]
    _, *rest_of_command = shlex.split(command)
    assert pytester.run(sys.executable, "-m", "etcd_coverage", *rest_of_command).ret == 0
    assert run(*options).ret == 0


def test_subject_that_imitates_the_reference_is_never_its_own(run: Run, pytester: pytest.Pytester) -> None:
    traced = dump(resource([*complete(), *call(8, RANGE, COUNT)]), resource([span("0" * 15 + "9")], "apiserver"))
    write(pytester.path / "kubernetes.json", traced)
    write(pytester.path / "dumps" / "imitation.json", etcd(complete(), call(9, RANGE, PODS | {"limit": 5})))
    options = ("--reference=kubernetes.json", "--gate-methods=KV/Range", "-k", "test_coverage")
    result = run(*options, "--fail-on-new", "--fail-on-missing", "--min-coverage=90", "--min-shape-coverage=80")
    result.assert_outcomes(failed=1)
    start = result.outlines.index(
        "to accept the change (imitation.json has no traces of an apiserver, so it is no reference itself):"
    )
    assert result.outlines[start + 1 : start + 4] == [
        "    for missing rows, add a [[gap]] to known_gaps.toml",
        "    set a limit that it reaches: --min-coverage=50 --min-shape-coverage=50",
        "    for new rows, do without --fail-on-new, or leave out those of few calls with --min-calls",
    ]
    assert not [line for line in result.outlines if "--usage-json" in line]
    again = run(*options, "--min-coverage=50", "--min-shape-coverage=50")
    again.assert_outcomes(passed=1)
    assert again.ret == 0


def test_saved_usages_are_judged_and_bad_ones_reported(run: Run, pytester: pytest.Pytester) -> None:
    dumps = pytester.path / "dumps"
    odd = [*complete(), *call(8, RANGE, GET | {"range_begin": UNEXPECTED_KEY})]
    save(dumps / "both.json", good=complete(), odd=odd)
    save(dumps / "one.json", good=complete())
    (dumps / "newer.json").write_text('{"format": 2, "dumps": {}}')
    (dumps / "dump.json").write_text(json.dumps(etcd(odd)))
    result = run("-v", "-rs", f"--reference={dumps}/one.json", "--usage-json=usage.json", "--fail-on-missing")
    # 3 usages and the dump, two of them with the odd key, beside one that is none; all but the reference compared.
    result.assert_outcomes(passed=8 + 7 + 8 + 7 + 3, failed=1 + 1 + 1, skipped=7 + 1)
    lines = result.outlines
    assert "  both.json::good.json: 0.0 MB, a saved usage" in [line.replace("0.1 MB", "0.0 MB") for line in lines]
    assert lines.count(f"New key pattern detected: {UNEXPECTED_KEY}") == 2
    assert sum(line.startswith("dumps/newer.json: is a saved usage of format 2, this") for line in lines) == 1
    ids = [line.split("::", 1)[1].split(" ")[0] for line in lines if "::test_coverage[" in line and "%]" in line]
    assert [one.partition("[")[2] for one in ids] == [
        "both.json::good.json]",
        "both.json::odd.json]",
        "dump.json]",
        "newer.json]",
    ]
    written = saved.load(pytester.path / "usage.json")
    assert written["both.json::odd.json"] == saved.load(dumps / "both.json")["odd.json"] == written["dump.json"]
    assert sorted(written) == ["both.json::good.json", "both.json::odd.json", "dump.json", "newer.json", "one.json"]


def test_what_gates_leave_out_is_reported(run: Run, pytester: pytest.Pytester) -> None:
    dumps = pytester.path / "dumps"
    write(
        dumps / "reference.json",
        etcd(complete(), *(call(20 + one, RANGE, COUNT) for one in range(3)), call(9, RANGE, {})),
    )
    write(dumps / "subject.json", etcd(complete()))
    (pytester.path / "gaps.toml").write_text(
        "".join(
            f'[[gap]]\nmethod = "KV/Range"\nshape = "{shape}"\nreason = "known"\nlink = "https://example.com"\n'
            for shape in ("Count(rangeEnd,countOnly)", "Keys(rangeEnd,keysOnly)")
        )
    )
    options = (
        "--reference=dumps/reference.json", "--fail-on-missing", "--min-calls=2",
        "--gate-methods=KV/Range,KV/Txn", "--known-gaps=gaps.toml", "--min-coverage=0",
    )  # fmt: skip
    result = run(*options, "-k", "test_coverage")
    result.assert_outcomes(passed=1)
    lines = result.outlines
    assert (
        f"  options: {options[0]} --min-coverage=0 --fail-on-missing --min-calls=2 --gate-methods=KV/Range,KV/Txn --known-gaps=gaps.toml"
        in lines
    )
    assert lines[lines.index("call shapes covered: 5 of 6, 62.50% of the reference's calls") + 1 :][:7] == [
        "rows covered: 5 of 6, 62.50% of the reference's calls",
        "note: 1 row of the reference (1 call) without a call pattern or with an unknown key: left out",
        "note: Lease/LeaseGrant, compared by its calls alone: 1 in the reference, 1 in the subject",
        "--gate-methods: judged KV/Range, KV/Txn alone",
        "--min-calls=2: left out 2 rows with fewer calls",
        "known gaps: 1 missing row (3 calls), which --fail-on-missing allows",
        "known gap that matches nothing any more, remove it: KV/Range Keys(rangeEnd,keysOnly)",
    ]
    # Where the test of the gates does not run, that is no pass.
    result = run(*options, "-k", "test_lease_grant")
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["NOT COMPARED: subject.json, *test_coverage did not run; *"])


def test_reference_that_cannot_be_judged_is_one_error(run: Run, pytester: pytest.Pytester) -> None:
    write(pytester.path / "reference.json", "{}")
    for name in ("a.json", "b.json"):
        write(pytester.path / "dumps" / name, etcd(complete()))
    result = run("--reference=reference.json", "--usage-json=usage.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.errlines[0].startswith(
        "ERROR: --reference: reference.json: is JSON, but not a dump: it holds nothing"
    )
    assert sum("reference.json" in line for line in [*result.outlines, *result.errlines]) == 1
    assert not (pytester.path / "usage.json").exists()


def test_usage_that_cannot_be_written_is_one_line_and_fails(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(pytester.path / "dumps" / "a.json", etcd(complete()))

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = run("-k", "test_lease_grant", "--usage-json=usage.json")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["usage.json: cannot be written, nothing was saved: No space left on device"])
    assert [path.name for path in pytester.path.iterdir() if "usage" in path.name or path.suffix == ".part"] == []


def test_nothing_to_compare_is_a_skip_with_its_reason(run: Run, pytester: pytest.Pytester) -> None:
    run("-rs", "-k", "test_coverage").stdout.fnmatch_lines(["SKIPPED * no --reference: nothing was compared"])
    write(pytester.path / "dumps" / "a.json", etcd(complete()))
    result = run("-rs", "-k", "test_coverage", "--reference=dumps/a.json")
    result.assert_outcomes(skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["SKIPPED * no dump in dumps but the reference a.json: nothing was compared"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--fail-on-new"], "gates but --min-contract need a --reference: a dump or a saved usage to compare with"),
        (["--gate-methods=KV/Txn"], "gates but --min-contract need a --reference*"),
        (["--min-contract=90", "--min-calls=2"], "gates but --min-contract need a --reference*"),
        (["--fail-on-new-caller"], "gates but --min-contract need a --reference*"),
        (["--known-gaps=gaps.toml"], "gates but --min-contract need a --reference*"),
        (["--reference=absent.json"], "--reference: absent.json does not exist"),
        (["--reference="], "--reference:  is a directory, not a dump or a saved usage"),
        (["--reference=both.json"], "--reference: both.json holds 2 usages, name one of them: both.json::a.json, both*"),
        (["--reference=both.json::c.json"], "--reference: both.json holds no c.json, but a.json, b.json"),
        (["--reference=newer.json"], "--reference: newer.json: is a saved usage of format 2, this version reads for*"),
        (["--reference=both.json::a.json", "--known-gaps=absent.toml"], "absent.toml cannot be read: No such file*"),
        (["--reference=dumps/a.json", "--min-coverage=1"], "--reference: there is no dump in dumps to compare with a.json"),
        (["--usage-json=dumps/a.json"], "--usage-json: dumps/a.json is no saved usage, and would be overwritten*"),
        (["--usage-json=/dev/null"], "--usage-json: /dev/null is no regular file, and would be replaced*"),
        (["--usage-json=newer.json"], "--usage-json: newer.json is a saved usage of format 2, this version reads*"),
        (["--min-coverage=101"], "*argument --min-coverage: '101' is not a percentage from 0 to 100"),
        (["--min-shape-coverage=x"], "*argument --min-shape-coverage: 'x' is not a percentage from 0 to 100"),
        (["--min-calls=0"], "*argument --min-calls: '0' is not a number of calls, 1 or more"),
        (["--gate-methods=KV/NoSuchMethod"], "*argument --gate-methods: 'KV/NoSuchMethod' is no method with call patterns: *KV/Range*"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "expected",
)  # fmt: skip
def test_wrong_option_is_reported_in_one_line(
    run: Run, pytester: pytest.Pytester, options: list[str], expected: str
) -> None:
    write(pytester.path / "dumps" / "a.json", etcd(complete()))
    save(pytester.path / "both.json", a=complete(), b=complete())
    (pytester.path / "newer.json").write_text('{"format": 2}')
    result = run(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([expected if expected.startswith("*") else f"ERROR: {expected}"])
    assert "Traceback" not in result.stderr.str()
