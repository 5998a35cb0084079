"""How much the gains of an air's workers differ from each other: what is left of masks goes with it."""

from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
import torch

from airmixml.impairments.frame import frame_of
from airmixml.impairments.gains import SeatDraws, draw_gains
from airmixml.impairments.timing import pulse_expansion, smears, timing_factors
from airmixml.randomness.slot_words import CPU, slot_words
from airmixml.scenario import Scenario
from airmixml.streams import Streams

_SEATS: Final = 512
_SYMBOLS: Final = 4096
_LEVELS: Final = 256
_ANY: Final = Scenario(name="any")


def gain_spread(scenario: Scenario) -> float:
    """Return about the variance of what arrives of a unit symbol over the square of its mean.

    Of a few hundred workers that are drawn for it, in the first symbols of a slot: a choice of design, not a bound.
    """
    # Who sends what, and how often, does not matter: plans ask for many such designs on one air.
    radio = replace(scenario.radio, slots=1, scheduled=0, max_participations=0, schedule="fixed", slot_seconds=0.0)
    place = {name: getattr(scenario.workers, name) for name in ("side_metres", "min_distance_metres")}
    return _gain_spread(replace(_ANY, workers=replace(_ANY.workers, **place), radio=radio, air=scenario.air))


@lru_cache(maxsize=16)
def _gain_spread(scenario: Scenario) -> float:
    air = scenario.air
    ones = torch.ones((1, _SEATS), dtype=torch.float64)
    draws = SeatDraws(
        slots=range(1),
        frame=frame_of(air, _SYMBOLS),
        workers=torch.arange(_SEATS)[None, :],
        magnitude=ones,
        path_gain=ones,
        source=slot_words(Streams(0), "masks", CPU),
        in_slot=_SEATS,
    )
    arrives = draw_gains(scenario, draws).real[0].numpy()  # seats x pieces
    if air.power_step_db:
        below_db = air.power_step_db * (np.arange(_SEATS) % _LEVELS + 0.5) / _LEVELS
        arrives = arrives * 10.0 ** (-below_db[:, None] / 20.0)
    pulse = np.ones((_SEATS, 1))
    if smears(air):
        filters = pulse_expansion(air.roll_off, air.timing_offset_symbols).filters
        offsets = 2.0 * torch.arange(_SEATS).double() / (_SEATS - 1) - 1.0
        pulse = timing_factors(air, offsets).numpy() @ filters
    taps = arrives[:, :, None] * pulse[:, None, :]  # seats x pieces x symbols around
    mean = taps.mean(axis=0)
    variance, power = np.square(taps - mean).sum(axis=2).mean(axis=0), np.square(mean).sum(axis=1)
    heard = power > 0.0  # where all workers are absent or late, there is nothing that could differ
    return float((variance[heard] / power[heard]).mean()) if heard.any() else 0.0
