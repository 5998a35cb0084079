"""A mean estimated over the air: its noise, its price, its energy, and that it is a mean at all."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from airmixml import Scenario, ScenarioError, simulate
from airmixml.data import DataSet
from airmixml.planning.account import account_scenario
from airmixml.radio.centring import centre_privately, plan_centring
from airmixml.radio.tally import rehearse
from airmixml.radio.transmission import simulate_family
from airmixml.workers import Population, encode

NOISE_WATTS = 10 ** (-14.4)  # -114 dBm
GAIN = 10 ** (-3.2) / 100.0**2  # -32 dB at one metre, exponent 2


def private(*changes: str) -> Scenario:
    return Scenario().with_overrides(
        "workers.count=500",
        "workers.encoder=clip",
        "workers.centre=private",
        "workers.centre_share=0.2",
        "radio.scheduled=500",
        "radio.slots=1",
        "radio.slot_seconds=0",
        "mixing.policy=equalmix",
        "privacy.epsilon=4",
        "privacy.delta=1e-3",
        "privacy.adversary=server",
        "privacy.accountant=gdp",
        "privacy.adjacency=remove-one",
        "privacy.sensitivity=encoder",
        "learner.model=ridge",
        *changes,
    )


def epsilon_of(mu: float, delta: float) -> float:
    """Balle and Wang 2018, Thm. 8, solved by SciPy alone."""

    def excess(epsilon: float) -> float:
        first, second = norm.cdf(mu / 2 - epsilon / mu), epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
        return float(first - math.exp(second) - delta)

    return float(brentq(excess, 0.0, mu**2 / 2 + 10 * mu))


def mu_of(epsilon: float, delta: float) -> float:
    return float(brentq(lambda mu: epsilon_of(mu, delta) - epsilon, 0.02, 20.0))


DISTANCES = np.full(500, 100.0)


@pytest.mark.parametrize(
    ("changes", "squared_move"),
    [
        ((), 1.0),
        (("privacy.adjacency=replace-one",), 2.0),  # no number is negative
        (("privacy.adjacency=replace-one", "workers.encoder=dct"), 4.0),
        (("workers.clip_norm=0.5",), 0.25),
        (("workers.centre_share=0.7",), 1.0),
    ],
)
def test_noise_and_epsilon_of_the_slot_by_hand(changes: tuple[str, ...], squared_move: float) -> None:
    """mu^2 = beta Delta^2 / (sigma^2 / 2) spends the share; the mean over N has deviation Delta / (mu N)."""
    scenario = private(*changes)
    slot = plan_centring(scenario, 4, DISTANCES)
    assert slot is not None
    share = scenario.workers.centre_share
    mu = mu_of(4.0 * share, 1e-3 * share)
    assert slot.noise_deviation == pytest.approx(math.sqrt(squared_move) / mu / 500, rel=1e-6)
    adjacency = scenario.privacy.adjacency
    assert slot.epsilon("server", adjacency) == pytest.approx(4.0 * share, rel=1e-6)
    assert slot.epsilon("server", adjacency) == slot.epsilon("release", adjacency)
    # Received sqrt(beta), sent sqrt(beta / gain): the largest norm is C, and a symbol takes 1 / 794 000 s.
    beta = mu**2 * NOISE_WATTS / 2 / squared_move
    assert slot.power_watts == pytest.approx(np.full(500, beta / GAIN), rel=1e-6)
    joules = beta / GAIN * scenario.workers.clip_norm**2 / 794_000
    assert slot.energy_joules == pytest.approx(np.full(500, joules), rel=1e-6)
    assert slot.seconds == pytest.approx(4 / 794_000, rel=1e-12)


def test_both_neighbours_are_priced_whichever_was_asked_for() -> None:
    slot = plan_centring(private(), 4, DISTANCES)
    assert slot is not None
    mu = mu_of(0.8, 2e-4)
    assert slot.epsilon("server", "replace-one") == pytest.approx(epsilon_of(math.sqrt(2.0) * mu, 2e-4), rel=1e-6)


def test_the_power_limit_holds_for_the_farthest_worker_and_all_are_received_alike() -> None:
    distances = np.array([10.0] * 499 + [350.0])
    slot = plan_centring(private("radio.max_power_dbm=-120"), 4, distances)
    assert slot is not None
    limit = 10**-15.0
    assert slot.power_watts.max() == pytest.approx(limit, rel=1e-9)
    assert slot.power_watts * 10**-3.2 / distances**2 == pytest.approx(np.full(500, slot.received_watts), rel=1e-9)
    assert slot.epsilon("server", "remove-one") < 0.8
    assert slot.noise_deviation == pytest.approx(math.sqrt(NOISE_WATTS / 2 / slot.received_watts) / 500, rel=1e-9)


def test_the_whole_spends_the_whole_target() -> None:
    """Sums of epsilon and of delta; the slots have 0.8 of both to themselves, by an exact Gaussian mechanism."""
    report = simulate(private()).report
    own = report.privacy
    assert own.delta == pytest.approx(1e-3, rel=1e-12)
    assert own.epsilon == pytest.approx(4.0, rel=1e-6)
    assert own.epsilon <= 4.0
    assert "basic composition" in own.why
    slots = report.design
    mu = math.sqrt(slots.received_watts[0] * own.sensitivity / (NOISE_WATTS / 2))
    assert own.sensitivity == 2.0
    assert epsilon_of(mu, 8e-4) == pytest.approx(3.2, rel=1e-6)
    assert report.worker_epsilons() == pytest.approx(np.full(500, 4.0), rel=1e-6)
    assert [each.delta for each in report.statements] == pytest.approx([1e-3] * len(report.statements), rel=1e-9)
    assert {each.adversary for each in report.statements} == {"server", "release"}


def test_without_a_private_centre_the_slots_have_it_all() -> None:
    report = simulate(private("workers.centre=own")).report
    assert report.centring is None
    assert report.privacy.epsilon == pytest.approx(4.0, rel=1e-6)
    assert "basic composition" not in report.privacy.why
    mu = math.sqrt(report.design.received_watts[0] * 2.0 / (NOISE_WATTS / 2))
    assert epsilon_of(mu, 1e-3) == pytest.approx(4.0, rel=1e-6)


def test_energy_and_time_include_the_slot() -> None:
    """Iris: 4 numbers to average, then one slot of 5 (with the constant) and 3 symbols."""
    scenario = private("workers.constant=0.5")
    report = simulate(scenario).report
    assert report.centring is not None
    assert report.air_seconds == pytest.approx((4 + 5 + 3) / 794_000, rel=1e-12)
    population = simulate(scenario).population
    gains = 10**-3.2 / np.maximum(population.distance_metres, 1.0) ** 2
    beta = mu_of(0.8, 2e-4) ** 2 * NOISE_WATTS / 2  # one slot received with beta, the other with what 3.2 allows
    rest = mu_of(3.2, 8e-4) ** 2 * NOISE_WATTS / 2 / 2.0
    joules = (beta * 1.0 + rest * 2.0) / gains / 794_000  # ||x||^2 <= 1, then ||(x, l)||^2 <= 2
    assert report.worker_energy_joules == pytest.approx(joules, rel=1e-5)
    told = rehearse(scenario, 5, 3)
    assert told.energy_joules == pytest.approx(report.energy_joules, rel=1e-9)
    assert told.air_seconds == report.air_seconds


def test_an_account_says_what_the_run_will() -> None:
    scenario = private()
    ran = {(each.adversary, each.accountant): each for each in simulate(scenario).report.statements[:4]}
    told = {(each.adversary, each.accountant): each for each in account_scenario(scenario, 4, 3).statements}
    assert told["server", "gdp"].epsilon == pytest.approx(ran["server", "gdp"].epsilon, rel=1e-9)
    assert told["server", "gdp"].delta == pytest.approx(1e-3, rel=1e-9)
    assert not any(adversary == "eavesdropper" for adversary, _ in told)


def held(samples: int, dim: int) -> DataSet:
    rng = np.random.default_rng(3)
    inputs = (rng.random((samples, dim)) * np.linspace(0.1, 0.5, dim)).astype(np.float32)
    return DataSet(
        name="held",
        train_inputs=inputs,
        train_labels=np.arange(samples) % 2,
        test_inputs=inputs[:5],
        test_labels=np.arange(5) % 2,
        class_names=("a", "b"),
        image_shape=None,
        clipped_values=0,
    )


def test_the_estimated_mean_is_the_workers_mean_with_that_noise() -> None:
    """Over 200 seeds and 6 numbers: means of 200 within 5 deviations of 0, the spread within 5 / sqrt(2400) of 1.

    Samples count as often as workers hold them.
    """
    dataset = held(20, 6)
    index = np.random.default_rng(0).choice(20, p=np.arange(1, 21) / 210, size=500)
    population = Population(distance_metres=DISTANCES, sample_index=index)
    truth = dataset.train_inputs[index].mean(axis=0)
    slot = plan_centring(private(), 6, DISTANCES)
    assert slot is not None
    errors = []
    for seed in range(200):
        mean = centre_privately([private(f"seed={seed}")], dataset, population).private_mean
        assert mean is not None
        errors.append((mean - truth) / slot.noise_deviation)
    assert np.mean(errors, axis=0) == pytest.approx(np.zeros(6), abs=5 / math.sqrt(200))
    assert np.std(errors) == pytest.approx(1.0, abs=5 / math.sqrt(2400))


def test_the_mean_is_subtracted_from_pool_and_test_set_before_norms_are_bounded() -> None:
    dataset = held(20, 6)
    inputs = dataset.train_inputs * 0.19 / np.linalg.norm(dataset.train_inputs, axis=1, keepdims=True)
    inputs[0] = [0.19, 0, 0, 0, 0, 0]  # far from all others, so that it is too long when their mean is subtracted
    dataset = replace(dataset, train_inputs=inputs, test_inputs=inputs[:5])
    population = Population(distance_metres=DISTANCES, sample_index=np.arange(500) % 20)
    scenario = private("workers.clip_norm=0.2", "workers.constant=0.6", "privacy.epsilon=1e6")
    centred = centre_privately([scenario], dataset, population)
    assert centred.private_mean == pytest.approx(dataset.train_inputs.mean(axis=0), abs=1e-3)
    for before, after in (
        (dataset.train_inputs, centred.train_inputs),
        (dataset.test_inputs, centred.test_inputs),
    ):
        moved = before - centred.private_mean
        lengths = np.linalg.norm(moved, axis=1, keepdims=True)
        assert (lengths > 0.2).any()
        assert after[:, :6] == pytest.approx(0.8 * moved * np.minimum(1.0, 0.2 / lengths), abs=1e-5)
        assert after[:, 6] == pytest.approx(np.full(len(after), 0.12), rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (("radio.fading=rayleigh",), "radio.fading"),
        (("mixing.power=max",), "mixing.power"),
        (("mixing.power=fixed",), "mixing.power"),
        (("privacy.adversary=eavesdropper", "privacy.accountant=pld"), "privacy.adversary"),
    ],
)
def test_what_a_private_centre_cannot_have(changes: tuple[str, ...], key: str) -> None:
    with pytest.raises(ScenarioError, match=rf"^{key} = .*: must be .*centre"):
        private(*changes)


def test_a_family_cannot_share_a_private_mean() -> None:
    scenarios = [private(), private("privacy.epsilon=5")]
    with pytest.raises(ScenarioError, match=r'workers\.centre = "private": the mean depends on the target'):
        simulate_family(scenarios)


def test_a_colluding_server_learns_no_more_than_stated_where_nobody_is_silent() -> None:
    """Epsilons of release and server agree: everybody sends in both slots."""
    report = simulate(replace(private(), seed=4)).report
    by_name = {
        (each.adversary, each.accountant): each.epsilon for each in report.statements if each.adjacency == "remove-one"
    }
    assert by_name["release", "pld"] == pytest.approx(by_name["server", "gdp"], rel=1e-9)


def test_a_refined_mean_and_the_slots_are_one_gaussian_mechanism() -> None:
    """mu^2 of both add up to that of the target: the mean has a fifth of it, which is far more than of epsilon."""
    report = simulate(private("workers.centre=refined")).report
    assert report.centring is not None
    target = mu_of(4.0, 1e-3)
    assert report.centring.removal_mu == pytest.approx(math.sqrt(0.2) * target, rel=1e-6)
    slots_mu = math.sqrt(report.design.received_watts[0] * 2.0 / (NOISE_WATTS / 2))
    assert slots_mu == pytest.approx(math.sqrt(0.8) * target, rel=1e-6)
    assert report.centring.removal_mu > 1.5 * mu_of(0.8, 2e-4)
    assert (report.privacy.epsilon, report.privacy.delta) == pytest.approx((4.0, 1e-3), rel=1e-6)
    assert report.privacy.epsilon <= 4.0
    assert report.worker_squared_mu().max() == pytest.approx(target**2, rel=1e-6)
    assert report.worker_epsilons() == pytest.approx(np.full(500, 4.0), rel=1e-6)
    # An accountant that is no Gaussian mechanism's states the sum of both.
    slots = {each.accountant: each for each in report.statements if each.adversary == "server"}
    assert "basic composition" in slots["pld"].why
    assert slots["pld"].epsilon > 4.0
    assert slots["pld"].delta == pytest.approx(1e-3, rel=1e-9)
    account = account_scenario(private("workers.centre=refined"), 4, 3)
    assert min(each.epsilon for each in account.statements) == pytest.approx(4.0, rel=1e-6)


def test_another_accountant_splits_epsilon_for_a_refined_mean_too() -> None:
    report = simulate(private("workers.centre=refined", "privacy.accountant=pld")).report
    assert report.centring is not None
    assert report.centring.removal_mu == pytest.approx(mu_of(0.8, 2e-4), rel=1e-6)
    assert report.privacy.epsilon == pytest.approx(4.0, rel=1e-2)


def test_a_refined_mean_is_what_a_public_one_leaves() -> None:
    """Rows around (0.5 + 0.3, 0.5 - 0.1, ...) without noise: what is left of the mean is (0.3, -0.1, 0, 0)."""
    scenario = private("workers.centre=refined", "privacy.epsilon=1e9", "workers.norm=unit")
    rng = np.random.default_rng(5)
    offset = np.array([0.3, -0.1, 0.0, 0.0])
    raw = (0.5 + offset + rng.uniform(-0.15, 0.15, (500, 4))).astype(np.float32)
    encoded, shortened = encode(scenario.workers, raw)
    assert shortened == 0
    assert encoded == pytest.approx(raw - 0.5, abs=1e-6)
    dataset = DataSet(
        name="made",
        train_inputs=encoded,
        train_labels=np.zeros(500, dtype=np.int64),
        test_inputs=encoded[:0],
        test_labels=np.zeros(0, dtype=np.int64),
        class_names=("a", "b", "c"),
        image_shape=None,
        clipped_values=0,
    )
    population = Population(distance_metres=DISTANCES, sample_index=np.arange(500))
    centred = centre_privately([scenario], dataset, population)
    assert centred.private_mean == pytest.approx(raw.mean(axis=0) - 0.5, abs=1e-3)
    directions = raw - raw.mean(axis=0)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    assert np.einsum("ij,ij->i", directions, centred.train_inputs).min() > 0.999
