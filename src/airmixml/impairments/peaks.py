"""Peak power: what a transmitter clips, of single symbols and of the sum of many subcarriers.

Clipping a real number to [-A, A], or a complex one to the disc of radius A, is a projection on a convex set. It
shortens vectors and never sets two of them farther apart, so every declared norm and every sensitivity still holds; A
follows from power, which depends on nobody's data.
"""

import math

import torch

from airmixml.scenario import Scenario
from airmixml.units import dbm_to_watts


def peak_amplitude(scenario: Scenario, power_watts: torch.Tensor) -> torch.Tensor | None:
    """Return A = sqrt(P_peak / P), where a symbol of amplitude 1 is sent with power P; None without a limit.

    Powers and amplitudes are slots x scheduled; who sends nothing has no limit.
    """
    limit_dbm = scenario.air.peak_power_dbm
    if math.isinf(limit_dbm):
        return None
    return (dbm_to_watts(limit_dbm) / power_watts.double()).sqrt()


def clipped_gaussian(squared_limit: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return gain and variance of the error where CN(0, 1) is clipped to magnitude sqrt(r), r of any shape.

    Bussgang: a = E[|x| min(|x|, A)] = 1 - exp(-r) + sqrt(pi r) / 2 erfc(sqrt(r)), and the error has
    E[min(|x|, A)^2] - a^2 = 1 - exp(-r) - a^2 (Ochiai and Imai 2002).
    """
    kept = -torch.expm1(-squared_limit)
    root = squared_limit.sqrt()
    tail = torch.where(torch.isinf(root), 0.0, math.sqrt(math.pi) / 2.0 * root * torch.erfc(root))
    gain = kept + tail
    return gain, (kept - gain.square()).clamp(min=0.0)


def gaussian_peak(samples: int) -> float:
    """Return the expected largest power among so many samples of a Gaussian waveform, over its mean.

    The largest of n exponentials of mean 1 has the mean 1 + 1/2 + ... + 1/n, near ln n + 0.577.
    """
    return math.log(samples) + 0.5772156649015329
