"""Federated learning over the air, as a method of a comparison."""

from __future__ import annotations

from airmixml import Scenario
from airmixml.compare import Work, load_methods


def test_learning_on_iris_beats_guessing_and_noise_hurts() -> None:
    scenario = Scenario.preset("private-iris")
    (federated,) = load_methods("federated").values()
    accuracies = []
    for epsilon in (5.0, 1e-3):
        asked = scenario.with_overrides(f"privacy.epsilon={epsilon}", "privacy.delta=1e-9")
        accuracies.append(federated.run(Work(scenario=asked)).accuracy)
    assert accuracies[0] > 0.85
    assert accuracies[1] < 0.85
