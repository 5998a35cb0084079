"""From a privacy target to power: the largest that an accountant still certifies, always on the private side."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from scipy.optimize import brentq

from airmixml.errors import PrivacyError
from airmixml.privacy.adversaries import Adversary
from airmixml.privacy.design import Design
from airmixml.privacy.evaluation import considered_views, least_epsilon
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.privacy.loose_bound import smallest_certifiable_epsilon
from airmixml.privacy.mechanism import accountant_named

_WIDEST: Final = 1e30
_TOLERANCE: Final = 1e-4
_QUICK_TOLERANCE: Final = 0.02
# What is sent is rounded a few times on its way; that must not carry it above the target.
_ROUNDING: Final = 1e-12


def check_target(
    design: Design, adversary: Adversary, accountant: str, adjacency: str, epsilon: float, delta: float
) -> None:
    """Raise a PrivacyError if the accountant could not certify the target at any power."""
    silent = design.scaled(0.0)
    smallest, _ = least_epsilon(silent, adversary, accountant, adjacency=adjacency, delta=delta)
    if epsilon > smallest:
        return
    is_logarithm = math.isclose(smallest, smallest_certifiable_epsilon(delta))
    above = f"ln(1/delta) = {smallest:.4f}" if is_logarithm else f"{smallest:.4g}"
    raise PrivacyError(
        f"privacy.epsilon = {epsilon:g}: {accountant} certifies only epsilon above {above} for privacy.delta = "
        f"{delta:g}; ask for more, for a larger delta, or for privacy.accountant = pld"
    )


@lru_cache(maxsize=1024)
def calibrate_power(
    design: Design,
    adversary: Adversary,
    accountant: str,
    *,
    adjacency: str,
    epsilon: float,
    delta: float,
    quickly: bool = False,
) -> float:
    """Return the largest factor by which the design's power may be multiplied to keep (epsilon, delta).

    ``design`` gives the shape: one kind of slot, or several with powers in a given proportion. The accountant, asked
    again about the scaled design, gives at most ``epsilon``. Where no closed form is known the factor is within 0.01 %
    of the largest; ``quickly``, for searches over many designs, within a few per cent.
    """
    check_target(design, adversary, accountant, adjacency, epsilon, delta)

    def spent(factor: float) -> float:
        scaled = design.scaled(factor)
        return least_epsilon(scaled, adversary, accountant, adjacency=adjacency, delta=delta, quickly=quickly)[0]

    if not any(design.received_watts):
        raise PrivacyError("received_watts: all are 0; calibration scales powers, so give their proportions")
    factor, step = _closed_forms(design, adversary, accountant, adjacency, epsilon, delta), _ROUNDING
    if factor is None:
        guess = guess_factor(design, adversary, adjacency=adjacency, epsilon=epsilon, delta=delta)
        step = _QUICK_TOLERANCE if quickly else _TOLERANCE
        factor = _root(lambda factor: spent(factor) - epsilon, guess, step)
    while spent(factor * (1.0 - _ROUNDING)) > epsilon:
        factor *= 1.0 - step
        step = min(2.0 * step, 0.5)
    return factor * (1.0 - _ROUNDING)


def _closed_forms(
    design: Design, adversary: Adversary, accountant: str, adjacency: str, epsilon: float, delta: float
) -> float | None:
    """Return the largest factor that one of the adversary's views allows; None where a view has no closed form."""
    if adversary.own_receiver and math.isfinite(design.max_power_watts):
        return None  # more power asked for may not be more power sent: the limit may hold down what it hears
    treats = accountant_named(accountant)
    views = [view for view in considered_views(design, adversary, accountant, adjacency) if not treats.refusal(view)]
    factors = [treats.power_factor(view, epsilon, delta) for view in views]
    known = [factor for factor in factors if factor is not None]
    return max(known) if known and len(known) == len(factors) else None


def guess_factor(design: Design, adversary: Adversary, *, adjacency: str, epsilon: float, delta: float) -> float:
    """Return about what ``calibrate_power`` would, at once and without any promise: to start from, or to compare."""
    guesses = []
    for view in adversary.views(design, adjacency):
        # Many sampled slots are nearly a Gaussian mechanism, mu^2 = r^2 T (e^s - 1); if nothing is hidden, exactly one.
        together, rate = gaussian_mu(epsilon, delta) ** 2 / view.slots, view.sampling_rate
        allowed = together if rate == 1.0 else math.log1p(together / rate**2)
        guesses.append(allowed / max(view.squared_shifts))
    return max(guesses)


def _root(excess: Callable[[float], float], guess: float, tolerance: float) -> float:
    """Return where the excess turns positive, within the tolerance; the excess grows with the factor."""
    low = high = guess
    while excess(low) > 0.0:
        high, low = low, low / 3.0
        if low < guess / _WIDEST:
            raise PrivacyError("privacy.epsilon: no power keeps this target; ask for more, or for another adversary")
    while high == low or excess(high) <= 0.0:
        low, high = high, high * 3.0
        if high > guess * _WIDEST:
            return high  # the target is kept at any power
    root = brentq(lambda log_factor: excess(math.exp(log_factor)), math.log(low), math.log(high), xtol=tolerance)
    return math.exp(float(root))
