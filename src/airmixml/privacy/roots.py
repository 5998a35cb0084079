"""Where a growing function crosses zero. SciPy's root finders take longer to import than an account takes."""

import math
from collections.abc import Callable


def bracket_root(
    excess: Callable[[float], float],
    low: float,
    high: float,
    *,
    tolerance: float,
    relative: float = 0.0,
) -> tuple[float, float]:
    """Return two places, at most ``tolerance`` + ``relative`` |place| apart, between which ``excess`` becomes positive.

    The excess is at most 0 at the first place and above 0 at the second, or 0 at both, if they are the root itself. If
    it does not change its sign between ``low`` and ``high``, both places are the end that is nearer to the root. The
    method is that of Chandrupatla (1997): inverse quadratic interpolation where three points allow it, else halving.
    """
    places, values = [low, high], [excess(low), excess(high)]
    if values[0] >= 0.0 or values[1] <= 0.0:
        end = low if values[0] >= 0.0 else high
        return end, end
    newest, share = 1, 0.5
    while abs(places[1] - places[0]) > tolerance + relative * max(abs(places[0]), abs(places[1])):
        place = places[newest] + share * (places[1 - newest] - places[newest])
        if place in places:
            place = 0.5 * (places[0] + places[1])
            if place in places:
                break  # no number lies between them
        value = excess(place)
        if value == 0.0:
            return place, place
        side = int(value > 0.0)
        older = (places[side], values[side])
        places[side], values[side], newest = place, value, side
        share = _share((place, value), (places[1 - side], values[1 - side]), older)
        least = min(0.5 * tolerance / abs(places[1] - places[0]), 0.5)
        share = min(max(share, least), 1.0 - least)
    return places[0], places[1]


def _share(newest: tuple[float, float], across: tuple[float, float], older: tuple[float, float]) -> float:
    """Return how far to go from the newest place to the one across the root, as a share of the way."""
    (a, f_a), (b, f_b), (c, f_c) = newest, across, older
    if c in (a, b) or f_c in (f_a, f_b):
        return 0.5
    along, up = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
    if not (0.0 <= along <= 1.0 and 1.0 - math.sqrt(1.0 - along) < up < math.sqrt(along)):
        return 0.5
    return f_a / (f_b - f_a) * f_c / (f_b - f_c) + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (f_c - f_b)
