"""Methods with rounds of gradients: what they run, what they cost, and what rounds gain."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airmixml import Scenario
from airmixml.compare import METHODS, Outcome, Work, compare_methods, load_methods
from airmixml.compare.comparison_page import costs_table
from airmixml.messages import ScenarioError
from airmixml.workers import settle

IRIS = Scenario.preset("private-iris")
THREE_ROUNDS = IRIS.with_overrides("learner.rounds=3")


def run(name: str, scenario: Scenario) -> Outcome:
    return load_methods(name)[name].run(Work(scenario=scenario))


def made(name: str, scenario: Scenario) -> Scenario:
    own = load_methods(name)[name].own_scenario(scenario)
    assert own is not None
    return own


def test_rounds_are_counted_beside_the_moments() -> None:
    """5 numbers and 3 classes: 30 symbols of moments, 15 of a gradient; a model has 15 weights, 3 biases and a clip."""
    one, three = run("airmix", THREE_ROUNDS), run("airmix-rounds", THREE_ROUNDS)
    assert (one.uplink_symbols, one.downlink_bits, one.slots_per_worker) == (30, 0, 1)
    assert (three.uplink_symbols, three.downlink_bits, three.slots_per_worker) == (30 + 3 * 15, 3 * 32 * 19, 4)
    assert three.air_seconds == pytest.approx(75 / 794_000, rel=1e-9)
    # Scores and gradient take 15 each; of each class softmax takes 10, and error and norm one each.
    more = three.worker_multiply_accumulates - one.worker_multiply_accumulates
    assert more == 3 * (2 * 15 + 12 * 3)
    # The target fixes what is received from each worker in all slots together.
    assert three.energy_joules == pytest.approx(one.energy_joules, rel=1e-6)
    assert three.privacy[0].epsilon == pytest.approx(5.0, rel=1e-6)
    assert three.privacy[0].compositions == 4


def test_a_mean_estimated_over_the_air_takes_a_slot_more() -> None:
    scenario = settle(Scenario.preset("private-table").with_overrides("workers.dataset=wine", "learner.rounds=2"))
    assert scenario.workers.centre == "refined"
    assert [run(name, scenario).slots_per_worker for name in ("airmix", "airmix-rounds", "federated-50")] == [2, 4, 50]


def test_rounds_gain_on_digits_where_moments_are_noisy() -> None:
    table = Scenario.preset("private-table").with_overrides(
        "workers.dataset=digits", "workers.centre=own", "privacy.epsilon=0.3"
    )
    scenarios = [settle(table).with_seed(seed) for seed in range(3)]
    one, many = (
        statistics.fmean(run(name, each).accuracy for each in scenarios) for name in ("airmix", "airmix-rounds")
    )
    assert many > one + 0.05


def test_the_scenarios_own_number_of_rounds_is_kept_and_another_found_where_it_has_none() -> None:
    assert made("airmix-rounds", THREE_ROUNDS) == THREE_ROUNDS
    assert made("masked-rounds", THREE_ROUNDS).learner.rounds == 3
    assert made("masked-rounds", THREE_ROUNDS).privacy.noise == "masked"
    assert made("airmix-rounds", IRIS) == settle(IRIS.with_overrides("learner.rounds=auto", "learner.model=auto"))
    assert made("airmix-rounds", IRIS).learner.rounds > 0


def test_this_scenario_is_the_row_with_its_own_rounds() -> None:
    for scenario, own in ((THREE_ROUNDS, "airmix-rounds"), (IRIS, "airmix")):
        assert made(own, scenario) == scenario


@pytest.mark.parametrize("name", ["airmix", "masked", "workers-noise", "mixup-features", "paper", "federated"])
def test_no_other_method_has_rounds_after_its_slots(name: str) -> None:
    assert made(name, THREE_ROUNDS).learner.rounds == 0


@pytest.mark.parametrize("name", ["adassp", "dp-logistic", "local-dp", "raw"])
def test_baselines_do_not_see_the_scenarios_rounds(name: str, on_iris: Callable[[str], Outcome]) -> None:
    assert run(name, THREE_ROUNDS).accuracy == on_iris(name).accuracy


def test_where_no_rounds_can_follow_the_method_is_left_out(tmp_path: Path) -> None:
    samples = made("mixup-features", IRIS).with_overrides("radio.slots=50", "workers.train_samples=100")
    with pytest.raises(ScenarioError, match=r'workers.sends = "samples": must be "moments"'):
        made("airmix-rounds", samples)
    found = compare_methods(samples, load_methods("airmix", "airmix-rounds"), out=tmp_path)
    assert [row.name for row in found.rows] == ["airmix"]
    assert "learner.rounds" in found.left_out["airmix-rounds"]


def test_gradients_of_inputs_without_a_bounded_norm_are_those_of_clipped_inputs() -> None:
    raw = made("paper", IRIS)
    assert (raw.workers.encoder, raw.privacy.sensitivity) == ("scale", "paper")
    federated = made("federated", raw)
    assert (federated.workers.encoder, federated.workers.clip_norm) == ("clip", 1.0)
    assert run("federated-50", raw).privacy[0].epsilon == pytest.approx(5.0, rel=1e-6)


def test_federated_learning_is_simulated_on_the_scenarios_air(
    tmp_path: Path, on_iris: Callable[[str], Outcome]
) -> None:
    clear = IRIS.on_air("line-of-sight")
    names = ("airmix-rounds", "federated-50")
    assert all(made(name, clear).air == clear.air for name in names)
    found = compare_methods(clear, load_methods("federated-50"), out=tmp_path)
    ideal = on_iris("federated-50")
    assert found.rows[0].first.uplink_symbols > ideal.uplink_symbols  # pilots and guards


def test_tables_state_slots_uplink_and_downlink(tmp_path: Path) -> None:
    found = compare_methods(THREE_ROUNDS, load_methods("airmix", "airmix-rounds", "adassp"), out=tmp_path)
    table = costs_table(found.to_dict(), THREE_ROUNDS)
    places = [table.columns.index(name) for name in ("slots per worker", "uplink", "downlink bits")]
    rows = {row[0]: [row[place] for place in places] for row in table.rows}
    assert rows == {
        "airmix": ["1", "30 symbols", "0"],
        "airmix-rounds": ["4", "75 symbols", "1,824"],
        "adassp": ["–", "–", "–"],
    }
    plain = found.to_dict()["rows"][1]
    assert (plain["slots_per_worker"], plain["downlink_bits"]) == (4, 1824)


def test_the_two_methods_are_next_to_what_they_are_variants_of() -> None:
    names = list(METHODS.own)
    assert names.index("airmix-rounds") == names.index("airmix") + 1
    assert names.index("masked-rounds") == names.index("masked") + 1


def test_an_uplink_of_bits_is_not_called_symbols(tmp_path: Path) -> None:
    found = compare_methods(THREE_ROUNDS, load_methods("airmix", "adassp"), out=tmp_path)
    row = found.rows[0]
    digital = replace(row, outcomes=tuple(replace(each, uplink_unit="bits") for each in row.outcomes))
    beside = costs_table(replace(found, rows=(row, digital)).to_dict(), THREE_ROUNDS)
    place = beside.columns.index("uplink")
    assert [each[place] for each in beside.rows] == ["30 symbols", "30 bits"]
