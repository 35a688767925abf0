"""Tables fit the terminal: folded where they are too wide, and nothing of them is cut off."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from etcd_coverage.comparing.compare import compare
from etcd_coverage.judging import usage as values
from etcd_coverage.judging.judge import judge
from etcd_coverage.reports import by_test, comparison, terminal
from meta_tests.report_parsers import text_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from etcd_coverage.judging.usage import Usage

ROOT = Path(__file__).parents[1]
TESTS = [
    values.TestCalls(test="[sig-apps] Deployment should run the lifecycle of a Deployment [Conformance]", calls=2),
    values.TestCalls(test="[sig-node] Pods " + "supercalifragilisticexpialidocious" * 3, calls=1),
]


@pytest.fixture(scope="module")
def usages() -> dict[str, Usage]:
    folder = ROOT / "meta_tests" / "dumps"
    found = {
        "kubernetes-1.37": judge(ROOT / "testdata" / "kubernetes-1.37.json.gz", "1.37"),
        "robustness": judge(folder / "robustness.json.gz"),
    }
    rows = found["kubernetes-1.37"].rows
    for number in range(0, len(rows), 2):
        rows[number] = structs.replace(rows[number], tests=TESTS[: 1 + number % 4 // 2])
    return found


def tables(usages: dict[str, Usage], name: str, width: int | None) -> Iterator[tuple[str, str]]:
    """Yield title and text of each table of the dump, and of its comparison with Kubernetes 1.36."""
    yield from terminal.tables(usages[name], width)
    reference = judge(ROOT / "testdata" / "kubernetes-1.36.json.gz", "1.36")
    for title, text in comparison.comparison_tables(compare(reference, usages[name]), width):
        yield f"{title} compared", text
    for text in by_test.texts(by_test.by_test(usages[name]), width):
        title, _, table = text.rstrip("\n").partition("\n")
        yield title, table


def columns(table: str) -> list[str]:
    """Return the text of each column without its white space."""
    lines = table.splitlines()
    rule = next(line for line in lines if re.fullmatch(r"-+(  -+)*", line))
    return [
        "".join("".join(line[a:b] for line in lines).split()) for a, b in (m.span() for m in re.finditer("-+", rule))
    ]


@pytest.mark.parametrize("name", ["kubernetes-1.37", "robustness"])
def test_tables_fit_the_terminal_and_nothing_is_cut_off(usages: dict[str, Usage], name: str) -> None:
    wide = dict(tables(usages, name, None))
    assert len(wide) > 8
    for width in (60, 72, 80):
        narrow = dict(tables(usages, name, width))
        assert narrow.keys() == wide.keys()
        for title, text in narrow.items():
            assert max(map(len, text.splitlines()), default=0) <= width, f"{width}: {title}"
            if not text:
                continue
            folded = columns(text)
            for row in text_table(wide[title])[1:]:
                for cell in row:
                    # Where args share a column with the call they stand there by name.
                    if cell != "X":
                        assert any("".join(cell.split()) in column for column in folded), f"{width}: {title}: {cell}"
    assert max(len(line) for text in wide.values() for line in text.splitlines()) > 100


def test_numbers_stand_in_the_first_line_of_their_row(usages: dict[str, Usage]) -> None:
    compared = dict(tables(usages, "kubernetes-1.37", 60))["etcdserverpb.KV/Compact compared"]
    assert compared.splitlines() == [
        "call              reference    subject  status",
        "                    percent    percent",
        "--------------  -----------  ---------  --------",
        "Compact(rev)              1          1  covered",
        "                    100.00%    100.00%",
        "--------------  -----------  ---------  --------",
        "total                     1          1",
        "1 of 1 covered      100.00%    100.00%",
    ]
