"""What the explorer's pages say, and where: tooltips, controls that apply, invalid values, and a telephone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import explore_kit as kit
from airmixml import Scenario, run

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(kit.why_no_browser()), reason=kit.why_no_browser() or "there is a browser"),
]
# Answers about a design stop after their first part until window.release() is called.
HELD = """
const ask = window.fetch, go = new Promise((resolve) => { window.release = resolve; });
window.fetch = async (where, how) => {
  const answer = await ask(where, how);
  if (!String(where).includes("api/design")) return answer;
  const [first, rest] = answer.body.tee(), line = first.pipeThrough(new TextDecoderStream()).getReader();
  const whole = rest.getReader();
  return new Response(new ReadableStream({
    async start(stream) {
      let text = "";
      while (!text.includes("\\n")) text += (await line.read()).value ?? "\\n";
      const told = new TextEncoder().encode(text.slice(0, text.indexOf("\\n") + 1));
      stream.enqueue(told);
      await go;
      let skipped = told.length;
      for (let part = await whole.read(); !part.done; part = await whole.read()) {
        const here = Math.min(skipped, part.value.length);
        skipped -= here;
        stream.enqueue(part.value.slice(here));
      }
      stream.close();
    },
  }), { status: answer.status, headers: answer.headers });
};
"""
TEXT = "(each) => each.textContent"
SEEN = "[...document.querySelectorAll(arguments[0])].filter((each) => each.checkVisibility())"


@pytest.fixture(scope="module")
def explorer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.Explorer]:
    folder = tmp_path_factory.mktemp("explorer")
    small = Scenario.preset("private-iris")
    run(small, out=folder / "runs" / "private-iris-seed0")
    with kit.open_explorer(folder) as explorer:
        yield explorer


def opened(explorer: kit.Explorer, browser: Any) -> Any:
    browser.get(explorer.new_link())
    kit.wait_for_design(browser, everything=False)
    return browser


@pytest.fixture
def page(explorer: kit.Explorer) -> Iterator[Any]:
    with kit.open_browser() as browser:
        yield opened(explorer, browser)
        assert kit.problems_of(browser) == []


@pytest.fixture
def phone(explorer: kit.Explorer) -> Iterator[Any]:
    with kit.open_browser(390, 844) as browser:
        yield opened(explorer, browser)


def text_of(browser: Any, element: str) -> str:
    return str(browser.execute_script("return document.getElementById(arguments[0]).textContent", element))


def test_while_it_computes_the_page_has_what_is_known(page: Any) -> None:
    page.execute_script(HELD)
    kit.choose(page, "preset", "private-table")
    kit.wait_until(lambda: "still computing" in text_of(page, "verdict"), "a note")
    known = "private-table: still computing. Target epsilon 1 by gdp against the server; 379 workers"
    kit.wait_until(lambda: known in text_of(page, "verdict"), "what is known")
    assert page.find_element(By.ID, "workers-count").get_attribute("value") == "379"
    assert "stale" in page.find_element(By.ID, "facts").get_attribute("class")
    page.execute_script("window.release()")
    kit.wait_until(lambda: "private-table: feasible" in text_of(page, "verdict"), "the verdict")


@pytest.mark.parametrize("preset", ["paper-iris", "private-table", "trustless-digits-digital"])
def test_everything_with_a_name_explains_itself(page: Any, preset: str) -> None:
    kit.choose(page, "preset", preset)
    kit.wait_until(lambda: f"{preset}: " in text_of(page, "verdict"), "the design")
    named = "header label, header button, #controls label, #facts > div, #epsilon-table th, #epsilon-table caption"
    silent = f"return {SEEN}.filter((each) => each.textContent.trim() && !each.closest('[title]')).map({TEXT})"
    assert page.execute_script(silent, named) == []
    kit.go_to(page, "watch")
    kit.wait_until(lambda: page.find_elements(By.ID, "spy") or "packet" in text_of(page, "scene"), "the slot")
    assert page.execute_script(silent, "#watch label, #steps button:not(#next), #own-place") == []
    kit.go_to(page, "run")
    kit.wait_until(lambda: "Air time" in text_of(page, "compare"), "the finished run")
    assert page.execute_script(silent, "#run label, #runs thead th, #compare tbody th") == []


def test_choices_are_words(page: Any) -> None:
    assert "privacy target" in text_of(page, "mixing-power")
    assert not [word for word in text_of(page, "workers-encoder").split() if "FILE" in word]


def test_an_invalid_value_is_called_so(page: Any) -> None:
    box = page.find_element(By.ID, "privacy-epsilon")
    box.clear()
    box.send_keys("-3", Keys.TAB)
    kit.wait_until(lambda: "invalid value. privacy.epsilon = -3" in text_of(page, "verdict"), "a refusal")
    assert box.get_attribute("aria-invalid") == "true"
    assert "feasible" not in text_of(page, "verdict")


def test_on_a_telephone_results_come_first_and_no_link_is_cut_off(phone: Any) -> None:
    def top(element: str) -> float:
        found: float = phone.execute_script(f"return document.querySelector('{element}').getBoundingClientRect().top")
        return found

    assert top("#verdict") < 300 < top("#controls")
    assert top("#epsilon-table") < top("#controls")
    outside = (
        f"return {SEEN}.filter((each) => {{ const box = each.getBoundingClientRect(); "
        f"return box.right > innerWidth || box.left < 0; }}).map({TEXT})"
    )
    assert phone.execute_script(outside, "nav a, main a, button, select, #controls input") == []
    kit.go_to(phone, "watch")
    kit.wait_until(lambda: phone.find_elements(By.ID, "spy"), "the map")
    assert phone.execute_script(outside, "nav a, main a, button, select, input") == []
    kit.go_to(phone, "run")
    kit.wait_until(lambda: phone.find_elements(By.CSS_SELECTOR, "#runs tr[data-state=finished]"), "the finished run")
    assert phone.execute_script(outside, "nav a, main a, button, select, input") == []


def test_a_feasible_design_says_against_whom_it_promises_nothing(page: Any) -> None:
    kit.choose(page, "preset", "private-table")
    told = "No guarantee is stated against the eavesdropper"
    kit.wait_until(lambda: told in text_of(page, "verdict"), "the sentence")
    assert text_of(page, "verdict").startswith("private-table: feasible.")
    kit.go_to(page, "watch")
    kit.wait_until(lambda: " of 379 are shown." in text_of(page, "scene"), "the slot of equal shares")


def test_on_a_phone_what_starts_a_run_comes_before_charts(phone: Any) -> None:
    kit.go_to(phone, "run")
    kit.wait_until(lambda: "Air time" in text_of(phone, "compare"), "the finished run")
    top = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
    assert phone.execute_script(top, "#start button") < phone.execute_script(top, ".run-results")


def test_the_page_names_no_option_of_the_command_line(page: Any) -> None:
    kit.wait_until(lambda: "before the draw" in text_of(page, "refusals"), "both epsilons")
    assert "--" not in text_of(page, "refusals")
