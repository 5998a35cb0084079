"""What a method's epsilon is against each adversary: methods that are compared at one of them differ at the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from airmixml.errors import PrivacyError
from airmixml.privacy import PrivacyStatement
from airmixml.registries import ADVERSARIES, NOISES

HEARING: Final = ("server", "eavesdropper", "everyone")


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """Epsilon against each adversary, for the scenario's neighbours and delta.

    It is infinite where nothing can be promised, and None where that adversary hears nothing.
    """

    server: float | None  #: with its own receiver; it knows who sent when
    eavesdropper: float | None  #: the scenario's
    everyone: float | None  #: hears every worker separately, without receiver noise, and is told what the server is
    rests_on: str  #: what hides a worker

    @classmethod
    def of_statements(cls, state: Callable[[str], PrivacyStatement], *, noise: str) -> Self:
        """Return what ``state`` says against the adversary of each name; where it refuses, nothing is promised.

        ``noise`` is ``privacy.noise``: whose noise hides a worker.
        """

        def epsilon(name: str) -> float:
            try:
                return state(name).epsilon if name in ADVERSARIES else math.inf
            except PrivacyError:
                return math.inf

        return cls(**{name: epsilon(name) for name in HEARING}, rests_on=NOISES.load(noise).rests_on)

    @classmethod
    def of_local_noise(cls, alone: float, *, in_sum: float) -> Self:
        """Return epsilon where what a worker sends is private ``alone``, and more so in the sum that a server gets."""
        return cls(server=in_sum, eavesdropper=alone, everyone=alone, rests_on=NOISES.load("workers").rests_on)

    @classmethod
    def of_curator(cls) -> Self:
        """Return what holds where a curator, who is the server, is given all samples in secret."""
        return cls(server=math.inf, eavesdropper=None, everyone=math.inf, rests_on="trusted curator")

    @classmethod
    def worst(cls, seeds: Iterable[Self]) -> Self:
        """Return the largest epsilon of all seeds against each adversary."""
        first, *others = seeds
        by_name = {name: [getattr(each, name) for each in (first, *others)] for name in HEARING}
        worst = {name: None if None in found else max(found) for name, found in by_name.items()}
        return cls(**worst, rests_on=first.rests_on)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, which has no infinity: it is the text "infinite" there."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: "infinite" if value == math.inf else value for name, value in values.items()}
