"""Noise that hides workers: a class for each kind, behind the registry ``NOISES``.

It knows what lies on the sum of a slot, what it says of privacy, which power and symbols it takes, and what it refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from airmixml.arrays import dbm_to_watts
from airmixml.errors import ScenarioError
from airmixml.radio.air import air_of
from airmixml.streams import Streams

if TYPE_CHECKING:
    import torch

    from airmixml.privacy import Sensitivity, facts
    from airmixml.radio.masking import Masking
    from airmixml.scenario import Air, Mixing, Privacy, Radio, Scenario, Workers
    from airmixml.streams import Secret

_FLOOR_CHAPTER: Final = 1  # of the stream "air"


class Noise:
    """The receiver's noise alone; other kinds inherit from it and change what differs."""

    about = "the receiver's noise"
    rests_on = "receiver noise"  # what hides a worker, for a table
    trusted = "the stated receiver noise, and that nobody listens nearer"  # what must be true for an epsilon to hold
    brought = False  # whether workers bring it, which hides them from an isolating listener as well
    masked = False  # whether they share masks that cancel in the sum
    real = True  # whether it lies on real numbers; integers are rounded before they are added up

    def on_integers(self, privacy: Privacy) -> Noise:
        """Return the same noise on integers, or refuse (``privacy.arithmetic``)."""
        raise ScenarioError(
            f'privacy.noise = "{privacy.noise}": must be "masked" or "workers" for privacy.arithmetic = "integers": '
            "workers bring integer noise"
        )

    def check(self, workers: Workers, radio: Radio, air: Air, mixing: Mixing, privacy: Privacy) -> None:
        """Refuse what does not go with it, and name the key to change."""
        for name in ("modulus_bits", "sum_range"):
            if self.real and getattr(privacy, name):
                raise ScenarioError(
                    f'privacy.{name} = {getattr(privacy, name):g}: must be 0 for privacy.arithmetic = "real"; it is '
                    'for "integers"'
                )
        if privacy.adversary == "everyone" and not self.brought:
            raise ScenarioError(
                'privacy.adversary = "everyone": needs privacy.noise = "masked" or "workers"; the noise of a receiver '
                "hides no worker from an adversary who hears each worker alone"
            )

    def trust(self, privacy: Privacy, adversary: str) -> str:
        """Return what must be true for an epsilon against an adversary to hold."""
        if adversary != "eavesdropper":
            return "the stated receiver noise"
        nearest = f"that nobody listens nearer than {privacy.eavesdropper_distance_metres:g} m"
        return f"the stated receiver noise ({privacy.eavesdropper_noise_dbm:g} dBm), and {nearest}"

    def receiver_watts(self, scenario: Scenario, thermal_watts: float) -> float:
        """Return the noise power per complex symbol of a server's receiver whose own is ``thermal_watts``."""
        return thermal_watts

    def stated_watts(self, scenario: Scenario) -> float:
        """Return the same where the receiver's own is the least that it may have: statements assume it."""
        least_dbm = scenario.radio.noise_dbm - scenario.air.noise_uncertainty_db
        return self.receiver_watts(scenario, dbm_to_watts(least_dbm))

    def drawn_watts(self, scenario: Scenario) -> float:
        """Return the same as a run draws the receiver's own."""
        return self.receiver_watts(scenario, true_noise_watts(scenario))

    def in_sum_watts(self, scenario: Scenario) -> float:
        """Return the noise power per complex symbol in the sum of a slot whose workers all send as planned."""
        return self.drawn_watts(scenario)

    def masking(self, scenario: Scenario, secret: Secret | None = None) -> Masking | None:
        """Return what workers add to real numbers to hide themselves; None: nothing."""
        return None

    def sums(self, scenario: Scenario, sensitivity: Sensitivity) -> Any | None:
        """Return the ``IntegerSums`` that workers send integers for; None where they send none."""
        return None

    def check_secret(self, scenario: Scenario, secret: Secret) -> None:
        """Refuse a protected run whose draws may leave workers unhidden."""

    def rounded(self, moves: Sensitivity, symbols: int) -> Sensitivity:
        """Return what one worker can move in so many symbols, where it could move so much without this noise."""
        return moves

    def probes(self, scenario: Scenario, data_symbols: int) -> int:
        """Return the symbols of a slot without data on which the server measures noise."""
        return 0

    def symbols_on_air(self, scenario: Scenario, sensitivity: Sensitivity, data_symbols: int) -> int:
        """Return the symbols that a slot takes: with data and without, pilots, guards."""
        return air_of(scenario).symbols(scenario, data_symbols) + self.probes(scenario, data_symbols)

    def needed_watts(self, scenario: Scenario, sensitivity: Sensitivity, floor: float | None = None) -> float | None:
        """Return the beta max q^2 that it needs, refused if above the limit; None: the privacy target decides."""
        return None

    def facts(self, scenario: Scenario, sensitivity: Sensitivity, received_watts: float) -> Iterator[facts.Fact]:
        """Yield what it says of privacy, besides the noise of the receiver (``stated_watts``)."""
        return iter(())

    def receive(
        self, setting: Any, arrival: Any, drawn: Any, normals: torch.Tensor, place: torch.Tensor | None
    ) -> Any | None:
        """Return the ``Reception`` of sums, where ``radio.air.receive`` does not know how; see there."""
        return None


RECEIVER: Final = Noise()


def true_noise_watts(scenario: Scenario) -> float:
    """Return the noise power per complex symbol of this run, with that of interference.

    Where it is known only within so many dB, a run draws it once, uniform in dB: no server knows what it really is.
    Statements assume the lowest, and learners measure it. Interference disturbs learners like noise, and protects
    nobody: a server may know what others send, and take it off.
    """
    drawn_watts = _drawn(scenario.radio.noise_dbm, scenario.air.noise_uncertainty_db, scenario.seed)
    return drawn_watts + dbm_to_watts(scenario.air.interference_dbm)


@lru_cache(maxsize=256)
def _drawn(nominal_dbm: float, within_db: float, seed: int) -> float:
    if not within_db:
        return dbm_to_watts(nominal_dbm)
    off_db = Streams(seed).generator("air", _FLOOR_CHAPTER).uniform(-within_db, within_db)
    return dbm_to_watts(nominal_dbm + float(off_db))


@dataclass(frozen=True, kw_only=True)
class ExpectedNoise:
    """Noise in the sum of a slot before anything is drawn, by where it comes from, in watts per complex symbol.

    All are over the power of the mean gain that the server divides by: compare them with beta. With gains that differ
    by g (``IdealAir.spread``), a share a of the workers absent, own noise s^2, k masks of e^2 and a self mask of b^2
    per worker, what ``radio.transmitters`` draws is on average

        2 N s^2 (1 + g^2) / (1 - a)     own noise
        2 N (k e^2 + b^2) g^2 / (1 - a) what errors of the gains leave of masks
        2 N k e^2 a / (1 - a)           masks shared with absent workers, where nobody recovers them
    """

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
    noise: Noise = scenario.privacy.noise_kind
    masking = noise.masking(scenario)
    nominal_watts = dbm_to_watts(scenario.radio.noise_dbm) + dbm_to_watts(scenario.air.interference_dbm)
    receiver_watts = noise.receiver_watts(scenario, nominal_watts) * signal_loss
    if masking is None:
        return ExpectedNoise(receiver_watts=receiver_watts)
    air = air_of(scenario)
    spread, silent = air.spread(scenario)
    rounded_watts = masking.rounded_watts(scenario.air.dac_bits)
    each = 2.0 * scenario.radio.scheduled / (1.0 - silent)
    pairs_watts = 0.0 if masking.graph is None else masking.graph.degree * masking.pair_watts
    return ExpectedNoise(
        receiver_watts=receiver_watts,
        own_watts=each * masking.own_watts * (1.0 + spread),
        gains_watts=each * ((pairs_watts + masking.self_watts) * spread + rounded_watts),
        absent_watts=0.0 if scenario.privacy.most_absent else each * pairs_watts * silent,
    )
