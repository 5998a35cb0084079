"""How much noise a slot's sum is expected to hold before anything is drawn, and where it comes from.

All are powers per complex symbol in watts, over the power of the mean gain that the server divides by: compare them
with beta. With gains that differ by g (``impairments.gain_spread``), a share a of the workers absent, own noise s^2,
k masks of e^2 and a self mask of b^2 per worker, what ``radio.residual_noise`` draws is on average

    2 N s^2 (1 + g^2) / (1 - a)     own noise
    2 N (k e^2 + b^2) g^2 / (1 - a) what errors of the gains leave of masks
    2 N k e^2 a / (1 - a)           masks shared with absent workers, where nobody recovers them
"""

from dataclasses import dataclass
from typing import Any

from airmixml.arrays import dbm_to_watts
from airmixml.impairments.fading_floor import silent_share
from airmixml.radio.masking import masking_of
from airmixml.scenario import Scenario

_MOST_SILENT = 0.999


@dataclass(frozen=True, kw_only=True)
class ExpectedNoise:
    """Noise in the sum, by where it comes from, in watts per complex symbol."""

    receiver_watts: float  # at the receiver, as stated, with interference
    own_watts: float = 0.0  # that of the workers, which is there on any air
    gains_watts: float = 0.0  # what errors of the gains, and converters, leave of masks
    absent_watts: float = 0.0  # masks that absent workers leave behind

    @property
    def total_watts(self) -> float:
        """All of it."""
        return self.receiver_watts + self.own_watts + self.gains_watts + self.absent_watts

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**vars(self), "total_watts": self.total_watts}


def expected_noise(scenario: Scenario, signal_loss: float = 1.0) -> ExpectedNoise:
    """Return the noise in the sum of a slot; ``signal_loss`` is what the air takes from the power of the signal."""
    masking = masking_of(scenario)
    noise, nominal_watts = scenario.privacy.noise_kind, dbm_to_watts(scenario.radio.noise_dbm)
    nominal_watts += dbm_to_watts(scenario.air.interference_dbm)
    receiver_watts = noise.receiver_watts(scenario, nominal_watts) * signal_loss
    if masking is None:
        return ExpectedNoise(receiver_watts=receiver_watts)
    seats, silent, spread, rounded_watts = scenario.radio.scheduled, 0.0, 0.0, 0.0
    if not scenario.air.is_ideal:
        from airmixml.impairments.gain_spread import gain_spread  # here: they need torch
        from airmixml.radio.residual_noise import converter_watts

        silent, spread = min(silent_share(scenario), _MOST_SILENT), gain_spread(scenario)
        if scenario.air.dac_bits:
            rounded_watts = converter_watts(masking, scenario.air.dac_bits)
    each = 2.0 * seats / (1.0 - silent)
    pairs_watts = 0.0 if masking.graph is None else masking.graph.degree * masking.pair_watts
    return ExpectedNoise(
        receiver_watts=receiver_watts,
        own_watts=each * masking.own_watts * (1.0 + spread),
        gains_watts=each * ((pairs_watts + masking.self_watts) * spread + rounded_watts),
        absent_watts=0.0 if scenario.privacy.most_absent else each * pairs_watts * silent,
    )
