"""Sums of integers and power policies by hand: what hides a worker, what is asked of a slot, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from scipy.special import ive, ndtri

from airmixml import Scenario
from airmixml.arrays import dbm_to_watts
from airmixml.impairments.fading import weakest_gain
from airmixml.integers import IntegerCode, IntegerNoise
from airmixml.integers.integer_noise import SumTarget, fitted
from airmixml.masks.graph import Honest
from airmixml.masks.rules import is_recoverable
from airmixml.messages import ScenarioError
from airmixml.privacy import Sensitivity, facts
from airmixml.radio.masking import most_recoverable_share
from airmixml.radio.mixing import check_added_power, check_lowest_power
from airmixml.radio.privacy_target import centring_target, check_privacy_target, slots_target
from airmixml.radio.workers_noise import IntegerSums, fit_sums

DIGITS = Scenario.preset("trustless-digits")
INTEGERS = DIGITS.with_overrides('privacy.arithmetic="integers"')
NOISE = IntegerNoise(code=IntegerCode(numbers=6, norm=2.0, step=0.25, bits=10), workers=12, variance_per_worker=3.0)
SUMS = IntegerSums(noise=NOISE, honest=Honest(count=9, neighbours=8, gap=9.0), masked=True, received_watts=5e-12)


@pytest.mark.parametrize(("masked", "carriers"), [(True, 9), (False, 1)])
def test_what_hides_a_worker_in_a_sum(masked: bool, carriers: int) -> None:
    """Skellam noise of variance 3 of each carrier: mu of a step by Theorem 1; a worker's own without masks."""
    sums = replace(SUMS, masked=masked)
    step_mu = 2.0 * float(ndtri((1.0 + ive(0, 3.0 * carriers)) / 2.0))
    assert sums.carriers == carriers
    assert sums.rounding == facts.Rounding(step_mu=pytest.approx(step_mu, rel=1e-10), numbers=6)
    assert sums.hidden_variance == pytest.approx((0.25 / step_mu) ** 2, rel=1e-9)


def test_numbers_of_a_sum() -> None:
    """Noise 36 squared steps of 1/16, rounding 12 / 4 of them, in the mean over twelve; ten planes of six numbers."""
    assert SUMS.mixture_variance == pytest.approx((36 + 3) / 16 / 144, rel=1e-12)
    assert SUMS.symbols == 60
    told = SUMS.to_dict()
    assert told["noise_in_steps"] == pytest.approx(6.0)
    assert told["rounding_share"] == pytest.approx(3 / 39)
    assert (told["carriers"], told["wrap_failure"], told["assumed_range"]) == (9, 1e-9, 0.0)
    masking = SUMS.as_masking(INTEGERS)
    assert masking.own_watts == pytest.approx(5e-12 * 3.0 / 16)
    assert masking.pair_watts == pytest.approx(1e8 * masking.own_watts)
    assert masking.self_watts == 0.0


def test_sums_when_more_collude() -> None:
    """A complete graph of 30: the honest carry the noise; where one is left, its own alone."""
    thirty = INTEGERS.with_overrides("workers.count=30", "radio.scheduled=30")
    left, note = SUMS.left_with(thirty, 20)
    assert (left.carriers, left.masked, note) == (10, True, "")
    alone, _ = SUMS.left_with(thirty, 29)
    assert (alone.carriers, alone.masked) == (1, False)
    unmasked = replace(SUMS, masked=False)
    assert unmasked.left_with(thirty, 20) == (unmasked, "")


@pytest.mark.parametrize(("adjacency", "distance"), [("remove-one", 1.0), ("replace-one", math.sqrt(3.0 / 2.0))])
def test_the_target_of_sums(adjacency: str, distance: float) -> None:
    asked = INTEGERS.with_overrides(f"privacy.adjacency={adjacency}", "radio.slots=3", "privacy.colluders=10")
    sensitivity = Sensitivity(removal=2.0, replacement=3.0, numbers=65)
    seats = asked.radio.scheduled
    target = SumTarget(
        numbers=65,
        norm=math.sqrt(2.0),
        workers=seats,
        carriers=seats - 10,
        epsilon=asked.privacy.epsilon,
        delta=asked.privacy.delta,
        distance=distance,
        participations=3,
        sums=3,
    )
    found = fit_sums(asked, sensitivity, masked=True)
    assert found.noise == fitted(target)
    assert (found.masked, found.carriers, found.assumed_range) == (True, seats - 10, asked.privacy.sum_range)
    assert fit_sums(asked, sensitivity, masked=False).noise == fitted(replace(target, carriers=1))


def test_sums_beside_rounds_have_a_part_of_the_loss() -> None:
    """95 % of what rounds leave: room for the coarser step; all numbers of slots and rounds are rounded."""
    asked = Scenario.preset("trustless-digits-rounds").with_overrides('privacy.arithmetic="integers"')
    sensitivity, rounds = Sensitivity(removal=2.0, replacement=3.0, numbers=65), asked.learner.rounds
    slots, seats = asked.radio.slots, asked.radio.scheduled
    target = SumTarget(
        numbers=65,
        norm=math.sqrt(2.0),
        workers=seats,
        carriers=seats,
        epsilon=asked.privacy.epsilon,
        delta=asked.privacy.delta,
        participations=slots,
        sums=slots,
        share=0.95 * (1.0 - asked.rounds_share),
        rounded=65 * (slots + rounds),
    )
    if asked.privacy.adjacency == "replace-one":
        target = replace(target, distance=math.sqrt(3.0 / 2.0))
    assert fit_sums(asked, sensitivity, masked=True).noise == fitted(target, 0, asked.privacy.sum_range)


def test_how_many_may_be_absent_depends_on_a_degree_that_is_given() -> None:
    """Of 100 with 24 masks each chance calls too many of one's neighbours absent long before a quorum is missing."""
    hundred = DIGITS.with_overrides("workers.count=100", "radio.scheduled=100", "privacy.most_absent=0.01")
    free = max(a for a in range(100) if is_recoverable(100, 99, 0, a))
    assert most_recoverable_share(hundred) == free / 100
    given = hundred.with_overrides("privacy.mask_degree=32")
    assert most_recoverable_share(given) < most_recoverable_share(hundred)
    assert is_recoverable(100, 32, 0, round(100 * most_recoverable_share(given)))


# ------------------------------------------------------------------------------------------------------- power


def test_what_a_fixed_power_receives_at_most() -> None:
    """beta times the largest share squared: 1 / 64 of 64 who have equal ones, that of a prior, or all."""
    fixed = Scenario.preset("paper-iris").with_overrides(
        "mixing.power=fixed", "mixing.power_scale_watts=2e-9", "radio.scheduled=5"
    )
    for changes, share in (
        (('mixing.policy="equalmix"',), 0.2),
        (('mixing.policy="equalmix"', "mixing.prior=[0.1, 0.1, 0.4, 0.2, 0.2]"), 0.4),
        (('mixing.policy="dirmix"',), 1.0),
    ):
        asked = fixed.with_overrides(*changes)
        watts = asked.mixing.power_policy.largest_received_watts(asked, 1.0)
        assert watts == pytest.approx(2e-9 * share**2, rel=1e-12)


def test_a_lowest_power_that_nobody_needs_is_refused() -> None:
    """1e-12 W of signal and 3e-12 W added, times 1e9 on the way: 4 mW, 6.02 dBm."""

    def asked(lowest: float) -> Scenario:
        return DIGITS.with_overrides(f"air.min_power_dbm={lowest}")

    check_lowest_power(asked(6.0), 1e-12, 3e-12, 1e9)
    with pytest.raises(ScenarioError, match=r"no worker needs more than 6\.0 dBm"):
        check_lowest_power(asked(6.1), 1e-12, 3e-12, 1e9)
    check_lowest_power(DIGITS, 1e-12, 3e-12, 1e9)


def test_masks_beyond_the_power_limit_are_refused() -> None:
    """Added watts over the weakest gain, against the limit."""
    limit = dbm_to_watts(DIGITS.radio.max_power_dbm) * weakest_gain(DIGITS)
    check_added_power(DIGITS, 0.999 * limit)
    with pytest.raises(ScenarioError, match=r"privacy\.above_thermal_db"):
        check_added_power(DIGITS, 1.001 * limit)
    with pytest.raises(ScenarioError, match=r"must be at most 17\.0"):
        check_added_power(DIGITS.with_overrides("privacy.above_thermal_db=20"), limit * 10**0.3)


# ------------------------------------------------------------------------------------------------------ targets


def test_a_mean_takes_its_share_of_a_target() -> None:
    """A fifth of epsilon and delta; of mu^2 where all is one Gaussian mechanism."""
    digits = Scenario.preset("private-mnist").with_overrides("workers.centre_share=0.2", "privacy.epsilon=2")
    epsilon, delta = digits.privacy.epsilon, digits.privacy.delta
    assert slots_target(digits.with_overrides("workers.centre=none")) == (epsilon, delta)
    shared = digits.with_overrides("workers.centre=private")
    assert slots_target(shared) == (pytest.approx(0.8 * epsilon), pytest.approx(0.8 * delta))
    assert centring_target(shared)[1] == pytest.approx(0.2 * delta)


@pytest.mark.parametrize("key", ["workers.count=0", "radio.scheduled=0", "privacy.delta=0"])
def test_what_only_data_decide_is_refused(key: str) -> None:
    with pytest.raises(ScenarioError, match="the number of rows decides it"):
        check_privacy_target(Scenario.preset("private-mnist").with_overrides(key))
