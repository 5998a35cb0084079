"""The least epsilon that an accountant certifies for a design against an adversary."""

from __future__ import annotations

from airmixml.errors import PrivacyError
from airmixml.privacy.accountants import accountant_named, certified_epsilon
from airmixml.privacy.adversaries import Adversary
from airmixml.privacy.design import Design
from airmixml.privacy.mechanism import GaussianSlots

__all__ = ["least_epsilon", "refusal"]


def least_epsilon(
    design: Design, adversary: Adversary, accountant: str, *, adjacency: str, delta: float
) -> tuple[float, GaussianSlots]:
    """Return the least epsilon over the adversary's views that the accountant treats, and the view that gives it."""
    found: list[tuple[float, GaussianSlots]] = []
    problems: list[PrivacyError] = []
    for view in adversary.views(design, adjacency):
        try:
            found.append((certified_epsilon(accountant, view, delta), view))
        except PrivacyError as problem:
            problems.append(problem)
    if not found:
        raise problems[0]
    return min(found, key=lambda pair: pair[0])


def refusal(design: Design, adversary: Adversary, accountant: str, adjacency: str) -> str:
    """Return why the accountant can treat no view of the adversary; empty if it can treat one."""
    reasons = [accountant_named(accountant).refusal(view) for view in adversary.views(design, adjacency)]
    return "" if "" in reasons else reasons[0]
