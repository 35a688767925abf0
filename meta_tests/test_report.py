"""Reports: HTML and Markdown as independent parsers read them, and what a run writes."""

from __future__ import annotations

import base64
import hashlib
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etcd_coverage.judging.usage import Finding, Lease, Usage
from etcd_coverage.reports import heat, html, junit, markdown, write
from etcd_coverage.reports.heat import Cell, HeatMap
from etcd_coverage.reports.view import Report
from meta_tests.builder import COMPACT, RANGE, TXN
from meta_tests.report_parsers import MARKDOWN, markdown_tables, parsed, table_of
from meta_tests.reports import EXPECTED, HOSTILE, LIST, NAME, SUBJECT, compared, hostile, row_of

if TYPE_CHECKING:
    from pathlib import Path


def no_hostile_dump() -> Report:
    return Report(usages={"a": EXPECTED, "b": Usage(error="is empty"), "c": SUBJECT}, jaeger_url="http://localhost")


@pytest.mark.parametrize("made", [compared, hostile, lambda: Report(usages={})], ids=["compared", "hostile", "empty"])
def test_page_is_valid_and_loads_nothing(made: object) -> None:
    assert callable(made)
    root = parsed(html.html(made()))
    assert [one for one in root.iter() if "src" in one.attrib or "srcset" in one.attrib] == []
    assert {one.tag for one in root.iter() if "href" in one.attrib} <= {"a", "link"}
    assert [one.get("href") for one in root.iter("link")] == ["data:,"]
    (style,), (script,) = root.iter("style"), root.iter("script")
    assert "url(" not in (style.text or "")
    assert "@import" not in (style.text or "")
    policy = next(one.get("content", "") for one in root.iter("meta") if one.get("http-equiv"))
    digests = [base64.b64encode(hashlib.sha256((one.text or "").encode()).digest()).decode() for one in (style, script)]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def test_page_is_accessible() -> None:
    root = parsed(html.html(compared()))
    ids = [one.get("id") for one in root.iter() if "id" in one.attrib]
    assert len(set(ids)) == len(ids)
    referred = [one.get("aria-labelledby") for one in root.iter() if "aria-labelledby" in one.attrib]
    referred += [one.get("href", "")[1:] for one in root.iter("a") if one.get("href", "").startswith("#")]
    referred += [one.get("data-table") for one in root.iter("form")]
    assert set(referred) - set(ids) == set()
    assert {one.get("scope") for one in root.iter("th")} == {"row", "col", "colgroup"}
    assert [one for one in root.iter("table") if "aria-labelledby" not in one.attrib] == []
    boxes = [one for one in root.iter() if one.get("class") == "scroll"]
    assert len(boxes) == len(list(root.iter("table")))
    assert {(one.get("role"), one.get("tabindex")) for one in boxes} == {("region", "0")}
    controls = [one for one in root.iter() if one.tag in ("input", "select")]
    labelled = [one for label in root.iter("label") for one in label if one.tag in ("input", "select")]
    assert len(controls) == len(labelled) > 0
    levels = [int(one.tag[1]) for one in root.iter() if one.tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_hostile_text_is_nothing_but_text() -> None:
    root, benign = parsed(html.html(hostile())), parsed(html.html(compared()))
    assert {one.tag for one in root.iter()} <= {one.tag for one in benign.iter()}
    assert {name for one in root.iter() for name in one.attrib} <= {
        name for one in benign.iter() for name in one.attrib
    }
    assert root.findtext("head/title") == "How Kubernetes uses etcd"
    links = {one.get("href", "") for one in root.iter("a")}
    assert {link for link in links if not link.startswith(("#", "http://localhost:16686/'\"<b>/trace/"))} == set()
    messages = ["".join(one.itertext()) for one in root.iter("th") if one.get("class") == "text"]
    assert messages == list(HOSTILE.values())


GET_ORIGINS = " ".join(
    [
        "kubectl GET pods: 1,000",
        *(f"kubelet GET resource{n}: 45" for n in range(9)),
        "… and 3 more origins: 95 calls",
    ]
)


def test_page_shows_the_numbers() -> None:
    root = parsed(html.html(compared()))
    assert table_of(root, "Overview") == [
        ["dump", "verdict", "Kubernetes", "calls", "rows", "shapes covered", "rows covered", "spans", "traces"],
        [
            "subject.json",
            "✗ 2 findings, 1 failed gate",
            "",
            "9",
            "3",
            "1 of 4 (97.21% of calls)",
            "1 of 4 (97.21% of calls)",
            "20",
            "9",
        ],
        ["expected.json", "✓ as expected", "1.37", "1,545", "4", "", "", "3,100", "1,550"],
    ]
    assert table_of(root, "Calls by gRPC method", 1) == [
        ["gRPC method", "calls", "% of all calls"],
        [RANGE, "1,512", "97.86%"],
        [TXN, "30", "1.94%"],
        ["etcdserverpb.Lease/LeaseGrant", "2", "0.13%"],
        [COMPACT, "1", "0.06%"],
        ["total", "1,545", "100.00%"],
    ]
    trace = "0123456789abcdef0123456789abcdef"
    headers = ["gRPC method", "call pattern", "key pattern", "args", "contract", "calls", "% of method"]
    assert table_of(root, "Call patterns by key pattern", 1) == [
        [*headers, "origins", "example trace"],
        ["KV/Range", "List", LIST, "limit rangeEnd", "0.00%", "12", "0.79%", "1 kubectl LIST events: 12", trace],
        ["KV/Range", "Get", NAME, "limit", "50.00%", "1,500", "99.21%", f"13 {GET_ORIGINS}", trace],
        ["KV/Txn", "OptimisticPut", NAME, "none", "100.00%", "30", "100.00%", "0", trace],
        ["KV/Compact", "Compact", "(no key)", "rev", "0.00%", "1", "100.00%", "0", trace],
        ["total", "50.55%", "1,543", "", "", ""],
    ]
    assert table_of(root, "Leases")[1] == ["/registry/masterleases/{name}", "2.5", "15.0", "2", "100.00%"]
    assert table_of(root, "Missing call shapes")[1:] == [
        ["KV/Txn", "OptimisticPut", "none", "30", "1.94%"],
        ["KV/Range", "List", "limit rangeEnd", "12", "0.78%"],
        ["KV/Compact", "Compact", "rev", "1", "0.06%"],
    ]
    assert table_of(root, "Side by side")[2:] == [
        ["missing", "KV/Range", "List", LIST, "limit rangeEnd", "12", "0.79%", "0", "0.00%"],
        ["covered", "KV/Range", "Get", NAME, "limit", "1,500", "99.21%", "4", "44.44%"],
        ["new", "KV/Range", "Count", LIST, "rangeEnd countOnly", "0", "0.00%", "3", "33.33%"],
        ["new", "KV/Range", "unknown", LIST, "none", "0", "0.00%", "2", "22.22%"],
        ["missing", "KV/Txn", "OptimisticPut", NAME, "none", "30", "100.00%", "0", "0.00%"],
        ["missing", "KV/Compact", "Compact", "(no key)", "rev", "1", "100.00%", "0", "0.00%"],
    ]


def test_findings_are_links_to_their_traces_only_with_a_jaeger() -> None:
    root = parsed(html.html(Report(usages={"a": SUBJECT}, jaeger_url="http://localhost:16686/")))
    links = {one.get("href") for one in root.iter("a") if not one.get("href", "").startswith("#")}
    assert links == {"http://localhost:16686/trace/0123456789abcdef0123456789abcdef"}
    root = parsed(html.html(Report(usages={"a": SUBJECT})))
    assert [one for one in root.iter("a") if not one.get("href", "").startswith("#")] == []
    assert table_of(root, "Findings")[1:] == [
        ["new-call-pattern", "KV/Range", "New call pattern detected: a", "2", "0123456789abcdef0123456789abcdef"],
        ["method-not-called", "KV/Txn", 'expected "b" method', "0", "none"],
    ]


def test_a_page_stays_small_whatever_the_keys() -> None:
    keys = [f"key{number:05}" + "x" * 1000 for number in range(2000)]
    usage = Usage(
        calls={RANGE: 2000},
        rows=[row_of(RANGE, "Get", key, "limit") for key in keys],
        findings=[Finding(id="new-key-pattern", grpc_method=RANGE, message=key, count=1) for key in keys],
    )
    made = Report(usages={"a": usage})
    page, text = html.html(made), markdown.markdown(made)
    assert len(page) < 150_000
    assert len(text) < 60_000
    root = parsed(page)
    assert table_of(root, "Call patterns by key pattern")[21] == [
        "KV/Range", "", "… and 1,980 more unknown keys", "", "", "1,980", "99.00%", "",
    ]  # fmt: skip
    assert table_of(root, "Heat map")[2:] == [["(unknown keys)", "2,000"]]
    for form in (page, text):
        assert "... and 1980 more of new-key-pattern (calls: 1980)" in form


def test_a_page_stays_small_whatever_the_methods() -> None:
    names = [f"etcdserverpb.KV/Odd{number:05}" for number in range(20_000)] + ["etcdserverpb." + "x" * 1_000_000]
    findings = [
        Finding(id="unexpected-method", grpc_method=name, message=f"unexpected 1 calls to method: {name}", count=1)
        for name in names
    ]
    made = Report(usages={"a": Usage(calls=dict.fromkeys(names, 1), findings=findings)})
    page, text = html.html(made), markdown.markdown(made)
    assert len(page) < 60_000
    assert len(text) < 10_000
    root = parsed(page)
    assert table_of(root, "Calls by gRPC method")[-2:] == [
        ["… and 19,981 more unexpected methods", "19,981", "99.90%"], ["total", "20,001", "100.00%"],
    ]  # fmt: skip
    assert [row[2:4] for row in table_of(root, "Findings")[1:]] == [
        ["unexpected calls to methods: etcdserverpb.KV/* (20000 methods)", "20,000"],
        ["unexpected 1 calls to method: etcdserverpb." + "x" * 97 + "...(999763 more)..." + "x" * 140, "1"],
    ]


def test_a_report_is_written_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "usage.md"
    path.write_text("old")
    path.chmod(0o640)
    write.write(compared(), str(path), None, step_summary=False)
    assert path.read_text() == markdown.markdown(compared())
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(IsADirectoryError) as error:
        write.write(compared(), str(tmp_path), None, step_summary=False)
    assert error.value.filename == str(tmp_path)


def test_heat_map() -> None:
    usage = Usage(
        rows=[*EXPECTED.rows, row_of(RANGE, "Get", "odd", "limit", calls=7), row_of(RANGE, "Get", "odder", "limit")]
    )
    assert heat.heat_map(usage) == HeatMap(
        methods=[(RANGE, 2), (TXN, 1), (COMPACT, 1)],
        shapes=[
            (RANGE, "Get", ("limit",)),
            (RANGE, "List", ("limit", "rangeEnd")),
            (TXN, "OptimisticPut", ()),
            (COMPACT, "Compact", ("rev",)),
        ],
        rows=[
            (LIST, [None, Cell(12, 2), None, None]),
            (NAME, [Cell(1500, 4), None, Cell(30, 2), None]),
            ("(no key)", [None, None, None, Cell(1, 1)]),
            ("(unknown keys)", [Cell(8, 1), None, None, None]),
        ],
    )


def test_heat_levels_are_powers_of_ten() -> None:
    counts = [1, 9, 10, 99, 100, 999, 1000, 9999, 10_000, 10**9]
    levels = [heat.heat_map(Usage(rows=[row_of(RANGE, "Get", NAME, calls=count)])).rows[0][1][0] for count in counts]
    assert [cell.level if cell else 0 for cell in levels] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


def test_coverage_map() -> None:
    assert heat.coverage_map(compared().comparisons["subject.json"]) == HeatMap(
        methods=[(RANGE, 4), (TXN, 1), (COMPACT, 1)],
        shapes=[
            (RANGE, "Get", ("limit",)),
            (RANGE, "Count", ("rangeEnd", "countOnly")),
            (RANGE, "List", ("limit", "rangeEnd")),
            (RANGE, "", ()),
            (TXN, "OptimisticPut", ()),
            (COMPACT, "Compact", ("rev",)),
        ],
        rows=[
            (LIST, [None, Cell(3, 1, "new"), Cell(12, 2, "missing"), Cell(2, 1, "new"), None, None]),
            (NAME, [Cell(1500, 4, "covered"), None, None, None, Cell(30, 2, "missing"), None]),
            ("(no key)", [None, None, None, None, None, Cell(1, 1, "missing")]),
        ],
    )


def test_markdown_shows_the_numbers() -> None:
    overview, findings, missing, side_by_side, _, _, callers, outside, calls, rows, leases = markdown_tables(
        markdown.markdown(compared())
    )
    assert callers[1:] == [
        ["kubectl", "KV/Range", "67.83%", "1032", "66.88%"],
        ["kubelet", "KV/Range", "11.11%", "450", "29.16%"],
        ["kwok", "KV/Range", "0.00%", "30", "1.94%"],
        ["… and others, which were not saved by name", "", "96.77%", "31", "2.01%"],
        ["total", "", "50.55%", "1543", "100.00%"],
    ]
    from_ = "kubelet GET resource0 (40), kubelet GET resource1 (40)"
    assert outside[1] == [
        "KV/Range Get(limit)", NAME, f"kubectl GET pods (300), {from_}, ... and 10 more", "750", "50.00%"
    ]  # fmt: skip
    assert overview == [
        ["dump", "verdict", "Kubernetes", "shapes covered", "rows covered", "calls", "rows", "spans", "traces"],
        [
            "subject.json",
            "✗ 2 findings, 1 failed gate",
            "",
            "1 of 4 (97.21% of calls)",
            "1 of 4 (97.21% of calls)",
            "9",
            "3",
            "20",
            "9",
        ],
        ["expected.json", "✓ as expected", "1.37", "", "", "1545", "4", "3100", "1550"],
    ]
    assert missing[1] == ["KV/Txn", "OptimisticPut()", "30", "1.94%"]
    assert side_by_side[2] == ["covered", "KV/Range", "Get(limit)", NAME, "1500", "99.21%", "4", "44.44%"]
    assert side_by_side[4] == ["new", "KV/Range", "unknown()", LIST, "0", "0.00%", "2", "22.22%"]
    assert calls[1] == [RANGE, "1512", "97.86%"]
    assert rows[2] == ["KV/Range", "Get(limit)", NAME, "50.00%", "1500", "99.21%"]
    assert leases[1] == ["/registry/masterleases/{name}", "2.5", "15.0", "2", "100.00%"]
    assert findings[1] == ["new-call-pattern", "New call pattern detected: a", "0123456789abcdef0123456789abcdef", "2"]


def test_hostile_text_is_no_markdown() -> None:
    text = markdown.markdown(hostile())
    width = 0
    for line in text.splitlines():
        width = 0 if not line.startswith("|") else width or line.count("|")
        assert line.count("|") in (width, 0), line
    inline = [one for token in MARKDOWN.parse(text) for one in token.children or ()]
    assert {one.content for one in inline if one.type == "html_inline"} == {"<code>", "</code>"}
    assert {one.type for one in inline} <= {
        "text", "text_special", "code_inline", "html_inline", "link_open", "link_close", "softbreak",
    }  # fmt: skip
    assert [
        one.content for one in inline if one.type == "code_inline" and one.content in ("nul\\x00nul", "\\u202egnp.exe")
    ] != []
    blocks = {token.content.strip() for token in MARKDOWN.parse(text) if token.type == "html_block"}
    assert {block for block in blocks if not block.startswith("<details><summary>")} == {"</details>"}
    links = {str(one.attrs["href"]) for one in inline if one.type == "link_open"}
    assert {link for link in links if not link.startswith("http://localhost:16686/'%22%3Cb%3E/trace/")} == set()


PRINTABLE = st.characters(exclude_categories=["C", "Z"]) | st.just(" ")


@given(st.text(PRINTABLE, max_size=60) | st.text("|`\\<&*_[]() a", max_size=20))
@settings(deadline=None)
def test_any_text_is_read_back_from_a_cell(text: str) -> None:
    usage = Usage(leases=[*EXPECTED.leases, Lease(key_pattern=text, uses=1, ttl_seconds=1, calls=1)])
    leases = markdown_tables(markdown.markdown(Report(usages={"a": usage})))[-1]
    assert leases[2] == [text, "1.0", "1.0", "1", "33.33%"]


def test_markdown_links_findings_to_their_traces() -> None:
    text = markdown.markdown(Report(usages={"a": SUBJECT}, jaeger_url="http://localhost:16686/(a|b)"))
    links = [
        one.attrs["href"] for token in MARKDOWN.parse(text) for one in token.children or () if one.type == "link_open"
    ]
    assert links == ["http://localhost:16686/%28a%7Cb%29/trace/0123456789abcdef0123456789abcdef"]


def test_step_summary_is_appended_and_kept_below_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = compared()
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert write.write(made, None, None, step_summary=True) == []
    path = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    assert write.write(made, None, None, step_summary=False) == []
    path.write_text("before\n")
    assert write.write(made, None, None, step_summary=True) == [path]
    assert path.read_text() == "before\n" + markdown.markdown(made)
    assert "Side by side" in path.read_text()
    path.write_text("x" * (1024 * 1024 - 2000))
    write.write(made, None, None, step_summary=True)
    assert path.stat().st_size <= 1024 * 1024
    added = path.read_text().lstrip("x")
    assert added.startswith("# How Kubernetes uses etcd\n")
    assert "Side by side" not in added
    assert added.endswith(
        "The tables of callers and of all rows are left out: `--usage-markdown` and `--usage-html` write them.\n"
    )


def test_properties() -> None:
    assert junit.properties(no_hostile_dump()) == {
        "a:verdict": "as expected",
        "a:spans": "3100",
        "a:traces": "1550",
        "a:calls": "1545",
        "a:rows": "4",
        "a:findings": "0",
        "b:verdict": "not judged",
        "c:verdict": "2 findings",
        "c:spans": "20",
        "c:traces": "9",
        "c:calls": "9",
        "c:rows": "3",
        "c:findings": "2",
        "c:findings:method-not-called": "1",
        "c:findings:new-call-pattern": "1",
    }
    assert {key: value for key, value in junit.properties(compared()).items() if "shapes" in key or "ref" in key} == {
        "subject.json:reference": "expected.json",
        "subject.json:shapes:covered": "1",
        "subject.json:shapes:reference": "4",
        "subject.json:shapes:percent_of_calls": "97.21",
        "subject.json:rows:reference": "4",
    }
