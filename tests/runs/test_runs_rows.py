"""What the table of a run says about workers that do not send and what would mend it, and about rows of the data."""

import html
from pathlib import Path
from typing import Any

import pytest

from airmixml import Scenario, run, settle
from airmixml.messages import epsilon_text
from airmixml.output.cards import card_rows
from airmixml.output.page import Cards, Facts
from airmixml.planning.account import account_scenario
from airmixml.planning.known_inputs import data_dimensions
from airmixml.privacy.gaussian import gaussian_epsilon, gaussian_mu
from airmixml.reports import write_report
from airmixml.runs.results import SeedsResult
from airmixml.runs.run_page import run_page


def told(scenario: Scenario, out: Path) -> str:
    page = run_page(run(scenario, out=out, pictures=False).to_dict(), scenario)
    rows = [*(row for facts in page.all(Facts) for row in facts.rows), *card_rows(next(page.all(Cards)).cards)]
    return " ".join(f"{name} {value}" for name, value in rows)


def cards_of(scenario: Scenario, metrics: dict[str, Any]) -> dict[str, dict[str, str]]:
    (group,) = run_page(metrics, scenario).all(Cards)
    return {card.adversary: dict(card.facts) for card in group.cards}


ALONE = ("workers.sends=gradients", "learner.rounds=0", "learner.descent=adam", "radio.slots=8")


@pytest.mark.parametrize("changes", [("learner.rounds=7",), ALONE])
def test_a_run_says_what_rounds_take_whether_or_not_slots_came_before(tmp_path: Path, changes: tuple[str, ...]) -> None:
    """Iris with a constant: 5 inputs times 3 classes up; down, the same numbers, 3 biases and the clip in 32 bits."""
    words = told(Scenario.preset("private-iris").with_overrides("workers.centre=public", *changes), tmp_path / "run")
    assert "15 symbols up; 608 bits down, the model for all workers" in words
    assert "workers must be reachable 8 times" in words


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (("workers.dataset=wine",), "of fewer than 200 workers"),
        (("workers.dataset=breast-cancer", "learner.model=lda"), 'learner.model = "lda" is solved from one slot'),
        (("workers.dataset=breast-cancer", "radio.slot_seconds=1"), "radio.slot_seconds = 1: must be 0"),
        (("workers.dataset=breast-cancer",), ""),
        (("workers.dataset=breast-cancer", "learner.rounds=0", "learner.model=ridge"), ""),
    ],
)
def test_a_run_says_why_it_has_no_rounds(tmp_path: Path, changes: tuple[str, ...], why: str) -> None:
    """The preset has learner.rounds = "auto"."""
    scenario = settle(Scenario.preset("private-table").with_overrides(*changes))
    assert bool(why or "learner.rounds=0" in changes) == (scenario.learner.rounds == 0)
    words = told(scenario, tmp_path / "run")
    assert f"rounds none: {why}" in words if why else "rounds none" not in words


def test_workers_that_cannot_send_softly_enough_are_counted(tmp_path: Path) -> None:
    """Of 2,000 workers in a square of 500 m only those near its corners need -45 dBm."""
    words = told(Scenario.preset("private-iris").with_overrides("air.min_power_dbm=-45"), tmp_path / "run")
    assert "1,963 of 2,000 workers: they cannot send as softly" in words


@pytest.mark.parametrize("colluders", [0, 12])
def test_a_run_says_what_it_assumes_of_colluders(tmp_path: Path, colluders: int) -> None:
    changes = ("privacy.arithmetic=integers", f"privacy.colluders={colluders}")
    words = told(Scenario.preset("trustless-digits").with_overrides(*changes), tmp_path / "run")
    assert ("if colluders are chosen without knowing the graph" in words) == bool(colluders)


def test_a_run_says_what_a_row_on_several_workers_is_protected_by(tmp_path: Path) -> None:
    """Terminal, metrics and every card of the report; of several seeds, the worst of each."""
    scenario = Scenario.preset("trustless-iris")
    result = run(scenario, seeds=2, out=tmp_path / "run", pictures=False)
    assert isinstance(result, SeedsResult)
    assert result.row_copies == max(each.row_copies for each in result.runs)
    stated = {each.adversary: each.epsilon for each in result.row_statements}
    mu = gaussian_mu(5.0, 0.01)
    assert stated["everyone"] == pytest.approx(gaussian_epsilon(result.row_copies * mu, 0.01), rel=1e-6)
    cards = cards_of(scenario, result.to_dict())
    for adversary, epsilon in stated.items():
        shown = cards[adversary]["a row of the data"]
        assert shown == f"epsilon {epsilon_text(epsilon)}, held by up to {result.row_copies} workers"
    alone = scenario.with_overrides("workers.holding=dealt", "workers.count=100", "radio.scheduled=100")
    dealt = cards_of(alone, run(alone, out=tmp_path / "dealt", pictures=False).to_dict())["everyone"]
    assert "a row of the data" not in dealt


@pytest.mark.parametrize("protected", [False, True])
def test_a_run_says_why_nothing_is_stated_against_an_adversary(tmp_path: Path, protected: bool) -> None:
    """On the terminal, in the report and in JSON, with the reason of ``airmix account``."""
    scenario = settle(Scenario.preset("private-table").with_overrides("learner.rounds=2"))
    account = account_scenario(scenario, *data_dimensions(scenario, None, None), accountants=("gdp",))
    reasons = {adversary: why for (adversary, _), why in account.refusals.items()}
    assert set(reasons) == {"eavesdropper"}
    metrics = run(scenario, out=tmp_path / "run", pictures=False, private=protected).to_dict()
    assert metrics["unstated"] == reasons
    why = cards_of(scenario, metrics)["eavesdropper"]["why"]
    assert why == f"no guarantee stated ({reasons['eavesdropper']})"
    assert why in html.unescape(write_report(tmp_path / "run").read_text())
    sentence = run_page(metrics, scenario).verdict
    assert sentence.endswith("no guarantee stated against the eavesdropper.")
    assert "no protection" not in sentence


def test_a_run_begins_with_its_result_in_one_sentence(tmp_path: Path) -> None:
    """What it learnt beside guessing, whom its epsilons are against, and against whom or of what they are too large."""
    scenario = Scenario.preset("paper-iris").with_overrides("learner.epochs=1")
    result = run(scenario, out=tmp_path / "run", pictures=False)
    sentence = run_page(result.to_dict(), scenario).verdict
    assert result.accuracy is not None
    reached = f"{100 * result.accuracy.final:.1f} %"
    learned_nothing = f"Nothing was learned: accuracy {reached}, no better than guessing ("
    assert sentence.startswith((f"Accuracy {reached} (", learned_nothing))
    assert " (ridge without privacy " in sentence
    server = min(each.epsilon for each in result.privacy if each.adversary == "server")
    assert f"against the release, epsilon {epsilon_text(server)} against the server, no protection" in sentence
    assert sentence.endswith("no protection against the eavesdropper or for a row of the data.")
    assert sentence in html.unescape(write_report(tmp_path / "run").read_text())


def test_the_result_names_no_epsilon_that_is_shown_equal(tmp_path: Path) -> None:
    """Accountants round: what is larger by less than the digits that are shown is the same to a reader."""
    scenario = Scenario.preset("private-iris")
    metrics = run(scenario, out=tmp_path / "run", pictures=False).to_dict()
    own = metrics["privacy"][0]
    other = {**own, "adversary": "release" if own["adversary"] != "release" else "everyone"}
    for epsilon, times in ((own["epsilon"] * (1.0 + 1e-12), 0), (own["epsilon"] * 1.01, 1)):
        server = [each for each in metrics["privacy"] if each["adversary"] == "server"]
        stated = {**metrics, "privacy": [own, *server, {**other, "epsilon": epsilon}]}
        sentence = run_page(stated, scenario).verdict
        assert sentence.count(f" against {'the ' * (other['adversary'] == 'release')}{other['adversary']}") == times
