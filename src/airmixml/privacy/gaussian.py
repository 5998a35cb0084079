"""The exact privacy of Gaussian mechanisms composed, for an adversary who knows the schedule.

Slots in which a worker moved the mean by Delta_t against noise of deviation sigma_t are together one Gaussian mechanism
with mu^2 = sum_t Delta_t^2 / sigma_t^2 (Dong, Roth and Su 2022, Cor. 3.3), and its epsilon for a delta is exact (Balle
and Wang 2018, Thm. 8).
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri

__all__ = ["gaussian_epsilon", "log_gaussian_delta"]


def log_gaussian_delta(mu: float, epsilon: float) -> float:
    """Return ln delta, with delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)."""
    log_first = float(log_ndtr(mu / 2.0 - epsilon / mu))
    log_ratio = epsilon + float(log_ndtr(-mu / 2.0 - epsilon / mu)) - log_first
    return log_first + math.log(-math.expm1(log_ratio)) if log_ratio < 0.0 else -math.inf


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon of the Gaussian mechanism mu at ``delta``, rounded to the private side.

    Args:
        mu: shift of the mean over the deviation of the noise, all slots together.
        delta: probability of failure allowed.
    """
    if mu <= 0.0 or log_gaussian_delta(mu, 0.0) <= math.log(delta):
        return 0.0
    # delta <= Phi(mu/2 - epsilon/mu), so this epsilon is large enough.
    enough = mu**2 / 2.0 + mu * max(float(-ndtri(delta)), 0.0)
    root = brentq(
        lambda epsilon: log_gaussian_delta(mu, epsilon) - math.log(delta), 0.0, enough, xtol=1e-13, rtol=1e-14
    )
    return float(root) * (1.0 + 1e-12) + 1e-12
