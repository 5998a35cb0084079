"""Sums of integers and power policies by hand: what hides a worker, what is asked of a slot, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import pytest
from scipy.special import ive, ndtri
from scipy.stats import binom

from airmixml import Scenario
from airmixml.arrays import dbm_to_watts
from airmixml.impairments.fading import weakest_gain
from airmixml.integers import IntegerCode, IntegerNoise
from airmixml.integers.integer_noise import SumTarget, fitted
from airmixml.masks.graph import Honest
from airmixml.masks.rules import is_recoverable
from airmixml.messages import PluginError, ScenarioError
from airmixml.privacy import Design, Sensitivity, Server, facts, state_privacy
from airmixml.radio.masking import masking_of, most_recoverable_share
from airmixml.radio.mixing import FixedPower, check_added_power, check_lowest_power
from airmixml.radio.privacy_target import (
    RowPrivacy,
    asked_received_watts,
    centring_target,
    check_privacy_target,
    row_amplitude,
    slots_target,
)
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
    assert sums.step_mu == pytest.approx(step_mu, rel=1e-10, abs=0.0)
    assert sums.hidden_variance == pytest.approx((0.25 / step_mu) ** 2, rel=1e-9, abs=0.0)


def test_numbers_of_a_sum() -> None:
    """Noise 36 squared steps of 1/16, rounding 12 / 4 of them, in the mean over twelve; ten planes of six numbers."""
    assert SUMS.mixture_variance == pytest.approx((36 + 3) / 16 / 144, rel=1e-12, abs=0.0)
    assert SUMS.symbols == 60
    told = SUMS.to_dict()
    assert told["noise_in_steps"] == pytest.approx(6.0)
    assert told["rounding_share"] == pytest.approx(3 / 39)
    assert (told["carriers"], told["wrap_failure"], told["assumed_range"]) == (9, 1e-9, 0.0)
    masking = SUMS.as_masking(INTEGERS)
    assert masking.own_watts == pytest.approx(5e-12 * 3.0 / 16, rel=1e-9, abs=0.0)
    assert masking.pair_watts == pytest.approx(1e8 * masking.own_watts, rel=1e-9, abs=0.0)
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
    (found,) = fit_sums(asked, sensitivity, masked=True)
    assert found.noise == fitted(target)
    assert (found.masked, found.carriers, found.assumed_range) == (True, seats - 10, asked.privacy.sum_range)
    (alone,) = fit_sums(asked, sensitivity, masked=False)
    assert alone.noise == fitted(replace(target, carriers=1))


def squared_mu(sums: IntegerSums, squared_distance: float, log_eta: float) -> float:
    """mu^2 of a slot by Theorems 1 and 2: s^2 m^2 ((e^(G m) - 1) / (G m))^2 at a distance of s steps."""
    code, noise = sums.noise.code, sums.noise
    with mpmath.workdps(40):
        variance = mpmath.mpf(noise.variance_per_worker) * sums.honest.count
        m = mpmath.sqrt(8) * mpmath.erfinv(mpmath.exp(-variance) * mpmath.besseli(0, variance))
        quantile = mpmath.findroot(
            lambda z: mpmath.log(mpmath.ncdf(z)) - log_eta, -mpmath.sqrt(-2 * mpmath.mpf(log_eta))
        )
        exponent = (m - quantile) * m
        return float(squared_distance / mpmath.mpf(code.step) ** 2 * (m * mpmath.expm1(exponent) / exponent) ** 2)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu)."""
    with mpmath.workdps(40):
        mean, far = mpmath.mpf(mu) / 2, mpmath.mpf(epsilon) / mu
        return float(mpmath.ncdf(mean - far) - mpmath.exp(epsilon) * mpmath.ncdf(-mean - far))


@pytest.mark.parametrize("adjacency", ["remove-one", "replace-one"])
@pytest.mark.parametrize("scheduled", [1200, 60])
def test_sums_beside_rounds_share_the_loss(adjacency: str, scheduled: int) -> None:
    """All slots of a worker together have the target by Theorem 2, not above it; where all send shares are as asked.

    Where not all send a worker has the strongest, and so many that chance all but rules out more.
    """
    asked = Scenario.preset("trustless-digits-rounds").with_overrides(
        'privacy.arithmetic="integers"',
        f"privacy.adjacency={adjacency}",
        f"radio.scheduled={scheduled}",
        "radio.slots=4",
    )
    sensitivity = Sensitivity(removal=2.0, replacement=3.0, numbers=65, in_rounds=20)
    slots, rounds = asked.radio.slots, asked.learner.rounds
    found = fit_sums(asked, sensitivity, masked=True)
    assert [each.noise.code.numbers for each in found] == [65, 20]
    most = 12
    if scheduled < 1200:
        most = next(m for m in range(most) if binom.sf(m, most, scheduled / 1200) <= 1e-9 / 1200)
    numbers = 65 * min(slots, most) + 20 * max(most - slots, 0)
    epsilon, delta = asked.privacy.epsilon, asked.privacy.delta
    log_eta = math.log(1e-3 * delta / numbers) - math.log1p(math.exp(epsilon))
    distance = 2.0 if adjacency == "remove-one" else 3.0
    of_slot, of_round = (squared_mu(each, distance, log_eta) for each in found)
    strongest = sorted([of_slot] * slots + [of_round] * rounds)[-most:]
    together = math.sqrt(math.fsum(strongest))
    assert gaussian_delta(together, epsilon) <= (1.0 - 1e-3) * delta < gaussian_delta(together, epsilon * (1.0 - 1e-6))
    if scheduled == 1200:
        share = rounds * of_round / (slots * of_slot + rounds * of_round)
        assert share == pytest.approx(asked.rounds_share, rel=1e-6)


def test_how_many_may_be_absent_depends_on_a_degree_that_is_given() -> None:
    """Of 100 with 24 masks each chance calls too many of one's neighbours absent long before a quorum is missing."""
    hundred = DIGITS.with_overrides("workers.count=100", "radio.scheduled=100", "privacy.most_absent=0.01")
    free = max(a for a in range(100) if is_recoverable(100, 99, 0, a))
    assert most_recoverable_share(hundred) == free / 100
    given = hundred.with_overrides("privacy.mask_degree=32")
    assert most_recoverable_share(given) < most_recoverable_share(hundred)
    assert is_recoverable(100, 32, 0, round(100 * most_recoverable_share(given)))


def test_rounding_sets_replaced_vectors_a_little_farther_apart() -> None:
    """Norms sqrt(3) apart, and 2 sqrt(65) 2^-32 / 0.1 of the norm sqrt(2) besides."""
    found = INTEGERS.privacy.noise_kind.on_integers(INTEGERS.privacy).rounded(
        Sensitivity(removal=2.0, replacement=3.0), 65
    )
    apart = math.sqrt(3.0) + 20.0 * math.sqrt(65) * 2.0**-32 * math.sqrt(2.0)
    assert (found.removal, found.numbers) == (2.0, 65)
    assert found.replacement - 3.0 == pytest.approx(apart**2 - 3.0, rel=1e-6, abs=0.0)


def test_what_integers_state() -> None:
    """Twice the hidden variance, as received; of a slot's colluders, the failure of all slots."""
    asked, moves = INTEGERS.with_overrides("radio.slots=3"), Sensitivity(removal=2.0, replacement=3.0, numbers=65)
    noise = asked.privacy.noise_kind.on_integers(asked.privacy)
    (sums,) = fit_sums(asked, moves, masked=True)
    for watts, received in ((0.0, sums.received_watts), (7e-12, 7e-12)):
        (fact,) = noise.facts(asked, moves, watts)
        assert isinstance(fact, facts.WorkersNoise)
        assert fact.alone_watts == pytest.approx(2.0 * received * sums.hidden_variance, rel=1e-12, abs=0.0)
        assert fact.rounding == facts.Rounding(step_mu=(sums.step_mu,), numbers=(65,))
        assert fact.failure == 3 * sums.honest.failure
    assert noise.needed_watts(asked, moves) == sums.received_watts
    assert noise.symbols_on_air(asked, moves, 65) == sums.symbols
    unknown = Sensitivity(removal=2.0, replacement=3.0)
    assert noise.sums(asked, unknown) is None
    assert noise.needed_watts(asked, unknown) is None


def test_noise_that_is_not_rounded_states() -> None:
    """Twice what hides a worker alone, and twice that of all honest workers in the sum; of all slots' graphs."""
    asked = DIGITS.with_overrides("radio.slots=3", "privacy.colluders=12", "privacy.mask_degree=40")
    masking = masking_of(asked)
    assert masking is not None
    (fact,) = asked.privacy.noise_kind.facts(asked, Sensitivity(removal=2.0, replacement=3.0), 1e-12)
    assert isinstance(fact, facts.WorkersNoise)
    assert fact.in_sum_watts == pytest.approx(2.0 * masking.honest.count * masking.own_watts, rel=1e-12, abs=0.0)
    assert fact.alone_watts == pytest.approx(2.0 * masking.hidden_watts, rel=1e-12, abs=0.0)
    assert fact.failure == pytest.approx(3 * 4e-9)
    thermal = dbm_to_watts(asked.radio.noise_dbm)
    all_of_them = thermal + 2.0 * asked.radio.scheduled * masking.own_watts
    assert asked.privacy.noise_kind.in_sum_watts(asked) == pytest.approx(all_of_them, rel=1e-9, abs=0.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("privacy.mask_degree=7",), "privacy.mask_degree = 7: must be an even number"),
        (("workers.count=30", "radio.scheduled=30", "privacy.mask_degree=32"), "privacy.mask_degree = 32"),
        (("radio.schedule=poisson",), "radio.schedule"),
        (("radio.fading=rayleigh",), "needs air.truncation_db"),
        (("mixing.policy=dirmix", "mixing.prior=[0.0, 1.0]"), "share of 0|mixing.prior"),
    ],
)
def test_scenarios_in_which_noise_and_masks_hide_nobody(changes: tuple[str, ...], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        DIGITS.with_overrides(*changes)


def test_degrees_at_the_edge() -> None:
    thirty = ("workers.count=30", "radio.scheduled=30")
    assert DIGITS.with_overrides(*thirty, "privacy.mask_degree=30").privacy.mask_degree == 30
    assert DIGITS.with_overrides(*thirty, "privacy.mask_degree=2").privacy.mask_degree == 2


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
        assert watts == pytest.approx(2e-9 * share**2, rel=1e-12, abs=0.0)


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
    assert centring_target(shared)[1] == pytest.approx(0.2 * delta, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("key", ["workers.count=0", "radio.scheduled=0", "privacy.delta=0"])
def test_what_only_data_decide_is_refused(key: str) -> None:
    with pytest.raises(ScenarioError, match="the number of rows decides it"):
        check_privacy_target(Scenario.preset("private-mnist").with_overrides(key))


def test_what_a_row_had_before_the_draw() -> None:
    """Of statements for a drawn schedule those of any other are told apart; the rest have none."""
    design = Design(
        workers=100,
        scheduled=4,
        received_watts=(0.02,),
        counts=(60,),
        sensitivity=Sensitivity(removal=6.0, replacement=10.0),
        noise_watts=4.0,
    )
    stated = state_privacy(design, Server(), "gdp", adjacency="replace-one", delta=1e-4)
    other = replace(stated, adversary="release", before_the_draw=3.0)
    planned = RowPrivacy(name="a row", held="by one", copies=1, statements=(stated, other))
    assert planned.before_the_draw == {"release": 3.0}
    assert planned.epsilons == {"server": stated.epsilon, "release": stated.epsilon}
    assert planned.when == ", before the draw"  # the schedule fails with 1e-9
    sure = replace(stated, schedule_failure=0.0)
    assert RowPrivacy(name="a row", held="by one", copies=1, statements=(sure,)).when == ""
    assert RowPrivacy(name="a row", held="by two", copies=2, statements=(sure,)).when == ", before the draw"
    drawn = replace(sure, given="the schedule that was drawn")
    assert RowPrivacy(name="a row", held="by two", copies=2, statements=(drawn,)).when == ""


def test_how_much_a_row_of_several_moves() -> None:
    """A quarter of four rows; twice that where another may take its place; all where rounding follows."""
    several = Scenario.preset("private-mnist").with_overrides(
        "workers.task=regression", "workers.sends=moments", "workers.worker_column=w", "workers.rows_bound=4"
    )
    assert row_amplitude(Scenario.preset("private-mnist")) == 1.0
    for adjacency, capped in (("remove-one", 0.5), ("replace-one", 0.25)):
        near = several.with_overrides(f"privacy.adjacency={adjacency}")
        assert row_amplitude(near) == 0.25
        assert row_amplitude(near.with_overrides("workers.max_rows=8")) == capped
    one = several.with_overrides("workers.rows_bound=1", "workers.max_rows=8", "privacy.adjacency=remove-one")
    assert row_amplitude(one) == 1.0
    assert row_amplitude(several.with_overrides("air.dac_bits=8")) == 1.0


@pytest.mark.parametrize("wrong", [-1.0, math.inf, math.nan, "much", None])
def test_a_policy_that_returns_no_watts_is_refused(wrong: object, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = Scenario.preset("paper-iris").with_overrides("mixing.power=fixed", "mixing.power_scale_watts=2e-9")
    moves = Sensitivity(removal=1.0, replacement=2.0)
    assert asked_received_watts(fixed, moves, None) == 0.0  # it plans beta, not what is received
    monkeypatch.setattr(FixedPower, "received_watts", lambda *_: wrong)
    with pytest.raises(PluginError, match="its received_watts returns"):
        asked_received_watts(fixed, moves, None)
