"""How far the worst data set lets one worker move a slot whose schedule is hidden, and how strongly a seat is heard."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.audit.canaries import sent_of, worst_samples
from airmixml.audit.faults import Fault
from airmixml.radio.draws import AirSetting, SlotDraws, draw_chapter
from airmixml.radio.senders import make_sender
from airmixml.units import dbm_to_watts

_LARGEST_EXPONENT: Final = 200.0
_VALUES: Final = 6
_SAME: Final = 0.1
_SILENT: Final = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Moves:
    """What the worker adds to a slot that it sends in with a share of 1, beside a slot without it.

    Attributes:
        with_canary: shape dimensions (1 or 2).
        without: in the other world; zero where that world's slots look like those without the worker.
        about: which data set that is, in words.
    """

    with_canary: NDArray[np.float64]
    without: NDArray[np.float64]
    about: str


def moves_of(setting: AirSetting, classes: int, adjacency: str, fault: Fault) -> Moves:
    """Return the worst moves, of what the real sender sends.

    A removal from a fixed schedule lets somebody else take the seat, so the move is v - u. A replacement has several
    candidates for what the others hold: the second sample itself, or a third one far from both. The one that moves
    more is taken, by the chi-square divergence of a slot at a small sampling rate,
    e^|a|^2 + e^|b|^2 - 2 e^(a . b) for moves a and b over the noise; u half-way between the two moves least.
    """
    scenario, radio = setting.scenario, setting.scenario.radio
    canaries = worst_samples(scenario, setting.signal.features, classes)
    sender = fault.of(make_sender(scenario, canaries, torch.device("cpu")))
    canary, other, third = sent_of(sender, 3)
    silence = np.zeros_like(canary)
    everybody = radio.scheduled == scenario.workers.count
    if adjacency == "remove-one":
        if radio.schedule == "poisson" or everybody:
            return _in_plane(canary, silence, "a seat without the canary is silent")
        return _in_plane(canary - other, silence, "all other workers hold the sample farthest from the canary")
    if radio.schedule == "poisson":
        return _in_plane(canary, other, "what the others sent is known; without the worker a seat is silent")
    candidates = [
        _in_plane(canary - other, silence, "all other workers hold the sample that replaces the canary"),
        _in_plane(canary - third, other - third, "all other workers hold a third sample"),
    ]
    if everybody:
        return candidates[0]
    strongest = seat_strengths(setting, draw_chapter(setting, 0, noise=False)).max()
    return max(candidates, key=lambda moves: _divergence(moves, float(strongest)))


def _in_plane(first: NDArray[np.float64], second: NDArray[np.float64], about: str) -> Moves:
    """Return two moves in coordinates of the plane that they span: the first lies on its first axis."""
    length = math.sqrt(float(first @ first))
    if not second.any():
        return Moves(with_canary=np.array([length]), without=np.zeros(1), about=about)
    along = float(first @ second) / length
    across = math.sqrt(max(float(second @ second) - along**2, 0.0))
    return Moves(with_canary=np.array([length, 0.0]), without=np.array([along, across]), about=about)


def _divergence(moves: Moves, strength: float) -> float:
    a, b = strength * moves.with_canary, strength * moves.without
    products = np.minimum([a @ a, b @ b, a @ b], _LARGEST_EXPONENT)
    return float(np.expm1(products) @ np.array([1.0, 1.0, -2.0]))


def quantised_law(strengths: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a few strengths and their chances: equal parts of the energy, each at its root mean square.

    Strong seats tell most, so they are divided finest. Nearly equal strengths are one value, and none is another.
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
        return np.asarray(amplitude * share)  # the share of anybody who sends, even if nobody does
    return strengths.ravel()
