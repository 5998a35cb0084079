"""The noise multiplier of each kind of slots, as other libraries state noise."""

import math
from collections.abc import Iterable, Mapping
from operator import mul
from typing import Any, Final

from airmixml.messages import number_text
from airmixml.privacy import Design, Question, facts
from airmixml.privacy.adversaries import Everyone

_EACH: Final = {"slot": "every slot", "round": "every round", "strongest slot": "the strongest slot"}


def noise_multipliers(design: Design, adjacency: str, delta: float, rounds: int = 0) -> tuple[dict[str, Any], ...]:
    """Return the noise multiplier of each kind of slots, the last ``rounds`` of which carry gradients.

    Each is the noise deviation over one worker's move; all Gaussian slots together have the exact epsilon of the
    design. Where slots are rounded to integers it is that of Gaussian slots that hide no more, and delta is less by the
    share set aside for tails. Where power differs from slot to slot only the strongest is told.
    """
    heard = design.in_workers_noise()
    shifts = heard.squared_shifts(design.sensitivity.squared_move(adjacency, "none"))
    if design.fact(facts.WorkersNoise).rounding is not None:
        asked = Question(adversary=Everyone(), accountant="gdp", adjacency=adjacency, delta=delta)
        epsilon, mechanism = asked.epsilon(design)
        shifts = tuple(map(mul, shifts, mechanism.squared_tilts(epsilon, delta)))
    before = design.slots - rounds
    kinds = [(name, count) for name, count in (("slot", before), ("round", rounds)) if count]
    if tuple(count for _, count in kinds) != design.counts:
        kinds, shifts = [("strongest slot", 1)], (max(shifts),)
    return tuple(
        {"kind": name, "number": count, "noise_multiplier": math.inf if shift == 0.0 else 1.0 / math.sqrt(shift)}
        for (name, count), shift in zip(kinds, shifts, strict=True)
    )


def multipliers_in_words(found: Iterable[Mapping[str, Any]], *, limited: bool) -> str:
    """Return noise multipliers with the kind of slot that each is of; the least alone where a limit lowers powers."""
    if limited:
        least = min(each["noise_multiplier"] for each in found)
        found = [{"kind": "strongest slot", "noise_multiplier": least}]
    return ", ".join(f"{number_text(each['noise_multiplier'])} in {_EACH[each['kind']]}" for each in found)
