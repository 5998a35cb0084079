"""What an air leaves of a slot: how long it becomes, how much of the signal arrives, and how long it may be.

Between two resynchronisations phases drift apart. The longer a block, the less of the sum is left at its end: the mean
gain of the workers falls, and the noise stays. An air that never resynchronises within a slot bounds its length.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import torch

from airmixml.arrays import Doubles
from airmixml.impairments.frame import frame_of
from airmixml.impairments.gains import SeatDraws, draw_gains
from airmixml.radio.path_loss import path_gain
from airmixml.radio.privacy_target import gain_bound, slot_seconds, symbols_on_air
from airmixml.randomness.slot_words import slot_words
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import Signal, encoder_of

_SEATS: Final = 512
_MOST_LOSS_DB: Final = 1.0
_FEATURES: Final = (1536, 1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32, 16, 8)


@dataclass(frozen=True, kw_only=True)
class FramePlan:
    """A slot of a scenario on its air.

    Attributes:
        data_symbols: symbols of what a worker sends.
        symbols: all symbols on the air, pilots and guards too.
        blocks: how many blocks with a pilot of their own.
        seconds: how long the slot lasts.
        signal_loss_db: power that drifting phases and absent workers take from the sum.
        margin_db: by how much less power is sent, so that no gain breaks the privacy target.
        features: the most features with which the loss stays below 1 dB; 0 where the scenario's own do, or none would.
    """

    data_symbols: int
    symbols: int
    blocks: int
    seconds: float
    signal_loss_db: float
    margin_db: float
    features: int

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values for JSON."""
        return dict(vars(self))


def plan_frame(scenario: Scenario, input_dim: int, label_dim: int, distance_metres: Doubles) -> FramePlan | None:
    """Return what the scenario's air makes of a slot; None on the ideal air. Distances have the shape workers."""
    if scenario.air.is_ideal:
        return None
    signal = Signal.of(scenario.workers, input_dim, label_dim)
    frame, distance = frame_of(scenario.air, signal.symbols), float(distance_metres.mean())
    loss_db = 10.0 * math.log10(signal_loss(scenario, signal.symbols, distance))
    return FramePlan(
        data_symbols=signal.symbols,
        symbols=symbols_on_air(scenario, signal),
        blocks=frame.block_count,
        seconds=slot_seconds(scenario, signal),
        signal_loss_db=loss_db,
        margin_db=10.0 * math.log10(gain_bound(scenario)),
        features=_fitting_features(scenario, signal, distance) if loss_db > _MOST_LOSS_DB else 0,
    )


@lru_cache(maxsize=256)
def signal_loss(scenario: Scenario, symbols: int, distance_metres: float) -> float:
    """Return the power of an ideal sum over that of the mean gain, averaged over a slot of so many symbols.

    It is estimated from 512 workers at that distance, so a sum of which less than 1/512 is left counts as that.
    """
    if scenario.air.is_ideal:
        return 1.0
    radio = scenario.radio
    gain = float(
        path_gain(torch.tensor([distance_metres]).numpy(), radio.path_loss_exponent, radio.unit_path_loss_db)[0]
    )
    channel = torch.full((1, _SEATS), gain, dtype=torch.float64)
    gains = draw_gains(
        scenario,
        SeatDraws(
            slots=range(1),
            frame=frame_of(scenario.air, symbols),
            workers=torch.arange(_SEATS)[None] % scenario.workers.count,
            magnitude=channel,
            path_gain=channel,
            source=slot_words(Streams(scenario.seed), "air"),
            in_slot=_SEATS,
        ),
    )
    left = float(gains.mean(dim=1).abs().square().mean()) * (1.0 - scenario.air.absent) ** 2
    return 1.0 / max(left, 1.0 / _SEATS)


def _fitting_features(scenario: Scenario, signal: Signal, distance_metres: float) -> int:
    """Return the most features, fewer than now, with which an air carries the slot; 0 where their number is fixed."""
    if not encoder_of(scenario.workers).takes_features:
        return 0
    for features in _FEATURES:
        if features < signal.features:
            loss = signal_loss(scenario, replace(signal, features=features).symbols, distance_metres)
            if 10.0 * math.log10(loss) <= _MOST_LOSS_DB:
                return features
    return 0
