"""What accountants are asked about one design, and what they answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from typing import Any

from airmixml.engines import Engine
from airmixml.errors import PrivacyError
from airmixml.privacy import Adversary, Design, PrivacyStatement, Question, state_privacy
from airmixml.privacy.evaluation import left_of
from airmixml.privacy.statements import with_any_schedule
from airmixml.radio.centring import CentringSlot, with_centring


@dataclass(frozen=True, kw_only=True)
class AskedDesign:
    """What accountants are asked about."""

    design: Design  # what is sent
    adjacency: str  # which neighbours
    slots_delta: float  # what the slots may spend of delta; the rest is that of a mean estimated before them
    rounds: int = 0  # of all slots, the last ones that carry gradients
    centring: CentringSlot | None = None  # the slot that estimated that mean; it costs epsilon beside the others
    target: tuple[str, str] | None = None  # adversary and accountant whose epsilon is asked for better receivers too

    def _by(self, pair: tuple[Adversary, str]) -> Question:
        return Question(adversary=pair[0], accountant=pair[1], adjacency=self.adjacency, delta=self.slots_delta)

    def stated(self, pair: tuple[Adversary, str]) -> PrivacyStatement | str:
        """Return what the accountant states about the adversary, or why it states nothing."""
        adversary, accountant = pair
        asked: dict[str, Any] = {"adjacency": self.adjacency, "delta": self.slots_delta}
        asked["better"] = (adversary.name, accountant) == self.target
        try:
            if why := self._by(pair).refusal(self.design):
                return why
            stated = state_privacy(self.design, adversary, accountant, **asked)
            if self.centring is None:
                return with_any_schedule(stated, self.design, adversary)
            return with_centring(stated, self.centring)
        except PrivacyError as problem:
            return str(problem)

    def epsilon_after(self, point: tuple[int, tuple[Adversary, str]]) -> float:
        """Return the epsilon of one accountant against one adversary after so many slots; NaN for none."""
        count, (adversary, accountant) = point
        try:
            value, view = self._by((adversary, accountant)).epsilon(self.design.with_slots(count, self.rounds))
        except PrivacyError:
            return math.nan
        if self.centring is None or math.isnan(value):
            return value
        left = left_of(self.slots_delta, view)
        return self.centring.joined(value, left, adversary.name, accountant, self.adjacency)

    def answers(
        self, adversaries: Sequence[Adversary], engine: Engine | None, accountants: Sequence[str]
    ) -> tuple[list[PrivacyStatement], dict[tuple[str, str], str]]:
        """Return what every accountant states about every adversary, and why the others state nothing."""
        pairs = list(product(adversaries, accountants))
        found = list(zip(pairs, (engine or Engine()).run_in_order(attrgetter("stated"), self, pairs), strict=True))
        statements = [answer for _, answer in found if not isinstance(answer, str)]
        return statements, {(whom.name, name): answer for (whom, name), answer in found if isinstance(answer, str)}
