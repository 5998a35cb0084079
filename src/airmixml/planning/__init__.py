"""Before anything is sent: what a design certifies, what it costs, and which design serves it best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.planning.account import Account, account_numbers, account_scenario, epsilon_curves
    from airmixml.planning.design_figures import draw_account, draw_plan
    from airmixml.planning.expected_signal import InputMoments
    from airmixml.planning.plan import make_plan
    from airmixml.planning.planned import Plan
    from airmixml.planning.recommend import Recommendation

__all__ = [
    "Account",
    "InputMoments",
    "Plan",
    "Recommendation",
    "account_numbers",
    "account_scenario",
    "draw_account",
    "draw_plan",
    "epsilon_curves",
    "make_plan",
]

__getattr__ = import_late(__name__)
