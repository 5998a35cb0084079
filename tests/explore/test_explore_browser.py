"""The explorer as a person uses it, in a headless Chromium."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import explore_kit as kit
from airmixml.explore.server import open_link

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(kit.why_no_browser()), reason=kit.why_no_browser() or "there is a browser"),
]
LONG_RUN = "[radio]\nslots = 400\n[learner]\nepochs = 1000000\n[workers]\ncount = 200\n"


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[kit.Explorer, Path]]:
    folder = tmp_path_factory.mktemp("explorer")
    with kit.open_explorer(folder) as explorer:
        yield explorer, folder


@pytest.fixture
def page(explorer: tuple[kit.Explorer, Path]) -> Iterator[Any]:
    """A browser at the design page; whatever it complains of at the end fails the test."""
    with kit.open_browser() as browser:
        browser.get(explorer[0].new_link())
        kit.wait_for_design(browser, everything=False)
        yield browser
        assert kit.problems_of(browser) == []


def text_of(browser: Any, element: str) -> str:
    return str(browser.execute_script("return document.getElementById(arguments[0]).textContent", element))


def state_of(browser: Any, run: str) -> str:
    script = "return document.querySelector(`#runs tr[data-run='${arguments[0]}']`)?.dataset.state ?? ''"
    return str(browser.execute_script(script, run))


def press(browser: Any, run: str, action: str) -> None:
    """Press a button of a run once it is there; the table is drawn anew now and then, so find and click are one."""
    script = (
        "const button = document.querySelector(`[data-keep='${arguments[0]}-${arguments[1]}']`);"
        "button?.click(); return button !== null"
    )
    kit.wait_until(lambda: browser.execute_script(script, run, action), f"a button to {action}")


def test_numbers_follow_a_change_and_the_address_holds_no_ticket(page: Any) -> None:
    assert "ticket" not in page.current_url
    kit.wait_for_design(page)
    before = text_of(page, "facts")
    slider = page.find_element(By.CSS_SELECTOR, "#radio-scheduled ~ input[type=range]")
    slider.send_keys(Keys.ARROW_RIGHT * 3)
    assert page.find_element(By.ID, "radio-scheduled").get_attribute("value") == str(8 + 3)
    kit.wait_until(lambda: text_of(page, "facts") != before, "other facts")
    kit.wait_until(lambda: "--set radio.scheduled=11" in text_of(page, "export"), "the command")
    kit.wait_for_design(page)
    assert "start a run" in text_of(page, "facts")
    assert page.execute_script("return document.querySelectorAll('#epsilon-table .spinner').length") == 0
    hosts = "return [...new Set(performance.getEntriesByType('resource').map((each) => new URL(each.name).host))]"
    assert page.execute_script(hosts) == [page.execute_script("return location.host")]


def test_what_is_infeasible_says_why_and_another_choice_mends_it(page: Any) -> None:
    kit.choose(page, "privacy-accountant", "gdp")
    kit.wait_until(lambda: "not feasible" in text_of(page, "verdict"), "a verdict")
    assert "schedule" in text_of(page, "verdict")
    kit.choose(page, "privacy-adversary", "server")
    kit.wait_until(lambda: ": feasible." in text_of(page, "verdict"), "another verdict")


def test_a_file_is_opened_and_survives_a_reload(page: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('extends = "private-iris"\nname = "mine"\n[privacy]\nepsilon = 3.0\n')
    page.find_element(By.ID, "file").send_keys(str(tmp_path / "mine.toml"))
    kit.wait_until(lambda: text_of(page, "verdict").startswith("mine: feasible"), "the file")
    assert page.find_element(By.ID, "privacy-epsilon").get_attribute("value") == "3"
    page.refresh()
    kit.wait_until(lambda: text_of(page, "verdict").startswith("mine: feasible"), "the file again")
    page.find_element(By.ID, "as-toml").click()
    assert 'name = "mine"' in text_of(page, "export")


def test_a_refused_design_is_not_exported_and_a_broken_file_changes_nothing(page: Any, tmp_path: Path) -> None:
    kit.wait_until(lambda: ": feasible." in text_of(page, "verdict"), "a verdict")
    (tmp_path / "bad.toml").write_text("a = = 1\n")
    page.find_element(By.ID, "file").send_keys(str(tmp_path / "bad.toml"))
    kit.wait_until(lambda: "bad.toml: not valid TOML" in text_of(page, "notice"), "a notice")
    assert text_of(page, "verdict").startswith("paper-iris: feasible.")
    kit.choose(page, "privacy-adversary", "everyone")
    kit.wait_until(lambda: "Nothing to export: privacy.adversary" in text_of(page, "export"), "a refusal")
    assert not page.find_element(By.ID, "copy").is_enabled()
    page.find_element(By.ID, "reset").click()
    kit.wait_until(lambda: "airmix run --preset paper-iris" in text_of(page, "export"), "the command")
    assert page.find_element(By.ID, "copy").is_enabled()
    assert text_of(page, "notice") == ""


def test_the_eavesdropper_is_dragged_to_a_worker(page: Any) -> None:
    kit.choose(page, "preset", "digits")
    kit.go_to(page, "watch")
    kit.wait_until(lambda: page.find_elements(By.ID, "spy"), "the map")
    assert page.find_elements(By.CSS_SELECTOR, ".sender canvas") == []
    for _ in range(5):
        page.find_element(By.ID, "next").click()
    assert len(page.find_elements(By.CSS_SELECTOR, ".sender canvas")) == 4
    victim = page.find_elements(By.CSS_SELECTOR, "#map .sender")[1]
    name = victim.find_element(By.TAG_NAME, "title").get_attribute("textContent").split(",")[0].split()[1]
    marker = page.find_element(By.CSS_SELECTOR, "#spy circle:last-child")
    ActionChains(page, duration=100).move_to_element(marker).click_and_hold().move_to_element(
        victim
    ).release().perform()
    kit.wait_until(lambda: f"hears loudest: {int(name):,}," in text_of(page, "scene"), "the loudest worker")
    shown = text_of(page, "scene")
    page.execute_script("document.getElementById('spy').focus()")
    ActionChains(page).send_keys(Keys.ARROW_LEFT).perform()
    kit.wait_until(lambda: text_of(page, "scene") != shown, "another place")


@pytest.mark.parametrize(
    ("preset", "before", "in_sum"),
    [("digits", "", ""), ("trustless-iris", "masks that it shares with other workers", "and the masks cancel")],
)
def test_the_slot_says_whose_noise_is_added(page: Any, preset: str, before: str, in_sum: str) -> None:
    kit.choose(page, "preset", preset)
    kit.go_to(page, "watch")
    kit.wait_until(lambda: page.find_elements(By.ID, "spy"), "the map")
    steps = page.find_elements(By.CSS_SELECTOR, "#steps button")
    steps[3].click()
    assert before in text_of(page, "scene")
    assert ("noise of its own" in text_of(page, "scene")) == bool(before)
    steps[4].click()
    assert f"The channel adds them up{': their noise adds up too, ' if in_sum else ''}{in_sum}; the receiver adds" in (
        text_of(page, "scene")
    )


def test_the_private_file_leads_to_the_page(explorer: tuple[kit.Explorer, Path], tmp_path: Path) -> None:
    """A browser that comes from a file has the cookie at once, although no other site may use it."""
    link = explorer[0].new_link()
    with kit.open_browser() as browser:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(webbrowser, "open", lambda _address: None)
            open_link(link, tmp_path)
        browser.get((tmp_path / "explorer.html").as_uri())
        kit.wait_for_design(browser, everything=False)
        assert browser.current_url == link.partition("?")[0]
        (cookie,) = browser.get_cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert browser.execute_script("return document.cookie") == ""
        browser.get(link)  # which is used: this browser goes to the page all the same
        kit.wait_for_design(browser, everything=False)
    with kit.open_browser() as other:
        other.get(link)
        assert "press Enter in the terminal" in other.find_element(By.TAG_NAME, "body").text


def test_a_foreign_report_runs_no_script_and_knows_no_address_of_ours(
    page: Any, explorer: tuple[kit.Explorer, Path]
) -> None:
    folder = explorer[1] / "runs" / "foreign"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text(
        "<p id=said>begun</p><script>document.getElementById('said').textContent = location</script>"
        "<script>location = 'about:blank'</script>"
    )
    root = page.current_url.partition("#")[0]
    page.get(root + "runs/foreign/report.html")
    kit.wait_until(lambda: page.current_url.endswith("/runs/foreign/report.html"), "the report")
    assert text_of(page, "said") == "begun"
    assert urlsplit(root).path not in page.current_url
    shutil.rmtree(folder)
    page.get_log("browser")  # the refusal


def test_a_folder_that_cannot_be_read_costs_its_own_row(page: Any, explorer: tuple[kit.Explorer, Path]) -> None:
    runs = explorer[1] / "runs"
    bad = runs / os.fsdecode(b"caf\xe9.partial")
    bad.mkdir(parents=True)
    (runs / "begun.partial").mkdir()
    kit.go_to(page, "run")
    kit.wait_until(lambda: state_of(page, "begun") == "interrupted", "a good row")
    assert "rename the folder" in text_of(page, "runs")
    assert text_of(page, "notice") == ""
    bad.rmdir()
    (runs / "begun.partial").rmdir()


def test_names_are_no_markup_in_charts(page: Any, explorer: tuple[kit.Explorer, Path]) -> None:
    name = "<i>a<i> &lt; %{y}"
    folder = explorer[1] / "runs" / f"{name}.partial"
    folder.mkdir(parents=True)
    np.savez(folder / "checkpoint.npz", loss=np.ones((3, 1)), test_accuracy=np.ones((3, 1)))
    kit.go_to(page, "run")
    legend = "return document.querySelector('#accuracy-chart .legendtext')?.textContent"
    kit.wait_until(lambda: page.execute_script(legend) is not None, "the learning curve")
    assert page.execute_script(legend) == name
    shutil.rmtree(folder)


def test_a_run_is_seen_cancelled_and_resumed_from_another_tab(
    page: Any, explorer: tuple[kit.Explorer, Path], tmp_path: Path
) -> None:
    (tmp_path / "endless.toml").write_text('name = "endless"\n' + LONG_RUN)
    page.find_element(By.ID, "file").send_keys(str(tmp_path / "endless.toml"))
    kit.wait_until(lambda: text_of(page, "run-name") == "endless", "the file")
    kit.go_to(page, "run")
    page.find_element(By.CSS_SELECTOR, "#start button").click()
    kit.wait_until(lambda: state_of(page, "endless-seed0") == "running", "a run")
    lines = "return document.querySelectorAll('#accuracy-chart .scatterlayer .trace').length"
    kit.wait_until(lambda: page.execute_script(lines) == 1, "the learning curve")
    with kit.open_browser() as other:  # closed half-way, which disturbs nobody
        other.get(explorer[0].new_link())
        kit.wait_for_design(other, everything=False)
        kit.go_to(other, "run")
        kit.wait_until(lambda: state_of(other, "endless-seed0") == "running", "the same run in another tab")
        press(other, "endless-seed0", "cancel")
        kit.wait_until(lambda: state_of(page, "endless-seed0") == "interrupted", "the end of the run")
        press(other, "endless-seed0", "resume")
    kit.wait_until(lambda: state_of(page, "endless-seed0") == "running", "the run again")
    press(page, "endless-seed0", "cancel")
    kit.wait_until(lambda: state_of(page, "endless-seed0") == "interrupted", "the end of the run")


def test_finished_runs_are_compared(page: Any) -> None:
    kit.choose(page, "preset", "private-iris")
    kit.wait_until(lambda: text_of(page, "run-name") == "private-iris", "the preset")
    kit.go_to(page, "run")
    page.find_element(By.CSS_SELECTOR, "#start button").click()
    kit.wait_until(lambda: state_of(page, "private-iris-seed0") == "finished", "a finished run")
    kit.wait_until(lambda: "Epsilon against the server" in text_of(page, "compare"), "the table")
    assert page.find_elements(By.PARTIAL_LINK_TEXT, "report")


@pytest.mark.parametrize("dark", [False, True])
def test_a_telephone_scrolls_in_one_direction(explorer: tuple[kit.Explorer, Path], dark: bool) -> None:
    with kit.open_browser(390, 800, dark=dark) as phone:
        phone.get(explorer[0].new_link())
        kit.wait_for_design(phone, everything=False)
        for name in ("design", "watch", "run"):
            kit.go_to(phone, name)
            assert phone.execute_script("return document.documentElement.scrollWidth") <= 390
        unnamed = (
            "return [...document.querySelectorAll('input, select, button')].filter((each) => each.type !== 'file' "
            "&& !each.labels?.length && !each.getAttribute('aria-label') && !each.textContent.trim())"
            ".map((each) => each.outerHTML)"
        )
        assert phone.execute_script(unnamed) == []


def test_an_explorer_that_was_killed_is_told_of(tmp_path: Path) -> None:
    with kit.open_explorer(tmp_path) as gone, kit.open_browser() as browser:
        browser.get(gone.new_link())
        kit.wait_for_design(browser, everything=False)
        os.killpg(gone.process.pid, signal.SIGKILL)
        kit.choose(browser, "preset", "digits")
        kit.wait_until(lambda: "start `airmix explore` again" in text_of(browser, "notice"), "a notice")
