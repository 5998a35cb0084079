"""What an adversary learns about people: reconstruction, linkage, inference.

>>> from airmixml import Scenario
>>> from airmixml.attacks import reconstruct, watch
>>> view = watch(Scenario.preset("digits"))  # doctest: +SKIP
>>> reconstruct(view, "least-squares").inputs  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airmixml.registry import import_late

if TYPE_CHECKING:
    from airmixml.attacks.measured import PlainFindings
    from airmixml.attacks.result import AttackResult
    from airmixml.attacks.run_attacks import attack, choose_parts
    from airmixml.attacks.server_attacks import reconstruct
    from airmixml.attacks.target import Attack, Outcome, Target, watch

__all__ = [
    "Attack",
    "AttackResult",
    "Outcome",
    "PlainFindings",
    "Target",
    "attack",
    "choose_parts",
    "reconstruct",
    "watch",
]

__getattr__ = import_late(__name__)
