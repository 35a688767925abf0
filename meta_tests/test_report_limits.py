"""However much a dump holds that nobody expects, what is printed and written of it stays short."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from etcd_coverage.comparing import saved
from etcd_coverage.comparing.compare import compare
from etcd_coverage.comparing.gates import Gates, hold
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.usage import Origin, Usage
from etcd_coverage.reports import comparison, html, junit, markdown, terminal
from etcd_coverage.reports.view import Report
from meta_tests.builder import GET, RANGE, TRACE, WATCH, WATCH_PODS, call, etcd, span, write

ROOT = Path(__file__).parents[1]
LONG = "x" * 1_000_000


def keys(number: int) -> list[Any]:
    return [
        one
        for n in range(number)
        for one in call(n, RANGE, {"range_begin": f"/kubernetes.io/pods/ns{n}/web", "limit": 1})
    ]


def requests(agents: list[str]) -> list[Any]:
    """Return a call for each user agent, below its request to the API."""
    verbs = {"verb": "LIST", "resource": "pods"}
    return [
        one
        for n, agent in enumerate(agents)
        for one in (
            span(f"{n:08x}000000cc", attributes=verbs | {"user-agent": agent}),
            *call(n, RANGE, GET, parentSpanId=f"{n:08x}000000cc"),
        )
    ]


SPANS: dict[str, Any] = {
    "many keys": lambda: keys(3000),
    "many unlike keys": lambda: [
        one for n in range(3000) for one in call(n, RANGE, {"range_begin": f"/{n}/pods", "limit": 1})
    ],
    "many ways to call": lambda: [
        one for n in range(3000) for one in call(n, RANGE, {"range_begin": f"/registry/pods/{n}", "limit": n + 2})
    ],
    "many methods": lambda: [one for n in range(2000) for one in call(n, f"etcdserverpb.KV/Odd{n}", {})],
    "many watched keys": lambda: [
        one for n in range(3000) for one in call(n, WATCH, WATCH_PODS | {"key": f"/odd{n}", "range_end": ""})
    ],
    "long method": lambda: call(1, f"etcdserverpb.{LONG}", {}),
    "long key": lambda: call(1, RANGE, GET | {"range_begin": f"/{LONG}"}),
    "long control characters": lambda: call(1, RANGE, GET | {"range_begin": "\x1b" * 100_000}),
    "long known pattern": lambda: call(1, RANGE, GET | {"range_begin": f"/registry/{LONG}/a/b/c/d/e/f", "limit": 7}),
    "many segments": lambda: call(1, RANGE, GET | {"range_begin": "/a" * 100_000}),
    "many user agents": lambda: requests([f"agent{n}/v1" for n in range(3000)]),
    "long user agent": lambda: requests([LONG, "\x1b" * 100_000]),
    "spans that differ": lambda: [
        one
        for n in range(500)
        for one in (*call(n, RANGE, GET), span(f"{n:08x}000000aa", f"{n:016x}", name=RANGE, kind=2))
    ],
}


@pytest.mark.parametrize("spans", SPANS.values(), ids=[name.replace(" ", "-") for name in SPANS])
@pytest.mark.integration
def test_every_form_is_short(spans: Any, tmp_path: Path) -> None:
    usage = judge(write(tmp_path / "dump.json", etcd(spans())))
    reference = judge(write(tmp_path / "reference.json", etcd(call(1, RANGE, GET))))
    assert usage.error is None
    gates = Gates(min_coverage=100, min_shape_coverage=100, fail_on_missing=True, fail_on_new=True)
    made = compare(reference, usage)
    outcome = hold("dump.json", made, gates)
    report = Report(
        usages={"dump.json": usage},
        reference="reference.json",
        comparisons={"dump.json": made},
        gate_failures={"dump.json": outcome.failures},
        jaeger_url="http://localhost:16686",
    )
    text = "\n".join(
        [
            terminal.failure_text(usage.findings, "http://localhost:16686"),
            *usage.quality.warnings(),
            *(table for _, table in terminal.tables(usage)),
            *(table for _, table in comparison.comparison_tables(made)),
            comparison.gates_text(outcome, gates, reference, usage),
        ]
    )
    assert text.isascii()
    assert text.count("\n") < 250
    assert max(map(len, text.splitlines())) < 400
    assert len(text) < 40_000
    narrow = "\n".join(
        table for of in (terminal.tables(usage, 80), comparison.comparison_tables(made, 80)) for _, table in of
    )
    assert max(map(len, narrow.splitlines())) <= 80
    assert narrow.count("\n") < 600
    assert len(html.html(report)) < 150_000
    assert len(markdown.markdown(report)) < 40_000
    properties = junit.properties(report)
    assert len(properties) < 30
    assert sum(len(name) + len(value) for name, value in properties.items()) < 2000


def test_twenty_thousand_callers_of_many_rows_are_short() -> None:
    rows = judge(ROOT / "testdata" / "kubernetes-1.37.json.gz", "1.37").rows
    assert len(rows) > 50
    wide = {"role": "r" * 300, "verb": "v" * 300, "resource": "<'" * 150}
    made = []
    for number, row in enumerate(rows):
        origins = [
            Origin(component=f"{'<' * 300}{n}", **wide, calls=9, contract_calls=1)
            for n in range(number, 20_000, len(rows))
        ]
        made.append(replace(row, calls=9 * len(origins), contract_calls=len(origins), origins=origins))
    usage = Usage(rows=made)
    report = Report(usages={"dump.json": usage})
    page = html.html(report)
    assert "and 19980 more" in page
    assert len(page) < 600_000
    assert len(markdown.markdown(report)) < 20_000
    assert sum(len(table) for _, table in terminal.tables(usage)) < 40_000


def saved_again(usage: Usage, path: Path) -> Usage:
    saved.update(path, {"dump.json": usage})
    return saved.load(path)["dump.json"]


@pytest.mark.parametrize("spans", ["long method", "long key"])
def test_saved_messages_are_short_and_say_the_same(spans: str, tmp_path: Path) -> None:
    usage = judge(write(tmp_path / "dump.json", etcd(SPANS[spans]())))
    loaded = saved_again(usage, tmp_path / "usage.json")
    assert max(len(one.message) for one in usage.findings) > 1_000_000
    assert 290 < max(len(one.message) for one in loaded.findings) <= 300
    assert (loaded.rows, loaded.calls) == (usage.rows, usage.calls)
    assert terminal.failure_text(loaded.findings) == terminal.failure_text(usage.findings)
    assert [one.message for one in saved_again(loaded, tmp_path / "again.json").findings] == [
        one.message for one in loaded.findings
    ]


def test_run_and_its_junit_xml_are_short(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    methods = [one for n in range(5000, 7000) for one in call(n, f"etcdserverpb.KV/Odd{n}", {})]
    write(pytester.path / "dump.json", etcd(keys(3000), methods))
    result = pytester.runpytest_inprocess(
        "-c", ROOT / "pyproject.toml", "--rootdir", ROOT, ROOT / "tests" / "test_interface_use.py",
        "-p", "no:cacheprovider", "--testdata=dump.json", "--junitxml=junit.xml",
    )  # fmt: skip
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "unexpected calls to methods: etcdserverpb.KV/* (2000 methods)",
            "New key pattern detected: /kubernetes.io/pods/*/web (3000 keys)",
            "    3000 calls, from etcd/etcdserverpb.KV/Range (3000)",
            f"    for example trace {TRACE} span 00000000000000bb",
        ]
    )
    assert len(result.outlines) < 300
    assert (pytester.path / "junit.xml").stat().st_size < 20_000
    texts = [one.text or "" for one in ElementTree.parse("junit.xml").iter("failure")]
    assert any("(3000 keys)" in text for text in texts)
