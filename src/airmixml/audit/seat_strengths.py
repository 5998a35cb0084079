"""How strongly a seat of a slot is received, as a law with a few values."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.radio.draws import AirSetting, SlotDraws
from airmixml.units import dbm_to_watts

_VALUES: Final = 6
_SAME: Final = 0.1
_SILENT: Final = 1e-6


def quantised_law(strengths: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a few strengths and their chances: equal parts of the energy, each at its root mean square.

    Strong seats tell most, so they are told apart finest. Nearly equal strengths are one value, and none is another.
    """
    ordered = np.sort(strengths)
    silent = int(np.searchsorted(ordered, _SILENT * ordered[-1], side="right"))
    if silent == len(ordered):
        return np.zeros(1), np.ones(1)
    if silent:
        heard, chances = quantised_law(ordered[silent:])
        share = silent / len(ordered)
        return np.append(heard, 0.0), np.append((1.0 - share) * chances, share)
    if ordered[0] >= (1.0 - _SAME) * ordered[-1]:
        return np.array([float(np.sqrt(np.mean(ordered**2)))]), np.ones(1)
    energy = np.cumsum(ordered**2)
    part = np.minimum((_VALUES * energy / energy[-1]).astype(np.int64), _VALUES - 1)
    counts = np.bincount(part, minlength=_VALUES)
    squares = np.bincount(part, ordered**2, _VALUES)
    used = counts > 0
    return np.sqrt(squares[used] / counts[used]), counts[used] / len(ordered)


def seat_strengths(setting: AirSetting, draws: SlotDraws) -> NDArray[np.float64]:
    """Return sqrt(beta) q over the noise deviation of every seat that is taken; shape seats."""
    amplitude = np.sqrt(draws.power_scale_watts / (dbm_to_watts(setting.scenario.radio.noise_dbm) / 2.0))
    strengths = draws.ratios * amplitude[:, None]
    if setting.scenario.radio.schedule == "poisson":
        share = 1.0 / setting.scenario.radio.scheduled
        return np.asarray(amplitude * share)  # whoever sends has that share, were it nobody
    return strengths.ravel()
