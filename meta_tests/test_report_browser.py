"""The HTML report in a real browser: headless Chromium, driven by Selenium."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from etcd_coverage.comparing import saved
from etcd_coverage.judging.judge import judge
from etcd_coverage.judging.usage import Usage
from etcd_coverage.reports import html
from meta_tests.builder import RANGE
from meta_tests.reports import EXPECTED, compared, hostile, row_of
from meta_tests.test_report_figures import caller_of, callers_of, share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver.remote.webelement import WebElement

    from etcd_coverage.reports.view import Report

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not (CHROMIUM and CHROMEDRIVER), reason="no chromium and chromedriver: apt-get install chromium chromium-driver"
    ),
]

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

SCHEMES = ("light", "dark")

# WCAG 2.2, 1.4.3: contrast of each text with what lies behind it, https://www.w3.org/TR/WCAG22/#contrast-minimum
LOW_CONTRAST = """
const luminance = ([r, g, b]) => [r, g, b]
  .map((c) => c / 255)
  .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
const background = (element) => {
  for (; element; element = element.parentElement) {
    const color = numbers(getComputedStyle(element).backgroundColor);
    if (color.length === 3 || color[3] > 0) return color;
  }
  throw new Error("no background");
};
const low = [];
let texts = 0;
for (const element of document.body.querySelectorAll("*")) {
  const own = Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !element.checkVisibility() || ["SCRIPT", "STYLE"].includes(element.tagName)) continue;
  texts += 1;
  const [a, b] = [numbers(getComputedStyle(element).color), background(element)].map(luminance);
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) low.push(`${element.tagName}.${element.className} ${contrast.toFixed(2)} ${element.textContent}`);
}
return [texts, Array.from(new Set(low))];
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.binary_location = CHROMIUM or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(CHROMEDRIVER))
    yield driver
    driver.quit()


class Page:
    """A report, opened afresh, and the requests and the messages of the console that it caused."""

    def __init__(self, browser: webdriver.Chrome, path: Path, shown: Report) -> None:
        path.write_text(html.html(shown), encoding="utf-8")
        self.browser = browser
        self.url = path.as_uri()
        self.screen(1280)
        browser.get("about:blank")
        self.console(), self.requests()
        browser.get(self.url)

    def screen(self, width: int, scheme: str = "light", media: str = "") -> None:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})

    def script(self, text: str, *arguments: object) -> Any:
        return self.browser.execute_script(text, *arguments)

    def find(self, selector: str) -> WebElement:
        return self.browser.find_element("css selector", selector)

    def press(self, *keys: str) -> None:
        self.browser.switch_to.active_element.send_keys(*keys)

    def column(self, table: str, number: int) -> list[str]:
        """Return the texts of a column in the rows that are shown."""
        cells: list[str] = self.script(
            "return Array.from(document.querySelector(arguments[0]).tBodies[0].rows)"
            ".filter((row) => row.checkVisibility()).map((row) => row.cells[arguments[1]].textContent.trim())",
            table,
            number,
        )
        return cells

    def console(self) -> list[Any]:
        """Return what the console shows since it was last asked."""
        entries: list[Any] = self.browser.get_log("browser")  # type: ignore[no-untyped-call]
        return entries

    def requests(self) -> list[str]:
        """Return the URLs that were asked for since it was last asked."""
        log: list[Any] = self.browser.get_log("performance")  # type: ignore[no-untyped-call]
        entries = [json.loads(entry["message"])["message"] for entry in log]
        return [one["params"]["request"]["url"] for one in entries if one["method"] == "Network.requestWillBeSent"]


@pytest.fixture
def page(browser: webdriver.Chrome, tmp_path: Path) -> Page:
    return Page(browser, tmp_path / "html.html", compared())


ROWS = "#dump-2-rows-table"
SIDE_BY_SIDE = "#dump-1-compared-table"


def test_sorts_by_a_header_and_says_so(page: Page) -> None:
    assert page.column(ROWS, 5) == ["12", "1,500", "30", "1"]
    header = page.find(f"{ROWS} th:nth-child(6)")
    button = page.find(f"{ROWS} th:nth-child(6) button")
    button.click()
    assert page.column(ROWS, 5) == ["1,500", "30", "12", "1"]
    assert header.get_attribute("aria-sort") == "descending"
    button.click()
    assert page.column(ROWS, 5) == ["1", "12", "30", "1,500"]
    assert header.get_attribute("aria-sort") == "ascending"
    page.find(f"{ROWS} th:nth-child(2) button").click()
    assert page.column(ROWS, 1) == ["Compact", "Get", "List", "OptimisticPut"]
    assert header.get_attribute("aria-sort") is None
    assert page.column(f"{ROWS} + table, {ROWS}", 0) == ["KV/Compact", "KV/Range", "KV/Range", "KV/Txn"]
    assert page.script(f"return document.querySelector('{ROWS}').tFoot.rows[0].cells[0].textContent") == "total"


def test_two_rows_of_headers_sort_their_own_columns(page: Page) -> None:
    page.find(f"{SIDE_BY_SIDE} thead tr:nth-child(2) th:nth-child(8) button").click()
    assert page.column(SIDE_BY_SIDE, 7) == ["4", "3", "2", "0", "0", "0"]


def test_filters_and_sorts_by_keyboard(page: Page) -> None:
    form = "form[data-table=dump-2-rows-table]"
    for _ in range(100):
        page.press(Keys.TAB)
        if page.script(f"return document.activeElement === document.querySelector('{form} input')"):
            break
    outline = page.script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.press("RANGE list")
    assert page.column(ROWS, 1) == ["List"]
    output = page.find(f"{form} output")
    assert output.text == "1 of 4 rows, 12 of 1,543 calls"
    assert output.get_attribute("aria-live") == "polite"
    page.press(Keys.ESCAPE)
    assert page.column(ROWS, 1) == ["List", "Get", "OptimisticPut", "Compact"]
    page.press(Keys.TAB)
    page.press("KV/T")
    assert page.column(ROWS, 1) == ["OptimisticPut"]
    page.press(Keys.TAB)
    assert page.script("return document.activeElement.className") == "scroll"
    page.press(Keys.TAB)
    page.press(Keys.ENTER)
    assert page.find(f"{ROWS} th").get_attribute("aria-sort") == "ascending"
    page.press(Keys.SPACE)
    assert page.find(f"{ROWS} th").get_attribute("aria-sort") == "descending"


def test_filters_by_status(page: Page) -> None:
    # Keys, because Selenium's Select fires other events than a user's choice does.
    page.find("form[data-table=dump-1-compared-table] [data-field=status]").send_keys("missing")
    assert page.column(SIDE_BY_SIDE, 0) == ["missing"] * 3
    page.find("form[data-table=dump-1-compared-table] [data-field=method]").send_keys("KV/T")
    assert page.column(SIDE_BY_SIDE, 2) == ["OptimisticPut"]


@pytest.mark.parametrize("shown", [compared, hostile])
def test_asks_for_nothing_and_complains_of_nothing(browser: webdriver.Chrome, tmp_path: Path, shown: Any) -> None:
    page = Page(browser, tmp_path / "html.html", shown())
    for button in browser.find_elements("css selector", "th > button"):
        # Selenium would scroll a button of a wide table into view by a fraction of a pixel alone.
        page.script("arguments[0].scrollIntoView({block: 'center', inline: 'center'})", button)
        button.click()
    assert page.console() == []
    assert [url for url in page.requests() if url not in (page.url, "data:,")] == []


def test_hostile_text_does_nothing(browser: webdriver.Chrome, tmp_path: Path) -> None:
    page = Page(browser, tmp_path / "html.html", hostile())
    assert browser.title == "How Kubernetes uses etcd"
    assert page.script("return [document.scripts.length, document.images.length]") == [1, 0]


@pytest.mark.parametrize("shown", [compared, hostile])
@pytest.mark.parametrize("width", [390, 1280])
def test_page_does_not_scroll_sideways(browser: webdriver.Chrome, tmp_path: Path, shown: Any, width: int) -> None:
    page = Page(browser, tmp_path / "html.html", shown())
    page.screen(width)
    inner, wide, visible = page.script(
        "return [innerWidth, document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert (inner, wide) == (width, visible)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_text_has_contrast(page: Page, scheme: str) -> None:
    page.screen(1280, scheme)
    assert page.script("return matchMedia('(prefers-color-scheme: dark)').matches") is (scheme == "dark")
    texts, low = page.script(LOW_CONTRAST)
    assert texts > 100
    assert low == []


def test_light_and_dark_differ(page: Page) -> None:
    backgrounds = []
    for scheme in SCHEMES:
        page.screen(1280, scheme)
        backgrounds.append(page.script("return getComputedStyle(document.body).backgroundColor"))
    assert backgrounds == ["rgb(255, 255, 255)", "rgb(18, 23, 30)"]


def test_print_has_no_controls_and_cuts_nothing_off(page: Page) -> None:
    page.screen(1280, media="print")
    assert page.script("return document.querySelector('form.filters').checkVisibility()") is False
    overflows = page.script(
        "return Array.from(document.querySelectorAll('.scroll'), (e) => getComputedStyle(e).overflowX)"
    )
    assert set(overflows) == {"visible"}


def test_without_script_it_is_complete_and_has_no_dead_controls(browser: webdriver.Chrome, tmp_path: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page = Page(browser, tmp_path / "html.html", compared())
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert page.script("return document.querySelectorAll('th > button').length") == 0
    assert page.script("return document.querySelector('form.filters').checkVisibility()") is False
    assert page.column(ROWS, 5) == ["12", "1,500", "30", "1"]


REAL = Path(__file__).parents[1] / "testdata" / "kubernetes-1.37.json.gz"


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
    assert page.script("return [innerWidth, document.documentElement.scrollWidth]")[0] == width
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


LONGEST = "/registry/{api-group}/{resource}/{namespace}/{name}"


def narrow_and_wide() -> Report:
    """Return the compared usages with a row of the longest key pattern."""
    made = compared()
    usages = dict(made.usages)
    usages["expected.json"] = Usage(
        calls=EXPECTED.calls,
        rows=[*EXPECTED.rows, row_of(RANGE, "Get", LONGEST, *(f"argument{n}" for n in range(9)))],
        quality=EXPECTED.quality,
    )
    return structs.replace(made, usages=usages)


def test_verdicts_can_be_read_on_a_phone(browser: webdriver.Chrome, tmp_path: Path) -> None:
    page = Page(browser, tmp_path / "html.html", narrow_and_wide())
    page.screen(400)
    right, box = page.script(
        "const table = document.querySelector('table[aria-labelledby=overview]');"
        "return [Math.max(...Array.from(table.querySelectorAll('.verdict'), (e) => e.getBoundingClientRect().right)),"
        " table.parentElement.getBoundingClientRect().right]"
    )
    assert 0 < right < box <= 400
    messages = page.script(
        "return Array.from(document.querySelectorAll('th.text'), (e) => e.getBoundingClientRect().right)"
    )
    assert len(messages) == 2
    assert max(messages) <= 400


def test_longest_key_pattern_is_one_line_where_there_is_room(browser: webdriver.Chrome, tmp_path: Path) -> None:
    page = Page(browser, tmp_path / "html.html", narrow_and_wide())
    page.screen(1400)
    lines = page.script(
        f"return Array.from(document.querySelectorAll('{ROWS} tbody th.key'), (e) => {{"
        " const range = document.createRange(); range.selectNodeContents(e);"
        " return [e.textContent.trim(), new Set(Array.from(range.getClientRects(), (r) => r.top)).size]; })"
    )
    assert dict(lines)[LONGEST] == 1
    assert {number for _, number in lines} == {1}
    inside, outside = page.script(
        f"const box = document.querySelector('{ROWS}').parentElement; return [box.scrollWidth, box.clientWidth]"
    )
    assert inside == outside


def test_bars_are_as_long_as_the_number_that_they_stand_by(page: Page) -> None:
    lines = page.script(
        "return Array.from(document.querySelectorAll('.tile:not(.small) dd'), (e) => "
        "[e.querySelector('strong').textContent, e.querySelector('rect').getAttribute('width')])"
    )
    assert lines == [["1 of 4", "25.00%"], ["97.21%", "97.21%"]] * 2
