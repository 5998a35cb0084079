"""The least epsilon that an accountant certifies for a design against an adversary."""

from __future__ import annotations

from airmixml.errors import PrivacyError
from airmixml.privacy.accountants import accountant_named, certified_epsilon
from airmixml.privacy.adversaries import Adversary
from airmixml.privacy.design import Design
from airmixml.privacy.mechanism import GaussianSlots


def considered_views(
    design: Design, adversary: Adversary, accountant: str, adjacency: str
) -> tuple[GaussianSlots, ...]:
    """Return the descriptions of the slots over which the least epsilon is taken.

    Renyi and privacy-loss accounting take all. The paper's bounds stay what they are in print, and ``gdp`` leaves
    hidden schedules to others, unless participations are limited: then a known schedule is what to fall back on.
    """
    views = adversary.views(design, adjacency)
    one_formula = accountant.startswith("paper-") or accountant == "gdp"
    return views[:1] if one_formula and not design.max_participations else views


def least_epsilon(
    design: Design, adversary: Adversary, accountant: str, *, adjacency: str, delta: float
) -> tuple[float, GaussianSlots]:
    """Return the least epsilon over the considered views that the accountant treats, and the view that gives it."""
    found: list[tuple[float, GaussianSlots]] = []
    problems: list[PrivacyError] = []
    for view in considered_views(design, adversary, accountant, adjacency):
        try:
            found.append((certified_epsilon(accountant, view, delta), view))
        except PrivacyError as problem:
            problems.append(problem)
    if not found:
        raise problems[0]
    return min(found, key=lambda pair: pair[0])


def refusal(design: Design, adversary: Adversary, accountant: str, adjacency: str) -> str:
    """Return why the accountant can treat no view of the adversary; empty if it can treat one."""
    views = considered_views(design, adversary, accountant, adjacency)
    reasons = [accountant_named(accountant).refusal(view) for view in views]
    return "" if "" in reasons else reasons[0]
