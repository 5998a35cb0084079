"""The channel |h| = sqrt(beta_U) d^(-n/2) |g|: path loss fixed by the distance, block fading new in each slot.

Where the server has several antennas, a slot is received with one of them.
"""

import math

import torch

from airmixml.randomness.slot_words import SlotWords, uniforms
from airmixml.scenario import Radio, Scenario


def draw_fading(radio: Radio, slots: range, scheduled: int, source: SlotWords, antenna: int = 0) -> torch.Tensor:
    """Draw |g| with E|g|^2 = 1 to one of the server's antennas; slots x scheduled."""
    drawn: torch.Tensor = radio.fading_kind.draw(radio, slots, scheduled, source, antenna)
    return drawn


def draw_phase(slots: range, scheduled: int, source: SlotWords) -> torch.Tensor:
    """Draw arg h, uniform and independent of |h| since the phase of the direct path is; slots x scheduled."""
    return uniforms(source.words(slots, scheduled)).mul_(2.0 * math.pi)


def draw_magnitude(
    radio: Radio, worker_path_gain: torch.Tensor, scheduled_workers: torch.Tensor, slots: range, source: SlotWords
) -> torch.Tensor:
    """Draw |h| of the scheduled workers (slots x scheduled) from each worker's path gain (shape workers)."""
    magnitude = worker_path_gain[scheduled_workers]
    if radio.fading == "none":
        return magnitude
    return magnitude.mul_(draw_fading(radio, slots, scheduled_workers.shape[1], source))


def choose_antenna(
    scenario: Scenario, magnitude: torch.Tensor, path_gain: torch.Tensor, slots: range, source: SlotWords
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return abs(h) to the antenna whose weakest worker is strongest, and sum_a |h_a|^2 / |h|^2; slots x scheduled.

    ``magnitude`` is abs(h) to the first antenna, the path gain that without fading. One antenna at a time, in constant
    memory.
    """
    antennas = scenario.air.antennas
    if scenario.radio.fading == "none":  # all antennas are alike
        return magnitude, torch.full_like(magnitude, float(antennas))
    chosen, weakest, together = magnitude, magnitude.amin(dim=1), magnitude.square()
    for antenna in range(1, antennas):
        other = path_gain * draw_fading(scenario.radio, slots, magnitude.shape[1], source, antenna)
        together = together + other.square()
        its_weakest = other.amin(dim=1)
        better = its_weakest > weakest
        chosen = torch.where(better[:, None], other, chosen)
        weakest = torch.where(better, its_weakest, weakest)
    return chosen, together / chosen.square()
