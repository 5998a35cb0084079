"""The presets hold the numbers that the paper prints in its section on numerical results."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from airmixml import Scenario
from airmixml.scenario import preset_names, preset_summary, preset_text

# "Wireless Environmental Setting", "Edge ML Training Settings" and the first rows of the tables; common to both.
BOTH: dict[str, dict[str, Any]] = {
    "workers": {"side_metres": 500},  # 500 m x 500 m
    "radio": {
        "unit_path_loss_db": -32,
        "noise_dbm": -114,
        "max_power_dbm": 23,
        "slot_seconds": 1e-3,  # tau = 1 ms
        "path_loss_exponent": 2,  # tables: n = 2
        "fading": "none",  # tables: |g| = 1
    },
    "mixing": {"policy": "dirmix", "power": "dp", "assignment": "random"},
    "privacy": {"delta": 0.01, "adversary": "release", "accountant": "paper-loose"},
    "learner": {"loss": "cross-entropy", "learning_rate": 1.0e-3, "adam_beta1": 0.9, "adam_beta2": 0.999},
}
DATA_SET_S: dict[str, dict[str, Any]] = {
    "workers": {"dataset": "iris", "count": 2000, "train_samples": 100},
    "radio": {"slots": 1000, "scheduled": 8},
    "mixing": {"alpha": 10**5},
    "privacy": {"epsilon": 5},
    "learner": {"model": "mlp", "hidden_units": [32, 16], "batch_size": 32, "epochs": 500},
}
DATA_SET_L: dict[str, dict[str, Any]] = {
    "workers": {"dataset": "mnist", "count": 60000, "train_samples": 60000},
    "radio": {"slots": 100000, "scheduled": 64},
    "mixing": {"alpha": 10**7},
    "privacy": {"epsilon": 10},
    "learner": {
        "model": "cnn",
        "filters": [32, 48],
        "kernel_size": 5,
        "pool_size": 2,
        "hidden_units": [100, 100],
        "batch_size": 64,
        "epochs": 10,
    },
}
PAPER = [
    (name, table, key, value)
    for name, own in (("paper-iris", DATA_SET_S), ("paper-mnist", DATA_SET_L))
    for settings in (BOTH, own)
    for table, keys in settings.items()
    for key, value in keys.items()
]


@pytest.mark.parametrize(("name", "table", "key", "value"), PAPER)
def test_presets_hold_what_the_paper_prints(name: str, table: str, key: str, value: object) -> None:
    stored = Scenario.preset(name).to_dict()[table][key]
    assert stored == value
    # Spelled out in the file, so that a change of a default cannot change the experiment.
    assert tomllib.loads(preset_text(name))[table][key] == value


def test_the_paper_never_uses_keys_that_its_presets_leave_alone() -> None:
    for name in ("paper-iris", "paper-mnist"):
        scenario = Scenario.preset(name)
        assert scenario.mixing.prior == ()  # the uniform prior
        assert scenario.workers.input_lower == scenario.workers.input_upper == ()
        assert scenario.workers.min_distance_metres == 1.0


# Beyond the paper: what each promises, to whom, and for how many workers.
PRIVATE = [
    ("private-mnist", 10, 1e-5, "server", 60000, "fixed", 1),
    ("private-mnist-release", 10, 1e-5, "release", 60000, "poisson", 100000),
    ("private-iris", 5, 0.01, "server", 2000, "fixed", 1),
    ("trustless-mnist", 10, 1e-5, "everyone", 60000, "fixed", 1),
    ("trustless-iris", 5, 0.01, "everyone", 2000, "fixed", 1),
    ("trustless-digits", 10, 1e-5, "everyone", 1200, "fixed", 1),
    ("trustless-wine", 10, 1e-5, "everyone", 16, "fixed", 1),
]


@pytest.mark.parametrize(("name", "epsilon", "delta", "adversary", "workers", "schedule", "slots"), PRIVATE)
def test_private_presets_promise_what_they_say(
    name: str, epsilon: float, delta: float, adversary: str, workers: int, schedule: str, slots: int
) -> None:
    scenario, text = Scenario.preset(name), tomllib.loads(preset_text(name))
    assert (scenario.privacy.epsilon, scenario.privacy.delta) == (epsilon, delta)
    assert (scenario.privacy.adversary, scenario.privacy.adjacency) == (adversary, "remove-one")
    assert (scenario.workers.count, scenario.radio.schedule, scenario.radio.slots) == (workers, schedule, slots)
    assert scenario.mixing.power == "dp"
    assert scenario.privacy.sensitivity == "encoder"
    assert f"epsilon = {epsilon}" in preset_summary(name)
    # Spelled out in the file, so that a change of a default cannot change the promise.
    assert {"epsilon", "delta", "adversary", "accountant", "adjacency", "sensitivity"} <= set(text["privacy"])
    assert {"encoder", "centre", "clip_norm", "label_weight"} <= set(text["workers"])
    if "mnist" in name:
        assert scenario.workers.holding == "dealt"  # so that a worker's guarantee is a sample's
        assert delta < 1 / workers
    if slots == 1:
        assert scenario.radio.scheduled == workers


OF_ONES_OWN = ("private-table", "private-images")


@pytest.mark.parametrize("name", OF_ONES_OWN)
def test_presets_for_ones_own_data_leave_numbers_to_the_data(name: str) -> None:
    scenario = Scenario.preset(name)
    assert not scenario.is_settled
    settled = scenario.settled(500)
    assert (settled.workers.count, settled.radio.scheduled, settled.radio.slots) == (500, 500, 1)
    assert settled.privacy.delta == pytest.approx(0.1 / 500)
    assert (settled.privacy.adversary, settled.privacy.adjacency) == ("server", "remove-one")
    assert settled.settled(7) == settled  # what is known stays
    assert f"epsilon = {scenario.privacy.epsilon:g}" in preset_summary(name)


WITH_ROUNDS = {"private-mnist": 20, "trustless-mnist": 20, "trustless-digits": 8}


@pytest.mark.parametrize(("name", "rounds"), WITH_ROUNDS.items())
def test_presets_with_rounds_promise_the_same_in_more_slots(name: str, rounds: int) -> None:
    one_slot, scenario = Scenario.preset(name), Scenario.preset(f"{name}-rounds")
    assert scenario.learner == replace(one_slot.learner, rounds=rounds)
    assert replace(scenario, name=name, learner=one_slot.learner) == one_slot
    assert f"epsilon = {one_slot.privacy.epsilon:g}" in preset_summary(f"{name}-rounds")


def test_every_preset_is_a_scenario_named_after_itself() -> None:
    known = {"paper-iris", "paper-mnist", "digits", *OF_ONES_OWN, *(name for name, *_ in PRIVATE)}
    siblings = {*(f"{name}-rounds" for name in WITH_ROUNDS), "trustless-digits-digital", "trustless-mnist-digital"}
    assert set(preset_names()) == known | siblings
    for name in preset_names():
        scenario = Scenario.preset(name)
        assert (scenario.name, scenario.seed) == (name, 0)
        assert Scenario.from_toml(scenario.to_toml(comments=True)) == scenario


def test_every_preset_says_in_a_line_what_it_is() -> None:
    summaries = [preset_summary(name) for name in preset_names()]
    assert all(10 < len(summary) < 150 and "#" not in summary for summary in summaries)
    assert len(set(summaries)) == len(summaries)


@pytest.mark.parametrize(
    ("asked", "near"),
    [("paper-irs", "paper-iris"), ("mnist", "paper-mnist"), ("PAPER-IRIS", "paper-iris"), ("../digits", "digits")],
)
def test_an_unknown_preset_is_answered_with_the_nearest(refused: Any, asked: str, near: str) -> None:
    message = refused(Scenario.preset, asked)
    assert message.startswith(f"preset {asked!r}: there is none of that name; did you mean {near}? (`airmix presets`")
    far = "preset 'bananas': there is none of that name (`airmix presets` lists them)"
    assert refused(Scenario.preset, "bananas") == far  # nothing is like it


def test_a_very_long_preset_name_does_not_flood_the_line(refused: Any) -> None:
    assert refused(Scenario.preset, "x" * 10_000).startswith("preset 'xxx")
