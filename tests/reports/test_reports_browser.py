"""Pages in a real browser: nothing is fetched, nothing runs over the edge of a phone, and a page prints."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from folders_for_tests import COMMANDS, Finished

pytestmark = pytest.mark.long
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs Chromium and its driver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def show(browser: Any, path: Path, width: int, scheme: str = "light") -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    browser.get(path.absolute().as_uri())


@pytest.mark.parametrize("kind", COMMANDS)
def test_on_a_phone_and_on_a_desk(kind: str, browser: Any, made: Callable[[str], tuple[Finished, Path]]) -> None:
    for width in (320, 390, 1200):
        show(browser, made(kind)[1] / "report.html", width)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert browser.execute_script("return [...document.images].every(each => each.naturalWidth > 0)")
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_dark_is_dark(browser: Any, made: Callable[[str], tuple[Finished, Path]]) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    show(browser, made("run")[1] / "report.html", 1200, "dark")
    assert browser.execute_script(ground) == "rgb(18, 23, 30)"
    # Pictures have dark lines: they stay on white.
    panel = "return getComputedStyle(document.querySelector('.picture')).backgroundColor"
    assert browser.execute_script(panel) == "rgb(255, 255, 255)"
    show(browser, made("run")[1] / "report.html", 1200, "light")
    assert browser.execute_script(ground) == "rgb(255, 255, 255)"


def test_the_first_key_leads_past_the_contents(browser: Any, made: Callable[[str], tuple[Finished, Path]]) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, made("run")[1] / "report.html", 1200)
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert browser.execute_script("return document.activeElement.className") == "skip"
    assert browser.execute_script("return document.activeElement.getBoundingClientRect().left") >= 0


def test_it_prints(browser: Any, made: Callable[[str], tuple[Finished, Path]]) -> None:
    show(browser, made("run")[1] / "report.html", 1200)
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    assert len(printed) < 3_000_000
