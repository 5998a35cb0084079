"""The least epsilon that an accountant certifies for a design against an adversary."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from airmixml.errors import PrivacyError
from airmixml.privacy.accountants import accountant_named
from airmixml.privacy.adversaries import Adversary
from airmixml.privacy.design import Design
from airmixml.privacy.mechanism import GaussianSlots

# Beyond this a delta is needed that no accountant resolves.
_LARGEST_STEP: Final = 300.0
_HEADROOM: Final = 1.01


@lru_cache(maxsize=4096)
def certified_epsilon(accountant: str, mechanism: GaussianSlots, delta: float, *, quickly: bool = False) -> float:
    """Return the accountant's epsilon, or raise a PrivacyError that says why it has none."""
    chosen = accountant_named(accountant)
    refusal = chosen.refusal(mechanism)
    if refusal:
        raise PrivacyError(
            f"privacy.accountant = {accountant!r}: cannot treat sampling {mechanism.sampling} with "
            f"{mechanism.adjacency} neighbours: {refusal}"
        )
    if not 0.0 < delta < 1.0:
        raise PrivacyError(f"privacy.delta = {delta:g}: must lie between 0 and 1")
    epsilon_of = chosen.quick_epsilon if quickly else chosen.epsilon
    return epsilon_of(mechanism, delta) if mechanism.steps == 1 else _two_steps(epsilon_of, mechanism, delta)


def _two_steps(epsilon_of: Callable[[GaussianSlots, float], float], mechanism: GaussianSlots, delta: float) -> float:
    """Return the epsilon of neighbours two steps apart: (2 e, (1 + exp e) d) where one step has (e, d).

    The smaller d must be, the larger e gets, so it is raised until the two agree.
    """
    step = epsilon_of(mechanism, delta / 2.0)
    while step < _LARGEST_STEP:
        enough = _HEADROOM * step
        found = epsilon_of(mechanism, delta / (1.0 + math.exp(enough)))
        if found <= enough:
            return 2.0 * found
        step = found
    return math.inf


def considered_views(
    design: Design, adversary: Adversary, accountant: str, adjacency: str
) -> tuple[GaussianSlots, ...]:
    """Return the descriptions of the slots over which the least epsilon is taken.

    Renyi and privacy-loss accounting take all. The paper's bounds stay what they are in print, and ``gdp`` leaves
    hidden schedules to others, unless participations are limited: then a known schedule is what to fall back on.
    """
    views = adversary.views(design, adjacency)
    every = accountant_named(accountant).considers_all_views or design.max_participations
    return views if every else views[:1]


def least_epsilon(
    design: Design, adversary: Adversary, accountant: str, *, adjacency: str, delta: float, quickly: bool = False
) -> tuple[float, GaussianSlots]:
    """Return the least epsilon over the considered views that the accountant treats, and the view that gives it."""
    found: list[tuple[float, GaussianSlots]] = []
    problems: list[PrivacyError] = []
    for view in considered_views(design, adversary, accountant, adjacency):
        try:
            found.append((certified_epsilon(accountant, view, delta, quickly=quickly), view))
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
