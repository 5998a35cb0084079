"""The slot that estimates a mean, on an air that is not ideal: who is absent, with which gains others are received.

Every worker has a seat. The server receives sum_i g_ip x_i(p) / N in each piece p, with noise, and divides it by the
mean gain that the pilot of the block tells and by its expected drift, as in every other slot.
"""

import math
from dataclasses import replace
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles, Singles
from airmixml.impairments.frame import expected_drift, frame_of
from airmixml.impairments.gains import SeatDraws
from airmixml.impairments.presence import impair
from airmixml.radio.impaired_reception import pilot_normals, trusted_gain
from airmixml.radio.path_loss import worker_path_gain
from airmixml.randomness.slot_words import CPU, slot_words
from airmixml.scenario import Scenario
from airmixml.streams import Streams
from airmixml.workers import Population
from airmixml.workers.private_sums import add_up_rows, rounding_backoff

_OF_THE_MEAN: Final = 2  # kind of slot, beside the scenario's own and rounds


def impaired_mean(
    scenario: Scenario,
    inputs: Singles,
    population: Population,
    power_watts: Doubles,
    noise: Doubles,
    pilot_deviation: float,
    radiated_share: float,
    streams: Streams,
) -> Doubles:
    """Return the mean of the workers' inputs as the server estimates it; shape inputs.

    ``noise`` is that on the mean of N workers (features), ``pilot_deviation`` that on a pilot if the slot had but one,
    in the same unit. The slot comes before all others; where gains are drawn its number is the one after the last.
    """
    radio, count, features = scenario.radio, population.count, inputs.shape[1]
    source, frame = slot_words(replace(streams, kind=_OF_THE_MEAN), "air", CPU), frame_of(scenario.air, features)
    here = range(radio.slots, radio.slots + 1)
    gain = worker_path_gain(scenario, population.distance_metres)
    magnitude = torch.from_numpy(gain)[None]
    seats = SeatDraws(
        slots=here,
        frame=frame,
        workers=torch.arange(count)[None],
        magnitude=magnitude,
        path_gain=magnitude,
        source=source,
        in_slot=count,
    )
    shares = torch.full((1, count), rounding_backoff(count) / count, dtype=torch.float64)
    air = impair(scenario, seats, shares, torch.from_numpy(power_watts)[None], radiated_share)
    # sum_i g_ip / N of the workers that hold each sample; samples x pieces.
    held = np.zeros((len(inputs), frame.pieces), dtype=np.complex128)
    pilots = torch.zeros((), dtype=torch.complex128)
    for some in air.gains.parts:
        weights = (air.ratios[0, some, None] * air.gains.of(some)[0]).expand(-1, frame.pieces).numpy()
        np.add.at(held, population.sample_index[some], weights)
        pilots = pilots + (air.ratios[:, some, None] * air.gains.of_pilots(some)).sum(dim=1)
    error = pilot_deviation * math.sqrt(frame.pilot_count)
    seen = pilots + error * pilot_normals(source, here, frame.pilot_count)
    divisor = trusted_gain(seen, torch.full((1, 1), 2.0 * error**2, dtype=torch.float64))[0].numpy()
    divisor = divisor[list(frame.pilots)] * expected_drift(scenario, frame)
    mean, first = np.empty(features), 0
    for piece, length in enumerate(frame.lengths):
        numbers, by = slice(first, first + length), divisor[piece]
        summed = add_up_rows((held[:, piece] / by).real.copy(), inputs[:, numbers])
        mean[numbers] = summed + noise[numbers] / abs(by)
        first += length
    return mean
