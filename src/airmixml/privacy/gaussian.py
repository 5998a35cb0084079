"""The exact privacy of Gaussian mechanisms composed, for an adversary who knows the schedule.

Slots in which a worker moved the mean by Delta_t against noise of deviation sigma_t are together one Gaussian mechanism
with mu^2 = sum_t Delta_t^2 / sigma_t^2 (Dong, Roth and Su 2022, Cor. 3.3), and its epsilon for a delta is exact (Balle
and Wang 2018, Thm. 8).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, erfinv, log_ndtr, ndtri

from airmixml.privacy.mechanism import Accountant, GaussianSlots, require


def bracket_root(
    excess: Callable[[float], float], low: float, high: float, *, tolerance: float, relative: float = 0.0
) -> tuple[float, float]:
    """Return two places, at most ``tolerance`` + ``relative`` |place| apart, between which ``excess`` becomes positive.

    The excess is at most 0 at the first place and above 0 at the second, or 0 at both, if they are the root itself. If
    it does not change its sign between ``low`` and ``high``, both places are the end that is nearer to the root. The
    method is that of Chandrupatla (1997): inverse quadratic interpolation where three points allow it, else halving.
    """
    places, values = [low, high], [excess(low), excess(high)]
    if values[0] >= 0.0 or values[1] <= 0.0:
        end = low if values[0] >= 0.0 else high
        return end, end
    newest, share = 1, 0.5
    while abs(places[1] - places[0]) > tolerance + relative * max(abs(places[0]), abs(places[1])):
        place = places[newest] + share * (places[1 - newest] - places[newest])
        if place in places:
            place = 0.5 * (places[0] + places[1])
            if place in places:
                break  # no number lies between them
        value = excess(place)
        if value == 0.0:
            return place, place
        side = int(value > 0.0)
        older = (places[side], values[side])
        places[side], values[side], newest = place, value, side
        share = _share((place, value), (places[1 - side], values[1 - side]), older)
        least = min(0.5 * tolerance / abs(places[1] - places[0]), 0.5)
        share = min(max(share, least), 1.0 - least)
    return places[0], places[1]


def _share(newest: tuple[float, float], across: tuple[float, float], older: tuple[float, float]) -> float:
    """Return how far to go from the newest place to the one across the root, as a share of the way."""
    (a, f_a), (b, f_b), (c, f_c) = newest, across, older
    if c in (a, b) or f_c in (f_a, f_b):
        return 0.5
    along, up = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
    if not (0.0 <= along <= 1.0 and 1.0 - math.sqrt(1.0 - along) < up < math.sqrt(along)):
        return 0.5
    return f_a / (f_b - f_a) * f_c / (f_b - f_c) + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)


# Rounding of a few steps must not carry an epsilon below what holds.
_ROUNDING_MARGIN: Final = 1e-12
_NEWTON_STEPS: Final = 60
# Beyond this the rounding of mu^2/2 outweighs all else, and the bound delta <= Phi(mu/2 - epsilon/mu) is as good.
_LARGE_MU: Final = 1e6
# Below this Phi differs from 1/2 in its last digits only; a larger mu is taken instead, which loses next to nothing.
_SMALL_MU: Final = 1e-9
_WORKERS_AT_ONCE: Final = 1 << 16


def log_gaussian_delta(mu: float, epsilon: float) -> float:
    """Return ln delta, with delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""
    log_first = float(log_ndtr(mu / 2.0 - epsilon / mu))
    log_ratio = epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu)) - log_first
    return log_first + math.log(-math.expm1(log_ratio)) if log_ratio < 0.0 else -math.inf


def gaussian_profile(mu: ArrayLike, epsilon: ArrayLike) -> NDArray[np.float64]:
    """Return delta of the Gaussian mechanism mu > 0 at each epsilon; arrays broadcast."""
    shift, eps = np.asarray(mu, dtype=np.float64), np.asarray(epsilon, dtype=np.float64)
    log_first = log_ndtr(shift / 2.0 - eps / shift)
    log_ratio = eps + log_ndtr(-shift / 2.0 - eps / shift) - log_first
    return np.asarray(np.exp(log_first) * -np.expm1(np.minimum(log_ratio, 0.0)))


def total_variation(mu: ArrayLike) -> NDArray[np.float64]:
    """Return delta at epsilon = 0, erf(mu / sqrt(8)); any shape."""
    return np.asarray(erf(np.asarray(mu, dtype=np.float64) / math.sqrt(8.0)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon of the Gaussian mechanism mu at ``delta``, rounded to the private side.

    ``mu`` is the shift of the mean over the deviation of the noise, all slots together.
    """
    _check(mu, delta)
    if total_variation(mu) <= delta:
        return 0.0
    shift = max(mu, _SMALL_MU)
    enough = float(_enough(np.float64(shift), delta))
    if shift > _LARGE_MU:
        return enough
    if log_gaussian_delta(shift, 0.0) <= math.log(delta):
        return 0.0
    log_delta = math.log(delta)
    _, private = bracket_root(
        lambda epsilon: log_delta - log_gaussian_delta(shift, epsilon), 0.0, enough, tolerance=1e-13, relative=1e-14
    )
    return private * (1.0 + _ROUNDING_MARGIN) + _ROUNDING_MARGIN


def gaussian_epsilons(mu: ArrayLike, delta: float) -> NDArray[np.float64]:
    """Return ``gaussian_epsilon`` of many workers at once; same shape as ``mu``.

    Newton's method on ln delta, all workers together, from an epsilon that is large enough. ln delta is concave in
    epsilon: delta is the convolution of two log-concave functions, the chance of a larger loss and exp(-x), x >= 0. So
    every step stays on the private side.
    """
    _check(mu, delta)
    shifts, place = np.unique(np.asarray(mu, dtype=np.float64), return_inverse=True)
    clipped = np.maximum(shifts, _SMALL_MU)
    epsilons = enough = _enough(clipped, delta)
    for _ in range(_NEWTON_STEPS):
        log_first = log_ndtr(clipped / 2.0 - epsilons / clipped)
        log_second = epsilons + log_ndtr(-clipped / 2.0 - epsilons / clipped)
        # Of delta = first - second the slope in epsilon is -second.
        log_delta = log_first + np.log(-np.expm1(np.minimum(log_second - log_first, -_ROUNDING_MARGIN)))
        step = np.maximum((math.log(delta) - log_delta) * np.exp(log_delta - log_second), 0.0)
        epsilons = np.maximum(epsilons - step, 0.0)
        if (step <= _ROUNDING_MARGIN * epsilons).all():
            break
    epsilons = np.where(clipped > _LARGE_MU, enough, epsilons * (1.0 + _ROUNDING_MARGIN) + _ROUNDING_MARGIN)
    epsilons = np.where(total_variation(shifts) <= delta, 0.0, epsilons)
    return np.asarray(epsilons[place].reshape(np.shape(mu)))


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose epsilon at ``delta`` does not exceed the given one."""
    require(0.0 < epsilon < math.inf, f"epsilon = {epsilon:g}: must be finite and above 0")
    if epsilon <= gaussian_epsilon(_SMALL_MU, delta):
        return float(np.sqrt(8.0) * erfinv(delta)) * (1.0 - _ROUNDING_MARGIN)  # so little that epsilon is 0
    deviations = max(float(-ndtri(delta)), 0.0)
    mu = math.sqrt(deviations**2 + 2.0 * epsilon) - deviations  # where _enough is epsilon; private, if not the largest
    if mu <= _LARGE_MU:
        # An epsilon that, rounded up as gaussian_epsilon rounds it, is the one asked for.
        aim = max((epsilon - _ROUNDING_MARGIN) / (1.0 + _ROUNDING_MARGIN), 0.5 * epsilon)
        log_delta = math.log(delta)
        low = high = max(mu, _SMALL_MU)
        while log_gaussian_delta(high, aim) <= log_delta:
            high *= 2.0
        mu, _ = bracket_root(
            lambda shift: log_gaussian_delta(shift, aim) - log_delta, low, high, tolerance=0.0, relative=1e-14
        )
    step = _ROUNDING_MARGIN
    while gaussian_epsilon(mu, delta) > epsilon:
        mu *= 1.0 - step
        step = min(2.0 * step, 0.5)
    return mu


def _check(mu: ArrayLike, delta: float) -> None:
    values = np.asarray(mu, dtype=np.float64)
    require(bool(((values >= 0.0) & (values < 1e150)).all()), "mu: must be finite, at least 0 and below 1e150")
    require(0.0 < delta < 1.0, f"delta = {delta:g}: must lie between 0 and 1")


def _enough(mu: NDArray[np.float64] | np.float64, delta: float) -> NDArray[np.float64]:
    """Return an epsilon that is large enough: delta <= Phi(mu/2 - epsilon/mu), rounded up."""
    return np.asarray((mu**2 / 2.0 + mu * max(float(-ndtri(delta)), 0.0)) * (1.0 + _ROUNDING_MARGIN))


@dataclass(frozen=True, eq=False)
class Ledger:
    """What each worker spent in the slots of a run."""

    participations: NDArray[np.int64]  #: slots that each worker took part in; shape workers
    #: sum over those slots of beta q^2, the worker's signal at the server; shape workers
    received_watts: NDArray[np.float64]

    def losses(self, *, noise_watts: float, sensitivity: float) -> NDArray[np.float64]:
        """Return mu^2 of each worker; shape workers."""
        losses = self.received_watts * sensitivity
        losses /= noise_watts / 2.0
        return losses

    def epsilons(
        self, *, noise_watts: float, sensitivity: float, delta: float, spent_mu: float = 0.0
    ) -> NDArray[np.float64]:
        """Return the exact epsilon of each worker at ``delta``, who spent ``spent_mu`` besides; shape workers."""
        found = self.losses(noise_watts=noise_watts, sensitivity=sensitivity)
        for some in np.split(found, range(_WORKERS_AT_ONCE, len(found), _WORKERS_AT_ONCE)):  # views: memory stays small
            some[:] = gaussian_epsilons(np.sqrt(some + spent_mu**2), delta)
        return found

    def summary(self, epsilons: NDArray[np.float64]) -> dict[str, Any]:
        """Return worst, median and mean over the workers as plain values."""
        worst = int(np.argmax(epsilons))
        return {
            "worst_epsilon": float(epsilons[worst]),
            "worst_worker": worst,
            "worst_worker_slots": int(self.participations[worst]),
            "median_epsilon": float(np.median(epsilons)),
            "mean_epsilon": float(epsilons.mean()),
            "slots_per_worker": {
                "least": int(self.participations.min()),
                "median": float(np.median(self.participations)),
                "most": int(self.participations.max()),
                "silent": int((self.participations == 0).sum()),
            },
        }


class Gdp(Accountant):
    """The exact epsilon of the Gaussian mechanism that all slots of a worker form together."""

    about = "exact for a known schedule and that sensitivity (Dong, Roth, Su; Balle, Wang)"
    considers_all_views = False
    closed_form = True

    def refusal(self, mechanism: GaussianSlots) -> str:
        """Refuse hidden schedules: a mixture over schedules is not Gaussian."""
        return "" if mechanism.sampling == "none" else "exact only where the schedule is known; use pld"

    def epsilon(self, mechanism: GaussianSlots, delta: float) -> float:
        return gaussian_epsilon(math.sqrt(mechanism.total), delta)

    def power_factor(self, mechanism: GaussianSlots, epsilon: float, delta: float) -> float:
        return gaussian_mu(epsilon, delta) ** 2 / mechanism.total
