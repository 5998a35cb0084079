"""How long ``airmix explore`` takes to start, and its design page to follow a change: ``--save`` keeps the figures.

A change is a key pressed on a slider in a headless Chromium; it is followed when the light parts (plan, and all
accountants but pld) are on the page, chart and all. The first start, which compiles and fills caches, is not counted.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from explore_kit import go_to, open_browser, open_explorer, wait_for_design, wait_until, why_no_browser

RESULTS = Path(__file__).parent / "results" / "explore.json"
PRESETS = ("paper-iris", "private-iris", "digits", "paper-mnist")
SLIDERS = ("workers-count", "radio-scheduled", "privacy-epsilon", "radio-noise_dbm", "workers-side_metres")
STARTS, PRESSES = 3, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    arguments = parser.parse_args()
    if why := why_no_browser():
        raise SystemExit(why)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        starts = [measure_start(folder) for _ in range(STARTS + 1)][1:]
        updates = measure_updates(folder)
    found = {
        "start_seconds": {"median": statistics.median(starts), "largest": max(starts)},
        "update_milliseconds": {
            preset: {"median": statistics.median(times), "largest": max(times), "changes": len(times)}
            for preset, times in updates.items()
        },
    }
    print(json.dumps(found, indent=2))
    if arguments.save:
        RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def measure_start(folder: Path) -> float:
    """Return the seconds from starting the command until its page is served."""
    with open_explorer(folder) as explorer:
        return explorer.seconds


def measure_updates(folder: Path) -> dict[str, list[float]]:
    """Return, for some presets, the milliseconds from each change to its numbers on the page."""
    found: dict[str, list[float]] = {}
    with open_explorer(folder) as explorer, open_browser() as browser:
        browser.get(explorer.new_link())
        wait_for_design(browser)  # heavy parts once, so that what they are forked from is ready, too
        for preset in PRESETS:
            go_to(browser, "design")
            count = _count(browser)
            browser.execute_script(
                "const box = document.getElementById('preset'); box.value = arguments[0];"
                "box.dispatchEvent(new Event('change'))",
                preset,
            )
            _wait_for(browser, count + 1)
            times = []
            for slider in SLIDERS:
                moved = browser.find_element(By.CSS_SELECTOR, f"#{slider} ~ input[type=range]")
                for _ in range(PRESSES):
                    count = _count(browser)
                    moved.send_keys(Keys.ARROW_LEFT)
                    _wait_for(browser, count + 1)
                    times.append(browser.execute_script("return window.airmixUpdates.at(-1)"))
            found[preset] = times
    return found


def _count(browser: Any) -> int:
    return int(browser.execute_script("return (window.airmixUpdates ?? []).length"))


def _wait_for(browser: Any, count: int) -> None:
    wait_until(lambda: _count(browser) >= count, "an update")


if __name__ == "__main__":
    main()
