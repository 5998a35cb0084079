"""The law of residual masks: how much noise is left in a sum whose masks cancel as well as gains agree."""

import math
from typing import Final

BITES: Final = 2.0
"""Times the noise of exact gains from which on another way to send is advised."""


def times_the_noise(workers: int, gain_error: float) -> float:
    """Return 1 + sqrt(N) g: the deviation of the noise in the sum, over that with exact gains, at the same privacy.

    g is the deviation of the workers' gains over their mean, in phase: only the real part of what arrives is used.
    Workers add noise of variance s^2 and k masks of variance e^2 each. Privacy fixes

        1 / (N s^2) + 1 / (k e^2) = 1 / sigma_0^2,

    of which masks are to have the share w: N s^2 = sigma_0^2 / (1 - w) and k e^2 = sigma_0^2 / w. In the sum a mask of
    workers i and j leaves (x_i - x_j) of itself, of mean square 2 g^2, and there are k N / 2 masks. With r = sqrt(N) g
    the variance of own noise and residual masks is

        sigma_0^2 (1 / (1 - w) + r^2 / w),    least at w = r / (1 + r), where it is sigma_0^2 (1 + r)^2.

    Large masks leave more behind, small ones hide less, so that more own noise must. (s^2 g^2 N is left out, and so are
    self masks, which recovery adds: they leave r^2 sigma_0^2 more.)
    """
    return 1.0 + math.sqrt(workers) * gain_error


def best_mask_share(workers: int, gain_error: float) -> float:
    """Return w = r / (1 + r), the share of the privacy loss that masks have where they leave least noise."""
    return 1.0 - 1.0 / times_the_noise(workers, gain_error)


def mask_advice(workers: int, gain_error: float) -> str:
    """Return in one line what gain errors make of masks, and what to do; empty where they do not double the noise."""
    times = times_the_noise(workers, gain_error)
    if times < BITES:
        return ""
    much = f"{times:.0f}" if times >= 10.0 else f"{times:.1f}"
    return (
        f"{100.0 * gain_error:.2g} % of gain error leaves {much} times the noise of exact gains in the sum of "
        f'{workers:,} masked workers; use integers over a digital link (radio.link = "digital")'
    )
