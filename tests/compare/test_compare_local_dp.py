"""Local privacy: the noise keeps the target by itself, the rounds follow from the target, and power is not wasted."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from airmixml import Scenario
from airmixml.arrays import dbm_to_watts
from airmixml.compare import Work, load_methods
from airmixml.compare.baselines.without_mixing import LocalAir, LocalPlan, descend, plan_air, state_local
from airmixml.scenario import Privacy
from airmixml.streams import Streams

IRIS = Scenario.preset("private-iris")


def exact_delta(mu: float, epsilon: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def silent_air(rounds: int) -> LocalAir:
    return LocalAir(receiver_variance=np.zeros(rounds), energy_joules=0.0)


@pytest.mark.parametrize(("adjacency", "move"), [("remove-one", 0.4), ("replace-one", 0.8)])
@given(epsilon=st.floats(0.2, 20.0), workers=st.integers(10, 100_000))
def test_all_messages_of_a_worker_together_keep_the_target(
    adjacency: str, move: float, epsilon: float, workers: int
) -> None:
    privacy = Privacy(epsilon=epsilon, delta=1e-4, adjacency=adjacency)
    plan = LocalPlan.of(privacy, workers)
    # R Gaussian mechanisms: mu^2 adds up.
    assert exact_delta(math.sqrt(plan.rounds) * move / plan.deviation, epsilon) == pytest.approx(1e-4, rel=1e-5)
    stated = state_local(privacy, plan, adjacency)
    assert stated.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert (stated.adversary, stated.compositions) == ("everyone", plan.rounds)


def test_rounds_by_hand() -> None:
    # mu = 0.26805 at (1, 1e-5), so s = 0.4 / mu = 1.4923, T = 1.2 sqrt(60,000) / s = 196.98, and R = 196.98 / 16.
    plan = LocalPlan.of(Privacy(epsilon=1.0, delta=1e-5, adjacency="remove-one"), 60_000)
    assert plan.rounds == 12
    assert plan.step == 16.0
    assert plan.deviation == pytest.approx(1.4923 * math.sqrt(12), rel=1e-4)
    few = LocalPlan.of(Privacy(epsilon=0.1, delta=1e-5, adjacency="remove-one"), 100)
    assert (few.rounds, few.step) == (1, pytest.approx(1.2 * 10.0 / few.deviation))


def test_noise_on_the_weights_is_that_of_all_workers() -> None:
    # Inputs of nothing leave the noise: one step of it has deviation step s / sqrt(N) on every weight.
    plan = LocalPlan(rounds=1, step=3.0, deviation=2.0)
    inputs, labels = torch.zeros((5, 400)), torch.eye(10)[:5]
    air = LocalAir(receiver_variance=np.array([1000.0 * 4.0]), energy_joules=0.0)
    for heard, expected in ((silent_air(1), 3.0 * 2.0 / math.sqrt(1000)), (air, 3.0 * 2.0 * math.sqrt(2 / 1000))):
        weights = descend(inputs, labels, torch.full((5,), 200.0), plan, heard, Streams(0))
        spread = expected * 5 / math.sqrt(2 * 4000)
        assert float(weights.std()) == pytest.approx(expected, abs=spread)


def test_no_worker_moves_a_sum_by_more_than_its_clip_norm() -> None:
    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(rng.standard_normal((30, 6)).astype(np.float32))
    inputs /= inputs.norm(dim=1, keepdim=True)
    labels = torch.eye(3)[torch.from_numpy(rng.integers(3, size=30))]
    plan = LocalPlan(rounds=1, step=30.0, deviation=0.0)  # a step that makes the mean a sum
    for removed in range(30):
        held = torch.ones(30)
        everybody = descend(inputs, labels, held, plan, silent_air(1), Streams(0))
        held[removed] = 0.0
        others = descend(inputs, labels, held, LocalPlan(rounds=1, step=29.0, deviation=0.0), silent_air(1), Streams(0))
        # At the start every gradient, of norm sqrt(2 / 3), is longer than the clip norm.
        assert float((everybody - others).norm()) == pytest.approx(0.4, rel=1e-5)


def test_without_noise_it_is_logistic_regression() -> None:
    rng = np.random.default_rng(1)
    numbers = rng.integers(3, size=600)
    inputs = np.eye(4)[numbers] + 0.3 * rng.standard_normal((600, 4))
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    plan = LocalPlan(rounds=200, step=4.0, deviation=0.0)
    arrays = torch.from_numpy(inputs).float(), torch.eye(3)[torch.from_numpy(numbers)]
    weights = descend(*arrays, torch.ones(600), plan, silent_air(200), Streams(0))
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1e3, fit_intercept=False).fit(inputs, numbers)
    agreeing = (torch.from_numpy(inputs).float() @ weights).argmax(dim=1).numpy() == fitted.predict(inputs)
    assert agreeing.mean() > 0.97


class TestPower:
    def test_receiver_noise_is_20_db_below_the_workers(self) -> None:
        people = Work(scenario=IRIS).load(IRIS.workers)[1]
        plan = LocalPlan(rounds=7, step=8.0, deviation=3.0)
        air = plan_air(IRIS, people, plan, 15)
        np.testing.assert_allclose(air.receiver_variance, np.full(7, 2000 * 9.0 / 100))
        gain = 10 ** (-3.2) / people.distance_metres**2
        beta = dbm_to_watts(-114.0) / 2 / (2000 * 9.0 / 100)
        energy = 7 * (beta / gain).sum() * (0.16 + 15 * 9.0) / 794_000
        assert air.energy_joules == pytest.approx(energy, rel=1e-12)

    def test_a_power_limit_makes_it_more(self) -> None:
        weak = IRIS.with_overrides("radio.max_power_dbm=-95")
        people = Work(scenario=weak).load(weak.workers)[1]
        plan = LocalPlan(rounds=2, step=8.0, deviation=3.0)
        air = plan_air(weak, people, plan, 15)
        assert air.receiver_variance.min() > 2000 * 9.0 / 100

    def test_more_power_gains_nothing(self) -> None:
        # Twenty seeds; with all the power that the limit allows there is no receiver noise to speak of.
        found: dict[str, list[float]] = {"needed": [], "all": []}
        for seed in range(20):
            scenario = IRIS.with_seed(seed)
            quiet = scenario.with_overrides("radio.noise_dbm=-250")
            found["needed"].append(run(scenario).accuracy)
            found["all"].append(run(quiet).accuracy)
        assert np.mean(found["needed"]) == pytest.approx(np.mean(found["all"]), abs=0.01)

    def test_fading_costs_energy(self) -> None:
        faded = IRIS.with_overrides("radio.fading=rician", "radio.rician_k=5")
        assert run(faded).energy_joules > run(IRIS).energy_joules


def run(scenario: Scenario):  # type: ignore[no-untyped-def]
    return load_methods("local-dp")["local-dp"].run(Work(scenario=scenario))


def test_it_is_private_against_everyone_and_learns() -> None:
    outcomes = [run(IRIS.with_seed(seed)) for seed in range(10)]
    assert np.mean([outcome.accuracy for outcome in outcomes]) > 0.88
    exposure = outcomes[0].exposure
    assert exposure is not None
    assert exposure.eavesdropper == exposure.everyone == pytest.approx(5.0, rel=1e-6)
    assert outcomes[0].uplink_symbols == 15 * 5 * 3
