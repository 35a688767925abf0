"""What a failure says of a finding besides its message: origins, attributes, a command and a row, which all can be used."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from etcd_coverage.judging.finding_kinds import UNEXPECTED_METHOD
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.reference_rows import attributes_of, python_dict, row_to_paste
from etcd_coverage.judging.usage import Example, Finding, Origin, OtherOrigins
from etcd_coverage.reports import terminal
from etcd_coverage.reports.finding_details import show_command
from meta_tests.builder import (
    NO_SUCH_METHOD,
    PUT,
    RANGE,
    TRACE,
    TXN,
    UNEXPECTED_RANGE,
    WATCH,
    call,
    complete,
    etcd,
    write,
)
from meta_tests.go_original import its_rows_alone

if TYPE_CHECKING:
    from etcd_coverage.attributes import Attributes

ROOT = Path(__file__).parents[1]
DUMPS = Path(__file__).parent / "dumps"
LONG_KEY = f"/registry/pods/{'n' * 40}/web"
DELETE_ALL = PUT | {"compare_first_key": LONG_KEY, "success_first_key": LONG_KEY, "compare_len": 2}


def test_failure_names_origins_attributes_command_and_row(tmp_path: Path) -> None:
    origins = [
        Origin(
            component="kube-controller-manager",
            role=f"c-{number}",
            verb="GET",
            resource="pods",
            calls=9 - number,
            contract_calls=0,
        )
        for number in range(5)
    ]
    others = OtherOrigins(origins=7, calls=70, contract_calls=0)
    finding = Finding(
        id="new-key-pattern",
        grpc_method=RANGE,
        message="New key pattern detected: k",
        count=95,
        example=Example(TRACE, "00000001000000bb"),
        attributes='{"range_begin": "k", "limit": 1}',
        origins=origins,
        other_origins=others,
    )
    lines = terminal.failure_text([finding], dump=f"{tmp_path}/a dump.json").splitlines()
    assert lines[:-1] == [
        "New key pattern detected: k",
        "    95 calls, from kube-controller-manager/c-0 GET pods (9), kube-controller-manager/c-1 GET pods (8), "
        "kube-controller-manager/c-2 GET pods (7), ... and 9 more",
        f"    for example trace {TRACE} span 00000001000000bb",
        '    its attributes: {"range_begin": "k", "limit": 1}',
        f"    see it: python -m etcd_coverage.show '{tmp_path}/a dump.json' --trace={TRACE} --span=00000001000000bb",
        "    to expect it, add to SPECIAL_KEYS in etcd_coverage/reference.py:",
        "        SpecialKey(",
        '            key="k",',
        '            reason="say here why Kubernetes does so",',
        "        ),",
    ]
    assert "see it" not in terminal.failure_text([finding])


def test_dump_without_requests_names_service_and_topmost_span() -> None:
    with its_rows_alone():
        usage = judge(DUMPS / "robustness.json.gz")
    text = terminal.failure_text(usage.findings)
    assert "    2 calls, from etcd/etcdserverpb.KV/Put (2)\n" in text
    assert "    155 calls, from etcd/etcdserverpb.KV/Range (155)\n" in text


def test_row_is_shown_once_for_findings_that_it_would_expect(tmp_path: Path) -> None:
    keys = [UNEXPECTED_RANGE | {"range_begin": f"/registry/pods/a{number}/b/"} for number in (1, 2)]
    calls = [one for number, arguments in enumerate(keys) for one in call(number, RANGE, arguments)]
    usage = judge(write(tmp_path / "dump.json", etcd(calls)))
    text = terminal.failure_text([one for one in usage.findings if one.id.startswith("new")])
    assert text.count("New call pattern detected") == 2
    assert text.count("CallPattern(") == 1
    assert text.count("SpecialResource(") == 1


@pytest.mark.parametrize("ids", [("a b", "c"), ("$(x)", "c"), ("a", ""), ("a", "b\\x00")])
def test_command_is_left_out_where_it_would_not_work(ids: tuple[str, str]) -> None:
    assert show_command("dump.json", Example(*ids)) == ""
    assert show_command("dump\x1b.json", Example("a", "b")) == ""


def test_command_works_when_copied(tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    path = write(folder / "dump.json.gz", etcd(complete(), call(9, RANGE, UNEXPECTED_RANGE)))
    (finding,) = judge(path).findings
    text = terminal.failure_text([finding], dump=str(path))
    (command,) = re.findall(r"see it: (.*)", text)
    shown = subprocess.run(
        [sys.executable, *shlex.split(command)[1:]],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "range (INTERNAL, span 00000009000000bb) <== etcd call KV/Range unknown" in shown.stdout


UNEXPECTED = [
    *call(20, NO_SUCH_METHOD, {"key": "a"}),
    *call(21, RANGE, {"range_begin": "/registry/pods/a/b/c/d", "limit": 1}),
    *call(22, RANGE, {"range_begin": "/registry/nodes/a/b/c", "limit": 1}),
    *call(23, RANGE, UNEXPECTED_RANGE),
    *call(24, TXN, DELETE_ALL),
    *call(25, WATCH, {"key": '\x00"\\', "start_rev": 3, "progress_notify": True}),
]


def inserted(source: str, where: str, row: str) -> str:
    """Return reference.py with the row at the end of the tuple."""
    method = re.fullmatch(r"the call_patterns of (.*)", where)
    start = source.index(f'name="{method[1]}"' if method else f"\n{where} = (\n")
    end = source.index("\n        ),\n    )," if method else "\n)\n", start)
    indent = " " * (12 if method else 4)
    return source[:end] + "".join(f"\n{indent}{line}" for line in row.splitlines()) + source[end:]


@pytest.mark.integration
def test_pasted_rows_pass_their_tests_and_expect_what_was_found(tmp_path: Path) -> None:
    path = write(tmp_path / "dump.json", etcd(complete(), UNEXPECTED))
    findings = judge(path).findings
    shutil.copytree(ROOT / "etcd_coverage", tmp_path / "etcd_coverage", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "test_reference.py", tmp_path / "tests")
    reference = tmp_path / "etcd_coverage" / "reference.py"
    kinds = []
    for finding in findings:
        where, row = row_to_paste(finding)
        kinds.append(row.partition("(")[0])
        reference.write_text(inserted(reference.read_text(), where, row))
    assert sorted(kinds) == ["CallPattern"] * 3 + ["GrpcMethod", "SpecialKey", "SpecialKey", "SpecialResource"]
    script = "import sys; from pathlib import Path; from etcd_coverage.judging.judge import judge; from etcd_coverage import "
    script += "reference; print(reference.__file__, [one.message for one in judge(Path(sys.argv[1])).findings])"
    commands = {
        "judge": [sys.executable, "-c", script, str(path)],
        "test": [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_reference.py"],
        "lint": [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--isolated",
            "--line-length=120",
            "--select=E501,F",
            str(reference),
        ],
    }
    results = {
        name: subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        for name, command in commands.items()
    }
    assert (results["judge"].stdout, results["judge"].stderr) == (f"{reference} []\n", "")
    assert results["test"].returncode == 0, results["test"].stdout
    assert results["lint"].returncode == 0, results["lint"].stdout


@pytest.mark.parametrize(
    "finding",
    [
        Finding(id=UNEXPECTED_METHOD, grpc_method="etcdserverpb.odd\\x00", message="", count=1),
        Finding(id="new-call-pattern", grpc_method=RANGE, message="", count=1),
        Finding(id="new-key-pattern", grpc_method=RANGE, message="", count=1, attributes='{"limit": 1}'),
        Finding(id="new-key-pattern", grpc_method=RANGE, message="", count=1, attributes="open('x')"),
        Finding(id="new-key-pattern", grpc_method=RANGE, message="", count=1, attributes="[" * 5000),
        Finding(id="new-key-pattern", grpc_method="etcdserverpb.KV/Other", message="", count=1),
        Finding(id="lease-without-id", grpc_method="etcdserverpb.Lease/LeaseGrant", message="", count=1),
    ],
)
def test_no_row_where_none_would_help(finding: Finding) -> None:
    assert row_to_paste(finding) == ("", "")


def test_attributes_are_written_as_python_reads_them() -> None:
    attributes: Attributes = {'a"\\': "\x00\u202e\udc80é\U0001f600'", "limit": -(2**63), "yes": True, "other": None}
    text = python_dict(attributes)
    assert text.isascii()
    assert text.isprintable()
    finding = Finding(id="x", grpc_method="", message="", count=1, attributes=text)
    assert attributes_of(finding) == {key: value for key, value in attributes.items() if value is not None}
    assert python_dict({"key": "k" * 10_000}) == ""
