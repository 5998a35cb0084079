"""Which antenna of the server a slot is received with, and how much more all of them have of each worker."""

import torch

from airmixml.radio.channel import draw_fading
from airmixml.randomness.slot_words import SlotWords
from airmixml.scenario import Scenario


def choose_antenna(
    scenario: Scenario, magnitude: torch.Tensor, path_gain: torch.Tensor, slots: range, source: SlotWords
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return abs(h) to the chosen antenna, and sum_a |h_a|^2 / |h|^2 over all of them; both slots x scheduled.

    Chosen is the antenna whose weakest scheduled worker is strongest. ``magnitude`` is abs(h) to the first antenna, the
    path gain that without fading; both slots x scheduled. One antenna at a time, in constant memory.
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
