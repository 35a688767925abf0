"""The suite as a product: run on tiny and on broken dumps, judged by its ids, lines and exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from etcd_coverage.comparing import saved
from etcd_coverage.judging.judge import judge
from meta_tests.builder import (
    COMPACT,
    GET,
    JSON,
    LEASE_GRANT,
    NO_SUCH_METHOD,
    PODS,
    RANGE,
    RANGE_STREAM,
    TRACE,
    TXN,
    UNEXPECTED_KEY,
    UNEXPECTED_RANGE_STREAM,
    WATCH,
    call,
    complete,
    dump,
    etcd,
    resource,
    span,
    write,
)
from meta_tests.go_original import its_rows_alone

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

ROOT = Path(__file__).parents[1]
SUITE = ROOT / "tests" / "test_interface_use.py"
ROBUSTNESS = ROOT / "meta_tests" / "dumps" / "robustness.json.gz"
LINK = "http://localhost:16686"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the suite on the dumps in the folder ``dumps``, as a user would."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PY_COLORS", "0")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    # In CI pytest repeats each failure in its summary.
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)

    def suite(*options: str | Path, dumps: dict[str, JSON | str | bytes] | None = None) -> pytest.RunResult:
        folder = pytester.path / "dumps"
        folder.mkdir(exist_ok=True)
        for name, content in (dumps or {}).items():
            write(folder / name, content)
        return pytester.runpytest_inprocess(
            "-c", ROOT / "pyproject.toml", "--rootdir", ROOT, SUITE, "-p", "no:cacheprovider",
            f"--testdata={folder}", *options,
        )  # fmt: skip

    return suite


def test_complete_dump_passes_without_tables(run: Run) -> None:
    result = run(dumps={"a.json": etcd(complete())})
    result.assert_outcomes(passed=8)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["etcd coverage: 1 dump in */dumps", "  a.json: 0.0 MB"])
    result.stdout.no_fnmatch_line("*avg ttl*")
    result.stdout.fnmatch_lines(
        ["=* etcd coverage (-v shows the tables) =*", "a.json: 12 spans, 1 traces, *", "warning: no records of traces*"]
    )
    run("-q").stdout.no_fnmatch_line("*12 spans*")


def test_ids_carry_dump_and_method(run: Run) -> None:
    result = run("-v", dumps={"a.json": etcd(complete()), "b.json.gz": etcd(complete())})
    result.assert_outcomes(passed=16)
    ids = [line.split("::")[-1].split(" PASSED")[0] for line in result.outlines if " PASSED" in line]
    of_a_dump = [
        "test_only_expected_methods_were_called[{}]",
        "test_method_usage[{}-etcdserverpb.KV/Range]",
        "test_method_usage[{}-etcdserverpb.KV/RangeStream]",
        "test_method_usage[{}-etcdserverpb.KV/Txn]",
        "test_method_usage[{}-etcdserverpb.KV/Compact]",
        "test_method_usage[{}-etcdserverpb.Watch/Watch]",
        "test_lease_grant[{}]",
        "test_data_quality[{}]",
    ]
    assert ids == [one.format(name) for name in ("a.json", "b.json.gz") for one in of_a_dump]


def test_tables_are_printed_once_if_asked_for(run: Run) -> None:
    result = run("-v", dumps={"a.json": etcd(complete())})
    lines = result.outlines
    assert [line for line in lines if "etcd coverage: a.json" in line and line.startswith("=")] != []
    for once in ("calls", RANGE, RANGE_STREAM, TXN, "leases"):
        assert lines.count(once) == 1
    result.stdout.fnmatch_lines(
        [
            "etcdserverpb.Lease/LeaseGrant * 1 * 16.67%",
            "total * 6 * 100.00%",
            "Get * /registry/{resource}/{namespace}/{name} * X * 0.00% * 1 * 100.00%",
            "/registry/{resource}/{namespace}/{name} * 1.0 * 15.0 * 1 * 100.00%",
            "data quality: 12 spans, 1 traces, 0 skipped, 0 duplicates, 0 calls without parent, 0 gRPC spans without call",
            "warning: no records of traces from the apiserver",
        ]
    )


def test_failed_dump_shows_its_tables_unasked_and_the_good_one_does_not(run: Run) -> None:
    bad = etcd([*complete(), *call(8, NO_SUCH_METHOD, {})])
    result = run(dumps={"bad.json": bad, "good.json": etcd(complete())})
    result.assert_outcomes(passed=15, failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["=* etcd coverage: bad.json =*", f"{NO_SUCH_METHOD} * 1 * 14.29%"])
    result.stdout.no_fnmatch_line("=* etcd coverage: good.json =*")


@pytest.mark.integration
def test_tables_and_usage_are_the_same_under_xdist(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    dumps: dict[str, JSON | str | bytes] = {
        "a.json": etcd(complete()),
        "b.json": ROBUSTNESS.read_bytes(),
        "\u00e9\u202e.json": "{}",
    }
    reference = f"--reference={ROOT / 'meta_tests' / 'dumps' / 'kubernetes-1.37.json.gz'}"
    options = ("-v", ROOT / "tests" / "test_coverage.py", reference, "--fail-on-missing")
    earlier = {"z.json": judge(write(tmp_path / "z.json", etcd(complete())))}
    for name in ("0.json", "2.json"):
        saved.update(tmp_path / name, earlier)
    results = [run(*options, f"--usage-json={tmp_path}/0.json", dumps=dumps)]
    results.append(run(*options, "-n2", f"--usage-json={tmp_path}/2.json", dumps=dumps))
    for result in results:
        result.assert_outcomes(passed=11, failed=8, skipped=8)
        for once in (
            "--fail-on-missing: 43 rows (1593 calls) of the reference not seen",
            "unexpected 2 calls to method: etcdserverpb.KV/Put",
            "etcdserverpb.Maintenance/HashKV        2      0.05%",
        ):
            assert result.outlines.count(once) == 1
    assert (tmp_path / "0.json").read_text() == (tmp_path / "2.json").read_text()
    assert json.loads((tmp_path / "2.json").read_text())["comparison"]["subjects"].keys() == {
        "a.json",
        "b.json",
        "z.json",
    }
    assert saved.load(tmp_path / "2.json")["z.json"] == earlier["z.json"]
    summaries = []
    for result in results:
        text = result.stdout.str().replace("/2.json: ", "/0.json: ")
        summaries.append(text[text.index("\ncalls\n") : text.index("short test summary info")])
    assert summaries[0] == summaries[1]


FINDINGS = {
    "method.json": (
        call(8, NO_SUCH_METHOD, {}),
        "test_only_expected_methods_were_called[method.json]",
        f"unexpected 1 calls to method: {NO_SUCH_METHOD}",
        "if Kubernetes may call it, add a GrpcMethod to etcd_coverage/reference.py",
    ),
    "key.json": (
        call(8, RANGE, GET | {"range_begin": UNEXPECTED_KEY}),
        "test_method_usage[key.json-etcdserverpb.KV/Range]",
        f"New key pattern detected: {UNEXPECTED_KEY}",
        "if Kubernetes may use it, add a SpecialResource or SpecialKey to etcd_coverage/reference.py; "
        "of a lease without one pattern, see which transactions used it",
    ),
    "call.json": (
        call(8, RANGE_STREAM, UNEXPECTED_RANGE_STREAM),
        "test_method_usage[call.json-etcdserverpb.KV/RangeStream]",
        "New call pattern detected: etcdserverpb.KV/RangeStream"
        "(key=/registry/{resource}/{namespace}/{name},limit=true,rangeEnd=false,rev=true)",
        "if Kubernetes may call it so, add a CallPattern to etcd_coverage/reference.py",
    ),
    "lease-id.json": (
        call(8, LEASE_GRANT, {"ttl": 1}),
        "test_lease_grant[lease-id.json]",
        "Lease without ID",
        "check the etcd version: its lease_grant spans carry an id",
    ),
    "lease-ttl.json": (
        call(8, LEASE_GRANT, {"id": 77}),
        "test_lease_grant[lease-ttl.json]",
        "Lease without TTL",
        "check the etcd version: its lease_grant spans carry a ttl",
    ),
    "lease-unused.json": (
        call(8, LEASE_GRANT, {"id": 8, "ttl": 1}),
        "test_lease_grant[lease-unused.json]",
        "New key pattern detected: no pattern found",
        "if Kubernetes may use it, add a SpecialResource or SpecialKey to etcd_coverage/reference.py; "
        "of a lease without one pattern, see which transactions used it",
    ),
}


def test_each_finding_fails_its_test_alone_and_tells_what_to_do(run: Run) -> None:
    dumps = {name: etcd([*complete(), *spans]) for name, (spans, *_) in FINDINGS.items()}
    result = run(f"--jaeger-url={LINK}/", dumps=dumps)
    result.assert_outcomes(passed=7 * len(FINDINGS), failed=len(FINDINGS))
    lines = result.outlines
    for _, test, told, next_step in FINDINGS.values():
        (title,) = [number for number, line in enumerate(lines) if line.strip("_ ") == f"TestInterfaceUse.{test}"]
        message, origin, example, *rest = lines[title + 1 : title + 20]
        assert message == told
        assert origin.startswith("    1 call, from etcd/etcdserverpb.")
        assert example.startswith("    for example trace 0123456789abcdef0123456789abcdef span 00000008000000")
        assert example.endswith(f"({LINK}/trace/0123456789abcdef0123456789abcdef)")
        step = next(line for line in rest if not line.startswith("    "))
        assert step.partition(": ")[2] == next_step
        assert [line for line in lines if line.startswith("FAILED") and test in line] != []
    assert [line for line in lines if "Traceback" in line or "conftest.py:" in line] == []


def test_missing_method_fails_its_test(run: Run) -> None:
    result = run(dumps={"a.json": etcd([one for one in complete() if not one["spanId"].startswith("00000006")])})
    result.assert_outcomes(passed=7, failed=1)
    result.stdout.fnmatch_lines(['expected "etcdserverpb.Lease/LeaseGrant" method to be called at least once'])


def test_real_robustness_dump_tells_what_is_unknown(run: Run, pytester: pytest.Pytester) -> None:
    (pytester.path / "dumps").mkdir()
    (pytester.path / "dumps" / "robustness.json.gz").symlink_to(ROBUSTNESS)
    with its_rows_alone():
        result = run()
    assert result.parseoutcomes()["failed"] == 5
    result.stdout.fnmatch_lines(
        [
            "unexpected 2 calls to method: etcdserverpb.KV/Put",
            "unexpected 2 calls to method: etcdserverpb.Maintenance/HashKV",
            "New call pattern detected: etcdserverpb.KV/Range(key=/registry/{resource}/,limit=false,rangeEnd=false,rev=false,countOnly=false,keysOnly=false)",
            "    155 calls, from etcd/etcdserverpb.KV/Range (155)",
            "    for example trace 1516f65ccf5fdd539fb14e811f74ca0a span aed52f5160618587",
            "New key pattern detected: key",
            "*New key pattern detected: \\x00",
            "data quality: 8390 spans, 4227 traces, 0 skipped, 0 duplicates, 32 calls without parent, 23 gRPC spans without call",
        ]
    )


def test_hostile_text_of_a_dump_never_reaches_the_terminal(run: Run) -> None:
    hostile = "\x1b[2J\x07\x00\u202e\r\n\x9b31m"
    spans = [
        *call(8, f"etcdserverpb.{hostile}", {}),
        *call(9, RANGE, GET | {"range_begin": hostile}),
        *(one | {"traceId": hostile} for one in call(10, RANGE, PODS | {"keys_only": True, "limit": 5})),
        *call(11, LEASE_GRANT, {"id": 9, "ttl": 15}),
        *call(12, TXN, {"success_first_lease": 9, "success_first_key": hostile, "compare_first_key": hostile}),
    ]
    again = [span("00000000000000cc", name=name) | {"traceId": hostile} for name in ("a", "b")]
    content = dump(resource([*complete(), *spans, *again]), resource([], service=hostile))
    bad = etcd([span("00000000000000aa", hostile, kind=hostile, name=hostile)])
    error = json.dumps({"error": {"httpCode": 404, "message": hostile}})
    unnamed = dump({"resource": {"attributes": []}, "scopeSpans": []})
    result = run(
        "-v", f"--jaeger-url={LINK}",
        dumps={"a.json": content, "b.json": bad, "c.json": error, "d.json": hostile, "e.json": unnamed},
    )  # fmt: skip
    assert result.ret == 1
    text = result.stdout.str()
    assert {char for char in text if not char.isprintable()} == {"\n"}
    assert "\\x1b[2J\\x07\\x00\\u202e\\x0d\\x0a\\x9b31m" in text


def test_many_unknown_keys_are_cut_in_the_table_and_in_the_failure(run: Run) -> None:
    keys = [f"key{number:03}" for number in range(30)]
    unknown = [one for number, key in enumerate(keys) for one in call(100 + number, RANGE, GET | {"range_begin": key})]
    result = run(dumps={"a.json": etcd([*complete(), *unknown])})
    result.stdout.fnmatch_lines(["*... and 10 more unknown keys * 10 * 32.26%"])
    lines = result.outlines
    assert [line for line in lines if line.startswith("New key pattern")] == [
        f"New key pattern detected: {key}" for key in keys[:20]
    ]
    assert "... and 10 more of new-key-pattern (calls: 10): --usage-json PATH saves every finding" in lines
    assert sum(line.startswith("Get ") and " key0" in line for line in lines) == 20


def without_range_stream() -> JSON:
    return etcd([one for one in complete() if not one["spanId"].startswith("00000002")])


def test_method_of_a_later_release_is_not_required(run: Run) -> None:
    names = ["kubernetes-1.36-mine.json", "kubernetes-1.36.json", "kubernetes-1.37.json", "traces.json"]
    dumps: dict[str, JSON | str | bytes] = dict.fromkeys(names, without_range_stream())
    result = run("-rs", dumps=dumps)
    result.assert_outcomes(passed=28, failed=2, skipped=2)
    assert "  kubernetes-1.36-mine.json: 0.0 MB, judged as Kubernetes 1.36" in result.outlines
    assert "  traces.json: 0.0 MB" in result.outlines
    result.stdout.fnmatch_lines(
        ["SKIPPED *: etcdserverpb.KV/RangeStream came with Kubernetes 1.37, this dump is of 1.36"]
    )
    run("--kubernetes-version=1.36").assert_outcomes(passed=28, skipped=4)
    run("--kubernetes-version=1.37").assert_outcomes(passed=28, failed=4)


def test_method_of_a_later_release_is_judged_where_it_was_called(run: Run) -> None:
    result = run(dumps={"kubernetes-1.36.json": etcd(complete())})
    result.assert_outcomes(passed=7, failed=1)
    assert "etcdserverpb.KV/RangeStream came with Kubernetes 1.37, this dump is of 1.36" in result.outlines
    odd = etcd([*complete(), *call(8, RANGE_STREAM, UNEXPECTED_RANGE_STREAM)])
    result = run(dumps={"kubernetes-1.36.json": odd})
    result.assert_outcomes(passed=7, failed=1)
    result.stdout.fnmatch_lines(["New call pattern detected: etcdserverpb.KV/RangeStream(*"])


@pytest.mark.parametrize("prefix", ["/kube", "kube", "//kube/"])
def test_another_etcd_prefix_is_written_as_the_apiserver_takes_it(run: Run, prefix: str) -> None:
    kube = json.loads(json.dumps(etcd(complete())).replace("/registry/", "/kube/"))
    result = run(f"--etcd-prefix={prefix}", dumps={"a.json": kube})
    result.assert_outcomes(passed=8)
    assert f"  options: --etcd-prefix={prefix}" in result.outlines


def test_another_etcd_prefix_is_named_where_it_was_not_given(run: Run) -> None:
    kube = json.loads(json.dumps(etcd(complete())).replace("/registry/", "/kube/"))
    result = run(dumps={"a.json": kube})
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["other-prefix: judge with the --etcd-prefix that the message names: *"])


def test_no_dump_is_told_loudly(run: Run) -> None:
    result = run("-rs")
    result.assert_outcomes(skipped=8)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "etcd coverage: NO DUMPS in */dumps: NOTHING WILL BE JUDGED*",
            "SKIPPED * no dump in */dumps: nothing was judged",
            "no dumps in */dumps: NOTHING WAS JUDGED, though asked for by --testdata",
        ]
    )


def test_no_dump_is_an_error_if_dumps_are_required(run: Run) -> None:
    result = run("--require-dumps")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --require-dumps: no dump in */dumps*"])
    run("--require-dumps", dumps={"a.json": etcd(complete())}).assert_outcomes(passed=8)


def test_dotfiles_are_no_dumps(run: Run) -> None:
    run(dumps={".gitignore": "*", ".a.json": "{}", "a.json": etcd(complete())}).assert_outcomes(passed=8)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--testdata=/nowhere", "--testdata: /nowhere*"),
        ("--kubernetes-version=v1.37", "--kubernetes-version: 'v1.37' is not a release such as 1.37"),
        ("--kubernetes-version=1.37.2", "--kubernetes-version: '1.37.2' is not a release such as 1.37"),
        (
            "--kubernetes-version=1.40",
            "--kubernetes-version: 1.40 is none of 1.34, 1.35, 1.36, 1.37, 1.38 or the next, 1.39: *",
        ),
        ("--kubernetes-version=1.33", "--kubernetes-version: 1.33 is none of *"),
        ("--jaeger-url=localhost:16686", "--jaeger-url: 'localhost:16686' is not a URL*"),
        ("--usage-json=/nowhere/usage.json", "--usage-json: /nowhere/usage.json cannot be written*"),
        ("--usage-json=.", "--usage-json: . cannot be written*"),
    ],
)
def test_wrong_option_is_told_in_one_line(run: Run, option: str, told: str) -> None:
    result = run(option, dumps={"a.json": etcd(complete())})
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {told}"])
    result.stderr.no_fnmatch_line("*Traceback*")


@pytest.mark.integration
def test_folder_after_a_space_is_not_taken_for_pytests_root(tmp_path: Path) -> None:
    """In a process of its own, without a path to tests, as a user types it."""
    write(tmp_path / "a.json", etcd(complete()))
    command = [sys.executable, "-m", "pytest", "-q", "-k", "TestInterfaceUse", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--testdata", tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout
    assert "Warning" not in done.stdout


def test_folder_that_cannot_be_listed_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --testdata: */dumps cannot be read: Permission denied"])


def test_header_tells_the_options_in_force(run: Run, tmp_path: Path) -> None:
    options = ("--kubernetes-version=1.37", f"--jaeger-url={LINK}", f"--usage-json={tmp_path}/u.json")
    result = run(*options, dumps={"a.json": etcd(complete())})
    result.stdout.fnmatch_lines([f"  options: {' '.join(options)}"])


def test_usage_is_saved_of_what_was_judged(run: Run, tmp_path: Path) -> None:
    dumps: dict[str, JSON | str | bytes] = {"a.json": etcd(complete()), "b.json": "{}", "c.json": etcd(complete())}
    result = run("-k", "a.json or b.json", f"--usage-json={tmp_path}/usage.json", dumps=dumps)
    assert result.ret == 1
    written = json.loads((tmp_path / "usage.json").read_text())
    assert {name: one["error"] is None for name, one in written["dumps"].items()} == {"a.json": True, "b.json": False}


BAD: dict[str, tuple[JSON | str | bytes, str]] = {
    "empty.json": ("", "is empty"),
    "cut.json": (json.dumps(etcd(complete()))[:-200], "is truncated JSON"),
    "page.json": ("<html>404</html>", "is HTML"),
    "text.json": ("404 page not found", "is plain text"),
    "object.json": ("{}", "is JSON, but not a dump"),
    "null.json": ('{"result":null}', "has no spans"),
    "spanless.json": (dump(), "has no spans"),
    "foreign.json": (etcd([span("00000000000000aa")]), "has no etcd gRPC spans"),
    "cut-gzip.json": (b"\x1f\x8b\x08\x00", "is a gzip file that was cut off"),
    "binary": (bytes(range(256)), "is a binary file"),
    "utf8.json": (b'{"result": "\xff"}', "is not valid UTF-8"),
    "nan.json": ('{"result": NaN}', "is not JSON"),
    "deep.json": ('{"result": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
    "unnamed.json": (dump({"resource": {}, "scopeSpans": []}), "has a resource without service.name"),
    "idless.json": (etcd([span("", name=RANGE, kind=2)]), "has a span without a span id"),
    "int.json": (etcd([*complete(), *call(8, RANGE, {"limit": 2**63})]), 'attribute "limit"'),
}


def test_each_bad_dump_is_one_line_and_the_others_are_judged(run: Run, pytester: pytest.Pytester) -> None:
    folder = pytester.path / "dumps"
    (folder / "folder").mkdir(parents=True)
    told = {name: line for name, (_, line) in BAD.items()} | {
        "folder": "is a folder without files",
        "\\x1b[31m.json": "is empty",
    }
    dumps: dict[str, JSON | str | bytes] = {name: content for name, (content, _) in BAD.items()}
    result = run(dumps=dumps | {"good.json": etcd(complete()), "\x1b[31m.json": ""})
    result.assert_outcomes(passed=8, failed=len(told), skipped=7 * len(told))
    assert result.ret == 1
    lines = result.outlines
    assert "  folder: a dump in parts, 0.0 MB" in lines
    for name, line in told.items():
        start = f"{folder}/{name}: "
        assert [one for one in lines if one.startswith(start) and line in one] != [], name
        assert [one for one in lines if one.startswith("FAILED") and f"[{name}]" in one.replace("\\\\", "\\")] != [], (
            name
        )
    assert [line for line in lines if "Traceback" in line or "\x1b" in line] == []


def test_parent_cycle_and_duplicates_are_judged(run: Run) -> None:
    cycle = [span("00000000000000c1", "00000000000000c2"), span("00000000000000c2", "00000000000000c1")]
    server, child = call(8, RANGE, GET, parentSpanId="00000000000000c1")
    result = run("-v", dumps={"a.json": etcd([*complete(), *complete(), *cycle, server, child])})
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["data quality: 28 spans, 1 traces, 0 skipped, 12 duplicates*"])


@pytest.mark.parametrize("length", [100_000, pytest.param(1_000_000, marks=pytest.mark.integration)])
def test_parent_chain_of_many_spans_is_judged(run: Run, length: int) -> None:
    """Written as text: a million dicts would take most of the time."""
    links = ",".join(
        f'{{"traceId":"{"a" * 32}","spanId":"{n:016x}","parentSpanId":"{n - 1:016x}","name":"s"}}'
        for n in range(1, length + 1)
    )
    top = f'{{"traceId":"{"a" * 32}","spanId":"{"b" * 16}","parentSpanId":"{length:016x}","name":"{RANGE}","kind":2}}'
    child = json.dumps(span("c" * 16, "b" * 16, attributes=GET) | {"traceId": "a" * 32})
    result = run(
        dumps={"a.json": json.dumps(etcd(complete())).replace('"spans": [', f'"spans": [{links},{top},{child},')}
    )
    result.assert_outcomes(passed=8)


def test_help_lists_every_option(run: Run) -> None:
    result = run("--help")
    result.stdout.fnmatch_lines(["etcd coverage:"])
    for option in (
        "--testdata=PATH",
        "--require-dumps",
        "--kubernetes-version=X.Y",
        "--jaeger-url=URL",
        "--usage-json=PATH",
        "--reference=PATH",
        "--min-coverage=PCT",
        "--min-shape-coverage=PCT",
        "--fail-on-new",
        "--fail-on-missing",
        "--min-calls=N",
        "--gate-methods=KV/Txn,...",
        "--known-gaps=PATH",
    ):
        result.stdout.fnmatch_lines([f"  {option}*"])


@pytest.mark.integration
def test_run_writes_the_same_reports_and_properties_under_xdist(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    bad = etcd([*complete(), *call(8, RANGE, GET | {"range_begin": "<b>\x1b|"})])
    pages, texts, junit = [], [], []
    for workers in ((), ("-n2",)):
        paths = [tmp_path / f"{len(workers)}.{suffix}" for suffix in ("html", "md", "xml")]
        options = [f"--usage-html={paths[0]}", f"--usage-markdown={paths[1]}", f"--junitxml={paths[2]}"]
        result = run(*options, "--usage-summary", *workers, dumps={"bad.json": bad, "good.json": etcd(complete())})
        result.assert_outcomes(passed=15, failed=1)
        result.stdout.fnmatch_lines(
            [f"usage report written to {path}" for path in (paths[1], paths[0], tmp_path / "summary")]
        )
        pages.append(paths[0].read_text())
        texts.append(paths[1].read_text())
        junit.append(properties_of(paths[2]))
    assert pages[0] == pages[1]
    assert texts[0] == texts[1]
    assert junit[0] == junit[1]
    assert (tmp_path / "summary").read_text() == "".join(texts)
    assert "New key pattern detected: &lt;b&gt;\\x1b|" in pages[0]
    assert "&#60;b&#62;&#92;x1b&#124;" in texts[0]
    assert junit[0][""]["bad.json:verdict"] == "1 finding"
    assert junit[0][""]["good.json:verdict"] == "as expected"
    assert junit[0][""]["good.json:calls"] == "6"
    assert junit[0][f"test_method_usage[bad.json-{RANGE}]"] == {"dump": "bad.json", "findings": "1"}
    assert junit[0][f"test_method_usage[good.json-{WATCH}]"] == {"dump": "good.json", "findings": "0"}


def properties_of(junit_xml: Path) -> dict[str, dict[str, str]]:
    """Return the properties of each test by its name, and those of all under the empty name."""
    suite = ElementTree.parse(junit_xml).find("testsuite")
    assert suite is not None
    return {
        one.get("name", "") if one.tag == "testcase" else "": {
            item.get("name", ""): item.get("value", "") for item in one.findall("properties/property")
        }
        for one in (*suite.findall("testcase"), suite)
    }


@pytest.mark.parametrize("option", ["--usage-html", "--usage-markdown"])
def test_report_that_cannot_be_written_is_told_before_the_run(run: Run, option: str) -> None:
    result = run(f"{option}=/nowhere/a", dumps={"a.json": etcd(complete())})
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line for line in result.errlines if line] == [
        f"ERROR: {option}: /nowhere/a cannot be written: name a file in a folder that exists"
    ]


def test_report_that_cannot_be_written_in_the_end_fails_in_a_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/nowhere/summary")
    result = run("--usage-summary", dumps={"a.json": etcd(complete())})
    result.assert_outcomes(passed=8)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["/nowhere/summary: cannot be written: No such file or directory"])


def test_reports_hold_the_comparison_with_its_gates_and_doubts(run: Run, tmp_path: Path) -> None:
    lacking = [one for one in complete() if not one["spanId"].startswith("00000003000000b")]
    (tmp_path / "reference.json").write_text(json.dumps(etcd(complete())))
    result = run(
        f"--reference={tmp_path}/reference.json", "--fail-on-missing", f"--usage-markdown={tmp_path}/a.md",
        f"--usage-html={tmp_path}/a.html", ROOT / "tests" / "test_coverage.py", dumps={"a.json": etcd(lacking)},
    )  # fmt: skip
    assert result.ret == 1
    text = (tmp_path / "a.md").read_text()
    for line in (
        "Gate failed: `--fail-on-missing: 1 row (1 call) of the reference not seen`",
        "- rows covered: 4 of 5, 80.00% of the reference's calls",
        "Note: `what is missing may be not recorded rather than not called: 1 KV/Txn spans without call`",
    ):
        assert line in text.splitlines()
    page = (tmp_path / "a.html").read_text()
    assert "<strong>Gate failed:</strong> --fail-on-missing" in page
    assert "1 failed gate" in page


def test_origins_says_how_many_callers_of_a_row_are_saved_by_name(run: Run, pytester: pytest.Pytester) -> None:
    agents = [
        "a/1",
        "a/1",
        "b/1",
        "c/1 (x) kubernetes/1 -- t",
        "d/1 (x) kubernetes/1 -- t",
        "e/1 (x) kubernetes/1 -- u",
    ]
    spans = [*complete()]
    for number, agent in enumerate(agents, 20):
        server, child = call(number, COMPACT, {"rev": 5, "is_physical": True})
        asked = {"verb": "GET", "resource": "pods", "user-agent": agent}
        spans += [span(f"{number:016x}", attributes=asked), server | {"parentSpanId": f"{number:016x}"}, child]
    saved = {}
    for options in ([], ["--origins=all"], ["--origins=1"]):
        path = pytester.path / "usage.json"
        path.unlink(missing_ok=True)
        run(f"--usage-json={path}", *options, dumps={"a.json": etcd(spans)})
        (saved["".join(options)],) = [
            row for row in json.loads(path.read_text())["dumps"]["a.json"]["rows"] if row["grpc_method"] == COMPACT
        ]
    assert saved[""] == saved["--origins=all"]
    assert len(saved[""]["origins"]) == 6
    assert [one["test"] for one in saved[""]["tests"]] == ["t", "u"]
    few = saved["--origins=1"]
    assert [(one["component"], one["calls"]) for one in few["origins"]] == [("a", 2)]
    assert few["other_origins"] == {"origins": 5, "calls": 5, "contract_calls": 0}
    assert (few["tests"], few["other_tests"]) == ([{"test": "t", "calls": 2}], {"tests": 1, "calls": 1})


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--origins=3"], "--origins says how much --usage-json saves: name a file with --usage-json"),
        (["--origins=0", "--usage-json=u.json"], "'0' is neither a number from 1 on nor all"),
    ],
)
def test_origins_that_cannot_be_used(run: Run, options: list[str], line: str) -> None:
    result = run(*options, dumps={"a.json": etcd(complete())})
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert any(line in one for one in result.errlines)


CUT = [[one | {"traceId": f"{at:032x}"} for one in call(at, RANGE, GET)] for at in range(1, 100)]


def test_data_quality_is_judged_by_its_own_test_and_limits(run: Run, pytester: pytest.Pytester) -> None:
    """100 traces; 1 of 102 calls of KV/Range lost, 1 of 108 calls without server span; one that lost attributes."""
    lost = call(200, RANGE, GET)[:1]
    server, child = call(201, RANGE, GET)
    dropped = [server, child | {"droppedAttributesCount": 1}]
    orphan = [span("00000000000000dd", "00000000000000ee")]
    accepted = ("--allow-clipped", "--allow-dropped")
    assert run(*accepted, dumps={"a.json": etcd(complete(), *CUT, lost, dropped, orphan)}).ret == 0
    run(*accepted, "--max-lost-calls=0.99", "--max-orphan-calls=0.93").assert_outcomes(passed=8)
    result = run("--max-lost-calls=0.98", "--max-orphan-calls=0.92", "--usage-json=usage.json")
    result.assert_outcomes(passed=7, failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "  options: --max-lost-calls=0.98 --max-orphan-calls=0.92 --usage-json=usage.json",
            "*test_data_quality*a.json*",
            f'"{RANGE}" method was called 102 times, 1 of them without a recorded call (0.98%, allowed 0.98%)',
            "1 call without server span, so of an unknown gRPC method (0.93%, allowed 0.92%)",
            "exactly 100 traces: the download was probably cut at a limit (Jaeger's default is 100)",
            "1 call or server span lost attributes to a limit (droppedAttributesCount)",
            "lost-calls: *--max-lost-calls allows more",
            "FAIL a.json: 4 findings in 1 test*",
        ]
    )
    written = json.loads((pytester.path / "usage.json").read_text())["dumps"]["a.json"]["findings"]
    kinds = ["lost-calls", "orphan-calls", "clipped-dump", "dropped-attributes"]
    assert [finding["id"] for finding in written] == kinds


@pytest.mark.parametrize("option", ["--max-lost-calls=0", "--max-orphan-calls=0", "--max-left-out=0"])
def test_limit_of_nothing_is_a_limit(run: Run, option: str) -> None:
    lost = [*call(200, RANGE, GET)[:1], span("00000000000000dd", "00000000000000ee")]
    left_out = [one | {"traceId": "f" * 32} for one in call(7, NO_SUCH_METHOD, {})]
    filler = [one for group in CUT[:98] for one in group]
    more = [one | {"traceId": f"{at:032x}"} for at in range(500, 1500) for one in call(at, RANGE, GET)]
    traces = sorted({one["traceId"] for one in (*filler, *more)})
    roots = [span(f"{at:016x}") | {"traceId": trace} for at, trace in enumerate([*traces, TRACE])]
    spans = [*complete(), *lost, *filler, *more, *left_out]
    content = dump(resource(spans), resource(roots, "apiserver"))
    run(dumps={"a.json": content}).assert_outcomes(passed=8)
    run(option).assert_outcomes(passed=7, failed=1)


@pytest.mark.parametrize("option", ["--max-lost-calls=101", "--max-orphan-calls=x", "--max-left-out=-1"])
def test_limit_that_is_no_percentage_is_refused(run: Run, option: str) -> None:
    result = run(option, dumps={"a.json": etcd(complete())})
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "is not a percentage from 0 to 100" in result.stderr.str()


def test_warnings_are_printed_quietly_too(run: Run) -> None:
    lines = run("-q", "--allow-clipped", dumps={"a.json": etcd(complete(), *CUT)}).outlines
    warnings = [line for line in lines if line.startswith("warning: a.json: ")]
    assert len(warnings) == 2
    assert "exactly 100 traces: the download was probably cut" in warnings[1]
