"""Whether workers would reveal the masks of those who are absent, and how many absences to allow for."""

import math
from typing import Final

import torch

from airmixml.errors import ScenarioError
from airmixml.impairments.fading_floor import silent_share
from airmixml.masks.hidden_noise import most_absent_neighbours
from airmixml.privacy.design import binomial_quantile
from airmixml.radio.masking import Masking
from airmixml.scenario import Scenario

_FAILURE: Final = 1e-6  # probability with which more are absent in some slot than ``enough_absent`` allows for
_STEPS: Final = 100


def enough_absent(scenario: Scenario, least: int = 0) -> float:
    """Return a ``privacy.most_absent`` in whole per cent that all slots keep to, and that is enough for ``least``."""
    seats, slots = scenario.radio.scheduled, scenario.radio.slots
    chance = silent_share(scenario)
    most = max(least, binomial_quantile(_FAILURE / slots, seats, chance) if chance else 0)
    return math.ceil(most / seats * _STEPS) / _STEPS


def check_recoverable(scenario: Scenario, masking: Masking, sending: torch.Tensor, slots: range) -> None:
    """Refuse slots in which more are absent than workers reveal masks of; ``sending`` is slots x seats.

    Workers answer a list of absent workers only if neither it nor anybody's part of it is longer than the statements
    reckon with. Where nothing is recovered nothing can be refused.
    """
    graph, seats = masking.graph, sending.shape[1]
    if graph is None or not scenario.privacy.most_absent:
        return
    allowed = math.ceil(scenario.privacy.most_absent * seats)
    absent = ~sending
    counts = absent.sum(dim=1)
    told = f"privacy.most_absent = {scenario.privacy.most_absent:g}:"
    if int(counts.max()) > allowed:
        place = int(counts.argmax())
        found = int(counts[place])
        raise ScenarioError(
            f"{told} {found:,} of the {seats:,} workers of slot {slots[place]} are absent, and the others reveal the "
            f"masks of at most {allowed:,}, so that nothing is recovered; must be at least "
            f"{enough_absent(scenario, found):g}"
        )
    if graph.complete:
        return
    neighbours = torch.zeros_like(absent, dtype=torch.int64)
    for after in torch.from_numpy(graph.successors).to(absent.device):
        neighbours += absent[:, after]
        neighbours[:, after] += absent
    lost, most = int((neighbours * sending).max()), most_absent_neighbours(graph, allowed)
    if lost > most:
        raise ScenarioError(
            f"{told} a worker has {lost} absent neighbours, and reveals the masks of at most {most}, so that nothing "
            f"is recovered; must be at least {enough_absent(scenario, math.ceil(lost / graph.degree * seats)):g}"
        )
