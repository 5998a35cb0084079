"""What is claimed, by every accountant, of that which is attacked."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from airmixml.doors import ACCOUNTANTS
from airmixml.errors import PrivacyError
from airmixml.privacy import Design, state_privacy
from airmixml.privacy.evaluation import refusal
from airmixml.radio.privacy_target import adversary_named
from airmixml.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One accountant's epsilon, or why it has none.

    Attributes:
        accountant: its name.
        epsilon: what it claims; None where it refuses.
        why: of the claim or of the refusal, in words.
    """

    accountant: str
    epsilon: float | None
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"accountant": self.accountant, "epsilon": self.epsilon, "why": self.why}


def claims_of(scenario: Scenario, design: Design, adversary: str, adjacency: str, delta: float) -> list[Claim]:
    """Return what each accountant claims of the slots of a design, without a mean that was estimated before them.

    Against the server it is about the schedule that was drawn. The release's trials have other schedules too, so what
    is claimed against it is about a random one.
    """
    if adversary == "release" and not design.power_tells_schedule:
        design = replace(design, worst_received_watts=None, worst_sent_watts=None, worst_participations=None)
    whom, claims = adversary_named(adversary, scenario), []
    for name in ACCOUNTANTS.names:
        try:
            why = refusal(design, whom, name, adjacency)
            stated = None if why else state_privacy(design, whom, name, adjacency=adjacency, delta=delta)
        except PrivacyError as problem:
            stated, why = None, str(problem)
        if stated is not None and not math.isfinite(stated.epsilon):
            stated, why = None, "no finite epsilon holds"
        claims.append(
            Claim(
                accountant=name,
                epsilon=None if stated is None else stated.epsilon,
                why=why if stated is None else stated.why,
            )
        )
    return claims
