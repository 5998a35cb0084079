"""Channels that differ within a slot: from cluster to cluster of subcarriers, or after every coherence time.

Echoes. The response at frequency f is H(f) = sum_l a_l exp(-2 pi j f t_l), E|H|^2 = 1. Amplitudes of scattered paths
are complex normal, so the responses at the middles of all clusters are too, with covariance

    E[H(f) H(g)*] = sum_l p_l exp(-2 pi j (f - g) t_l), or 1 / (1 + 2 pi j (f - g) s)

for a profile of powers p_l at delays t_l, or for an exponential one of root mean square delay s (Clarke 1968; Jakes
1974, section 1.5). A direct path, of K times the power of all others, adds a constant to H.

Renewed fading (block fading: Biglieri, Proakis and Shamai 1998, IEEE Trans. Inf. Theory 44(6)): the blocks of one
coherence time share one fading, those of the next have another, independent one. A worker inverts the channel of each
part and stays silent in those below ``air.truncation_db``: what arrives has the planned size, or none
(``SilentFades``). It sends beta q^2 / abs(h_c)^2 in part c: its energy follows from the mean of that over the slot,
which makes its channel count as the harmonic mean; its power limit must hold in the weakest interval that it sends in.
With several antennas the server listens with one of them, and has all of them in every interval as an adversary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Final, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import Doubles, db_to_ratio
from airmixml.impairments.fading import FAINTEST, MOST_FADINGS, renews, weakest_fading
from airmixml.impairments.gains import Impairment, SeatDraws, columns
from airmixml.messages import ScenarioError
from airmixml.scenario import Air, Scenario


@dataclass(frozen=True, eq=False)
class Echoes:
    """The law of H at the middles of the clusters: a constant, and complex normal values with a covariance."""

    direct: float  # amplitude of the direct path
    covariance: NDArray[np.complex128]  # of the scattered part; clusters x clusters


def echoes_of(scenario: Scenario) -> Echoes | None:
    """Return the echoes of a scenario; None where the channel is the same on all subcarriers."""
    air, radio = scenario.air, scenario.radio
    if air.waveform != "ofdm" or not air.delay_spread_seconds:
        return None
    return _echoes(air, radio.direct_path)


@lru_cache(maxsize=64)
def _echoes(air: Air, rician_k: float) -> Echoes:
    hertz = np.array(air.grid.centres_hz)
    apart = hertz[:, None] - hertz[None, :]
    if air.profile == "exponential":
        scattered, k_factor = 1.0 / (1.0 + 2j * math.pi * apart * air.delay_spread_seconds), rician_k
    else:
        delays, powers, k_factor = standard_profile(air.profile)
        turns = apart[:, :, None] * delays * air.delay_spread_seconds
        scattered = np.exp(-2j * math.pi * turns) @ powers
    return Echoes(math.sqrt(k_factor / (1.0 + k_factor)), scattered / (1.0 + k_factor))


def standard_profile(name: str) -> tuple[Doubles, Doubles, float]:
    """Return delays in units of the delay spread, powers and the K of a profile of 3GPP TR 38.901, as Sionna has them.

    Powers are those of the scattered paths and add up to 1. With one antenna at both ends a clustered delay line (cdl)
    is a tapped one (tdl), so angles do not matter here.
    """
    try:
        models = import_module("sionna.phy.channel.tr38901.models")  # an extra, and slow to import
    except ImportError as problem:
        raise ScenarioError(
            f"air.profile = {name!r}: needs Sionna ({problem}); pip install 'airmixml[sionna]', or take "
            "air.profile = 'exponential'"
        ) from None
    table = models.load_json(models.parameter_file(f"{name.upper()}.json"))
    delays, powers = np.array(table["delays"]), np.array([db_to_ratio(power) for power in table["powers"]])
    if not table["los"]:
        return delays, powers / powers.sum(), 0.0
    scattered = powers[1:]
    return delays[1:], scattered / scattered.sum(), float(powers[0] / scattered.sum())


def draw_responses(echoes: Echoes, draws: SeatDraws) -> torch.Tensor:
    """Draw H of every seat, new in every slot; slots x scheduled x clusters, complex128."""
    # A, with A A^H the covariance; clusters x clusters. Neighbouring clusters may be as good as equal.
    values, vectors = np.linalg.eigh(echoes.covariance)
    root = torch.from_numpy(vectors * np.sqrt(np.maximum(values, 0.0))).to(draws.workers.device)
    return draws.complex_normals("echoes", len(root)).to(root.dtype) @ root.T + echoes.direct


def response_amplitudes(echoes: Echoes, draws: SeatDraws) -> torch.Tensor:
    """Return abs(H) of every seat, never 0; slots x scheduled x clusters, float64."""
    return draw_responses(echoes, draws).abs().clamp_(min=FAINTEST)


def inverted_amplitude(scenario: Scenario, echoes: Echoes, draws: SeatDraws) -> torch.Tensor:
    """Return 1 / sqrt(mean_c 1 / abs(H_c)^2) over the subcarriers, silent ones with 0; slots x scheduled.

    A worker that is silent on all of them gets less than any that sends: it is out of reach.
    """
    widths = torch.tensor(scenario.air.grid.widths, dtype=torch.float64, device=draws.workers.device)
    return harmonic_amplitude(response_amplitudes(echoes, draws).square(), widths, weakest_fading(scenario))


def harmonic_amplitude(power: torch.Tensor, symbols: torch.Tensor, floor: float) -> torch.Tensor:
    """Return 1 / sqrt(mean 1 / power) over so many symbols of each part, 0 for those below the floor; slots x seats."""
    mean = (torch.where(power >= floor, 1.0 / power, 0.0) * symbols).sum(dim=2) / symbols.sum()
    return torch.where(mean > 0.0, mean.rsqrt(), 1e-3 * math.sqrt(floor or 1.0))


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
    return draws.once(_NAME, lambda: abs(draws.complex_normals(_NAME, count) * scattered + direct).clamp_(min=FAINTEST))


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


def by_fading(scenario: Scenario, draws: SeatDraws, make: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return what is made of abs(h) that workers invert; slots x scheduled x blocks, or x 1 where it is constant."""
    if not renews(scenario):
        return make(draws.magnitude[:, :, None])
    made = make(draw_renewed(scenario, draws) * draws.path_gain[:, :, None])
    blocks = torch.arange(draws.frame.block_count, device=made.device)
    return columns(made, blocks // scenario.air.blocks_per_fading)


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
        differs = renews(scenario) or echoes_of(scenario) is not None
        return cls(scenario) if differs and scenario.air.truncation_db > -math.inf else None

    def gains(self, draws: SeatDraws) -> torch.Tensor:
        floor, echoes = weakest_fading(self.scenario), echoes_of(self.scenario)
        if echoes is not None:
            heard = response_amplitudes(echoes, draws).square() >= floor
            return heard.double()[:, :, torch.tensor(draws.frame.clusters, device=heard.device)]
        path = draws.path_gain[:, :, None]
        return by_fading(self.scenario, draws, lambda magnitude: ((magnitude / path).square() >= floor).float())
