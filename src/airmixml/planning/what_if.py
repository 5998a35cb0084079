"""What becomes of a design whose workers hide themselves when its assumptions fail.

More workers collude, colluders know the graph of masks, receivers are better.

Noise, masks and power stay as planned; who knows the masks, or how quiet a receiver is, does not.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from airmixml.errors import AirMixError
from airmixml.privacy import Design, facts
from airmixml.privacy.evaluation import least_epsilon
from airmixml.radio.integer_sums import IntegerSums, integer_sums_of
from airmixml.radio.masking import honest_with, informed_with, masking_of
from airmixml.radio.privacy_target import adversary_named
from airmixml.scenario import Scenario
from airmixml.units import db_to_ratio

_COLLUDING: Final = (0.0, 0.01, 0.1, 0.3)
_QUIETER_DB: Final = (10.0, 30.0)
_ADVERSARIES: Final = ("server", "everyone")


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """One thing that is not as assumed, and the exact epsilon against some adversaries then.

    Attributes:
        name: what is otherwise.
        epsilons: by adversary; infinite where nothing hides a worker.
        note: what to know about it.
    """

    name: str
    epsilons: dict[str, float]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        finite = {name: value if math.isfinite(value) else None for name, value in self.epsilons.items()}
        return {"name": self.name, "epsilons": finite, **({"note": self.note} if self.note else {})}


def what_ifs(scenario: Scenario, design: Design, delta: float) -> tuple[WhatIf, ...]:
    """Return what more or better informed colluders and better receivers do; empty where workers bring no noise."""
    masking, seats = masking_of(scenario), scenario.radio.scheduled
    integers = integer_sums_of(scenario, design.sensitivity)
    if integers is not None:
        return tuple(_with_integers(scenario, design, integers, delta))
    if masking is None:
        return ()
    absent, brought = math.ceil(scenario.privacy.most_absent * seats), design.fact(facts.WorkersNoise)
    assumed = min(scenario.privacy.colluders, seats - 1)
    found = []
    for colluders in sorted({assumed, *(math.ceil(share * seats) for share in _COLLUDING)}):
        honest, note = honest_with(scenario, colluders)
        hidden_watts = 1.0 / honest.inverse(masking.own_watts, masking.pair_watts)
        if masking.self_watts:  # all that is left to a worker that is called absent though it sent
            hidden_watts = min(hidden_watts, masking.own_watts + masking.self_watts)
        in_sum_watts = 2.0 * honest.count * masking.own_watts
        changed = design.stating(replace(brought, in_sum_watts=in_sum_watts, alone_watts=2.0 * hidden_watts))
        as_assumed = " (as assumed)" if colluders == assumed else ""
        name = f"{colluders:,} colluders, {colluders / seats:.0%}{as_assumed}"
        found.append(WhatIf(name=name, epsilons=_epsilons(scenario, changed, delta), note=note))
    if informed := informed_with(scenario):
        in_sum_watts = 2.0 * max(seats - informed[0] - absent, 1) * masking.own_watts
        alone = design.stating(replace(brought, in_sum_watts=in_sum_watts, alone_watts=2.0 * masking.own_watts))
        found.append(_informed(*informed, _epsilons(scenario, alone, delta)))
    for quieter_db in _QUIETER_DB:
        better = replace(design, noise_watts=design.noise_watts / db_to_ratio(quieter_db))
        name = f"a receiver with {quieter_db:.0f} dB less noise"
        found.append(WhatIf(name=name, epsilons=_epsilons(scenario, better, delta)))
    return tuple(found)


def _with_integers(scenario: Scenario, design: Design, integers: IntegerSums, delta: float) -> Iterator[WhatIf]:
    """Yield what more colluders do to sums of integers; nobody's receiver matters there."""
    seats, privacy, brought = scenario.radio.scheduled, scenario.privacy, design.fact(facts.WorkersNoise)
    assumed = min(privacy.colluders, seats - 1)
    for colluders in sorted({assumed, *(math.ceil(share * seats) for share in _COLLUDING)}):
        # The graph stays as it was drawn for those who are assumed to collude.
        left, note = integers.left_with(scenario, colluders)
        per_watt = integers.hidden_variance / left.hidden_variance
        noise = replace(brought, alone_watts=brought.alone_watts / per_watt, rounding=left.rounding)
        changed = design.stating(noise)
        as_assumed = " (as assumed)" if colluders == assumed else ""
        name = f"{colluders:,} colluders, {colluders / seats:.0%}{as_assumed}"
        yield WhatIf(name=name, epsilons=_epsilons(scenario, changed, delta), note=note)
    if informed := informed_with(scenario):
        alone = replace(integers, masked=False)
        share = alone.hidden_variance / integers.hidden_variance
        noise = replace(brought, alone_watts=share * brought.alone_watts, rounding=alone.rounding)
        yield _informed(*informed, _epsilons(scenario, design.stating(noise), delta))


def _informed(colluders: int, note: str, epsilons: dict[str, float]) -> WhatIf:
    """Return what colluders do who know the graph."""
    return WhatIf(name=f"{colluders:,} colluders who know the graph", epsilons=epsilons, note=note)


def _epsilons(scenario: Scenario, design: Design, delta: float) -> dict[str, float]:
    adjacency, found = scenario.privacy.adjacency, {}
    for name in _ADVERSARIES:
        try:
            epsilon, _ = least_epsilon(design, adversary_named(name, scenario), "gdp", adjacency=adjacency, delta=delta)
        except AirMixError:
            continue
        found[name] = epsilon
    return found
