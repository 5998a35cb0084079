"""What an adversary learns of a row of data that several workers hold: more than it learns of any one of them.

A changed row changes what all c workers send. Where the schedule is known, or taken for known, slot t then moves by
(sum over the copies that send in it of their shares) times one sample's move, at most: shifts add up, and mu^2 is the
sum over slots of the squares of those sums. That is c^2 times the mu^2 of one worker where all copies send in the same
slots, which is exact, and less where they do not. Who hears every worker separately sees the copies in noise of some
covariance S, and the triangle inequality of the norm x' S^-1 x gives the same bound. (Without masks copies have
independent noise, and the bound is not reached.) Where the schedule is hidden, group privacy takes c steps from one
worker to the next.
"""

import math
from dataclasses import replace

from airmixml.errors import PrivacyError
from airmixml.privacy.adversaries import Adversary
from airmixml.privacy.design import Design
from airmixml.privacy.evaluation import PrivacyStatement, certified_epsilon, statement_of
from airmixml.privacy.mechanism import GaussianSlots


def together(design: Design, copies: int) -> Design:
    """Return the design in which one worker sends all that so many do who hold the same row, whatever the schedule."""
    factor = float(copies) ** 2
    worst = design.worst_sent_watts
    louder = replace(
        design.scaled(factor),
        max_power_watts=factor * design.max_power_watts,
        worst_sent_watts=None if worst is None else factor * worst,
    )
    if louder.rounding is None:
        return louder
    return replace(louder, rounding=louder.rounding.times(copies))  # each of them rounds


def state_row(
    design: Design,
    adversary: Adversary,
    copies: int,
    *,
    adjacency: str,
    delta: float,
    joined: Design | None = None,
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
        unit: what a row is called.
    """
    views = [("gdp", view) for view in adversary.views(joined or together(design, copies), adjacency) if _known(view)]
    views += [("rdp", in_steps(view, copies)) for view in adversary.views(design, adjacency) if not _known(view)]
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
