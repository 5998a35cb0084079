"""Screenshots of reports for the documents: ``python benchmarks/report_screenshots.py [FOLDER]``, half a minute.

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
RUNS = {
    "paper": ("--preset", "paper-iris", "--set", "learner.epochs=50"),
    "private": ("--preset", "private-iris", "--set", "privacy.adjacency=replace-one"),
    "trustless": ("--preset", "trustless-iris"),
}
PHONE, DESKTOP = 390, 1200


def browser() -> Any:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium") or ""
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))  # else one is downloaded


def photograph(driver: Any, page: Path, path: Path, *, width: int, height: int, scheme: str = "light") -> None:
    """Keep the top of a page in 64 colours; refuse one that is wider than the window."""
    phone = width < 600
    size = {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    driver.get(page.absolute().as_uri())
    found = driver.execute_script("return document.documentElement.scrollWidth")
    assert found <= width, f"{page}: {found} pixels wide in a window of {width}"
    with Image.open(io.BytesIO(driver.get_screenshot_as_png())) as picture:
        picture.convert("RGB").quantize(64).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS
    with tempfile.TemporaryDirectory() as place:
        for name, words in RUNS.items():
            subprocess.run(["airmix", "run", *words, "--out", name], cwd=place, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["airmix", "report", *RUNS, "--out", "beside.html"], cwd=place, check=True)
        driver, folder = browser(), Path(place)
        try:
            photograph(driver, folder / "paper/report.html", out / "report-run.png", width=DESKTOP, height=1850)
            photograph(driver, folder / "beside.html", out / "report-compare.png", width=DESKTOP, height=2600)
            photograph(driver, folder / "paper/report.html", out / "report-phone.png", width=PHONE, height=1400,
                       scheme="dark")  # fmt: skip
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
