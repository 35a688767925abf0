"""Tables: their text, literally."""

from __future__ import annotations

from etcd_coverage.comparing.compare import compare
from etcd_coverage.comparing.gates import Gates, hold
from etcd_coverage.judging.usage import Example, Finding, Lease, Quality, Row, Usage
from etcd_coverage.reports import comparison, terminal, view
from etcd_coverage.text import escape, percent
from meta_tests.builder import COMPACT, RANGE, TXN


def row(method: str = RANGE, call_pattern: str = "Get", key: str = "/registry/{resource}", **more: object) -> Row:
    known = key.startswith("/registry") or key in ("", "compact_rev_key")
    fields = {"args": (), "calls": 1, "contract_calls": 0, "known_key": known} | more
    return Row(grpc_method=method, call_pattern=call_pattern, key_pattern=key, **fields)  # type: ignore[arg-type]


def method_text(usage: Usage, width: int | None = None) -> str:
    (table,) = view.method_tables(usage)
    return terminal.method_text(table, width)


def test_calls_table_is_sorted_by_calls_then_name() -> None:
    usage = Usage(calls={"etcdserverpb.B": 1, "etcdserverpb.C": 7, "etcdserverpb.A": 1})
    assert terminal.calls_text(view.calls_table(usage)) == (
        "method            calls    percent\n"
        "--------------  -------  ---------\n"
        "etcdserverpb.C        7     77.78%\n"
        "etcdserverpb.A        1     11.11%\n"
        "etcdserverpb.B        1     11.11%\n"
        "--------------  -------  ---------\n"
        "total                 9    100.00%"
    )


def test_method_table() -> None:
    rows = [
        row(COMPACT, "Compact", "", args=("rev",), calls=3, contract_calls=1),
        row(COMPACT, "Compact", "", args=("rev", "physical"), calls=1, contract_calls=1),
    ]
    assert method_text(Usage(rows=rows)) == (
        "method    pattern      rev    physical    contract    calls    percent\n"
        "--------  ---------  -----  ----------  ----------  -------  ---------\n"
        "Compact                  X                  33.33%        3     75.00%\n"
        "Compact                  X           X     100.00%        1     25.00%\n"
        "--------  ---------  -----  ----------  ----------  -------  ---------\n"
        "total                    4           1           2        4    100.00%"
    )


def test_leases_table() -> None:
    leases = [
        Lease(key_pattern="/registry/events/{namespace}/{name}", uses=5, ttl_seconds=7260, calls=2),
        Lease(key_pattern="/registry/masterleases/{name}", uses=1, ttl_seconds=15, calls=1),
    ]
    assert dict(terminal.tables(Usage(leases=leases)))["leases"] == (
        "pattern                                avg uses    avg ttl    calls    percent\n"
        "-----------------------------------  ----------  ---------  -------  ---------\n"
        "/registry/events/{namespace}/{name}         2.5     3630.0        2     66.67%\n"
        "/registry/masterleases/{name}               1.0       15.0        1     33.33%\n"
        "-----------------------------------  ----------  ---------  -------  ---------\n"
        "total                                                             3    100.00%"
    )


def test_nothing_has_no_table_but_calls() -> None:
    assert [title for title, _ in terminal.tables(Usage())] == ["calls"]
    assert terminal.calls_text(view.calls_table(Usage())).splitlines()[-1].split() == ["total", "0", "0.00%"]


def test_keys_that_differ_by_a_space_look_different() -> None:
    assert [escape(key) for key in ("a\\b", "\\x00", "\x00", "\u202e", "\ud800", "\U000e0001")] == [
        "a\\\\b", "\\\\x00", "\\x00", "\\u202e", "\\ud800", "\\U000e0001",
    ]  # fmt: skip
    assert [escape(key) for key in ("k", "k ", " k", "  ", "a b")] == ["k", "k\\x20", "\\x20k", "\\x20\\x20", "a b"]


def test_long_method_is_cut() -> None:
    table = terminal.calls_text(view.calls_table(Usage(calls={"etcdserverpb." + "x" * 3000: 1})))
    assert max(map(len, table.splitlines())) < 150


def test_percent_of_nothing_is_zero() -> None:
    assert percent(0, 0) == "0.00%"


def test_percent_is_rounded_but_all_and_nothing_are_shown_for_just_that() -> None:
    assert percent(1, 3) == "33.33%"
    assert percent(2, 3) == "66.67%"
    assert percent(2, 2) == "100.00%"
    assert percent(99_996, 100_000) == "99.99%"
    assert percent(99_999, 100_000) == "99.99%"
    assert percent(1, 1_000_000) == "0.01%"
    assert percent(0, 1_000_000) == "0.00%"


def test_many_keys_alike_are_one_line_and_the_rest_is_counted() -> None:
    def new_key(key: str, count: int = 1) -> Finding:
        message = f"New key pattern detected: {key}"
        return Finding(id="new-key-pattern", grpc_method=RANGE, message=message, count=count)

    prefixed = [new_key(f"/kubernetes.io/pods/ns/{number}", 2) for number in range(30_000)]
    others = [new_key(f"/p{number:02}") for number in range(25)]
    lines = terminal.failure_text([*others, *prefixed]).splitlines()
    assert lines[0] == "New key pattern detected: /kubernetes.io/pods/ns/* (30000 keys)"
    assert lines[1:20] == [f"New key pattern detected: /p{number:02}" for number in range(19)]
    assert lines[20] == "... and 6 more of new-key-pattern (calls: 6): --usage-json PATH saves every finding"
    assert len(lines) == 22


def test_many_keys_called_in_an_unknown_way_are_one_line() -> None:
    findings = [
        Finding(
            id="new-call-pattern",
            grpc_method=RANGE,
            message=f"New call pattern detected: {RANGE}(key=/a/{number},limit=false,rangeEnd=true)",
            count=1,
        )
        for number in range(100)
    ]
    assert terminal.failure_text(findings).splitlines()[0] == (
        f"New call pattern detected: {RANGE}(key=/a/*,limit=false,rangeEnd=true) (100 keys)"
    )


def test_nul_in_a_known_key_is_escaped() -> None:
    table = method_text(Usage(rows=[row(key="nul\0key")]))
    assert "nul\\x00key" in table
    assert "\0" not in table


def test_number_like_and_long_text_stays_as_it_is() -> None:
    table = method_text(Usage(rows=[row(key="1e5"), row(key="k" * 10_000)]))
    assert " 1e5 " in table
    assert f"  {'k' * 41}...(9918 more)...{'k' * 41}  " in table
    assert max(map(len, table.splitlines())) < 250


def test_twenty_unknown_keys_are_shown_and_the_rest_is_counted() -> None:
    unknown = [row(key=f"key{number:02}", calls=2, contract_calls=1, args=("limit",)) for number in range(23)]
    usage = Usage(
        rows=[row(key="/registry/{api-group}/{resource}/{namespace}/{name}"), *unknown, row(key="compact_rev_key")]
    )
    _, _, *lines, _, footer = method_text(usage).splitlines()
    shown = [line.split()[1] for line in lines]
    assert shown[:21] == ["/registry/{api-group}/{resource}/{namespace}/{name}", *(f"key{n:02}" for n in range(20))]
    assert shown[21] == "compact_rev_key"
    assert lines[22].split() == ["...", "and", "3", "more", "unknown", "keys", "6", "12.50%"]
    assert footer.split() == ["total", "46", "0", "0", "0", "0", "23", "48", "100.00%"]


def test_quality_line() -> None:
    quality = Quality(
        spans=9, traces=2, skipped_spans=1, duplicate_spans=3, calls_without_parent=4, grpc_spans_without_call=5
    )
    line = "9 spans, 2 traces, 1 skipped, 3 duplicates, 4 calls without parent, 5 gRPC spans without call"
    assert view.quality_line(quality) == line
    quality.failed_without_call = 2
    assert view.quality_line(quality) == f"{line} (2 failed)"


def test_failure_reports_all_findings_with_examples_and_what_to_do() -> None:
    example = Example("a b/c", "0c")
    findings = [
        Finding(
            id="new-key-pattern", grpc_method=RANGE, message="New key pattern detected: k", count=3, example=example
        ),
        Finding(id="method-not-called", grpc_method=TXN, message="expected it", count=0),
        Finding(
            id="new-key-pattern", grpc_method=RANGE, message="New key pattern detected: l", count=1, example=example
        ),
    ]
    assert terminal.failure_text(findings).splitlines() == [
        "New key pattern detected: k",
        "    3 calls, for example trace a b/c span 0c",
        "New key pattern detected: l",
        "    1 call, for example trace a b/c span 0c",
        "expected it",
        "new-key-pattern: if Kubernetes may use it, add a SpecialResource or SpecialKey to etcd_coverage/reference.py; "
        "of a lease without one pattern, see which transactions used it",
        "method-not-called: collect for longer or exercise more; if the release cannot call it, use --kubernetes-version",
    ]
    assert "(http://localhost:16686/trace/a%20b%2Fc)" in terminal.failure_text(findings, "http://localhost:16686/")


def test_comparison_tables_and_summary() -> None:
    reference = Usage(
        calls={RANGE: 13, "etcdserverpb.Lease/LeaseGrant": 2},
        rows=[
            row(key="/registry/{resource}/", call_pattern="List", args=("limit", "rangeEnd"), calls=9),
            row(calls=3),
            row(key="odd"),
            row(COMPACT, "Compact", "", args=("rev",), calls=2),
        ],
    )
    subject = Usage(
        calls={RANGE: 25, "etcdserverpb.Maintenance/Status": 1},
        rows=[row(calls=1), *(row(key=f"k{number:02}") for number in range(24))],
    )
    compared = compare(reference, subject)
    (first, of_range), (second, of_compact) = comparison.comparison_tables(compared)
    assert (first, second) == (RANGE, COMPACT)
    lines = of_range.splitlines()
    assert lines[:5] + lines[-4:] == [
        "method    pattern                      args              reference    percent    subject    percent  status",
        "--------  ---------------------------  --------------  -----------  ---------  ---------  ---------  --------------",
        "List      /registry/{resource}/        limit,rangeEnd            9     75.00%          0      0.00%  missing",
        "Get       /registry/{resource}                                   3     25.00%          1      4.00%  covered",
        "Get       k00                                                    0      0.00%          1      4.00%  new",
        "Get       k19                                                    0      0.00%          1      4.00%  new",
        "          ... and 4 more unknown keys                            0      0.00%          4     16.00%  new",
        "--------  ---------------------------  --------------  -----------  ---------  ---------  ---------  --------------",
        "total                                                           12    100.00%         25    100.00%  1 of 2 covered",
    ]
    assert of_compact.splitlines()[-1].split() == ["total", "2", "100.00%", "0", "0.00%", "0", "of", "1", "covered"]
    assert comparison.comparison_summary(compared, reference, subject) == [
        "call shapes covered: 1 of 3, 21.43% of the reference's calls",
        "rows covered: 1 of 3, 21.43% of the reference's calls",
        "note: 1 row of the reference (1 call) without a call pattern or with an unknown key: left out",
        "note: Lease/LeaseGrant, compared by its calls alone: 2 in the reference, 0 in the subject",
        "note: Maintenance/Status, compared by its calls alone: 0 in the reference, 1 in the subject",
    ]


def test_gates_text_without_examples() -> None:
    reference = Usage(rows=[row(calls=3), row(key="/registry/{resource}/", calls=5)])
    strict = Gates(min_shape_coverage=100, min_coverage=50)
    outcome = hold("a.json", compare(reference, Usage()), strict)
    assert comparison.gates_text(
        outcome, strict, reference, Usage(quality=Quality(calls_without_parent=2))
    ).splitlines() == [
        "--min-coverage=50: 0.00% of the reference's calls are covered (0 of 2 rows, 0 of 8 calls)",
        "--min-shape-coverage=100: 0.00% of the reference's calls are covered (0 of 1 call shapes, 0 of 8 calls)",
        "missing call shapes, the heaviest first:",
        "    KV/Range Get(): 8 calls",
        "missing rows, the heaviest first:",
        "    KV/Range Get() /registry/{resource}/",
        "        5 calls, 62.50% of all, no example saved",
        "    KV/Range Get() /registry/{resource}",
        "        3 calls, 37.50% of all, no example saved",
        "may be not recorded rather than not called: 2 calls without parent",
    ]


def test_failed_calls_have_a_column_where_there_are_some() -> None:
    """Of unknown keys that are too many, those that failed are added up too."""
    rows = [
        row(calls=5, failed=2),
        *(row(key=f"k{number:02}", calls=1, known_key=False, failed=1) for number in range(22)),
    ]
    usage = Usage(rows=[*rows, row(COMPACT, "Compact", "", calls=3, failed=0)])
    of_range, of_compact = (table for title, table in terminal.tables(usage) if title != "calls")
    header, _, first, *_, left_out, _, footer = of_range.splitlines()
    assert header.split()[-3:] == ["calls", "percent", "failed"]
    assert (first.split()[-1], left_out.split()[-1], footer.split()[-1]) == ("2", "2", "24")
    assert "failed" not in of_compact
    assert of_range.splitlines()[3].split()[-1] == "1"
    narrow = dict(terminal.tables(usage, 80))[RANGE].splitlines()
    assert narrow[0].split() == ["call", "contract", "calls", "percent", "failed"]
