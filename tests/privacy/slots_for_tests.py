"""What several tests of privacy share: slots, worse slots, an independent epsilon, and the check of a calibration."""

import math
from dataclasses import replace
from functools import lru_cache

import mpmath

from airmixml.privacy import Adversary, Design, GaussianSlots, calibrate_power, state_privacy


def hidden(
    squared_shifts: tuple[float, ...],
    counts: tuple[int, ...],
    sampled: int,
    population: int,
    adjacency: str = "replace-one",
) -> GaussianSlots:
    return GaussianSlots(
        squared_shifts=squared_shifts,
        counts=counts,
        adjacency=adjacency,
        sampling="without-replacement",
        sampled=sampled,
        population=population,
    )


def stronger(mechanism: GaussianSlots, factor: float) -> GaussianSlots:
    return replace(mechanism, squared_shifts=tuple(factor * s for s in mechanism.squared_shifts))


def worse_versions(mechanism: GaussianSlots, factor: float) -> dict[str, GaussianSlots]:
    """Return slots that tell more, by what was changed."""
    return {
        "more power": stronger(mechanism, factor),
        "more slots": replace(mechanism, counts=tuple(math.ceil(factor * count) for count in mechanism.counts)),
        "more sampled": replace(mechanism, sampled=min(mechanism.population, math.ceil(factor * mechanism.sampled))),
        "fewer to hide among": replace(
            mechanism, population=max(mechanism.sampled, math.floor(mechanism.population / factor))
        ),
        "one kind more": replace(
            mechanism,
            squared_shifts=(*mechanism.squared_shifts, 0.1),
            counts=(*mechanism.counts, math.ceil(10 * factor)),
        ),
    }


@lru_cache
def gaussian_epsilon_with_many_digits(total: float, delta: float) -> mpmath.mpf:
    """Epsilon at which Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) is delta, by halving an interval."""
    with mpmath.workdps(60):
        mu = mpmath.sqrt(mpmath.mpf(total))

        def gap(epsilon: mpmath.mpf) -> mpmath.mpf:
            first = mpmath.ncdf(mu / 2 - epsilon / mu)
            return first - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu) - mpmath.mpf(delta)

        if gap(mpmath.mpf(0)) <= 0:
            return mpmath.mpf(0)
        low, high = mpmath.mpf(0), mu**2 / 2 + mu * mpmath.sqrt(2 * mpmath.log(1 / mpmath.mpf(delta)))
        for _ in range(90):
            middle = (low + high) / 2
            low, high = (middle, high) if gap(middle) > 0 else (low, middle)
        return high


def spent(design: Design, adversary: Adversary, accountant: str, adjacency: str, delta: float) -> float:
    return state_privacy(design, adversary, accountant, adjacency=adjacency, delta=delta).epsilon


def assert_calibrated(
    design: Design, adversary: Adversary, accountant: str, adjacency: str, epsilon: float, delta: float
) -> None:
    factor = calibrate_power(design, adversary, accountant, adjacency=adjacency, epsilon=epsilon, delta=delta)
    assert spent(design.scaled(factor), adversary, accountant, adjacency, delta) <= epsilon
    assert spent(design.scaled(1.01 * factor), adversary, accountant, adjacency, delta) > epsilon
