"""The channel |h| = sqrt(beta_U) d^(-n/2) |g|: path loss fixed by the distance, block fading new in each slot."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers
from airmixml.scenario import Radio
from airmixml.units import db_to_ratio


@dataclass(frozen=True, kw_only=True)
class ChannelRealisation:
    """Channel of each scheduled worker in each slot, constant over the slot."""

    magnitude: Doubles  # |h|; slots x scheduled
    phase_radians: Doubles | None = None  # arg h; slots x scheduled, or None: not drawn, since workers cancel it

    @property
    def gain(self) -> NDArray[np.complex128]:
        """H, complex; slots x scheduled."""
        if self.phase_radians is None:
            return self.magnitude.astype(np.complex128)
        return np.asarray(self.magnitude * np.exp(1j * self.phase_radians))


def path_gain(distance_metres: Doubles, path_loss_exponent: float, unit_path_loss_db: float) -> Doubles:
    """Return sqrt(beta_U) d^(-n/2), the amplitude gain without fading; same shape as the distances."""
    return np.asarray(math.sqrt(db_to_ratio(unit_path_loss_db)) * distance_metres ** (-path_loss_exponent / 2.0))


def draw_fading(fading: str, rician_k: float, shape: tuple[int, ...], rng: np.random.Generator) -> Doubles:
    """Draw |g| with E|g|^2 = 1.

    ``none`` is 1. ``rayleigh`` is |CN(0, 1)|. ``rician`` is |sqrt(K/(K+1)) + CN(0, 1/(K+1))|: K = 0 is Rayleigh,
    K = infinity is none.
    """
    if fading == "none":
        return np.ones(shape)
    if fading == "rayleigh":
        return np.sqrt(rng.standard_exponential(shape))
    scattered_share = 1.0 / (1.0 + rician_k)
    scattered = math.sqrt(scattered_share / 2.0) * rng.standard_normal((*shape, 2))
    return np.asarray(np.hypot(math.sqrt(1.0 - scattered_share) + scattered[..., 0], scattered[..., 1]))


def draw_phase(shape: tuple[int, ...], rng: np.random.Generator) -> Doubles:
    """Draw arg h: uniform and independent of |h|, because the phase of the direct path itself is uniform."""
    return rng.uniform(0.0, 2.0 * math.pi, shape)


def generate_channel(
    radio: Radio,
    worker_path_gain: Doubles,
    scheduled_workers: Integers,
    fading_rng: np.random.Generator,
    phase_rng: np.random.Generator | None = None,
) -> ChannelRealisation:
    """Generate the channel of the scheduled workers (slots x scheduled) from each worker's path gain."""
    shape = scheduled_workers.shape
    magnitude = worker_path_gain[scheduled_workers]
    if radio.fading != "none":
        magnitude = magnitude * draw_fading(radio.fading, radio.rician_k, shape, fading_rng)
    return ChannelRealisation(
        magnitude=magnitude, phase_radians=None if phase_rng is None else draw_phase(shape, phase_rng)
    )
