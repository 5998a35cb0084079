"""A noise: a friendly jammer beside the server, which sends noise of ten times the power of the receiver's own."""

from airmixml.radio.air import Noise
from airmixml.scenario import Privacy, Scenario
from airmixml.arrays import dbm_to_watts

TIMES = 10.0


class FriendlyJammer(Noise):
    """Workers may send ten decibels louder; only the server is jammed, an eavesdropper near the workers is not."""

    about = "the receiver's noise, and that of a jammer beside it"
    rests_on = "receiver and jammer"

    def receiver_watts(self, scenario: Scenario, thermal_watts: float) -> float:
        """Return the noise power per complex symbol of a server whose receiver has ``thermal_watts`` of its own."""
        return thermal_watts + TIMES * dbm_to_watts(scenario.radio.noise_dbm)

    def trust(self, privacy: Privacy, adversary: str) -> str:
        """Return what must be true for an epsilon to hold."""
        if adversary == "eavesdropper":
            return super().trust(privacy, adversary)
        return "that the jammer sends, and that the server cannot subtract its noise"
