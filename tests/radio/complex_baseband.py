"""Eq. (1) in complex baseband, symbol by symbol: what the fast real path of the package is compared with."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from airmixml.arrays import Doubles


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


def receive_baseband(
    symbols: NDArray[np.floating], power_watts: Doubles, channel: ChannelRealisation, noise_watts: float, rng: Generator
) -> NDArray[np.complex128]:
    """Return y of Eq. (1), symbol by symbol in complex baseband; slots x symbols.

    Each worker turns its signal by -arg h, so that the channel adds up amplitudes sqrt(P) |h|; the noise is
    CN(0, sigma_n^2) per symbol. What workers hold is slots x scheduled x symbols; P, and h with its phase, are slots x
    scheduled.
    """
    cancelled = np.exp(-1j * np.angle(channel.gain))
    sent = (np.sqrt(power_watts) * cancelled)[:, :, None] * symbols
    arriving = np.einsum("ts,tsd->td", channel.gain, sent)
    parts = rng.standard_normal((*arriving.shape, 2)) * np.sqrt(noise_watts / 2.0)
    return np.asarray(arriving + parts[..., 0] + 1j * parts[..., 1])


def received_amplitude(power_watts: Doubles, magnitude: Doubles) -> Doubles:
    """Return the normaliser b_t = sum_i sqrt(P_i) |h_i|, which is sqrt(beta) under our power control; shape slots."""
    return np.asarray(np.sum(np.sqrt(power_watts) * magnitude, axis=1))


def normalise_baseband(received: NDArray[np.complex128], power_watts: Doubles, channel: ChannelRealisation) -> Doubles:
    """Take the real part and divide by b_t: Eqs. (mixup_input), (mixup_label) and the arguments of Eq. (opt)."""
    return np.asarray(received.real / received_amplitude(power_watts, channel.magnitude)[:, None])
