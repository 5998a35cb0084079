"""What a plan derives of a scenario once, and what the air leaves of a slot: its length, and how much signal arrives.

Between two resynchronisations phases drift apart. The longer a block, the less of the sum is left at its end: the mean
gain of the workers falls, and the noise stays. An air that never resynchronises within a slot bounds its length.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import torch

from airmixml.arrays import Doubles
from airmixml.impairments.fading import path_gain, worker_path_gain
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gains import SeatDraws, draw_gains
from airmixml.radio.system import System
from airmixml.radio.tally import placed_distances
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Scenario
from airmixml.streams import Streams

_SEATS: Final = 512


@dataclass(frozen=True, kw_only=True)
class FramePlan:
    """A slot of a scenario on its air."""

    data_symbols: int  # symbols of what a worker sends
    symbols: int  # all symbols on the air, pilots and guards too
    blocks: int  # how many blocks with a pilot of their own
    seconds: float  # how long the slot lasts
    signal_loss_db: float  # power that drifting phases and absent workers take from the sum
    margin_db: float  # by how much less power is sent, so that no gain breaks the privacy target


@dataclass(frozen=True)
class Sizing:
    """A scenario, and what follows from it and from the dimensions of its data alone."""

    scenario: Scenario
    input_dim: int  # d_X as it leaves the encoder
    label_dim: int  # d_Y

    @property
    def system(self) -> System:
        """What follows from them for every command: signal, sensitivity, energy and more."""
        return System.of(self.scenario, self.input_dim, self.label_dim)

    @cached_property
    def path_gain(self) -> Doubles:
        """Amplitude gain of every worker's path; shape workers."""
        return worker_path_gain(self.scenario, self.distance_metres)

    @cached_property
    def distance_metres(self) -> Doubles:
        """How far from the server each worker stands; shape workers."""
        return placed_distances(self.scenario)

    @cached_property
    def signal_loss(self) -> float:
        """The power of an ideal sum over that of the mean gain, averaged over a slot; 1 for nothing lost.

        It is estimated from 512 workers at the mean distance, so a sum of which less than 1/512 is left counts as that.
        """
        scenario = self.scenario
        if scenario.air.is_ideal:
            return 1.0
        gain = float(path_gain(scenario.radio, self.distance_metres.mean(keepdims=True))[0])
        channel = torch.full((1, _SEATS), gain, dtype=torch.float64)
        gains = draw_gains(
            scenario,
            SeatDraws(
                slots=range(1),
                frame=frame_of(scenario.air, self.system.signal.symbols),
                workers=torch.arange(_SEATS)[None] % scenario.workers.count,
                magnitude=channel,
                path_gain=channel,
                source=slot_words(Streams(scenario.seed), "air"),
                in_slot=_SEATS,
            ),
        )
        left = float(gains.mean(dim=1).abs().square().mean()) * (1.0 - scenario.air.absent) ** 2
        return 1.0 / max(left, 1.0 / _SEATS)

    def frame(self) -> FramePlan | None:
        """Return what the scenario's air makes of a slot; None on the ideal air."""
        scenario, signal = self.scenario, self.system.signal
        if scenario.air.is_ideal:
            return None
        return FramePlan(
            data_symbols=signal.symbols,
            symbols=self.system.symbols_on_air,
            blocks=frame_of(scenario.air, signal.symbols).block_count,
            seconds=self.system.slot_seconds,
            signal_loss_db=10.0 * math.log10(self.signal_loss),
            margin_db=10.0 * math.log10(self.system.gain_bound),
        )
