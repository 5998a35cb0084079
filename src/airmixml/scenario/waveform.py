"""How symbols share time and frequency: the pulse of a single carrier, or the grid of OFDM.

A worker on a single carrier sends sum_n v_n p(t - n), p the root-raised cosine of energy 1, and the server filters with
p again. Between the two ends stands rc = p * p, which is 0 at every whole number but 0 (Nyquist): on time, symbols do
not disturb each other. J. G. Proakis and M. Salehi, Digital Communications, 5th ed., section 9.2-1.

With OFDM, symbols go out at the same rate, N of them at once for N times as long, and the cyclic prefix before. The
same band is then N subcarriers wide, with frequencies (k - (N - 1) / 2) R / N for a rate R.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

SYMBOLS_PER_SECOND: Final = 794_000.0
"""The paper's 1 ms carries a whole MNIST sample, 784 pixels and 10 label symbols."""

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


@dataclass(frozen=True, kw_only=True)
class SubcarrierGrid:
    """What the keys of the table ``[air]`` make of time and frequency; all lengths in symbols of a single carrier."""

    subcarriers: int  # N
    prefix: int  # length of the cyclic prefix, a whole number
    widths: tuple[int, ...]  # subcarriers of each cluster; the last may have fewer
    pilots: int  # OFDM symbols at the start of a block that carry pilots, for the workers and then for the server
    server_pilots: int  # those for the server
    guard: int  # silence after a block

    @property
    def length(self) -> int:
        """Of one OFDM symbol with its prefix."""
        return self.subcarriers + self.prefix

    @property
    def seconds(self) -> float:
        """The same in seconds."""
        return self.length / SYMBOLS_PER_SECOND

    @property
    def firsts(self) -> tuple[int, ...]:
        """The first subcarrier of each cluster."""
        return tuple(sum(self.widths[:cluster]) for cluster in range(len(self.widths)))

    @property
    def centres_hz(self) -> tuple[float, ...]:
        """Middle of each cluster, from the carrier."""
        pairs = zip(self.firsts, self.widths, strict=True)
        return tuple(self.hertz(first + (width - 1) / 2.0) for first, width in pairs)

    def hertz(self, subcarrier: float) -> float:
        """Return the frequency of a subcarrier, from the carrier."""
        return (subcarrier - (self.subcarriers - 1) / 2.0) * SYMBOLS_PER_SECOND / self.subcarriers

    def fitting(self, block_seconds: float) -> float:
        """Return how many OFDM symbols of data fit into a block; infinity without an end."""
        length = block_seconds * SYMBOLS_PER_SECOND
        return length if math.isinf(length) else float((length - self.guard) // self.length - self.pilots)
