"""The screenshot of a report for the documents: ``python benchmarks/report_screenshots.py [FOLDER]``.

Needs Chromium with its driver, and Selenium: ``pip install selenium``.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

DOCS = Path(__file__).parents[1] / "docs" / "images"
RUN = ("--preset", "paper-iris", "--set", "learner.epochs=50")
WIDTH, HEIGHT = 1200, 1850


def browser() -> Any:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium") or ""
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))  # else one is downloaded


def photograph(driver: Any, page: Path, path: Path) -> None:
    """Keep the top of a page in 64 colours; refuse one that is wider than the window."""
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(page.absolute().as_uri())
    found = driver.execute_script("return document.documentElement.scrollWidth")
    assert found <= WIDTH, f"{page}: {found} pixels wide in a window of {WIDTH}"
    with Image.open(io.BytesIO(driver.get_screenshot_as_png())) as picture:
        picture.convert("RGB").quantize(64).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["airmix", "run", *RUN, "--out", "paper"], cwd=place, check=True, stdout=subprocess.DEVNULL)
        driver, folder = browser(), Path(place)
        try:
            photograph(driver, folder / "paper/report.html", out / "report-run.png")
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
