"""Each step of the accountant of loss distributions on its own: closed forms, plain convolutions, brute force."""

import math
from dataclasses import replace
from functools import reduce

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from slots_for_tests import gaussian_epsilon_with_many_digits, hidden

from airmixml.messages import PrivacyError
from airmixml.privacy import GaussianSlots, certified_epsilon
from airmixml.privacy.evaluation import settled_epsilon
from airmixml.privacy.facts import Rounding, log_cut, tilt
from airmixml.privacy.loss_distribution import (
    LossDistribution,
    PldAccountant,
    _fast_size,
    _power,
    _range_of_sum,
    _step,
    compose,
    counted_slots_epsilon,
    largest_loss,
    loss_at,
    slot_losses,
)


def profile(mu: float, log_order: mpmath.mpf) -> mpmath.mpf:
    """H_mu(e^y) = Phi(mu/2 - y/mu) - e^y Phi(-mu/2 - y/mu)."""
    y = log_order
    return mpmath.ncdf(mu / 2 - y / mu) - mpmath.exp(y) * mpmath.ncdf(-mu / 2 - y / mu)


def with_worker(mu: float, rate: float, x: float) -> float:
    """Divergence of (1 - r) W + r P from W at e^x."""
    with mpmath.workdps(60):
        r = mpmath.mpf(rate)
        return float(r * profile(mu, mpmath.log(1 + mpmath.expm1(mpmath.mpf(x)) / r)))


def without_worker(mu: float, rate: float, x: float) -> float:
    """Divergence of W from (1 - r) W + r P at e^x: max over sets of W - e^x ((1 - r) W + r P)."""
    with mpmath.workdps(60):
        r, order = mpmath.mpf(rate), mpmath.exp(mpmath.mpf(x))
        share = 1 - order * (1 - r)
        return float(share * profile(mu, mpmath.log(order * r / share))) if share > 0 else 0.0


MECHANISMS = [(0.3, 0.1), (2.0, 0.01), (1.5, 0.6), (0.02, 1e-3)]


@pytest.mark.parametrize(("mu", "rate"), MECHANISMS)
def test_losses_of_a_slot_have_its_divergences_on_their_grid(mu: float, rate: float) -> None:
    """At and above 0, and below by h(e^-x) = 1 - e^-x + e^-x h'(e^x), h' that of the other direction."""
    step = largest_loss(mu, rate) / 60
    removed, added = slot_losses("remove-one", mu**2, rate, step)
    (replaced,) = slot_losses("replace-one", mu**2, rate, step)
    for place in (0, 1, 3, 10, 25):
        x = place * step
        above, below = with_worker(mu, rate, x), without_worker(mu, rate, x)
        assert removed.delta(x) == pytest.approx(above, rel=1e-8, abs=1e-15)
        assert added.delta(x) == pytest.approx(below, rel=1e-8, abs=1e-15)
        assert replaced.delta(x) == pytest.approx(above, rel=1e-8, abs=1e-15)
        for losses, other in ((removed, below), (added, above), (replaced, above)):
            assert losses.delta(-x) == pytest.approx(1 - math.exp(-x) + math.exp(-x) * other, rel=1e-9, abs=1e-14)
    for losses in (removed, added, replaced):
        assert losses.masses.sum() + losses.infinite_mass == pytest.approx(1.0, rel=1e-12)
        assert losses.losses[-1] >= largest_loss(mu, rate) * (1 - 1e-9)
        assert losses.losses[-1] <= largest_loss(mu, rate) + step
        assert losses.losses[0] == -losses.losses[-1] + (0.0 if len(losses.masses) % 2 else step)
        assert (losses.masses >= 0.0).all()


def test_a_loss_of_hundreds_in_a_slot() -> None:
    """mu = 50: losses up to 1,750, beyond what exp can represent."""
    (losses,) = slot_losses("replace-one", 2500.0, 0.25, 7.0)
    for x in (7.0, 602.0, 1204.0):
        assert losses.delta(x) == pytest.approx(with_worker(50.0, 0.25, x), rel=1e-7)
    assert losses.delta(losses.epsilon(0.01)) == pytest.approx(0.01, rel=1e-6)


def test_the_loss_of_a_sampled_slot() -> None:
    """ln(1 + r (e^y - 1)); 800 + ln r where e^y outweighs all else; ten deviations beyond the mean mu^2 / 2."""
    assert loss_at(2.0, 0.1) == pytest.approx(math.log(1 + 0.1 * (math.e**2 - 1)), rel=1e-14)
    assert loss_at(800.0, 0.1) == pytest.approx(800.0 + math.log(0.1), rel=1e-14)
    assert largest_loss(3.0, 0.2) == pytest.approx(math.log(1 + 0.2 * math.expm1(34.5)), rel=1e-14)


@given(
    masses=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=9).filter(lambda some: sum(some) > 0.1),
    lowest=st.integers(-6, 3),
    step=st.floats(0.01, 3.0),
    beyond=st.floats(0.0, 0.1),
    delta=st.floats(1e-6, 0.9),
)
@settings(max_examples=150, deadline=None)
def test_epsilon_is_where_delta_is_met(
    masses: list[float], lowest: int, step: float, beyond: float, delta: float
) -> None:
    """delta(e) = sum of (1 - e^(e - l)) p(l) over l > e, plus what is certain; falling, and e its inverse."""
    chances = np.array(masses) / sum(masses) * (1.0 - beyond)
    losses = LossDistribution(step=step, lowest=lowest, masses=chances, infinite_mass=beyond)

    def divergence(epsilon: float) -> float:
        places = [(lowest + k) * step for k in range(len(chances))]
        return beyond + sum(p * -math.expm1(epsilon - x) for p, x in zip(chances, places, strict=True) if x > epsilon)

    for epsilon in (-0.7, 0.0, 0.4, 2.0):
        assert losses.delta(epsilon) == pytest.approx(divergence(epsilon), rel=1e-12, abs=1e-15)
    found = losses.epsilon(delta)
    if beyond > delta:
        assert found == math.inf
    elif divergence(0.0) <= delta:
        assert found == pytest.approx(0.0, abs=1e-9)
    else:
        assert divergence(found) == pytest.approx(delta, rel=1e-7, abs=1e-12)


def test_where_delta_covers_all_losses_epsilon_is_zero() -> None:
    losses = LossDistribution(step=1.0, lowest=2, masses=np.array([0.3]), infinite_mass=0.1)
    assert (losses.epsilon(0.5), losses.epsilon(0.05)) == (0.0, math.inf)
    assert losses.epsilon(0.3) == pytest.approx(2.0 + math.log1p(-0.2 / 0.3))


def test_composed_losses_are_those_of_plain_convolutions() -> None:
    """Three times one law and twice another: masses, places, and what is certain."""
    first = LossDistribution(step=0.5, lowest=-2, masses=np.array([0.2, 0.1, 0.4, 0.2]), infinite_mass=0.1)
    second = LossDistribution(step=0.5, lowest=-1, masses=np.array([0.5, 0.3, 0.15]), infinite_mass=0.05)
    both = compose([(first, 3), (second, 2)])
    by_hand = reduce(np.convolve, [first.masses] * 3 + [second.masses] * 2)
    assert (both.step, both.lowest) == (0.5, -8)
    assert both.masses == pytest.approx(by_hand, abs=1e-14)
    assert both.infinite_mass == pytest.approx(1.0 - 0.9**3 * 0.95**2, abs=2e-15)


@pytest.mark.parametrize("chances", [[0.5, 0.5], [0.97, 0.01, 0.0, 0.0, 0.02], [0.02, 0.0, 0.0, 0.98]])
def test_a_sum_of_many_losses_is_kept_but_for_its_tails(chances: list[float]) -> None:
    """300 and 200 of two laws, convolved: outside the range lies 1e-15 at most, and a tighter one would lose more."""
    other = [0.1, 0.8, 0.1]
    laws = [(chances, 300), (other, 200)]
    parts = [(LossDistribution(step=1.0, lowest=0, masses=np.array(law), infinite_mass=0.0), n) for law, n in laws]
    low, high = _range_of_sum(parts)
    total = np.ones(1)  # all terms are positive: no digits are lost
    for law, count in laws:
        for _ in range(count):
            total = np.convolve(total, law)
    below, above = np.cumsum(total), np.cumsum(total[::-1])[::-1]
    assert 0 <= low < high <= len(total) - 1
    assert (below[low - 1] if low else 0.0) <= 0.5e-15
    assert (above[high + 1] if high + 1 < len(total) else 0.0) <= 0.5e-15
    deviation = math.sqrt(sum(n * float(np.cov(range(len(law)), aweights=law, ddof=0)) for law, n in laws))
    if low:
        assert below[min(low + math.ceil(1.5 * deviation), len(total) - 1)] > 0.5e-15
    assert above[high - math.ceil(1.5 * deviation)] > 0.5e-15


def test_sizes_that_a_transform_is_fast_for() -> None:
    sizes = sorted(2**i * 3**j * 5**k for i in range(1, 24) for j in range(8) for k in range(6))
    for least in (1, 2, 3, 7, 100, 101, 4097, 65_537, 400_001):
        assert _fast_size(least) == next(size for size in sizes if size >= least)


def test_powers() -> None:
    values = np.array([1.0 + 0.5j, -0.3, 0.9j, 1.0])
    for exponent in (0, 1, 2, 7, 12, 100):
        assert _power(values, exponent) == pytest.approx(values**exponent, rel=1e-12)
    assert values[1] == -0.3


def test_steps_of_losses() -> None:
    """One slot: 40,000 of them. Many: 400,000 in mean and ten deviations of slots that lose with probability r."""
    one = math.log(1 + 0.5 * math.expm1(0.5 + 10.0))
    assert _step([(1.0, 1)], 0.5) == pytest.approx(one / 40_000, rel=1e-12)
    lost = math.log(1 + 0.01 * math.expm1(0.5 + 2.0))
    mean, spread = 1e6 * 0.01 * lost, math.sqrt(1e6 * 0.01) * lost
    assert _step([(1.0, 10**6)], 0.01) == pytest.approx((mean + 10.0 * spread) / 400_000, rel=1e-9)
    small = math.log(1 + 1e-4 * math.expm1(0.1**2 / 2 + 10 * 0.1))
    assert _step([(0.01, 10**6)], 1e-4) == pytest.approx(math.sqrt(1e-14 * small * 10**6), rel=1e-9)


@pytest.mark.parametrize(("delta", "slots"), [(1e-3, 400), (1e-6, 90)])
def test_credit_for_how_often_alone(delta: float, slots: int) -> None:
    """With 1 - delta / 2 a worker is drawn in at most m slots: the strongest m, at delta / 2."""
    mechanism = hidden((0.2, 0.05), (slots // 3, slots - slots // 3), 5, 100)
    most = next(m for m in range(slots) if stats.binom.sf(m, slots, 0.05) <= delta / 2)
    total = 0.2 * min(most, slots // 3) + 0.05 * max(most - slots // 3, 0)
    exact = float(gaussian_epsilon_with_many_digits(total, delta / 2))
    assert counted_slots_epsilon(mechanism, delta) == pytest.approx(exact, rel=1e-9)


def test_losses_that_no_grid_resolves_are_counted() -> None:
    """A shift of 1e6 in each of 50 slots: the losses of thousands take steps above 20."""
    mechanism = hidden((1e6,), (50,), 5, 100)
    assert PldAccountant().epsilon(mechanism, 1e-5) == counted_slots_epsilon(mechanism, 1e-5)


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_where_a_transform_rounds_away_half_of_delta_renyi_orders_take_over(adjacency: str) -> None:
    """8 x 2^-52 of delta for each slot: half of 1e-12 for 281.5 slots."""
    for count, by_orders in ((281, False), (282, True)):
        mechanism = hidden((0.3,), (count,), 5, 1000, adjacency)
        renyi = mechanism if adjacency == "replace-one" else replace(mechanism, sampling="poisson")
        bound = min(counted_slots_epsilon(mechanism, 1e-12), certified_epsilon("rdp", renyi, 1e-12))
        found = PldAccountant().epsilon(mechanism, 1e-12)
        assert (found == bound) == by_orders
        assert found <= bound * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", ["replace-one", "remove-one"])
def test_one_sampled_slot_has_a_closed_form(adjacency: str) -> None:
    """delta(epsilon) of the sampled Gaussian, in the worse direction, met within the grid of 0.01 %."""
    mechanism = hidden((2.0,), (1,), 5, 100, adjacency)
    for delta in (1e-2, 1e-4):
        found = certified_epsilon("pld", mechanism, delta)
        assert with_worker(math.sqrt(2.0), 0.05, found) <= delta
        assert with_worker(math.sqrt(2.0), 0.05, 0.998 * found) > delta


# ----------------------------------------------------------------------------------------------------- rounding


def exact_tilt(step_mu: float, log_eta: float) -> mpmath.mpf:
    """(e^(G m) - 1) / (G m), G = m - Phi^-1(eta)."""
    with mpmath.workdps(40):
        eta = mpmath.exp(log_eta)
        quantile = mpmath.findroot(
            lambda z: mpmath.log(mpmath.erfc(-z / mpmath.sqrt(2)) / 2) - log_eta, -mpmath.sqrt(-2 * mpmath.log(eta))
        )
        exponent = step_mu * (step_mu - quantile)
        return mpmath.expm1(exponent) / exponent


@pytest.mark.parametrize("step_mu", [1e-4, 0.05, 1.0])
@pytest.mark.parametrize("log_eta", [-20.0, -60.0, -400.0])
def test_the_tilt_of_tails(step_mu: float, log_eta: float) -> None:
    exact = float(exact_tilt(step_mu, log_eta))
    assert exact <= tilt(step_mu, log_eta) * (1 + 1e-14)
    assert tilt(step_mu, log_eta) == pytest.approx(exact, rel=1e-11)
    assert tilt(200.0, log_eta) == math.inf


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 5.0, 900.0])
def test_what_is_cut_off(epsilon: float) -> None:
    """(1 + e^epsilon) d eta is a thousandth of delta."""
    with mpmath.workdps(40):
        exact = mpmath.log(mpmath.mpf(1e-3) * mpmath.mpf(1e-5) / 70 / (1 + mpmath.exp(mpmath.mpf(epsilon))))
    assert log_cut(70, epsilon, 1e-5) == pytest.approx(float(exact), rel=1e-13)
    assert log_cut(70, -1.0, 1e-5) == log_cut(70, 0.0, 1e-5)


ROUNDED = GaussianSlots(
    squared_shifts=(0.5, 0.4),
    counts=(2, 5),
    adjacency="replace-one",
    rounding=Rounding(step_mu=(0.02, 0.15), numbers=(70, 20)),
    rounded=4,
)


def of_rounded(assumed: float, share: float = 1e-3) -> tuple[float, float]:
    """Squared tilts at an epsilon and a delta of 1e-5: of four slots at most two have 70 numbers, the others 20."""
    log_eta = math.log(share * 1e-5 / 180) - float(mpmath.log1p(mpmath.exp(assumed)))
    return float(exact_tilt(0.02, log_eta)) ** 2, float(exact_tilt(0.15, log_eta)) ** 2


@pytest.mark.parametrize(("assumed", "share"), [(0.0, 1e-3), (2.0, 1e-3), (200.0, 1e-9)])
def test_squared_shifts_of_rounded_slots(assumed: float, share: float) -> None:
    """The strongest four once both kinds are tilted; never more than what all shifts add up to, by the larger tilt."""
    tilts = of_rounded(assumed, share)
    assert ROUNDED.squared_tilts(assumed, 1e-5, share) == pytest.approx(tilts, rel=1e-10)
    wide = ROUNDED.widened(assumed, 1e-5, share)
    assert 0.4 * tilts[1] > 0.5 * tilts[0]
    assert (wide.rounding, wide.slots) == (None, 1)
    assert wide.total == pytest.approx(4 * 0.4 * tilts[1], rel=1e-10)
    capped = replace(ROUNDED, total_at_most=0.3).widened(assumed, 1e-5, share)
    assert capped.total == pytest.approx(0.3 * tilts[1], rel=1e-10)
    alike = replace(ROUNDED, rounding=Rounding(step_mu=(0.02, 0.02), numbers=(70, 20)))
    assert alike.widened(assumed, 1e-5, share).total == pytest.approx((2 * 0.5 + 2 * 0.4) * tilts[0], rel=1e-10)
    assert replace(ROUNDED, total_at_most=0.3).louder(2.0).total_at_most == 0.6


def test_the_epsilon_of_rounded_slots_agrees_with_itself() -> None:
    """Its squared shifts are tilted for that epsilon, at 0.999 of delta."""
    found = certified_epsilon("gdp", ROUNDED, 1e-5)
    tilted = 4 * 0.4 * of_rounded(found)[1]
    assert found == pytest.approx(float(gaussian_epsilon_with_many_digits(tilted, 0.999e-5)), rel=1e-9)
    assert found > 1.05 * float(gaussian_epsilon_with_many_digits(1.6, 1e-5))


@pytest.mark.parametrize("wrong", [{"rounded": 0}, {"rounding": Rounding(step_mu=(0.02,), numbers=(70,))}])
def test_rounded_slots_of_which_too_little_is_told_are_refused(wrong: dict[str, object]) -> None:
    """Slots without an entry would count as not there."""
    with pytest.raises(PrivacyError, match="rounding: needs an entry"):
        replace(ROUNDED, **wrong).widened(1.0, 1e-5)


def test_an_assumed_epsilon_settles_at_its_fixed_point() -> None:
    """e = 1 + e / 3 at 1.5; e = 1 + e nowhere; where nothing depends on it, at once."""
    assert settled_epsilon(lambda assumed: 1.0 + assumed / 3.0) == pytest.approx(1.5, rel=1e-11)
    assert settled_epsilon(lambda assumed: 1.0 + assumed) == math.inf
    assert settled_epsilon(lambda _: 0.7) == 0.7
    assert settled_epsilon(lambda _: 0.0) == 0.0
    assert settled_epsilon(lambda _: math.inf) == math.inf
