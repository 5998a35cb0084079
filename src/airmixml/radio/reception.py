"""What the server receives in a slot: the sum of what workers send, with whichever noise lies on it.

The air lets workers arrive: the ideal one in one piece, with gain 1 (``impaired_reception`` has the other). ``receive``
puts noise on the sum: as the scenario's ``Noise`` does it, or one that is known beforehand (the receiver's, and on the
ideal air that of the workers, whose masks cancel), or one which the server must measure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from airmixml.radio.power import PowerControl
from airmixml.workers.payloads import Payload


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """Consecutive slots before any noise: who sent what, and the sum over the mean gain, slots x symbols."""

    slots: range
    payload: Payload
    index: torch.Tensor
    clean: torch.Tensor

    def receive(
        self, setting: Any, drawn: PowerControl, normals: torch.Tensor, place: torch.Tensor | None
    ) -> Reception:
        """Return the sums with noise on them, of exact gains: sum_i q_i v_i + n / sqrt(beta), where masks cancel."""
        noise_watts = setting.noise.in_sum_watts(setting.scenario)
        received = receive_mixtures(self.clean, normals, drawn.power_scale_watts, noise_watts, place)
        return Reception(clean=self.clean, received=received)


@dataclass(frozen=True, kw_only=True)
class Reception:
    """Mixtures of consecutive slots as the server has them."""

    clean: torch.Tensor  # without noise, which no receiver ever sees; slots x symbols
    received: torch.Tensor  # with it; slots x symbols
    # Of noise and distortion on a symbol as measured, or of noise and rounding; slots. None: that of the powers.
    noise_variance: torch.Tensor | None = None
    # Signal over noise energy of inputs and labels, 2 x slots, where it does not follow from the power scale.
    snr: torch.Tensor | None = None
    divisor: torch.Tensor | None = None  # mean gain that was divided by, complex; slots x pieces, or x 1. None: none


def receive(setting: Any, arrival: Arrival, drawn: Any, normals: torch.Tensor, place: torch.Tensor | None) -> Reception:
    """Return the sums with noise on them, from standard normal values (slots x symbols), in ``place`` if it fits."""
    own: Reception | None = setting.noise.receive(setting, arrival, drawn, normals, place)
    if own is not None:
        return own
    return arrival.receive(setting, drawn, normals, place if arrival.clean.dtype == normals.dtype else None)


def receive_mixtures(
    clean: torch.Tensor,
    standard_noise: torch.Tensor,
    power_scale_watts: torch.Tensor,
    noise_watts: float,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return sum_i q_i s_i + n / sqrt(beta), Eqs. (DirPC_input_sample) and (DirPC_label_sample); slots x symbols.

    The real part of the noise has variance sigma_n^2 / 2, per complex symbol sigma_n^2, so this is equal in
    distribution to the real part of Eq. (1), divided by b_t.
    """
    deviation = torch.sqrt(noise_watts / 2.0 / power_scale_watts).to(clean.dtype)
    return torch.addcmul(clean, standard_noise, deviation[:, None], out=out)


def signal_power(clean: torch.Tensor, inputs: int) -> torch.Tensor:
    """Return the mean square of a symbol of the inputs and of the labels; 2 x slots."""
    parts = (clean[:, :inputs], clean[:, inputs:] if inputs < clean.shape[1] else clean)
    return torch.stack([part.double().square().mean(dim=1) for part in parts])
