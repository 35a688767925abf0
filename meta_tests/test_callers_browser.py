"""The callers of a real dump in the HTML report, in a real browser: choosing one shows its calls alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from etcd_coverage.comparing import saved
from etcd_coverage.judging.judge import judge
from meta_tests.browser import LOW_CONTRAST, MARKS, Page, chromium
from meta_tests.reports import compared
from meta_tests.test_report_figures import caller_of, callers_of, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium import webdriver

pytestmark = MARKS

REAL = Path(__file__).parents[1] / "testdata" / "kubernetes-1.37.json.gz"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    yield from chromium(tmp_path_factory.mktemp("profile"))


class RealPage(Page):
    """The report of a real dump, and its usage as JSON."""

    def __init__(self, browser: webdriver.Chrome, folder: Path) -> None:
        usage = judge(REAL, "1.37")
        saved.update(folder / "usage.json", {"dump.json": usage}, origins=None)
        self.rows: list[Any] = json.loads((folder / "usage.json").read_text())["dumps"]["dump.json"]["rows"]
        super().__init__(browser, folder / "html.html", structs.replace(compared(), usages={"dump.json": usage}))

    def choose(self, caller: str) -> None:
        xpath = f"//th[@data-caller]/button[normalize-space()='{caller}']"
        button = self.browser.find_element("xpath", xpath)
        self.script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()

    def shown_rows(self) -> list[list[str]]:
        """Return method, call pattern, key pattern, args, contract, calls, percent and number of origins."""
        lines: list[list[str]] = self.script(
            "return Array.from(document.querySelector('#dump-1-rows-table').tBodies[0].rows)"
            ".filter((row) => row.checkVisibility()).map((row) => Array.from(row.cells, (cell) =>"
            " (cell.querySelector('summary') ?? cell).textContent.trim().replace(/\\s+/g, ' ')).slice(0, 8))"
        )
        return lines

    def heat(self) -> list[tuple[str, int]]:
        """Return the key pattern and the calls of each cell of the heat map that has any, where it is shown."""
        cells: list[Any] = self.script(
            "return Array.from(document.querySelectorAll('#dump-1-heat ~ .scroll table.heat tbody tr'))"
            ".filter((row) => row.checkVisibility()).flatMap((row) =>"
            " Array.from(row.querySelectorAll('td[class^=heat-]'), (cell) =>"
            " [row.cells[0].textContent.trim(), cell.textContent, cell.className]))"
        )
        found = [(key, int(calls.replace(",", "")), level) for key, calls, level in cells]
        assert {level == f"heat-{len(str(calls))}" for _, calls, level in found} == {True}
        return sorted((key, calls) for key, calls, _ in found)

    def expected(self, callers: set[str] | None) -> tuple[list[list[str]], list[tuple[str, int]]]:
        """Return the rows and the cells of the heat map of these callers alone, from the JSON; None for all."""
        own = []
        for row in self.rows:
            origins = [one for one in row["origins"] if callers is None or caller_of(one) in callers]
            if origins:
                numbers = [sum(one[of] for one in origins) for of in ("calls", "contract_calls")]
                own.append((row, *numbers, len(origins)))
        lines, cells = [], []
        for row, calls, contract, origins in own:
            of_method = sum(one[1] for one in own if one[0]["grpc_method"] == row["grpc_method"])
            lines.append(
                [
                    row["grpc_method"].removeprefix("etcdserverpb."), row["call_pattern"],
                    row["key_pattern"] or "(no key)", " ".join(row["args"]) or "none", share(contract, calls),
                    f"{calls:,}", share(calls, of_method), str(origins),
                ]
            )  # fmt: skip
            cells.append((row["key_pattern"] or "(no key)", calls))
        return lines, sorted(cells)


def test_caller_filters_heat_map_and_rows(browser: webdriver.Chrome, tmp_path: Path) -> None:
    page = RealPage(browser, tmp_path)
    everything = page.expected(None)
    assert (page.shown_rows(), page.heat()) == everything
    assert page.find(".chosen").is_displayed() is False
    callers = callers_of(page.rows)
    named = list(callers)[:20]
    assert len(callers) > len(named)
    more = f"… and {len(callers) - len(named)} more"
    for name, chosen in [("kubectl", {"kubectl"}), (named[4], {named[4]}), (more, set(callers) - set(named))]:
        page.choose(name)
        lines, cells = page.expected(chosen)
        assert 0 < len(lines) < len(page.rows)
        assert (page.shown_rows(), page.heat()) == (lines, cells)
        calls = sum(callers[one][0] for one in chosen)
        contract = sum(callers[one][1] for one in chosen)
        foot = page.script(
            "return Array.from(document.querySelector('#dump-1-rows-table').tFoot.rows[0].cells, (e) => e.textContent)"
        )
        assert foot[:3] == ["total", share(contract, calls), f"{calls:,}"]
        assert page.find("form[data-table=dump-1-rows-table] output").text == (
            f"{len(lines)} of {len(lines)} rows, {calls:,} of {calls:,} calls"
        )
        assert page.find(".chosen strong").text == name
        pressed = page.script(
            "return Array.from(document.querySelectorAll('[aria-pressed=true]'), (e) => e.textContent)"
        )
        assert pressed == [name]
        assert page.script(LOW_CONTRAST)[1] == []
    page.choose(more)
    assert (page.shown_rows(), page.heat()) == everything
    page.choose("kubectl")
    page.find(".chosen button").click()
    assert (page.shown_rows(), page.heat()) == everything
    assert page.script("return document.querySelectorAll('[aria-pressed=true]').length") == 0
    assert page.console() == []


def test_chosen_caller_goes_with_words_and_order(browser: webdriver.Chrome, tmp_path: Path) -> None:
    page = RealPage(browser, tmp_path)
    page.choose("kubectl")
    page.find("#dump-1-rows-table thead th:nth-child(6) button").click()
    numbers = [int(line[5].replace(",", "")) for line in page.shown_rows()]
    assert numbers == sorted(numbers, reverse=True)
    form = "form[data-table=dump-1-rows-table]"
    page.find(f"{form} input").send_keys("RangeStream")
    lines, _ = page.expected({"kubectl"})
    own = [int(line[5].replace(",", "")) for line in lines if line[0] == "KV/RangeStream"]
    assert page.find(f"{form} output").text == (
        f"{len(own)} of {len(lines)} rows, {sum(own)} of {callers_of(page.rows)['kubectl'][0]} calls"
    )
    assert len(page.shown_rows()) == len(own) > 0


def test_origins_of_a_row_on_demand(browser: webdriver.Chrome, tmp_path: Path) -> None:
    page = RealPage(browser, tmp_path)
    row = max(page.rows, key=lambda row: len(row["origins"]))
    number = page.rows.index(row) + 1
    items = f"#dump-1-rows-table tbody tr:nth-child({number}) .origins li"
    texts = f"return Array.from(document.querySelectorAll('{items}')).filter((e) => e.checkVisibility())"
    texts += ".map((e) => e.textContent.trim())"
    assert page.script(texts) == []
    summary = page.find(f"#dump-1-rows-table tbody tr:nth-child({number}) summary")
    page.script("arguments[0].scrollIntoView({block: 'center'})", summary)
    summary.click()
    origins, rest = row["origins"][:10], row["origins"][10:]
    named = [" ".join(filter(None, (caller_of(one), one["verb"], one["resource"]))) for one in origins]
    lines = [f"{name}: {one['calls']}" for name, one in zip(named, origins, strict=True)]
    calls = sum(one["calls"] for one in rest)
    assert page.script(texts) == [*lines, f"… and {len(rest)} more origins: {calls} calls"]
    page.choose("kubectl")
    own = [line for line, one in zip(lines, origins, strict=True) if caller_of(one) == "kubectl"]
    others = [one for one in rest if caller_of(one) == "kubectl"]
    assert own
    assert others
    calls = sum(one["calls"] for one in others)
    more = f"… and {len(others)} more origin{'s' * (len(others) != 1)}: {calls} call{'s' * (calls != 1)}"
    assert page.script(texts) == [*own, more]


@pytest.mark.parametrize("width", [400, 1400])
def test_real_page_fits(browser: webdriver.Chrome, tmp_path: Path, width: int) -> None:
    page = RealPage(browser, tmp_path)
    page.screen(width)
    wide, visible = page.script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide == visible
    if width == 1400:
        for table in ("rows", "outside", "callers"):
            inside, outside = page.script(
                f"const box = document.querySelector('table[aria-labelledby=dump-1-{table}]').parentElement;"
                "return [box.scrollWidth, box.clientWidth]"
            )
            assert inside == outside, table
    else:
        right = page.script(
            "return Array.from(document.querySelectorAll('table[aria-labelledby=dump-1-callers] tbody td:nth-child(3)'),"
            " (e) => e.getBoundingClientRect().right)"
        )
        assert 0 < max(right) <= 400
