"""What an epsilon becomes if the adversary's receiver is better than assumed, or transmitters are louder.

Against receiver noise an epsilon assumes a number of antennas, a noise floor and amplitudes. A factor f in power, from
whichever of them, is a factor f of every squared shift: sqrt(f) of mu.
"""

import math
from collections.abc import Mapping
from typing import Final

from airmixml.errors import PrivacyError
from airmixml.privacy.design import Design
from airmixml.privacy.evaluation import least_epsilon
from airmixml.privacy.facts import Antennas
from airmixml.privacy.views import Adversary
from airmixml.units import db_to_ratio
from airmixml.wording import epsilon_text

LOUDER_DB: Final = (3.0, 10.0)
"""How much stronger a worker may be received than assumed: a quieter receiver, a louder transmitter."""
MANY_ANTENNAS: Final = 64
"""Antennas of an ordinary base station."""
_MANY: Final = f"{MANY_ANTENNAS} antennas"
UNCHANGED: Final = "none is assumed: antennas, noise floor and amplitudes change nothing"
"""What is said of the receiver against everyone, from whom only noise hides that workers bring."""


def better_receivers(antennas: int) -> dict[str, float]:
    """Return what may be better than assumed, and by which factor in power; 0 antennas: they do not matter."""
    factors = {f"+{decibels:g} dB": db_to_ratio(decibels) for decibels in LOUDER_DB}
    return factors | ({_MANY: MANY_ANTENNAS / antennas} if 0 < antennas < MANY_ANTENNAS else {})


def epsilons_if_better(
    design: Design, adversary: Adversary, accountant: str, *, adjacency: str, delta: float
) -> dict[str, float]:
    """Return the accountant's epsilon for each better receiver, infinite where it certifies none.

    Empty where the adversary's own receiver does not count, since workers bring their noise.
    """
    found: dict[str, float] = {}
    factors = better_receivers(adversary.antennas(design)) if adversary.hears(design) else {}
    of_server = design.fact(Antennas)
    if (
        _MANY in factors and of_server.many and not adversary.own_receiver
    ):  # a fading channel gains more than their number
        factors[_MANY] = of_server.many / of_server.gain
    for name, factor in factors.items():
        try:
            if math.isinf(factor):
                raise PrivacyError("nothing bounds what so many antennas have of a worker in a fade")
            found[name], _ = least_epsilon(
                design, adversary, accountant, adjacency=adjacency, delta=delta, louder=factor, quickly=True
            )
        except PrivacyError:
            found[name] = math.inf
    return found


def receiver_in_words(antennas: int, epsilons: Mapping[str, float | None], accountant: str) -> str:
    """Return what is assumed of a receiver, and that accountant's epsilons if it is too little; empty without any."""
    if not epsilons:
        return ""
    assumed = f"{antennas} antenna{'' if antennas == 1 else 's'}, " if antennas else ""
    told = ", ".join(
        f"{epsilon_text(epsilon)} {'with' if name.endswith('antennas') else 'at'} {name}"
        for name, epsilon in epsilons.items()
    )
    return f"assumes {assumed}the stated noise floor and amplitudes; epsilon by {accountant} {told}"
