"""What cards say, against hand values, the documents and an adversary that reaches the bound."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airmixml import Scenario
from airmixml.attacks.measured import guessing_bound
from airmixml.output.cards import NEIGHBOURS, cards_of, command_for, flat, meaning, promise_of, right_at_most, trust
from airmixml.privacy import PrivacyStatement
from airmixml.registries import NOISES

DOCS = Path(__file__).parents[2] / "docs"


def statement(epsilon: float, **others: object) -> PrivacyStatement:
    values: dict[str, object] = {
        "delta": 1e-5,
        "adversary": "server",
        "accountant": "gdp",
        "adjacency": "replace-one",
        "sensitivity": 2.0,
        "sampling": "none",
        "sampling_rate": 1.0,
        "compositions": 1,
        "noise_watts_per_symbol": 4e-15,
        "knows": "all mixtures",
    }
    return PrivacyStatement(epsilon=epsilon, **{**values, **others})  # type: ignore[arg-type]


def test_an_epsilon_in_words_by_hand() -> None:
    said = meaning(math.log(3.0), 0.0, "replace-one")
    assert "more than 3 times as likely" in said
    assert "it is right at most 75.0 % of the time" in said
    assert "If one worker were absent" in meaning(1.0, 0.0, "remove-one")
    assert meaning(51.0, 0.0, "replace-one") == "An epsilon this large protects nobody."


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_randomised_response_reaches_the_bound(epsilon: float) -> None:
    """It tells the truth with probability e^epsilon / (1 + e^epsilon), so that believing it is right as often."""
    assert right_at_most(epsilon, 0.0) == pytest.approx(math.exp(epsilon) / (1.0 + math.exp(epsilon)), rel=1e-12)


@given(epsilon=st.floats(0.0, 40.0), delta=st.floats(0.0, 1.0))
def test_it_is_the_bound_on_naming_one_of_two(epsilon: float, delta: float) -> None:
    assert right_at_most(epsilon, delta) == pytest.approx(
        guessing_bound(epsilon, delta, "replace-one", 1 / 2), rel=1e-12
    )


def test_the_percentage_is_never_less_than_the_bound() -> None:
    # e / (1 + e) = 0.7310585..., which rounds to 73.1 and must be 73.2.
    assert "at most 73.2 %" in meaning(1.0, 0.0, "replace-one")


def test_promises() -> None:
    assert [promise_of(each)[1] for each in (0.5, 1.0, 5.0, 10.0, 50.0, 51.0, math.inf)] == [
        "strong", "strong", "moderate", "weak", "weak", "none", "none"
    ]  # fmt: skip


def test_the_words_are_those_of_the_documents() -> None:
    trusted, glossary = ((DOCS / name).read_text(encoding="utf-8") for name in ("trust.md", "concepts.md"))
    assert all(f"| {NOISES.load(name).trusted} |" in trusted for name in NOISES.own)
    for name, words in NEIGHBOURS.items():
        assert f"`{name}` ({words.removeprefix(f'{name}: ')})" in " ".join(glossary.split())


def test_a_card_has_the_smallest_epsilon_of_the_asked_neighbours() -> None:
    scenario = Scenario.preset("paper-iris")  # replace-one, against the release
    found = cards_of(
        [statement(3.0), statement(2.0, accountant="pld"), statement(1.0, adjacency="remove-one")], scenario
    )
    assert [card.adversary for card in found] == ["release", "server", "eavesdropper", "everyone"]
    assert [card.epsilon for card in found] == ["no guarantee", "2", "no guarantee", "no guarantee"]
    assert [card.is_target for card in found] == [True, False, False, False]
    assert ("remove-one neighbours", "epsilon 1 (gdp)") in found[1].details
    assert ("other accountants", "3 (gdp)") in found[1].details


def test_trust_follows_the_scenario() -> None:
    paper = Scenario.preset("paper-iris").with_overrides("privacy.eavesdropper_distance_metres=25")
    assert "nobody listens nearer than 25 m" in trust(paper, "eavesdropper")
    assert "nobody tells it the schedule" in trust(paper, "release", hidden_schedule=True)
    assert "X25519" in trust(Scenario.preset("trustless-iris"), "everyone")


@pytest.mark.parametrize(
    "changes", [(), ("learner.epochs=7", "seed=3"), ("learner.hidden_units=[4,5]", "air.preset=line-of-sight"),
                ("workers.input_lower=[0.5]", "workers.input_upper=[9.0]")]
)  # fmt: skip
def test_the_command_of_a_scenario_is_that_scenario(changes: tuple[str, ...]) -> None:
    scenario = Scenario.preset("paper-iris").with_overrides(*changes)
    words = command_for("run", scenario, "--seeds", "2")
    assert words[:4] == ("airmix", "run", "--preset", "paper-iris")
    assert words[-2:] == ("--seeds", "2")
    assert Scenario.preset("paper-iris").with_overrides(*words[5:-2:2]) == scenario


def test_a_scenario_of_no_preset_is_read_from_its_file() -> None:
    scenario = Scenario.preset("paper-iris").with_overrides("name=mine")
    assert command_for("run", scenario) == ("airmix", "run", "scenario.toml")


@pytest.mark.parametrize("preset", ["paper-iris", "trustless-digits", "private-mnist"])
def test_a_scenario_is_read_back_from_json(preset: str) -> None:
    scenario = Scenario.preset(preset).with_overrides("air.preset=line-of-sight")
    assert Scenario.from_json(scenario.to_json()) == scenario
    assert len(flat(scenario)) > 80
