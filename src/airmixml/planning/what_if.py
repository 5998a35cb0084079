"""What becomes of a design whose workers hide themselves when its assumptions fail.

More workers collude, colluders know the graph of masks, receivers are better.

Noise, masks and power stay as planned; who knows the masks, or how quiet a receiver is, does not.
"""

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from airmixml.arrays import db_to_ratio
from airmixml.messages import AirMixError, number_text
from airmixml.privacy import Design, PrivacyStatement, Question, facts
from airmixml.radio.masking import informed_with, masking_of, noise_left
from airmixml.radio.system import adversary_named
from airmixml.radio.workers_noise import IntegerSums, fact_of
from airmixml.scenario import Scenario

_COLLUDING: Final = (0.0, 0.01, 0.1, 0.3)
_QUIETER_DB: Final = (10.0, 30.0)
_MOST: Final = " (the most)"
_ADVERSARIES: Final = ("server", "everyone")


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """One thing that is not as assumed, and the exact epsilon against some adversaries then."""

    name: str  # what is otherwise
    epsilons: dict[str, float]  # by adversary; infinite where nothing hides a worker
    note: str = ""  # what to know about it
    colluders: int | None = None  # who do not know the graph, where that is what is otherwise
    accountants: dict[str, str] = field(default_factory=dict)  # by adversary, where it is not the exact one

    def to_dict(self) -> dict[str, Any]:
        finite = {name: value if math.isfinite(value) else None for name, value in self.epsilons.items()}
        told = {"note": self.note or None, "accountants": self.accountants or None, "colluders": self.colluders}
        told = {name: value for name, value in told.items() if value is not None}
        return {"name": self.name, "epsilons": finite, **told}


def better_receivers(statements: Iterable[PrivacyStatement]) -> tuple[WhatIf, ...]:
    """Return what receivers do that are better than the statements assume, or transmitters that are louder."""
    rows: dict[str, dict[str, float]] = {}
    others: dict[str, str] = {}
    for each in sorted(statements, key=lambda each: each.accountant != "gdp"):  # the target's own word counts
        others |= {each.adversary: each.accountant} if each.accountant != "gdp" and each.if_better else {}
        for name, epsilon in each.if_better.items():
            rows.setdefault(name, {})[each.adversary] = math.inf if epsilon is None else epsilon
    return tuple(WhatIf(name=name, epsilons=epsilons, accountants=others) for name, epsilons in rows.items())


def what_ifs(scenario: Scenario, design: Design, delta: float) -> tuple[WhatIf, ...]:
    """Return what more or better informed colluders and better receivers do; empty where workers bring no noise."""
    integers, masking = scenario.privacy.noise_kind.all_sums(scenario, design.sensitivity), masking_of(scenario)
    if not integers and masking is None:
        return ()
    planned, seats = design.fact(facts.WorkersNoise), scenario.radio.scheduled

    def found(name: str, colluders: int, *, informed: bool = False, note: str = "") -> WhatIf:
        if integers:
            changed, why = _integers_left(integers, design, scenario, colluders, informed=informed)
        else:
            assert masking is not None
            left, why = noise_left(masking, scenario, colluders)
            if informed:  # a worker's own noise is left
                count = max(seats - colluders - math.ceil(scenario.privacy.most_absent * seats), 1)
                left = {"in_sum_watts": 2.0 * count * masking.own_watts, "alone_watts": 2.0 * masking.own_watts}
                why = ""
            changed = design.stating(replace(planned, **left))
        epsilons = _epsilons(scenario, changed, delta)
        return WhatIf(name=name, epsilons=epsilons, note=note or why, colluders=None if informed else colluders)

    every, assumed = [], min(scenario.privacy.colluders, seats - 1)
    most = assumed if planned.withstands is None else planned.withstands
    said = {most: _MOST, assumed: " (as assumed)"}
    shares = (math.ceil(share * seats) for share in _COLLUDING)
    for colluders in sorted({assumed, most, *shares}):
        share = number_text(100.0 * colluders / seats, 2)
        every.append(found(f"{colluders:,} colluders, {share}%{said.get(colluders, '')}", colluders))
    if informed := informed_with(scenario):
        colluders, note = informed
        every.append(found(f"{colluders:,} colluders who know the graph", colluders, informed=True, note=note))
    for quieter_db in () if integers else _QUIETER_DB:  # for integers no receiver matters
        changed = replace(design, noise_watts=design.noise_watts / db_to_ratio(quieter_db))
        name = f"a receiver with {quieter_db:.0f} dB less noise"
        every.append(WhatIf(name=name, epsilons=_epsilons(scenario, changed, delta)))
    return tuple(every)


def _integers_left(
    sums: tuple[IntegerSums, ...], design: Design, scenario: Scenario, colluders: int, *, informed: bool
) -> tuple[Design, str]:
    """Return the design of sums of integers that so many colluders leave, and what to know of it.

    The graph stays as it was drawn for those who are assumed to collude.
    """
    left, notes = tuple(replace(each, masked=False) for each in sums), ("",)
    if not informed:
        left, notes = zip(*(each.left_with(scenario, colluders) for each in sums), strict=True)
    stated = fact_of(scenario, left, design.fact(facts.WorkersNoise).alone_watts / (2.0 * sums[0].hidden_variance))
    # What is received of each kind counts by the noise of its own.
    less = [after.hidden_variance / before.hidden_variance for before, after in zip(sums, left, strict=True)]
    watts = tuple(each * less[0] / own for each, own in zip(design.received_watts, less, strict=False))
    return replace(design, received_watts=watts).stating(stated), notes[0]


def _epsilons(scenario: Scenario, design: Design, delta: float) -> dict[str, float]:
    found: dict[str, float] = {}
    asked: dict[str, Any] = {"accountant": "gdp", "adjacency": scenario.privacy.adjacency, "delta": delta}
    for name in _ADVERSARIES:
        with suppress(AirMixError):
            found[name], _ = Question(adversary=adversary_named(name, scenario), **asked).epsilon(design)
    return found
