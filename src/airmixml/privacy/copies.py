"""What an adversary learns of a row of data that several workers hold: more than it learns of any one of them.

A changed row changes what all c workers send. Where the schedule is known, or taken for known, slot t then moves by
(sum over the copies that send in it of their shares) times one sample's move, at most: shifts add up, and mu^2 is the
sum over slots of the squares of those sums. That is c^2 times the mu^2 of one worker where all copies send in the same
slots, which is exact, and less where they do not. An adversary who receives every worker separately sees the copies in
noise of some covariance S, and the triangle inequality of the norm x' S^-1 x gives the same bound. (Without masks
copies have independent noise, and the bound is not reached.) Where the schedule is hidden, group privacy takes c steps
from one worker to the next.
"""

import math
from dataclasses import replace

import numpy as np

from airmixml.arrays import Doubles, Integers
from airmixml.errors import PrivacyError
from airmixml.privacy.design import SCHEDULE_FAILURE, Design
from airmixml.privacy.evaluation import certified_epsilon
from airmixml.privacy.mechanism import GaussianSlots
from airmixml.privacy.statements import PrivacyStatement, statement_of
from airmixml.privacy.tight_bound import log_binomial, log_sum
from airmixml.privacy.views import Adversary


def together(design: Design, copies: int) -> Design:
    """Return the design in which one worker sends all that so many do who hold the same row."""
    factor = _times(design, copies)
    louder = design.scaled(factor)
    return replace(louder, facts=tuple(each.of_copies(copies, factor) for each in louder.facts))


def _times(design: Design, copies: int) -> float:
    """Return how many times the squared shifts of a worker a row has: c^2, or less where chance keeps copies apart.

    With K_t copies in slot t a row has sum_t K_t^2 squared shifts. Before a schedule is drawn that has a Chernoff
    bound, ln P(sum > B) <= T ln E exp(x K^2) - x B for any x > 0, with a union bound over the rows: it fails with the
    probability that is stated for the schedule of a worker, whose number of slots it takes the place of.
    """
    most = float(copies) ** 2
    alike = len(set(design.received_watts)) == 1
    if design.drawn is not None or design.max_participations or not (alike and design.schedule_failure):
        return most
    # Coins may schedule any number of them.
    present = np.arange((copies if design.sampling == "poisson" else min(copies, design.scheduled)) + 1)
    log_chances = _log_chances(present, copies, design)
    failure = math.log(design.workers / SCHEDULE_FAILURE)
    bounds = [
        (design.slots * max(float(log_sum(log_chances + x * present**2.0)), 0.0) + failure) / x
        for x in np.geomspace(1e-4, 50.0, 400).tolist()
    ]
    return float(min(most, min(bounds) / design.participations))


def _log_chances(present: Integers, copies: int, design: Design) -> Doubles:
    """Return ln of the chances that so many of the copies send in a slot."""
    workers, scheduled = design.workers, design.scheduled
    if design.sampling == "poisson":
        rate = scheduled / workers
        return np.asarray(
            log_binomial(copies, present) + present * math.log(rate) + (copies - present) * math.log1p(-rate)
        )
    ways = log_binomial(copies, present) + log_binomial(workers - copies, scheduled - present)
    return np.asarray(ways - log_sum(ways))


def state_row(
    design: Design,
    adversary: Adversary,
    copies: int,
    *,
    adjacency: str,
    delta: float,
    joined: Design | None = None,
    whole: Design | None = None,
    unit: str = "row",
) -> PrivacyStatement:
    """Return what holds for a row on so many workers, by the smallest bound there is, or raise a PrivacyError.

    Args:
        design: what is sent; one worker's part of it is that of one copy.
        adversary: who learns of it.
        copies: workers that hold the row.
        adjacency: of rows: another in its place, or none on all of these workers.
        delta: of the statement.
        joined: all copies as one worker, where that is known better than ``together`` knows it.
        whole: the worker with its other rows, where ``design`` has a row's part of it. Those rows tell whether the
            worker sent, so that a hidden schedule hides a row no better than it hides any change of the worker.
        unit: what a row is called.
    """
    views = [("gdp", view) for view in adversary.views(joined or together(design, copies), adjacency) if _known(view)]
    hidden = adversary.views(design, adjacency) if whole is None else adversary.views(whole, "replace-one")
    views += [("rdp", in_steps(view, copies)) for view in hidden if not _known(view)]
    found: list[tuple[float, str, GaussianSlots]] = []
    for accountant, view in views:
        try:
            epsilon = certified_epsilon(accountant, view, delta)
        except PrivacyError:
            continue
        if math.isfinite(epsilon):
            found.append((epsilon, accountant, view))
    if not found:
        raise PrivacyError(f"a row on {copies:,} workers: nothing is certified against {adversary.name}")
    epsilon, accountant, view = min(found, key=lambda each: each[0])
    if copies > 1:
        how = "one by one (group privacy)" if view.steps > 1 else "whose shifts add up"
        view = replace(view, why=f"{view.why}; {copies:,} workers hold the row, {how}")
        unit = f"{unit} on {copies:,} workers"
    return replace(statement_of(epsilon, view, design, adversary, accountant, adjacency, delta), unit=unit)


def in_steps(view: GaussianSlots, copies: int) -> GaussianSlots:
    """Return a hidden schedule with so many steps between neighbours; each removal leaves fewer workers to draw."""
    population = view.population
    if view.adjacency == "remove-one" and view.sampling == "without-replacement":
        population = max(population - copies + 1, view.sampled)
    return replace(view, steps=view.steps * copies, population=population)


def _known(view: GaussianSlots) -> bool:
    return view.sampling == "none" and view.steps == 1
