"""Federated learning over the air, as a method of a comparison."""

from __future__ import annotations

from collections.abc import Callable

from airmixml import Scenario
from airmixml.compare import Outcome, Work, load_methods


def test_learning_on_iris_beats_guessing_and_noise_hurts(on_iris: Callable[[str], Outcome]) -> None:
    asked = Scenario.preset("private-iris").with_overrides("privacy.epsilon=1e-3", "privacy.delta=1e-9")
    (federated,) = load_methods("federated").values()
    assert on_iris("federated").accuracy > 0.85
    assert federated.run(Work(scenario=asked)).accuracy < 0.85
