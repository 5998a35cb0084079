"""Start ``airmix explore`` and a headless Chromium that looks at it; for measurements, pictures and tests."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import HTTPCookieProcessor, build_opener

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
LONGEST_SECONDS = 300.0


def why_no_browser() -> str:
    """Return why no browser can be used; empty where one can."""
    if CHROMIUM is None or DRIVER is None:
        return "no Chromium with its driver (make browser installs them)"
    return ""


@dataclass(frozen=True)
class Explorer:
    """A running explorer: its process, the terminal that it reads, and how long it took to answer."""

    process: "subprocess.Popen[str]"
    terminal: int
    seconds: float

    def new_link(self) -> str:
        """Return a link, which one browser can use once."""
        os.write(self.terminal, b"\n")
        return printed_link(self.process)


def printed_link(process: "subprocess.Popen[str]") -> str:
    """Return the link that an explorer prints next."""
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found, "the explorer did not start"
    return found[0]


@contextmanager
def open_explorer(folder: Path) -> Iterator[Explorer]:
    """Start an explorer in the folder; it ends as by Ctrl-C."""
    started = time.perf_counter()
    terminal, its_end = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "airmixml", "explore", "--no-browser", "--port", "0"],
        cwd=folder,
        stdin=its_end,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    os.close(its_end)
    try:
        link = printed_link(process)
        opener = build_opener(HTTPCookieProcessor())
        for address in (link, link.partition("?")[0]):
            with opener.open(address) as page:
                assert page.status == 200
        yield Explorer(process, terminal, time.perf_counter() - started)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        os.close(terminal)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def open_browser(width: int = 1360, height: int = 1000, *, dark: bool = False) -> Iterator[Any]:
    """Yield a headless Chromium with a window of that size."""
    options = Options()
    options.binary_location = CHROMIUM or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        # Not by the size of the window, which is never narrower than 500 pixels.
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.set_script_timeout(LONGEST_SECONDS)
        yield browser
    finally:
        browser.quit()


def wait_until(is_so: Callable[[], Any], what: str = "") -> Any:
    """Wait until something is true, and return it."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not (found := is_so()):
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)
    return found


def wait_for_design(browser: Any, *, everything: bool = True) -> None:
    """Wait until the design page shows the light parts of its answer, or everything."""
    if everything:
        script = "return document.getElementById('timing').dataset.busy === 'no'"
    else:
        script = "return (window.airmixUpdates ?? []).length > 0"
    wait_until(lambda: browser.execute_script(script), "the design page")


def choose(browser: Any, element: str, value: str) -> None:
    """Choose a value of a list, as a user does."""
    Select(browser.find_element(By.ID, element)).select_by_value(value)


def go_to(browser: Any, page: str) -> None:
    """Follow the link to one of the three pages."""
    browser.find_element(By.CSS_SELECTOR, f'nav a[href="#/{page}"]').click()


def problems_of(browser: Any) -> list[str]:
    """Return what the browser complained of."""
    return [each["message"] for each in browser.get_log("browser") if each["level"] in ("SEVERE", "WARNING")]
