"""The rules of a ledger, against closed forms, exact fractions and dp-accounting."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from airmixml import PrivacyError
from airmixml.budgets import Budget, Loss
from airmixml.budgets.rules import add_up, loss_to, take_off

positive = st.floats(1e-12, 1e6)


def delta_of(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, Thm. 8, as printed."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@given(st.lists(positive, min_size=1, max_size=20))
def test_sums_are_never_below_the_exact_one(values: list[float]) -> None:
    total = np.zeros(1)
    for value in values:
        total = add_up(total, value)
    exact = sum(map(Fraction, values))
    assert exact <= Fraction(float(total[0])) <= exact * (1 + Fraction(len(values), 2**51))


@given(positive, positive)
def test_what_is_left_is_never_above_the_exact_difference(whole: float, part: float) -> None:
    assert 0 <= Fraction(take_off(whole, part)) <= max(Fraction(whole) - Fraction(part), 0)


@given(st.lists(st.floats(0.01, 0.8), min_size=1, max_size=8), st.sampled_from([1e-3, 1e-5, 1e-8]))
def test_gaussian_losses_are_one_gaussian_mechanism(mus: list[float], delta: float) -> None:
    spent = Loss.nothing(1)
    for mu in mus:
        spent = spent + Loss.of(squared_mu=mu**2)
    epsilon = float(Budget(epsilon=1.0, delta=delta).epsilons(spent)[0])
    together = math.sqrt(math.fsum(mu**2 for mu in mus))
    assert delta_of(together, epsilon) <= delta * (1 + 1e-9)
    if epsilon > 1e-3:
        assert delta_of(together, epsilon * (1 - 1e-6)) > delta  # and no larger than it must be


@settings(max_examples=15, deadline=None)
@given(st.floats(0.1, 0.8), st.floats(0.05, 1.0), st.sampled_from([0.0, 1e-7, 4e-6]))
def test_a_rest_by_basic_composition_covers_what_dp_accounting_finds(mu: float, epsilon: float, delta: float) -> None:
    budget = Budget(epsilon=10.0, delta=1e-5)
    stated = float(budget.epsilons(Loss.of(squared_mu=mu**2, epsilon=epsilon, delta=delta))[0])
    composed = privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3).compose(
        privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, delta), value_discretization_interval=1e-3
        )
    )
    assert composed.get_epsilon_for_delta(budget.delta) <= stated + 2e-3


def test_a_budget_is_kept_to_the_last_digit_and_no_further() -> None:
    budget = Budget(epsilon=1.0, delta=1e-5)
    most = budget.squared_mu_left(0.0, 0.0)
    assert delta_of(math.sqrt(most), 1.0) == pytest.approx(1e-5, rel=1e-9)
    assert budget.keeps(Loss.of(squared_mu=most)).all()
    assert not budget.keeps(Loss.of(squared_mu=most * (1 + 1e-9))).any()


def test_delta_that_is_used_up_leaves_nothing_for_noise() -> None:
    budget = Budget(epsilon=1.0, delta=1e-5)
    all_of_it = Loss.of(epsilon=0.5, delta=1e-5)
    assert budget.keeps(all_of_it).all()
    assert budget.epsilons(all_of_it).tolist() == [0.5]
    assert budget.epsilons(all_of_it + Loss.of(squared_mu=1e-9)).tolist() == [math.inf]
    assert not budget.keeps(all_of_it + Loss.of(squared_mu=1e-9)).any()
    assert not budget.keeps(Loss.of(delta=1.01e-5)).any()
    assert budget.keeps(Loss.of(epsilon=1.0)).all()
    assert not budget.keeps(Loss.of(epsilon=1.0, squared_mu=0.1)).any()


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("times", [1, 3])
def test_what_is_said_to_fit_fits_and_a_little_more_does_not(gaussian: bool, times: int) -> None:
    budget, spent = Budget(epsilon=2.0, delta=1e-5), Loss.of(squared_mu=0.04, epsilon=0.2, delta=1e-6)
    left = budget.epsilon_left(spent, delta=1e-6, gaussian=gaussian, times=times)
    assert left > 0.1

    def after(epsilon: float) -> Loss:
        if not gaussian:
            return spent + Loss.of(epsilon=times * epsilon, delta=times * 1e-6)
        low, high = 1e-6, 5.0
        for _ in range(200):  # mu of that epsilon, by halving
            middle = (low + high) / 2
            low, high = (middle, high) if delta_of(middle, epsilon) < 1e-6 else (low, middle)
        return spent + Loss.of(squared_mu=times * low**2)

    assert budget.keeps(after(left)).all()
    assert not budget.keeps(after(1.001 * left)).any()


def test_the_fullest_is_the_one_with_the_largest_epsilon() -> None:
    rng = np.random.default_rng(0)
    spent = Loss.of(
        squared_mu=rng.random(500) * 0.2, epsilon=rng.integers(0, 3, 500) * 0.3, delta=rng.integers(0, 3, 500) * 3e-6
    )
    budget = Budget(epsilon=1.0, delta=1e-5)
    epsilons = budget.epsilons(spent)
    assert budget.fullest(spent) == int(epsilons.argmax())
    assert (budget.keeps(spent) == (epsilons <= 1.0)).all()


@pytest.mark.parametrize("values", [{"squared_mu": -1.0}, {"epsilon": math.nan}, {"delta": math.inf}])
def test_losses_that_make_no_sense_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(PrivacyError, match="of a loss: must be finite, at least 0"):
        Loss.of(**values)


@pytest.mark.parametrize("squared_mu", [np.zeros((2, 2)), np.zeros(3)])
def test_parts_of_a_loss_must_be_of_the_same_workers(squared_mu: np.ndarray) -> None:
    with pytest.raises(PrivacyError, match="shapes of a loss: squared_mu"):
        Loss.of(squared_mu=squared_mu, epsilon=np.zeros(2))


def test_a_loss_to_a_stronger_adversary_bounds_one_to_a_weaker_and_never_the_other_way() -> None:
    loss = Loss.of(epsilon=1.0)
    assert loss_to("release", {"server": loss}) is loss
    assert loss_to("eavesdropper", {"everyone": loss}) is loss
    for weaker, stronger in (("release", "server"), ("server", "eavesdropper"), ("eavesdropper", "server")):
        with pytest.raises(PrivacyError, match=f"adversary {stronger}"):
            loss_to(stronger, {weaker: loss})
    for known, told in (({"server": loss}, "server"), ({"server": None}, "nobody")):
        # None: the stronger one's is about other neighbours
        with pytest.raises(PrivacyError, match=rf"adversary release: .*\(there is a bound for {told}\)"):
            loss_to("release", {**known, "release": None})
