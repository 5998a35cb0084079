"""Fading that is renewed within a slot: after every coherence time a worker's channel is another one.

A slot of many workers lasts many coherence times. Block fading (Biglieri, Proakis and Shamai 1998, IEEE Trans. Inf.
Theory 44(6)): the blocks of one coherence time share one fading, those of the next have another, independent one. A
worker inverts the channel of each and stays silent in those below ``air.truncation_db``, so that

- what arrives has the planned size, or none: no power is added in any piece (``SilentFades``);
- it sends beta q^2 / abs(h_c)^2 in interval c. Its energy follows from the mean of that over the slot, which makes its
  channel count as the harmonic mean; its power limit must hold in the weakest interval that it sends in.

Powers that transmitters can set (``air.power_step_db``) are chosen once per slot, from the mean. With several antennas
the server listens with one of them: none is better for all of many workers, and a sum of antennas, in which phases are
aligned for one, gains nothing. As an adversary it has all of them in every interval.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
import torch

from airmixml.errors import ScenarioError
from airmixml.impairments.antennas import MOST_FADINGS
from airmixml.impairments.echoes import draw_responses, echoes_of, harmonic_amplitude
from airmixml.impairments.fading import renews, weakest_fading
from airmixml.impairments.gains import Impairment, SeatDraws
from airmixml.scenario import Scenario

_NAME: Final = "renewed-fading"


class Renewed(NamedTuple):
    """What renewed fading makes of the channels of consecutive slots; all slots x scheduled, over the path gain."""

    inverted: torch.Tensor  # amplitude that the mean power follows from
    weakest: torch.Tensor  # amplitude of the weakest interval that is sent in
    antenna_gain: torch.Tensor  # sum_a |h_a|^2 / |h|^2 in the worst interval that is sent in


def draw_renewed(scenario: Scenario, draws: SeatDraws) -> torch.Tensor:
    """Draw the fading of every coherence time, E|f|^2 = 1; slots x scheduled x intervals."""
    count = (draws.frame.block_count - 1) // scenario.air.blocks_per_fading + 1
    if count > MOST_FADINGS:
        raise ScenarioError(
            f'air.fading_renewal = "coherence": a slot lasts {count:,} coherence times, and {MOST_FADINGS:,} are '
            "allowed for; send fewer features, or move more slowly"
        )
    scattered, direct = _amplitudes(scenario)
    return draws.once(_NAME, lambda: abs(draws.complex_normals(_NAME, count) * scattered + direct))


def draw_other_antennas(scenario: Scenario, draws: SeatDraws, intervals: int) -> torch.Tensor:
    """Draw sum_a |f_a|^2 over the m antennas that are not chosen; slots x scheduled x intervals.

    Of their 2 m real parts one lies along the direct path, sqrt(m) times that of an antenna; the squares of the others
    have a gamma law.
    """
    others, (scattered, direct) = scenario.air.antennas - 1, _amplitudes(scenario)
    along = math.sqrt(others) * direct + scattered * math.sqrt(0.5) * draws.normals(f"{_NAME}-along", intervals)
    return along.double().square() + scattered**2 * draws.gammas(f"{_NAME}-others", others - 0.5, intervals)


def _amplitudes(scenario: Scenario) -> tuple[float, float]:
    """Return those of scattered paths and of a direct one."""
    direct = scenario.radio.direct_path
    return math.sqrt(1.0 / (1.0 + direct)), math.sqrt(direct / (1.0 + direct))


def magnitudes(scenario: Scenario, draws: SeatDraws) -> torch.Tensor:
    """Return abs(h) that workers invert; slots x scheduled x blocks, or x 1 where it is the same for all."""
    if not renews(scenario):
        return draws.magnitude[:, :, None]
    blocks = torch.arange(draws.frame.block_count, device=draws.workers.device) // scenario.air.blocks_per_fading
    return (draw_renewed(scenario, draws) * draws.path_gain[:, :, None])[:, :, blocks]


def renew(scenario: Scenario, draws: SeatDraws) -> Renewed | None:
    """Return what fading makes of channels, silent workers' out of reach; None where it lasts as long as a slot."""
    if not renews(scenario):
        return None
    fading = draw_renewed(scenario, draws)
    floor, frame, power = weakest_fading(scenario), draws.frame, fading.square()
    heard = power >= floor
    intervals = np.array(frame.blocks) // scenario.air.blocks_per_fading
    symbols = torch.from_numpy(np.bincount(intervals, frame.lengths)).to(fading.device)
    weakest = torch.where(heard, fading, math.inf).amin(dim=2)
    others: torch.Tensor | float = 0.0
    if scenario.air.antennas > 1:
        others = draw_other_antennas(scenario, draws, fading.shape[2])
    return Renewed(
        inverted=harmonic_amplitude(power, symbols, floor),
        weakest=torch.where(weakest.isinf(), 1e-3 * math.sqrt(floor or 1.0), weakest),
        antenna_gain=torch.where(heard, (power + others) / power, 1.0).amax(dim=2),
    )


@dataclass(frozen=True)
class SilentFades(Impairment):
    """g = 0 in coherence times, or on clusters of subcarriers, in a fade, where a worker stays silent; else 1."""

    about = "coherence times or clusters of subcarriers in a fade, left silent"
    scenario: Scenario

    @classmethod
    def of(cls, scenario: Scenario) -> Self | None:
        """Return it where fading differs within slots, and workers do not invert every fade."""
        differs = renews(scenario) or echoes_of(scenario) is not None
        return cls(scenario) if differs and scenario.air.truncation_db > -math.inf else None

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        """Draw 0 or 1; slots x scheduled x pieces."""
        floor, echoes = weakest_fading(self.scenario), echoes_of(self.scenario)
        if echoes is not None:
            heard = draw_responses(echoes, draws).abs().square() >= floor
            return heard.double()[:, :, torch.tensor(draws.frame.clusters, device=heard.device)]
        power = (magnitudes(self.scenario, draws) / draws.path_gain[:, :, None]).square()
        return draws.by_block((power >= floor).double())
