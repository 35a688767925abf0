"""The HTML report in a real browser: headless Chromium, driven by Selenium."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs
from selenium.webdriver.common.keys import Keys

from etcd_coverage.judging.usage import Usage
from meta_tests.browser import LOW_CONTRAST, MARKS, Page, chromium
from meta_tests.builder import RANGE
from meta_tests.reports import EXPECTED, compared, hostile, row_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium import webdriver

    from etcd_coverage.reports.view import Report

pytestmark = MARKS

SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    yield from chromium(tmp_path_factory.mktemp("profile"))


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
    assert page.script("return document.querySelectorAll('th[data-caller]').length") > 0
    hidden = "return Array.from(document.querySelectorAll('.script, .chosen'), (e) => e.checkVisibility())"
    assert set(page.script(hidden)) == {False}
    assert page.column(ROWS, 5) == ["12", "1,500", "30", "1"]


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
