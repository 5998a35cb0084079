"""The air adds up what the workers send: Eq. (1) in complex baseband, and the fast real path equal to it in law."""

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from airmixml.arrays import Doubles
from airmixml.radio.channel import ChannelRealisation


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


def receive_mixtures(
    clean: torch.Tensor,
    standard_noise: torch.Tensor,
    power_scale_watts: torch.Tensor,
    noise_watts: float,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return sum_i q_i s_i + n / sqrt(beta), Eqs. (DirPC_input_sample) and (DirPC_label_sample); slots x symbols.

    The real part of the noise has variance sigma_n^2 / 2, so this is the real path, equal in distribution to
    ``normalise_baseband(receive_baseband(...))``. The mixture without noise and the independent standard normal values
    are slots x symbols; beta has shape slots; sigma_n^2 is per complex symbol.
    """
    deviation = torch.sqrt(noise_watts / 2.0 / power_scale_watts).to(clean.dtype)
    return torch.addcmul(clean, standard_noise, deviation[:, None], out=out)
