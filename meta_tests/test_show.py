"""The command that shows calls and traces: what it prints, escapes and refuses."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from etcd_coverage import show
from etcd_coverage.comparing import saved
from etcd_coverage.judging.judge import judge
from meta_tests.builder import GET, JSON, PODS, PUT, RANGE, TRACE, TXN, call, dump, etcd, resource, span, write

if TYPE_CHECKING:
    from collections.abc import Callable

DEMO = Path(__file__).parents[1] / "testdata" / "kubernetes-1.37.json.gz"
ROOT, REQUEST = "0000000000000001", "0000000000000002"
CONTROLLER = (
    "kube-controller-manager/v1 (linux/amd64) kubernetes/1/system:serviceaccount:kube-system:namespace-controller"
)


@pytest.fixture
def content() -> JSON:
    """A put for a controller's request, and a list that nobody asked for."""
    server, child = call(1, TXN, PUT)
    asked = {"verb": "PUT", "api-group": "", "resource": "pods", "subresource": "", "user-agent": CONTROLLER}
    above = [
        span(ROOT, name="PUT /api", kind=2),
        span(REQUEST, ROOT, name="Update", attributes=asked, events=["contract.OptimisticPut", "\x1b[31m"]),
        span("0000000000000003", ROOT, name="audit\u202e", status={"code": 2}),
    ]
    return dump(
        resource([server | {"parentSpanId": REQUEST}, child, *call(2, RANGE, PODS)]), resource(above, "apiserver")
    )


@pytest.fixture
def shown(tmp_path: Path, content: JSON, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*options: str, of: JSON | str = content) -> tuple[int, str, str]:
        code = show.main([str(write(tmp_path / "dump.json", of)), *options])
        out, err = capsys.readouterr()
        return code, out, err

    return run


PUT_LINE = (
    "kube-controller-manager/namespace-controller PUT pods -> "
    "KV/Txn OptimisticPut /registry/{resource}/{namespace}/{name} () "
    'compare_first_key="/registry/pods/default/web" compare_len=1 success_len=1 success_first_type="put" '
    'success_first_key="/registry/pods/default/web" success_first_lease=0 '
    f"--trace {TRACE} --span 00000001000000bb\n"
)
LIST_LINE = (
    f"etcd/{RANGE} -> KV/Range List /registry/{{resource}}/ (rangeEnd) "
    f'range_begin="/registry/pods/" range_end="/registry/pods0" --trace {TRACE} --span 00000002000000bb\n'
)


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ([], LIST_LINE + PUT_LINE),
        (["--limit", "1"], LIST_LINE + "... and 1 more: --limit 2 shows all\n"),
        (["--row", "KV/Txn"], PUT_LINE),
        (["--row", "etcdserverpb.KV/Txn OptimisticPut"], PUT_LINE),
        (["--row", "KV/Range List /registry/{resource}/"], LIST_LINE),
        (["--origin", "namespace-controller"], PUT_LINE),
        (["--origin", "kube-controller-manager"], PUT_LINE),
        (["--origin", "kube-controller-manager/namespace-controller"], PUT_LINE),
        (["--origin", "etcd"], LIST_LINE),
        (["--origin", "etcd", "--row", "KV/Range List"], LIST_LINE),
    ],
)
def test_calls(shown: Callable[..., tuple[int, str, str]], options: list[str], lines: str) -> None:
    assert shown(*options) == (0, lines, "")


def test_tree_of_a_trace(shown: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = shown("--trace", TRACE.upper())
    assert code == 0
    assert out.splitlines() == [
        f"etcd: {RANGE} (SERVER, span 00000002000000aa)",
        "  etcd: range (INTERNAL, span 00000002000000bb) <== etcd call KV/Range List /registry/{resource}/ (rangeEnd), "
        f"outside the interface, from etcd/{RANGE}",
        '      range_begin = "/registry/pods/"',
        '      range_end = "/registry/pods0"',
        "apiserver: PUT /api (SERVER, span 0000000000000001)",
        "  apiserver: Update (INTERNAL, span 0000000000000002)",
        '      verb = "PUT"',
        '      api-group = ""',
        '      resource = "pods"',
        '      subresource = ""',
        f'      user-agent = "{CONTROLLER}"',
        "      event contract.OptimisticPut",
        "      event \\x1b[31m",
        f"    etcd: {TXN} (SERVER, span 00000001000000aa)",
        "      etcd: txn (INTERNAL, span 00000001000000bb) <== etcd call KV/Txn OptimisticPut "
        "/registry/{resource}/{namespace}/{name} (), through contract.OptimisticPut, "
        "from kube-controller-manager/namespace-controller PUT pods",
        '          compare_first_key = "/registry/pods/default/web"',
        "          compare_len = 1",
        "          success_len = 1",
        '          success_first_type = "put"',
        '          success_first_key = "/registry/pods/default/web"',
        "          success_first_lease = 0",
        "  apiserver: audit\\u202e (INTERNAL, span 0000000000000003) <== status: error",
    ]


def test_span_of_a_trace_with_what_is_above_and_below_it(shown: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = shown("--trace", TRACE, "--span", "00000001000000AA")
    spans = [line.partition(" (")[0] for line in out.splitlines() if ", span " in line]
    assert spans == ["apiserver: PUT /api", "  apiserver: Update", f"    etcd: {TXN}", "      etcd: txn"]
    assert f"    etcd: {TXN} (SERVER, span 00000001000000aa) <== the span that was asked for" in out.splitlines()
    assert out.splitlines()[-1] == "... and 3 more spans of this trace: leave out --span to see all"


def test_cycles_and_lost_parents(shown: Callable[..., tuple[int, str, str]]) -> None:
    spans = [span(ROOT, REQUEST), span(REQUEST, ROOT), *call(1, RANGE, GET, parentSpanId="00000000000000ff")]
    spans.append(span("0000000000000003", "0000000000000003"))
    _, out, _ = shown("--trace", TRACE, of=etcd(spans))
    heads = [line for line in out.splitlines() if "span 0" in line]
    assert [line.partition(" <== ")[0] for line in heads] == [
        f"etcd: {RANGE} (SERVER, span 00000001000000aa)",
        "  etcd: range (INTERNAL, span 00000001000000bb)",
        f"etcd: range (INTERNAL, span {ROOT})",
        f"  etcd: range (INTERNAL, span {REQUEST})",
        "etcd: range (INTERNAL, span 0000000000000003)",
    ]
    assert heads[0].endswith(" <== its parent 00000000000000ff is not in the dump")
    assert heads[2].endswith(f" <== its parent {REQUEST} is below it: a cycle")


def test_deep_trace(shown: Callable[..., tuple[int, str, str]]) -> None:
    """Indented by two spaces each, this would be 25 MB."""
    spans = [span(f"{number:016x}", f"{number - 1:016x}") for number in range(1, 5001)]
    _, out, _ = shown("--trace", TRACE, of=etcd(spans))
    assert out.splitlines()[-1] == f"{' ' * 80}[depth 4999] etcd: range (INTERNAL, span {5000:016x})"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--row", "KV/Put"], 'holds no etcd call of "KV/Put"'),
        (["--row", "KV/Txn", "--origin", "kubectl"], 'holds no etcd call of "KV/Txn and kubectl"'),
        (["--trace", "\x1b"], 'holds no trace "\\x1b"'),
        (["--trace", TRACE, "--span", "f" * 16], f'holds no span "ffffffffffffffff" in the trace "{TRACE}"'),
    ],
)
def test_nothing_to_show(shown: Callable[..., tuple[int, str, str]], options: list[str], line: str) -> None:
    code, out, err = shown(*options)
    assert (code, out) == (1, "")
    assert err.endswith(f"dump.json: {line}\n")
    assert err.startswith("error: /")


def test_files_that_are_no_dump(tmp_path: Path, content: JSON, capsys: pytest.CaptureFixture[str]) -> None:
    usage = tmp_path / "usage.json"
    saved.update(usage, {"dump.json": judge(write(tmp_path / "dump.json", content))})
    lines = {
        usage: "is a saved usage, which holds no spans: name the dump that it was made of",
        tmp_path / "none.json": "cannot be read: No such file or directory; check the file and its permissions",
    }
    for path, line in lines.items():
        assert show.main([str(path)]) == 1
        assert capsys.readouterr() == ("", f"error: {path}: {line}\n")


@pytest.mark.parametrize("options", [["--span", "1"], ["--trace", "1", "--row", "KV/Txn"], ["--limit", "0"]])
def test_options_that_do_not_go_together(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        show.main(["dump.json", *options])
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_terminal_has_a_tree_with_nothing_read_as_markup(tmp_path: Path) -> None:
    spans = [span(ROOT, name="[bold]root[/bold]"), span(REQUEST, ROOT, name="child", attributes={"a": "[red]\x1b"})]
    path = write(tmp_path / "dump.json", etcd(spans))
    primary, secondary = pty.openpty()
    command = [sys.executable, "-m", "etcd_coverage.show", str(path), "--trace", TRACE]
    environment = os.environ | {"COLUMNS": "80", "TERM": "dumb", "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(command, stdout=secondary, env=environment) as process:
        os.close(secondary)
        printed = b""
        while True:
            try:
                part = os.read(primary, 4096)
            except OSError:  # as Linux ends a terminal that nobody writes to any more
                break
            if not part:
                break
            printed += part
        assert process.wait(timeout=30) == 0
    os.close(primary)
    assert [line.rstrip() for line in printed.decode().splitlines()] == [
        f"etcd: [bold]root[/bold] (INTERNAL, span {ROOT})",
        f"└── etcd: child (INTERNAL, span {REQUEST})",
        '    a = "[red]\\x1b"',
    ]


def test_demo_dump(capsys: pytest.CaptureFixture[str]) -> None:
    """The example in the command's docstring."""
    assert show.main([str(DEMO), "--row", "KV/Range Count /registry/events/"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("apiserver/Count kubernetesEtcdContract -> KV/Range Count ") for line in lines)


COMMANDS = re.findall(r"^python -m etcd_coverage.show (.*)", (DEMO.parents[1] / "README.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_readme(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(DEMO.parents[1])
    assert show.main(shlex.split(command)) == 0
    assert "KV/Range" in capsys.readouterr().out


def test_readme_shows_each_way_to_look() -> None:
    assert [option for option in ("--origin", "--row", "--trace") if not any(option in one for one in COMMANDS)] == []
