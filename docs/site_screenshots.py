"""Take the screenshots of the built site again: make docs && python docs/site_screenshots.py

Needs Chromium; ``--all FOLDER`` also takes pages for a look at phone width and in dark colours.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
IMAGES = ROOT / "docs" / "images"
COLOURS = 256  # a palette keeps text sharp and files small
KEPT = {"site-front": ("index", 1280, 860), "site-gallery": ("generated/gallery/index", 1280, 860)}
TO_LOOK_AT = {
    "front-phone": ("index", 390, 1400),
    "scenario": ("scenario", 1400, 1300),
    "scenario-phone": ("scenario", 390, 1200),
    "api": ("generated/api/airmixml.privacy", 1400, 1500),
    "cli": ("cli", 1400, 1300),
    "concepts": ("concepts", 1400, 2600),
    "architecture": ("architecture", 1400, 1100),
    "paper": ("paper", 1400, 1100),
    "example": ("generated/gallery/what_an_eavesdropper_sees", 1400, 1900),
}


def shoot(page: str, width: int, height: int, target: Path, *, dark: bool = False) -> None:
    """Take one page as Chromium shows it from disk."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("site_screenshots: no Chromium found; install it")
    look = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
    address = (SITE / f"{page}.html").as_uri()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *look]
    size = [f"--window-size={width},{height}", f"--screenshot={target}"]
    subprocess.run([browser, *options, *size, address], check=True, capture_output=True)


def main() -> None:
    """Take those that are kept, and with ``--all`` the others."""
    with TemporaryDirectory() as folder:
        for name, (page, width, height) in KEPT.items():
            taken = Path(folder, f"{name}.png")
            shoot(page, width, height, taken)
            Image.open(taken).convert("RGB").quantize(COLOURS).save(IMAGES / taken.name, optimize=True)
    if "--all" in sys.argv:
        target = Path(sys.argv[-1])
        target.mkdir(parents=True, exist_ok=True)
        for name, (page, width, height) in TO_LOOK_AT.items():
            shoot(page, width, height, target / f"{name}.png")
            shoot(page, width, height, target / f"{name}-dark.png", dark=True)


if __name__ == "__main__":
    main()
