"""Echoes: a channel that differs from cluster to cluster of OFDM's subcarriers, which workers invert on each.

The response at frequency f is H(f) = sum_l a_l exp(-2 pi j f t_l), E|H|^2 = 1. Amplitudes of scattered paths are
complex normal, so the responses at the middles of all clusters are too, with covariance

    E[H(f) H(g)*] = sum_l p_l exp(-2 pi j (f - g) t_l), or 1 / (1 + 2 pi j (f - g) s)

for a profile of powers p_l at delays t_l, or for an exponential one of root mean square delay s. (R. H. Clarke, Bell
System Technical Journal 47, 1968; W. C. Jakes, Microwave Mobile Communications, 1974, section 1.5.) A direct path, of K
times the power of all others, adds a constant to H.

A worker with share q sends sqrt(beta) q / abs(H_c) on cluster c and needs the mean of that over all clusters. So its
channel counts as 1 / sqrt(mean_c 1 / abs(H_c)^2), the harmonic mean. On clusters in a fade below ``truncation_db`` it
stays silent, which costs no power, and what arrives there is divided by the pilot of that cluster.

Clusters are so narrow (``scenario.consistency``) that a worker can tell H within them from estimates at their middles.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.arrays import Doubles, db_to_ratio
from airmixml.errors import ScenarioError
from airmixml.impairments.fading import weakest_fading
from airmixml.impairments.gains import SeatDraws
from airmixml.scenario import Air, Scenario


@dataclass(frozen=True, eq=False)
class Echoes:
    """The law of H at the middles of the clusters: a constant, and complex normal values with a covariance."""

    direct: float  # amplitude of the direct path
    covariance: NDArray[np.complex128]  # of the scattered part; clusters x clusters

    @property
    def root(self) -> NDArray[np.complex128]:
        """A, with A A^H the covariance; clusters x clusters. Neighbouring clusters may be as good as equal."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


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
    root = torch.from_numpy(echoes.root).to(draws.workers.device)
    return draws.complex_normals("echoes", len(root)).to(root.dtype) @ root.T + echoes.direct


def inverted_amplitude(scenario: Scenario, echoes: Echoes, draws: SeatDraws) -> torch.Tensor:
    """Return 1 / sqrt(mean_c 1 / abs(H_c)^2) over the subcarriers, silent ones with 0; slots x scheduled.

    A worker that is silent on all of them gets less than any that sends: it is out of reach.
    """
    widths = torch.tensor(scenario.air.grid.widths, dtype=torch.float64, device=draws.workers.device)
    return harmonic_amplitude(draw_responses(echoes, draws).abs().square(), widths, weakest_fading(scenario))


def harmonic_amplitude(power: torch.Tensor, symbols: torch.Tensor, floor: float) -> torch.Tensor:
    """Return 1 / sqrt(mean 1 / power) over so many symbols of each part, 0 for those below the floor; slots x seats."""
    mean = (torch.where(power >= floor, 1.0 / power, 0.0) * symbols).sum(dim=2) / symbols.sum()
    return torch.where(mean > 0.0, mean.rsqrt(), 1e-3 * math.sqrt(floor or 1.0))
