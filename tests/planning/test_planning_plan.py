"""Plans: what they predict is what runs measure, and their guidance is the best of what they tried."""

import math
from pathlib import Path

import numpy as np
import pytest

from airmixml import Scenario, settle, simulate
from airmixml.data.embedded import DIGITS, IRIS
from airmixml.planning.plan import InputMoments, make_plan
from airmixml.planning.planned import Plan
from airmixml.radio.privacy_target import private_received_watts
from airmixml.radio.system import sensitivity_of

IRIS_MOMENTS = InputMoments(mean=IRIS.scaled_mean, deviation=IRIS.scaled_deviation)


@pytest.fixture(scope="module")
def iris_plan() -> Plan:
    return planned()


def planned(*changes: str) -> Plan:
    return make_plan(Scenario.preset("paper-iris").with_overrides(*changes), 4, 3, IRIS_MOMENTS)


def test_power_energy_and_snr_are_those_of_a_run(iris_plan: Plan) -> None:
    report = simulate(Scenario.preset("paper-iris")).report.to_dict()
    assert iris_plan.power_dbm is not None
    assert iris_plan.energy_joules == pytest.approx(report["energy_joules"], rel=0.05, abs=0)
    assert iris_plan.power_dbm.median == pytest.approx(report["power_dbm"]["median"], abs=0.3)
    assert iris_plan.snr_inputs_db == pytest.approx(report["snr_inputs_db"], abs=0.5)  # seeds spread by 0.2
    assert iris_plan.snr_labels_db == pytest.approx(report["snr_labels_db"], abs=0.3)


def test_so_they_are_for_digits_with_few_workers_and_small_alpha() -> None:
    scenario = Scenario.preset("digits").with_overrides("mixing.power=dp", "mixing.alpha=2", "radio.scheduled=5")
    moments = InputMoments(mean=DIGITS.scaled_mean, deviation=DIGITS.scaled_deviation)
    plan, report = make_plan(scenario, 64, 10, moments, alternatives=False), simulate(scenario).report.to_dict()
    assert plan.energy_joules == pytest.approx(report["energy_joules"], rel=0.15, abs=0)
    assert plan.snr_inputs_db == pytest.approx(report["snr_inputs_db"], abs=0.4)
    assert plan.snr_labels_db == pytest.approx(report["snr_labels_db"], abs=0.4)


def test_slots_as_long_as_their_symbols_have_an_energy_too() -> None:
    """794 symbols a millisecond: Iris's 4 + 3 symbols, each counted at full amplitude, take 7/794 of the paper's."""
    paper = Scenario.preset("paper-iris").with_overrides("radio.slots=300")
    short = paper.with_overrides("radio.slot_seconds=0")
    plan, whole = (make_plan(scenario, 4, 3, IRIS_MOMENTS) for scenario in (short, paper))
    assert plan.energy_joules == pytest.approx(simulate(short).report.energy_joules, rel=0.05, abs=0)
    assert plan.energy_joules == pytest.approx(7 / 794 * whole.energy_joules, rel=1e-9)


@pytest.mark.parametrize("norm", [0.3, 0.8])
def test_so_they_are_for_clipped_inputs(norm: float) -> None:
    changes = ("workers.encoder=clip", f"workers.clip_norm={norm}", "privacy.sensitivity=encoder")
    scenario = Scenario.preset("paper-iris").with_overrides(*changes)
    plan, report = make_plan(scenario, 4, 3, IRIS_MOMENTS, alternatives=False), simulate(scenario).report.to_dict()
    assert plan.snr_inputs_db == pytest.approx(report["snr_inputs_db"], abs=1.5)
    assert plan.snr_labels_db == pytest.approx(report["snr_labels_db"], abs=0.3)


def test_a_target_that_the_power_limit_alone_keeps_asks_for_no_more_than_can_be_received() -> None:
    """Everybody at 1 m could be received with P_max beta_U = 10^-8 W 10^-3.2."""
    scenario = Scenario.preset("paper-iris").with_overrides(
        "privacy.adversary=eavesdropper", "privacy.eavesdropper_distance_metres=1e6", "radio.max_power_dbm=-50"
    )
    plan = make_plan(scenario, 4, 3, IRIS_MOMENTS, alternatives=False)
    assert plan.received_watts <= 1e-8 * 10**-3.2 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("scheduled", "alpha", "printed_joules"),
    [(4, 1.0, 0.084e-6), (4, 1e5, 0.291e-6), (8, 1e5, 0.361e-6)],
)
def test_energies_are_those_of_the_papers_table(scheduled: int, alpha: float, printed_joules: float) -> None:
    """Table II, Iris, epsilon = 5; one placement of the workers, so within a tenth."""
    plan = planned(f"radio.scheduled={scheduled}", f"mixing.alpha={alpha}")
    assert plan.energy_joules == pytest.approx(printed_joules, rel=0.1, abs=0)


def test_remark_1_stricter_targets_and_quieter_receivers_mean_less_power() -> None:
    def watts(*changes: str) -> float:
        scenario = Scenario.preset("paper-iris").with_overrides(*changes)
        return private_received_watts(scenario, sensitivity_of(scenario, 4, 3))

    assert watts("privacy.epsilon=4.7") < watts() < watts("privacy.epsilon=10")
    assert watts("privacy.delta=0.02") > watts()
    assert watts("radio.noise_dbm=-117") == pytest.approx(watts() * 10**-0.3, rel=1e-9, abs=0)


def test_remark_2_a_larger_alpha_gives_the_better_signal_at_the_same_privacy() -> None:
    for scheduled in (4, 16):
        line = [planned(f"radio.scheduled={scheduled}", f"mixing.alpha={alpha}") for alpha in (0.1, 1, 10, 1e3, 1e7)]
        assert [each.snr_inputs_db for each in line] == sorted(each.snr_inputs_db for each in line)


def test_a_target_that_no_power_meets() -> None:
    plan = make_plan(Scenario.preset("paper-iris").with_overrides("privacy.epsilon=3"), 4, 3, IRIS_MOMENTS)
    assert not plan.feasible
    assert "ln(1/delta) = 4.6052" in plan.verdict
    assert set(plan.to_dict()) == {"name", "air", "feasible", "verdict"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((), "the largest power is 58.9 dB below the limit"),
        (("radio.fading=rayleigh",), "without credit for sampling"),
        (("radio.fading=rayleigh", "privacy.adversary=server", "privacy.accountant=gdp"), "which only adds privacy"),
    ],
)
def test_verdicts(changes: tuple[str, ...], words: str) -> None:
    scenario = Scenario.preset("paper-iris").with_overrides("radio.slots=100", *changes)
    plan = make_plan(scenario, 4, 3, IRIS_MOMENTS, alternatives=False)
    assert plan.feasible
    assert words in plan.verdict


def test_so_they_are_for_moments() -> None:
    """Iris is correlated, so that its moments are a little stronger than those of inputs that are not."""
    scenario, dims = Scenario.preset("private-iris"), (5, 3)
    moments = InputMoments(mean=0.551, deviation=0.25)  # about Iris within 0 to 8, 5, 8 and 3 cm
    plan, report = make_plan(scenario, *dims, moments, alternatives=False), simulate(scenario).report.to_dict()
    assert plan.snr_inputs_db == pytest.approx(report["snr_inputs_db"], abs=2.0)
    assert plan.snr_labels_db == pytest.approx(report["snr_labels_db"], abs=2.0)


@pytest.mark.parametrize("weight", [1.0, 0.3])
@pytest.mark.parametrize("sends", ["moments", "samples"])
def test_independent_inputs_are_planned_exactly(sends: str, weight: float, tmp_path: Path) -> None:
    """Eight independent inputs, uniform on [0.2, 0.9]: of mean 0.55 and variance 0.7^2 / 12."""
    rng = np.random.default_rng(3)
    np.savez(tmp_path / "own.npz", inputs=rng.uniform(0.2, 0.9, (3000, 8)), labels=rng.integers(0, 4, 3000))
    scenario = Scenario.preset("private-iris").with_overrides(
        f"workers.dataset={tmp_path}/own.npz", "workers.input_lower=0", "workers.input_upper=1",
        "workers.train_samples=2500", "workers.count=2500", "workers.holding=dealt", "radio.scheduled=2500",
        f"workers.label_weight={weight}", f"workers.sends={sends}",
    )  # fmt: skip
    moments = InputMoments(mean=0.55, deviation=0.7 / math.sqrt(12.0))
    plan, report = make_plan(scenario, 9, 4, moments, alternatives=False), simulate(scenario).report.to_dict()
    assert plan.snr_inputs_db == pytest.approx(report["snr_inputs_db"], abs=0.2)
    assert plan.snr_labels_db == pytest.approx(report["snr_labels_db"], abs=0.2)


@pytest.mark.parametrize("limit_dbm", [23, -60])
def test_the_noise_multiplier_is_that_of_the_strongest_slot(limit_dbm: int) -> None:
    scenario = Scenario.preset("private-iris").with_overrides(f"radio.max_power_dbm={limit_dbm}")
    moments = InputMoments(mean=0.5, deviation=0.29)
    plan, design = make_plan(scenario, 5, 3, moments, alternatives=False), simulate(scenario).report.design
    assert plan.limited_share == (limit_dbm < 0)
    assert plan.noise_multiplier == pytest.approx(design.noise_multiplier("remove-one"), rel=1e-9)


def test_targets_of_a_table_are_planned_with_the_mean_and_the_rounds() -> None:
    scenario = settle(
        Scenario.preset("private-table").with_overrides("workers.dataset=diabetes", "workers.task=regression")
    )
    assert scenario.learner.rounds
    assert scenario.workers.centre_on_air
    plan = make_plan(scenario, 11, 1, InputMoments(mean=0.4, deviation=0.2), held_dim=10)
    sent = simulate(scenario).report.to_dict()
    assert plan.power_dbm is not None
    assert plan.power_dbm.largest == pytest.approx(sent["power_dbm"]["largest"], abs=0.05)
    assert plan.rounds is not None
    assert plan.rounds["count"] == scenario.learner.rounds
    assert plan.air_seconds == pytest.approx(sent["air_seconds"], rel=1e-9)
    assert plan.energy_joules == pytest.approx(sent["energy_joules"], rel=1e-9)
    assert plan.recommended is not None
    assert plan.recommended.rehearsal is None
