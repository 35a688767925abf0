"""Headless Chromium, driven by Selenium, and a report that it has opened."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from selenium import webdriver

from etcd_coverage.reports import html

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver.remote.webelement import WebElement

    from etcd_coverage.reports.view import Report

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")

MARKS = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not (CHROMIUM and CHROMEDRIVER), reason="no chromium and chromedriver: apt-get install chromium chromium-driver"
    ),
]

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

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


def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """Yield a browser that keeps its profile in the folder, and end it."""
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
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
