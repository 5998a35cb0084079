"""Make the pictures of the explorer in docs/images, in a headless Chromium."""

import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from explore_kit import choose, go_to, open_browser, open_explorer, wait_for_design, wait_until, why_no_browser

IMAGES = Path(__file__).parents[1] / "docs" / "images"
LARGEST_BYTES = 300_000


def main() -> None:
    if why := why_no_browser():
        raise SystemExit(why)
    with tempfile.TemporaryDirectory() as name, open_explorer(Path(name)) as explorer:
        with open_browser(1360, 1130) as browser:
            browser.get(explorer.new_link())
            show_design(browser)
            save(browser, "explore-design")
        with open_browser(1360, 1080) as browser:
            browser.get(explorer.new_link())
            show_watch(browser)
            save(browser, "explore-watch")
        with open_browser(1360, 1060) as browser:
            browser.get(explorer.new_link())
            show_run(browser)
            save(browser, "explore-run")


def show_design(browser: Any) -> None:
    """The paper's Iris experiment with a little more noise."""
    for presses in (12, 1):
        wait_for_design(browser)
        slider = browser.find_element(By.CSS_SELECTOR, "#radio-noise_dbm ~ input[type=range]")
        count = browser.execute_script("return airmixUpdates.length")
        slider.send_keys(Keys.ARROW_RIGHT * presses)
        wait_until(lambda: browser.execute_script("return airmixUpdates.length") > count, "an update")  # noqa: B023
        wait_for_design(browser)


def show_watch(browser: Any) -> None:
    """One slot of the digits, with the eavesdropper near the loudest worker."""
    wait_for_design(browser, everything=False)
    choose(browser, "preset", "digits")
    go_to(browser, "watch")
    wait_until(lambda: browser.find_elements(By.ID, "spy"), "the map")
    browser.find_elements(By.CSS_SELECTOR, "#steps button")[5].click()
    place = browser.find_elements(By.CSS_SELECTOR, "#map .sender")[0]
    drag_to(browser, place, 12)


def drag_to(browser: Any, element: Any, right: int) -> None:
    """Drag the eavesdropper beside an element of the map, and wait until the page shows what it hears there."""
    marker = browser.find_element(By.CSS_SELECTOR, "#spy circle:last-child")
    heard = "return document.querySelector('#scene .card:last-child')?.textContent"
    before = browser.execute_script(heard)
    actions = ActionChains(browser, duration=100)
    actions.move_to_element(marker).click_and_hold().move_to_element_with_offset(element, right, 0).release().perform()
    wait_until(lambda: browser.execute_script(heard) != before, "what the eavesdropper hears")


def show_run(browser: Any) -> None:
    """Two finished runs and one that is under way."""
    wait_for_design(browser, everything=False)
    runs = (("paper-iris", "0", "finished"), ("digits", "0", "finished"), ("digits", "1", ""))
    for preset, seed, wanted in runs:
        choose(browser, "preset", preset)
        go_to(browser, "run")
        wait_until(lambda: preset in browser.find_element(By.ID, "run-name").text, "the design")  # noqa: B023
        box = browser.find_element(By.ID, "seed")
        box.clear()
        box.send_keys(seed)
        browser.find_element(By.CSS_SELECTOR, "#start button").click()
        if wanted:
            there = "return document.querySelectorAll('#runs tr[data-state=running]').length"
            done = "return document.querySelectorAll('#runs tr[data-state=finished]').length"
            count = browser.execute_script(done)
            wait_until(lambda: browser.execute_script(there) or browser.execute_script(done) > count, "a run")  # noqa: B023
            wait_until(lambda: browser.execute_script(done) > count, "a finished run")  # noqa: B023
    points = (
        "return (document.getElementById('accuracy-chart').data ?? [])"
        ".find((each) => each.name === 'digits-seed1')?.x.length ?? 0"
    )
    wait_until(lambda: browser.execute_script(points) >= 5, "the curve of the run under way")


def save(browser: Any, name: str) -> None:
    browser.execute_script("document.activeElement?.blur()")
    path = IMAGES / f"{name}.png"
    browser.save_screenshot(str(path))
    # Few colours are enough for a page, and half the bytes.
    Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)
    assert path.stat().st_size < LARGEST_BYTES, f"{path.name} has {path.stat().st_size:,} bytes"
    print(path.name, f"{path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
