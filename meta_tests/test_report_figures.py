"""All reports of a real dump and of a comparison show the same figures, which are those of the usage JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from etcd_coverage.comparing import saved
from etcd_coverage.comparing.compare import compare
from etcd_coverage.comparing.saved import Reference
from etcd_coverage.judging.judge import judge
from etcd_coverage.reference import GRPC_METHODS
from etcd_coverage.reports import comparison, html, junit, markdown, terminal
from etcd_coverage.reports.view import Report
from meta_tests.report_parsers import Element, markdown_tables, parsed, table_of, text_table

ROOT = Path(__file__).parents[1]
REFERENCE, SUBJECT = "kubernetes-1.36.json.gz", "kubernetes-1.37.json.gz"
COLUMNS = {method.name: [arg.name for arg in method.args] for method in GRPC_METHODS}
PREFIX = "etcdserverpb."

Cells = list[str]


def share(part: int, whole: int) -> str:
    """Return the percentage by README's rule: two decimals, all and nothing for just that."""
    text = f"{100 * part / whole:.2f}%"
    if text == "100.00%" and part < whole:
        return "99.99%"
    return "0.01%" if text == "0.00%" and part else text


class Made:
    """The usages of two releases and their comparison, as JSON and in each report."""

    def __init__(self, folder: Path) -> None:
        usages = {name: judge(ROOT / "testdata" / name, name[11:15]) for name in (REFERENCE, SUBJECT)}
        path = folder / "usage.json"
        saved.update(path, usages, Reference(name=REFERENCE, usage=usages[REFERENCE], subjects=[SUBJECT]), origins=None)
        content = json.loads(path.read_text())
        self.dumps: dict[str, Any] = content["dumps"]
        self.compared: dict[str, Any] = content["comparison"]["subjects"][SUBJECT]
        self.usages = usages
        self.comparison = compare(usages[REFERENCE], usages[SUBJECT])
        # Without findings, both are as expected, and stand in a report by their names.
        report = Report(
            usages=usages, reference=REFERENCE, comparisons={SUBJECT: self.comparison}, releases={SUBJECT: "1.37"}
        )
        self.page: Element = parsed(html.html(report))
        self.markdown: list[list[Cells]] = markdown_tables(markdown.markdown(report))
        self.properties = junit.properties(report)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("figures"))


def plain(lines: list[Cells]) -> list[Cells]:
    """Return the cells without the commas between thousands that the page has."""
    return [[cell.replace(",", "") if cell.replace(",", "").isdigit() else cell for cell in line] for line in lines]


def markdown_table(made: Made, first: str, number: int) -> list[Cells]:
    """Return the lines under the header of the table of that number that begins with the header."""
    return [table for table in made.markdown if table[0][0] == first][number][1:]


def test_both_are_dumps_that_show_something(made: Made) -> None:
    assert all(not one["findings"] for one in made.dumps.values())
    # As many at least as of the reference without further rows.
    assert all(len(one["rows"]) >= 56 for one in made.dumps.values())
    assert {one["status"] for one in made.compared["rows"]} == {"missing", "covered", "new"}


def test_overview(made: Made) -> None:
    page = {line[0]: line[1:] for line in plain(table_of(made.page, "Overview"))[1:]}
    text = {line[0]: line[1:] for line in markdown_table(made, "dump", 0)}
    assert list(page) == list(text) == [REFERENCE, SUBJECT]
    coverages = []
    for kind in ("shapes", "key_patterns"):
        one = made.compared[kind]
        of_calls = share(one["covered_calls"], one["reference_calls"])
        coverages.append(f"{one['covered']} of {one['reference']} ({of_calls} of calls)")
        key = f"{SUBJECT}:{'rows' if kind == 'key_patterns' else kind}"
        assert made.properties[f"{key}:covered"] == str(one["covered"])
        assert made.properties[f"{key}:reference"] == str(one["reference"])
        assert made.properties[f"{key}:percent_of_calls"] + "%" == of_calls
    for name, usage in made.dumps.items():
        release, compared = ("1.37", coverages) if name == SUBJECT else ("", ["", ""])
        calls, rows = sum(usage["calls"].values()), len(usage["rows"])
        spans, traces = usage["quality"]["spans"], usage["quality"]["traces"]
        numbers = [str(number) for number in (calls, rows, spans, traces)]
        assert page[name] == ["✓ as expected", release, *numbers[:2], *compared, *numbers[2:]]
        assert text[name] == ["✓ as expected", release, *compared, *numbers]
        assert [made.properties[f"{name}:{what}"] for what in ("calls", "rows", "spans", "traces")] == numbers
        assert made.properties[f"{name}:findings"] == "0"


@pytest.mark.parametrize(("number", "name"), list(enumerate((REFERENCE, SUBJECT))))
def test_calls(made: Made, number: int, name: str) -> None:
    calls = made.dumps[name]["calls"]
    total = sum(calls.values())
    expected = [
        *(
            [method, str(count), share(count, total)]
            for method, count in sorted(calls.items(), key=lambda one: -one[1])
        ),
        ["total", str(total), "100.00%"],
    ]
    tables = dict(terminal.tables(made.usages[name]))
    assert text_table(tables["calls"])[1:] == expected
    assert plain(table_of(made.page, "Calls by gRPC method", number))[1:] == expected
    assert markdown_table(made, "gRPC method", 2 * number) == expected


@pytest.mark.parametrize(("number", "name"), list(enumerate((REFERENCE, SUBJECT))))
def test_rows(made: Made, number: int, name: str) -> None:
    rows = made.dumps[name]["rows"]
    of_method = {row["grpc_method"]: 0 for row in rows}
    for row in rows:
        of_method[row["grpc_method"]] += row["calls"]
    numbers = [
        [
            share(row["contract_calls"], row["calls"]),
            str(row["calls"]),
            share(row["calls"], of_method[row["grpc_method"]]),
        ]
        for row in rows
    ]
    wide, narrow = dict(terminal.tables(made.usages[name])), dict(terminal.tables(made.usages[name], 80))
    for method, total in of_method.items():
        own = [(row, cells) for row, cells in zip(rows, numbers, strict=True) if row["grpc_method"] == method]
        contract = str(sum(row["contract_calls"] for row, _ in own))
        header, *lines, footer = text_table(wide[method])
        assert header == ["method", "pattern", *COLUMNS[method], "contract", "calls", "percent"]
        assert lines == [
            [
                row["call_pattern"],
                row["key_pattern"],
                *("X" if name in row["args"] else "" for name in COLUMNS[method]),
                *cells,
            ]
            for row, cells in own
        ]
        of_args = {arg: sum(row["calls"] for row, _ in own if arg in row["args"]) for arg in COLUMNS[method]}
        assert footer == ["total", "", *map(str, of_args.values()), contract, str(total), "100.00%"]
        assert max(map(len, narrow[method].splitlines())) <= 80
        if len(wide[method].splitlines()[0]) > 80:
            header, *lines, footer = text_table(narrow[method])
            assert header == ["call", "contract", "calls", "percent"]
            assert [[unfolded(line[0]), *line[1:]] for line in lines] == [
                [f"{row['call_pattern']}({','.join(row['args'])}){row['key_pattern']}", *cells] for row, cells in own
            ]
            some = ", ".join(f"{arg} {calls}" for arg, calls in of_args.items() if calls)
            assert [footer[0].replace("\n", " ").split(), footer[1:]] == [
                ["total", *some.split()], [contract, str(total), "100.00%"]
            ]  # fmt: skip

    _, *on_page, footer = plain(table_of(made.page, "Call patterns by key pattern", number))
    assert [[*line[:3], *line[4:7]] for line in on_page] == [
        [row["grpc_method"].removeprefix(PREFIX), row["call_pattern"], row["key_pattern"] or "(no key)", *cells]
        for row, cells in zip(rows, numbers, strict=True)
    ]
    assert [line[3].split() for line in on_page] == [row["args"] or ["none"] for row in rows]
    calls, contract_calls = sum(of_method.values()), sum(row["contract_calls"] for row in rows)
    assert [line[7].split()[0] for line in on_page] == [str(len(row["origins"])) for row in rows]
    assert footer == ["total", share(contract_calls, calls), str(calls), "", "", ""]
    assert markdown_table(made, "gRPC method", 2 * number + 1) == [
        [
            row["grpc_method"].removeprefix(PREFIX),
            f"{row['call_pattern']}({','.join(row['args'])})",
            row["key_pattern"],
            *cells,
        ]
        for row, cells in zip(rows, numbers, strict=True)
    ]


def unfolded(cell: str) -> str:
    return "".join(line.strip() for line in cell.split("\n"))


@pytest.mark.parametrize(("number", "name"), list(enumerate((REFERENCE, SUBJECT))))
def test_leases(made: Made, number: int, name: str) -> None:
    leases = made.dumps[name]["leases"]
    total = sum(lease["calls"] for lease in leases)
    expected = [
        *(
            [
                lease["key_pattern"],
                f"{lease['uses'] / lease['calls']:.1f}",
                f"{lease['ttl_seconds'] / lease['calls']:.1f}",
                str(lease["calls"]),
                share(lease["calls"], total),
            ]
            for lease in leases
        ),
        ["total", "", "", str(total), "100.00%"],
    ]
    assert len(expected) > 1
    assert text_table(dict(terminal.tables(made.usages[name]))["leases"])[1:] == expected
    on_page = plain(table_of(made.page, "Leases", number))[1:]
    assert [*on_page[:-1], ["total", "", "", *on_page[-1][1:]]] == expected
    assert markdown_table(made, "lease", number) == expected


def caller_of(origin: dict[str, Any]) -> str:
    return "/".join(text for text in (origin["component"], origin["role"]) if text) or "(no user agent)"


def callers_of(rows: list[dict[str, Any]]) -> dict[str, tuple[int, int, list[str]]]:
    """Return calls, contract calls and gRPC methods of each caller, heaviest first, from the usage JSON alone."""
    found: dict[str, tuple[int, int, list[str]]] = {}
    for row in rows:
        method = row["grpc_method"].removeprefix(PREFIX)
        for origin in row["origins"]:
            calls, contract, methods = found.get(caller_of(origin), (0, 0, []))
            more = [] if method in methods else [method]
            found[caller_of(origin)] = (
                calls + origin["calls"], contract + origin["contract_calls"], [*methods, *more]
            )  # fmt: skip
    return dict(sorted(found.items(), key=lambda one: (-one[1][0], one[0])))


@pytest.mark.parametrize(("number", "name"), list(enumerate((REFERENCE, SUBJECT))))
def test_callers(made: Made, number: int, name: str) -> None:
    rows = made.dumps[name]["rows"]
    found = callers_of(rows)
    total, through = sum(row["calls"] for row in rows), sum(row["contract_calls"] for row in rows)
    assert sum(calls for calls, _, _ in found.values()) == total

    def lines(most: int, dots: str) -> list[Cells]:
        """Return name, methods, contract, calls and percent of callers, of the rest of them, and of all."""
        body = [
            [caller, ", ".join(methods), share(contract, calls), str(calls), share(calls, total)]
            for caller, (calls, contract, methods) in list(found.items())[:most]
        ]
        rest = list(found.values())[most:]
        assert rest
        calls, contract = sum(one[0] for one in rest), sum(one[1] for one in rest)
        more = [f"{dots} and {len(rest)} more", "", share(contract, calls), str(calls), share(calls, total)]
        return [*body, more, ["total", "", share(through, total), str(total), "100.00%"]]

    assert text_table(dict(terminal.tables(made.usages[name]))["callers"])[1:] == lines(20, "...")
    on_page = plain(table_of(made.page, "Callers", number))
    assert on_page[0] == ["caller", "calls", "% of all rows", "contract", "gRPC methods"]
    assert [[line[0], line[4], line[3], line[1], line[2]] for line in on_page[1:]] == lines(20, "…")
    assert markdown_table(made, "caller", number) == lines(10, "…")


@pytest.mark.parametrize(("number", "name"), list(enumerate((REFERENCE, SUBJECT))))
def test_outside_the_interface(made: Made, number: int, name: str) -> None:
    rows = made.dumps[name]["rows"]
    outside = sorted(
        (row for row in rows if row["contract_calls"] < row["calls"]),
        key=lambda row: row["contract_calls"] - row["calls"],
    )
    numbers = [row["calls"] - row["contract_calls"] for row in outside]
    call_of = [
        f"{row['grpc_method'].removeprefix(PREFIX)} {row['call_pattern']}({','.join(row['args'])})" for row in outside
    ]
    shares = [share(calls, row["calls"]) for calls, row in zip(numbers, outside, strict=True)]
    most = 20
    in_terminal = text_table(dict(terminal.tables(made.usages[name]))["outside the interface"])[1:]
    assert [line[3] for line in in_terminal[: min(most, len(numbers))]] == [str(calls) for calls in numbers[:most]]
    assert in_terminal[-1][3] == str(sum(numbers))

    _, *on_page, page_total = plain(table_of(made.page, "Outside the interface", number))
    assert [line[:4] for line in on_page[:most]] == [
        [call, row["key_pattern"] or "(no key)", str(calls), part]
        for call, row, calls, part in zip(call_of, outside, numbers, shares, strict=True)
    ][:most]
    for row, line in zip(outside, on_page[:most], strict=False):
        heaviest = max(one["calls"] - one["contract_calls"] for one in row["origins"])
        assert f"({heaviest})" in line[4]
    assert page_total[1] == str(sum(numbers))

    text = markdown_table(made, "call outside the interface", number)
    assert [[*line[:2], *line[3:]] for line in text[:10]] == [
        [call, row["key_pattern"], str(calls), part]
        for call, row, calls, part in zip(call_of, outside, numbers, shares, strict=True)
    ][:10]
    assert text[-1] == ["total", "", "", str(sum(numbers)), ""]
    for shown, body in ((most, on_page), (10, text[:-1])):
        left_out = numbers[shown:]
        assert [line[0] for line in body[shown:]] == ([f"… and {len(left_out)} more rows"] if left_out else [])
        if left_out:
            assert str(sum(left_out)) in body[shown]


def test_comparison(made: Made) -> None:
    rows = made.compared["rows"]
    methods = dict.fromkeys(row["grpc_method"] for row in rows)
    totals = {
        method: [
            sum(row[f"{of}_calls"] for row in rows if row["grpc_method"] == method) for of in ("reference", "subject")
        ]
        for method in methods
    }
    numbers = [
        [
            text
            for calls, total in zip(
                (row["reference_calls"], row["subject_calls"]), totals[row["grpc_method"]], strict=True
            )
            for text in (str(calls), share(calls, total) if total else "0.00%")
        ]
        for row in rows
    ]
    tables = dict(comparison.comparison_tables(made.comparison))
    narrow = dict(comparison.comparison_tables(made.comparison, 80))
    assert list(tables) == list(methods)
    for method, (reference, subject) in totals.items():
        own = [(row, cells) for row, cells in zip(rows, numbers, strict=True) if row["grpc_method"] == method]
        _, *lines, footer = text_table(tables[method])
        assert lines == [
            [row["call_pattern"], row["key_pattern"], ",".join(row["args"]), *cells, row["status"]]
            for row, cells in own
        ]
        covered = sum(row["status"] == "covered" for row, _ in own)
        demanded = sum(row["status"] != "new" for row, _ in own)
        sums = [text for total in (reference, subject) for text in (str(total), "100.00%" if total else "0.00%")]
        assert footer == ["total", "", "", *sums, f"{covered} of {demanded} covered"]
        assert max(map(len, narrow[method].splitlines())) <= 80
        header, *lines, footer = text_table(narrow[method])
        assert header == ["call", "reference", "percent", "subject", "percent", "status"]
        assert [[unfolded(line[0]), *line[1:]] for line in lines] == [
            [f"{row['call_pattern']}({','.join(row['args'])}){row['key_pattern']}", *cells, row["status"]]
            for row, cells in own
        ]
        assert footer == [f"total\n{covered} of {demanded} covered", *sums, ""]

    assert [[line[0], *line[1:4], *line[5:]] for line in plain(table_of(made.page, "Side by side"))[2:]] == [
        [
            row["status"], row["grpc_method"].removeprefix(PREFIX), row["call_pattern"],
            row["key_pattern"] or "(no key)", *cells,
        ]
        for row, cells in zip(rows, numbers, strict=True)
    ]  # fmt: skip
    assert markdown_table(made, "status", 0) == [
        [
            row["status"], row["grpc_method"].removeprefix(PREFIX), f"{row['call_pattern']}({','.join(row['args'])})",
            row["key_pattern"], *cells,
        ]
        for row, cells in zip(rows, numbers, strict=True)
    ]  # fmt: skip


def test_missing_shapes_and_coverage(made: Made) -> None:
    rows = made.compared["rows"]
    total = sum(row["reference_calls"] for row in rows)
    calls: dict[tuple[str, str, str], int] = {}
    seen = set()
    for row in rows:
        shape = (row["grpc_method"].removeprefix(PREFIX), row["call_pattern"], ",".join(row["args"]))
        calls[shape] = calls.get(shape, 0) + row["reference_calls"]
        if row["subject_calls"]:
            seen.add(shape)
    missing = sorted(
        ((shape, count) for shape, count in calls.items() if count and shape not in seen), key=lambda one: -one[1]
    )
    assert len(missing) > 1
    assert [
        [*line[:2], ",".join(line[2].split()), *line[3:]]
        for line in plain(table_of(made.page, "Missing call shapes"))[1:]
    ] == [[*shape[:2], shape[2] or "none", str(count), share(count, total)] for shape, count in missing]
    assert markdown_table(made, "missing call shape", 0) == [
        [method, f"{pattern}({args})", str(count), share(count, total)] for (method, pattern, args), count in missing
    ]
    lines = comparison.comparison_summary(made.comparison, made.usages[REFERENCE], made.usages[SUBJECT])
    assert lines[:2] == [
        f"{what} covered: {one['covered']} of {one['reference']}, "
        f"{share(one['covered_calls'], one['reference_calls'])} of the reference's calls"
        for what, one in (("call shapes", made.compared["shapes"]), ("rows", made.compared["key_patterns"]))
    ]
    assert sum(count for _, count in missing) == total - made.compared["shapes"]["covered_calls"]
