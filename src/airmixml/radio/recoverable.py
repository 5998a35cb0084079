"""The rules by which a scenario's workers reveal the masks of those who are absent, and how many they allow for."""

import math
from typing import Final

import torch

from airmixml.errors import ScenarioError
from airmixml.impairments.fading import silent_share
from airmixml.masks.rules import Rules, choose_rules
from airmixml.privacy.design import binomial_quantile
from airmixml.radio.masking import Masking, most_recoverable_share
from airmixml.scenario import Scenario

_FAILURE: Final = 1e-6  # probability with which more are absent in some slot than ``enough_absent`` allows for
_STEPS: Final = 100


def enough_absent(scenario: Scenario, least: int = 0, chance: float | None = None) -> float:
    """Return a ``privacy.most_absent`` in whole per cent that is enough for ``least``, and for this chance."""
    seats, slots = scenario.radio.scheduled, scenario.slots_on_air
    chance = silent_share(scenario) if chance is None else chance
    most = max(least, binomial_quantile(_FAILURE / slots, seats, chance) if chance else 0)
    return math.ceil(most / seats * _STEPS) / _STEPS


def rules_of(scenario: Scenario, masking: Masking) -> Rules | None:
    """Return what a slot's workers insist on, deviations as received in sqrt(watts); None: nothing is recovered."""
    seats, most_absent = scenario.radio.scheduled, scenario.privacy.most_absent
    if masking.graph is None or not most_absent:
        return None
    return choose_rules(
        masking.graph,
        colluders=min(scenario.privacy.colluders, seats - 1),
        absent=math.ceil(most_absent * seats),
        mask_deviation=math.sqrt(masking.pair_watts),
        self_deviation=math.sqrt(masking.self_watts),
    )


def recovery_in_words(scenario: Scenario, least: int = 0, chance: float | None = None) -> str:
    """Return which ``privacy.most_absent`` would recover all masks, of ``least`` absent workers or what is usual."""
    enough, most = enough_absent(scenario, least, chance), most_recoverable_share(scenario)
    if enough <= most:
        return f"must be at least {enough:g}"
    if not scenario.privacy.noise_kind.real:
        return f"must be at least {enough:g}, and no more than {most:g} can be recovered: fewer must be absent"
    return f"no more than {most:g} can be recovered: must be 0, which leaves their masks in the sum"


def check_recoverable(scenario: Scenario, masking: Masking, sending: torch.Tensor, slots: range) -> None:
    """Refuse slots in which more are absent than workers reveal masks of; ``sending`` is slots x seats."""
    graph, rules, seats = masking.graph, rules_of(scenario, masking), sending.shape[1]
    if graph is None or rules is None:
        return
    absent = ~sending
    counts = absent.sum(dim=1)
    told = f"privacy.most_absent = {scenario.privacy.most_absent:g}:"
    if int(counts.max()) > rules.most_absent:
        place = int(counts.argmax())
        found = int(counts[place])
        mend = recovery_in_words(scenario, found)
        raise ScenarioError(
            f"{told} {found:,} of the {seats:,} workers of slot {slots[place]} are absent, and the others reveal the "
            f"masks of at most {rules.most_absent:,}, so that nothing is recovered; {mend}"
        )
    if graph.complete:
        return
    neighbours = torch.zeros_like(absent, dtype=torch.int64)
    for after in torch.from_numpy(graph.successors).to(absent.device):
        neighbours += absent[:, after]
        neighbours[:, after] += absent
    shares = graph.degree - neighbours  # of each one's secret, held by those who are present
    needed = sending | (shares > 0)  # nobody asks for masks between two who are absent
    fewest, lost = int(torch.where(needed, shares, graph.degree).min()), int((neighbours * sending).max())
    if lost <= rules.most_absent_neighbours and fewest >= rules.threshold:
        return
    lost, mend = max(lost, graph.degree - fewest), "raise privacy.mask_degree"
    if not scenario.privacy.mask_degree or lost <= graph.degree - rules.threshold:
        mend = recovery_in_words(scenario, math.ceil(lost / graph.degree * seats))
    raise ScenarioError(
        f"{told} a worker has {lost} absent neighbours, and the masks of at most {rules.most_absent_neighbours} are "
        f"revealed, so that nothing is recovered; {mend}"
    )


def check_recovered(scenario: Scenario, masking: Masking, sending: torch.Tensor, slots: range) -> None:
    """Refuse the same, and slots in which masks stay that nobody recovers: one of them spoils a sum of integers."""
    absent = int((~sending).sum(dim=1).max())
    if absent and not scenario.privacy.most_absent:
        raise ScenarioError(
            f"privacy.most_absent = 0: {absent:,} of the {sending.shape[1]:,} workers of a slot are absent, and one "
            f"mask that is not recovered spoils a sum of integers; {recovery_in_words(scenario, absent)}"
        )
    check_recoverable(scenario, masking, sending, slots)
