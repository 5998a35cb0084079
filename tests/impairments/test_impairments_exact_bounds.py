"""Bounds on gains against the laws that they bound, integrated or in closed form: never below, and hardly above."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaincc, gammainccinv
from scipy.stats import ncx2

from airmixml import Scenario
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gain_bound import (
    GainsInRounds,
    antenna_gain_bound,
    gain_spread,
    gains_in_rounds,
    largest_fading_ratio,
    largest_fading_sum,
    largest_power_gain,
    with_antennas,
)
from airmixml.impairments.gain_laws import GaussianError, SumBound, UniformError, joint_bound, joint_sum_bound

MNIST = Scenario.preset("private-mnist").with_overrides("workers.features=16")
CAMPUS = Scenario.preset("private-mnist-rounds").with_overrides(
    "workers.count=300", "radio.scheduled=300", "privacy.epsilon=1"
)


def rice(amplitude: float, deviation: float) -> float:
    """P(abs(1 + e) > amplitude), e ~ CN(0, deviation^2): 2 abs(1 + e)^2 / deviation^2 is noncentral chi-square."""
    return float(ncx2.sf(2.0 * amplitude**2 / deviation**2, 2, 2.0 / deviation**2))


def root(tail: Callable[[float], float], chance: float, low: float, high: float) -> float:
    """Where a tail falls to that chance."""
    return float(brentq(lambda x: math.log(max(tail(x), 1e-300) / chance), low, high, xtol=1e-12))


def chernoff(moment: Callable[[float], float], count: int, chance: float, most: float) -> float:
    """The least (n ln M(t) - ln chance) / t."""

    def bound(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        return (count * math.log(moment(tilt)) - math.log(chance)) / tilt

    return float(minimize_scalar(bound, bounds=(-9.0, math.log(most)), method="bounded").fun)


# ---------------------------------------------------------------------------------------------- one error alone


@pytest.mark.parametrize("draws", [10.0, 1000.0])
@pytest.mark.parametrize("places", [1, 50])
def test_a_uniform_error_of_a_slot(draws: float, places: int) -> None:
    """ln abs(g) is above L (1 - 2 / n) once in n draws, however many places share it; the grid has 2047 steps."""
    found = joint_bound((UniformError(0.4),), 0.0, 1.0, places, draws)
    assert 0.4 * (1.0 - 2.0 / draws) - 1e-9 <= math.log(found) <= 0.4 * (1.0 - 2.0 / draws) + 2.1 * 0.8 / 2047


def test_two_uniform_errors() -> None:
    """Their sum is above 2 L - z with chance (z / L)^2 / 8."""
    exact = 0.4 * (2.0 - math.sqrt(8.0 / 500.0))
    found = joint_bound((UniformError(0.4), UniformError(0.4)), 0.0, 1.0, 7, 500.0)
    assert exact - 1e-9 <= math.log(found) <= exact + 4.1 * 1.6 / 2047


@pytest.mark.parametrize(("drawn", "places"), [("piece", 30), ("block", 30), ("slot", 1)])
@pytest.mark.parametrize("mean", [1.0, 1.4])
def test_a_gaussian_error(drawn: str, places: int, mean: float) -> None:
    """Of 30 places of a seat, or of one where it is drawn once in a slot."""
    error = GaussianError(mean=mean, variance=0.04, drawn=drawn)
    exact = mean * root(lambda x: rice(x, 0.2 / mean), 1e-4 / places, 1.0, 5.0)
    assert exact <= joint_bound((error,), 0.0, 1.0, 30, 1e4) <= 1.005 * exact


def test_an_error_that_grows_in_a_block() -> None:
    """Three pieces: two with a tenth of the variance and one with a half."""
    error = GaussianError(mean=1.0, variance=0.3, drawn="block", parts=((2, 0.1), (1, 0.5)))

    def tail(x: float) -> float:
        return 2.0 * rice(x, math.sqrt(0.03)) + rice(x, math.sqrt(0.15))

    exact = root(tail, 1e-4 / 20, 1.0, 10.0)
    assert exact <= joint_bound((error,), 0.0, 1.0, 20, 1e4) <= 1.005 * exact


@pytest.mark.parametrize("direct", [0.0, 4.0])
def test_an_error_over_a_channel_that_fades(direct: float) -> None:
    """In the mean over powers from 0.2 up, of which (K + 1) u is half a noncentral chi-square with 2 K."""
    error = GaussianError(mean=1.0, variance=0.02, over_fading=True)

    def tail(x: float) -> float:
        def part(u: float) -> float:
            return (
                2.0
                * (direct + 1.0)
                * float(ncx2.pdf(2.0 * (direct + 1.0) * u, 2, 2.0 * direct))
                * rice(x, math.sqrt(0.02 / u))
            )

        return float(quad(part, 0.2, 8.0, limit=200)[0])

    exact = root(tail, 1e-5 / 10, 1.0, 10.0)
    assert exact <= joint_bound((error,), direct, 0.2, 10, 1e5) <= 1.02 * exact
    assert error.deviation(0.25) == pytest.approx(math.sqrt(0.08))
    assert GaussianError(mean=2.0, variance=0.09).deviation(0.25) == pytest.approx(0.15)


def test_two_errors_of_a_piece_and_one_of_the_slot() -> None:
    """abs(1 + e) abs(1 + f) in the worst of 20 pieces, times exp(v), by two integrals of 60 points."""
    errors = (GaussianError(mean=1.0, variance=0.01), GaussianError(mean=1.2, variance=0.09), UniformError(0.2))

    nodes, weights = np.polynomial.legendre.leggauss(60)
    y, v = 1.0 + 0.6 * nodes, 0.2 * nodes[:, None]
    density = 0.6 * weights * ncx2.pdf(2.0 * y**2 / 0.01, 2, 2.0 / 0.01) * 4.0 * y / 0.01

    def tail(x: float) -> float:
        beyond = ncx2.sf(2.0 * (x / 1.2 / np.exp(v) / y) ** 2 / (0.3 / 1.2) ** 2, 2, 2.0 / (0.3 / 1.2) ** 2)
        return float(weights @ np.minimum(20.0 * (beyond @ density), 1.0)) / 2.0

    exact = root(tail, 1e-3, 1.2, 4.0)
    assert exact <= joint_bound(errors, 0.0, 1.0, 20, 1e3) <= 1.01 * exact


# -------------------------------------------------------------------------------------------------------- sums


def test_sums_of_coins() -> None:
    """Values 0 and 3 of chance 0.2, ten of them, exceeded with 1e-6: Chernoff's bound to a hundredth, never below."""
    bound = SumBound.of(np.array([0.0, 3.0]), np.array([0.2, 0.0]), 10, 1e6)
    assert bound is not None
    exact = chernoff(lambda t: 0.8 + 0.2 * math.exp(3.0 * t), 10, 1e-6, 30.0)
    assert exact * (1 - 1e-9) <= bound.total(10) <= 1.01 * exact
    assert bound.tilts[0] == bound.log_moments[0] == 0.0


def test_what_lies_beyond_the_grid_counts_as_failed() -> None:
    """A draw is beyond it with 4e-8: ten of them take 4e-7 of 1e-6, and 25 take all."""
    values, above = np.array([0.0, 3.0]), np.array([0.2, 4e-8])
    bound = SumBound.of(values, above, 10, 1e6)
    assert bound is not None
    assert bound.rarity == pytest.approx(-math.log(6e-7), rel=1e-12)
    assert SumBound.of(values, above, 26, 1e6) is None
    assert SumBound.of(values, np.array([0.2, 0.5]), 1, 2.0) is None  # all of it


@pytest.mark.parametrize("value", [0.5, 7.0])
def test_sums_of_one_value(value: float) -> None:
    bound = SumBound.constant(value, 1e6)
    assert bound.total(10) == pytest.approx(10 * value + math.log(1e6) * value / 1e4, rel=1e-12)  # at the largest tilt
    assert bound.rarity == pytest.approx(math.log(1e6), rel=1e-12)


def test_sums_of_products() -> None:
    """Values 1 and 3 times 0, 1 and 2, five of them: the bound of the product's own law is no larger, nor much less."""
    first = SumBound.of(np.array([1.0, 3.0]), np.array([0.2, 0.0]), 5, 1e6)
    assert first is not None
    found = first.times(np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.1, 0.0]), 5)
    assert found is not None

    def moment(t: float) -> float:
        def of(x: float) -> float:
            return 0.8 * math.exp(t * x) + 0.2 * math.exp(3.0 * t * x)

        return 0.5 + 0.4 * of(1.0) + 0.1 * of(2.0)

    exact = chernoff(moment, 5, 1e-6, 30.0)
    assert exact * (1 - 1e-9) <= found.total(5) <= 1.02 * exact
    failed = first.times(np.array([0.0, 1.0]), np.array([0.5, 1e-7]), 5)
    assert failed is not None
    assert failed.rarity == pytest.approx(-math.log(5e-7), rel=1e-9)
    assert first.times(np.array([0.0, 1.0]), np.array([0.5, 1e-6]), 5) is None


def moment_of_uniform(t: float) -> float:
    """M(t) of exp(2 v), v uniform within 0.3."""
    return float(quad(lambda v: math.exp(t * math.exp(2.0 * v)) / 0.6, -0.3, 0.3)[0])


RENEWED, STAYING = UniformError(0.3, stays=False), UniformError(0.2)


def test_sums_of_gains() -> None:
    """exp(2 v) for v uniform within 0.3, six slots, times 1.7; and with all channels at the floor."""
    exact = chernoff(moment_of_uniform, 6, 1e-5, 50.0)
    found = joint_sum_bound((RENEWED,), (0.0, 1.0), 4, 6, 1e5, 1.7)
    assert found is not None
    assert 1.7 * exact * (1 - 1e-9) <= found.total(6) <= 1.7 * exact * 1.01
    fading = GaussianError(mean=1.0, variance=0.01, over_fading=True, stays=False)
    floor, alone = (0.0, 0.1), GaussianError(mean=1.0, variance=0.1, stays=False)
    weakest = joint_sum_bound((fading,), floor, 4, 6, 1e5, weakest=True)
    fixed = joint_sum_bound((alone,), floor, 4, 6, 1e5)
    usual = joint_sum_bound((fading,), floor, 4, 6, 1e5)
    assert weakest is not None
    assert fixed is not None
    assert usual is not None
    assert weakest.total(6) == pytest.approx(fixed.total(6), rel=1e-9)
    assert usual.total(6) < 0.9 * weakest.total(6)


@pytest.mark.parametrize("draws", [1e2, 1e5])
def test_sums_of_a_gain_that_stays(draws: float) -> None:
    """n exp(2 v) is above n exp(0.4 (1 - 2 / draws)) once in so many draws: no mean over slots makes that smaller."""
    found = joint_sum_bound((STAYING,), (0.0, 1.0), 4, 6, draws, 1.7)
    assert found is not None
    for slots in (1, 6):
        exact = 1.7 * slots * math.exp(0.4 * (1.0 - 2.0 / draws))
        assert exact <= found.total(slots) <= exact * 1.01


def test_sums_of_gains_of_which_a_factor_stays() -> None:
    """Chernoff's bound for each factor exp(2 v), v uniform within 0.2, in the mean over these; as drawn, too."""
    tilts = np.geomspace(1e-3, 60.0, 400)
    logs = np.log([moment_of_uniform(tilt) for tilt in tilts])
    nodes, weights = np.polynomial.legendre.leggauss(200)
    factors = np.exp(0.4 * nodes)

    def tail(total: float) -> float:
        exponents = (6 * logs[:, None] - tilts[:, None] * total / factors).min(axis=0)
        return float(np.exp(np.minimum(exponents, 0.0)) @ weights) / 2.0

    found, rare = (joint_sum_bound((RENEWED, STAYING), (0.0, 1.0), 4, 6, draws) for draws in (1e2, 1e6))
    assert found is not None
    assert rare is not None
    exact = root(tail, 1e-6, 6.0, 30.0)
    assert exact * (1 - 1e-4) <= rare.total(6) <= exact * 1.02
    drawn = np.random.default_rng(7).uniform(-1.0, 1.0, (100_000, 7))
    sums = np.exp(0.4 * drawn[:, 0]) * np.exp(0.6 * drawn[:, 1:]).sum(axis=1)
    assert np.quantile(sums, 0.99) <= found.total(6) <= 1.1 * np.quantile(sums, 0.99)


def test_means_of_rounds() -> None:
    """A sum's bound over its rounds, at most the largest gain; the same at all antennas."""
    sums = SumBound.constant(2.0, 1e6)
    chosen = GainsInRounds.means(sums, 3.0, 10)
    assert chosen == pytest.approx([2.0] * 10, rel=2e-3)
    assert chosen[0] > chosen[9] > 2.0
    assert GainsInRounds.means(sums, 1.5, 10) == (1.5,) * 10
    assert GainsInRounds.means(None, 3.0, 4) == (3.0,) * 4
    gains = GainsInRounds((3.0, 2.5), (9.0, 7.0))
    assert [gains.mean(rounds) for rounds in (1, 2)] == [3.0, 2.5]
    assert [gains.mean(rounds, at_server=True) for rounds in (1, 2)] == [9.0, 7.0]


def test_gains_of_a_run() -> None:
    """Amplitudes within 2.5 dB always; an error of the channel's other way once in a slot, over all seats."""
    certain = MNIST.with_overrides("air.amplitude_error_db=2.5")
    assert largest_power_gain(certain, 40) == pytest.approx(10**0.25, rel=1e-12)
    drawn = MNIST.with_overrides("air.reciprocity_nmse_db=-20", "air.gain_failure=1e-3")
    for scenario, chance in ((drawn, 1e-3), (drawn.with_overrides("air.antennas=2"), 5e-4)):
        exact = root(lambda x: rice(x, 0.1), chance / 40, 1.0, 5.0) ** 2
        assert exact <= largest_power_gain(scenario, 40, 1500) <= 1.002 * exact


def test_rounds_of_one_antenna() -> None:
    """What is always kept needs no sum; with one antenna the server has what that one has."""
    assert gains_in_rounds(CAMPUS, 1.0, 1.0, 150) is None
    assert gains_in_rounds(CAMPUS.with_overrides("air.amplitude_error_db=1"), 10**0.1, 1.0, 150) is None
    errors = ("air.reciprocity_nmse_db=-20", "radio.fading=rayleigh", "air.truncation_db=-10", "air.gain_failure=1e-2")
    found = gains_in_rounds(CAMPUS.with_overrides(*errors), 9.0, 1.0, 150)
    assert found is not None
    rounds = CAMPUS.learner.rounds
    assert 1.0 < found.mean(rounds) < found.mean(1)
    assert found.mean(rounds, at_server=True) == found.mean(rounds)


# ---------------------------------------------------------------------------------------------------- antennas


@pytest.mark.parametrize("antennas", [2, 5, 64])
@pytest.mark.parametrize("failure", [1e-3, 1e-9])
def test_all_antennas_over_one_that_is_not_in_a_fade(antennas: int, failure: float) -> None:
    """P(S > t u, u >= c) for u exponential and S of gamma law, integrated."""
    found = largest_fading_ratio(antennas, 0.1, failure) - 1.0
    chance = quad(lambda u: math.exp(-u) * float(gammaincc(antennas - 1, found * u)), 0.1, 40.0, epsabs=0.0, limit=300)
    assert chance[0] == pytest.approx(failure, rel=1e-6)


def test_sums_of_fading_powers() -> None:
    """Gamma of Rayleigh fading; a direct path adds its norm."""
    rayleigh = MNIST.with_overrides("radio.fading=rayleigh").radio
    assert largest_fading_sum(rayleigh, 3, 1e-6) == pytest.approx(float(gammainccinv(3, 1e-6)), rel=1e-12)
    rician = MNIST.with_overrides("radio.fading=rician", "radio.rician_k=3").radio
    exact = (math.sqrt(3 * 0.75) + math.sqrt(float(gammainccinv(3, 1e-6)) / 4)) ** 2
    assert largest_fading_sum(rician, 3, 1e-6) == pytest.approx(exact, rel=1e-12)


def test_all_antennas_of_a_run() -> None:
    """Half of the failure over slots and seats; 10 dB below the mean workers stay silent."""
    scenario = MNIST.with_overrides(
        "radio.fading=rayleigh", "air.truncation_db=-10", "air.antennas=3", "air.gain_failure=1e-3"
    )
    slots = scenario.slots_on_air
    exact = 10.0 * float(gammainccinv(3, 0.5 * 1e-3 / (slots * 40)))
    assert antenna_gain_bound(scenario, 40) == pytest.approx(exact, rel=1e-9)
    more = 10.0 * float(gammainccinv(8, 0.5 * 1e-3 / (slots * 40)))
    assert antenna_gain_bound(scenario, 40, antennas=8) == pytest.approx(more, rel=1e-9)
    assert antenna_gain_bound(scenario.with_overrides("air.antennas=1"), 40) == 1.0
    assert antenna_gain_bound(scenario.with_overrides("radio.fading=none", "air.truncation_db=-inf"), 40) == 3.0
    assert antenna_gain_bound(scenario.with_overrides("air.truncation_db=-inf"), 40) == math.inf


@pytest.mark.parametrize(("symbols", "fadings"), [(150, 1), (23_000, 1), (24_000, 2), (90_000, 4), (0, 1024)])
def test_antennas_over_the_coherence_times_of_a_slot(symbols: int, fadings: int) -> None:
    """72 blocks of pilots and data are one of them; nobody knows how many symbols: as many as any slot has."""
    scenario = CAMPUS.on_air("campus").with_overrides("air.antennas=3", "air.gain_failure=1e-3")
    if symbols:
        blocks = frame_of(scenario.air, symbols).block_count
        assert fadings == -(-blocks // scenario.air.blocks_per_fading)
    chance = 0.5 * 1e-3 / (scenario.slots_on_air * 40 * fadings)
    exact = largest_fading_ratio(3, 10 ** (scenario.air.truncation_db / 10), chance)
    assert antenna_gain_bound(scenario, 40, symbols) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("symbols", [150, 90_000])
def test_sums_of_gains_times_all_antennas(symbols: int) -> None:
    """Of a gain that is always 1: the worst of 1 + S / u over the coherence times in which a worker sends."""
    scenario = CAMPUS.on_air("campus").with_overrides("air.antennas=4")
    floor, fadings = 10 ** (scenario.air.truncation_db / 10), 1 if symbols == 150 else 4
    found = with_antennas(scenario, SumBound.constant(1.0, 1e6), symbols, 1e-6)
    assert found is not None
    grid = np.linspace(4.0, 400.0, 20_000)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    u = floor + 20.0 * (1.0 + nodes)
    above = fadings * (gammaincc(3, (grid[:, None] - 1.0) * u) * np.exp(-u) * 20.0 * weights).sum(axis=1)
    sends = 1.0 - (1.0 - math.exp(-floor)) ** fadings
    above = np.minimum(above, sends)

    def moment(t: float) -> float:
        chances = -np.diff(above, append=0.0)
        return (
            1.0
            - sends
            + (sends - above[0]) * math.exp(4.0 * t)
            + float(np.exp(t * (grid + grid[1] - grid[0])) @ chances)
        )

    exact = chernoff(moment, 6, 1e-6, 1.5)
    assert 0.998 * exact <= found.total(6) <= 1.002 * exact


def test_where_nothing_bounds_all_antennas() -> None:
    bound, campus = SumBound.constant(1.0, 1e6), CAMPUS.on_air("campus")
    assert with_antennas(campus, None, 150, 1e-6) is None
    fading = CAMPUS.with_overrides("radio.fading=rayleigh", "air.truncation_db=-3", "air.antennas=4")
    assert with_antennas(fading, bound, 150, 1e-6) is None  # one antenna is chosen by its channel
    still = with_antennas(CAMPUS.with_overrides("air.antennas=4"), bound, 150, 1e-6)
    assert still is not None
    assert still.total(6) == pytest.approx(4.0 * bound.total(6), rel=1e-12)


# ------------------------------------------------------------------------------------------------------ spread


def of_uniform_logarithm(width_db: float) -> float:
    """Var / mean^2 of a gain whose decibels are uniform within +- width."""
    reach = width_db * math.log(10.0) / 20.0
    return math.sinh(2.0 * reach) / (2.0 * reach) * (reach / math.sinh(reach)) ** 2 - 1.0


def test_gains_differ_by_as_much_as_their_errors_say() -> None:
    """512 drawn gains: a variance to a standard error of 6 %; levels of power are counted out."""
    drawn = gain_spread(MNIST.with_overrides("air.amplitude_error_db=2.5"))
    assert drawn == pytest.approx(of_uniform_logarithm(2.5), rel=0.2)
    levels = gain_spread(MNIST.with_overrides("air.power_step_db=1.0"))
    assert levels == pytest.approx(of_uniform_logarithm(0.5), rel=1e-3)
    both = gain_spread(MNIST.with_overrides("air.amplitude_error_db=2.5", "air.power_step_db=3.0"))
    exact = (1.0 + of_uniform_logarithm(2.5)) * (1.0 + of_uniform_logarithm(1.5)) - 1.0
    assert both == pytest.approx(exact, rel=0.2)
    assert gain_spread(MNIST) == 0.0
