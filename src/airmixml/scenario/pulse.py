"""The pulse of a single carrier: root-raised cosine at both ends, so a raised cosine between them.

A worker sends sum_n v_n p(t - n), p the root-raised cosine of energy 1, and the server filters with p again. Between
the two ends stands rc = p * p, which is 0 at every whole number but 0 (Nyquist): on time, symbols do not disturb each
other. J. G. Proakis and M. Salehi, Digital Communications, 5th ed., section 9.2-1.
"""

import math
from functools import lru_cache
from typing import Final

PULSE_ERROR: Final = 1e-3
"""Root mean square of what is left out of a unit symbol that arrives off time."""

_MOST_SYMBOLS: Final = 1000


def raised_cosine(symbols: float, roll_off: float) -> float:
    """Return rc(t) = sinc(t) cos(pi r t) / (1 - (2 r t)^2), t in symbols, r the roll-off."""
    below = 1.0 - (2.0 * roll_off * symbols) ** 2
    if abs(below) < 1e-9:  # its limit there
        return math.pi / 4.0 * _sinc(0.5 / roll_off)
    return _sinc(symbols) * math.cos(math.pi * roll_off * symbols) / below


@lru_cache(maxsize=64)
def ringing_symbols(roll_off: float, largest_offset: float) -> int:
    """Return for how many symbols a symbol that is that much off time is heard before and after its own.

    The energy of all that follows is below ``PULSE_ERROR``^2. Blocks keep that much silence on both sides of their
    data, so that neither pilots nor other blocks are heard in them.
    """
    if not largest_offset:
        return 0
    # Not the largest offset alone: with some roll-offs the pulse is 0 at whole numbers and a half as well.
    return max(_reach(roll_off, share * largest_offset) for share in (0.25, 0.5, 0.75, 1.0))


def _reach(roll_off: float, offset: float) -> int:
    beyond = 0.0
    for symbol in range(_MOST_SYMBOLS, 0, -1):
        beyond += sum(raised_cosine(side * symbol + offset, roll_off) ** 2 for side in (-1, 1))
        if beyond > PULSE_ERROR**2:
            return symbol
    return 1


def _sinc(x: float) -> float:
    return math.sin(math.pi * x) / (math.pi * x) if x else 1.0
