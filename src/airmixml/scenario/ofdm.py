"""The grid of OFDM: so many subcarriers side by side, in clusters, one OFDM symbol after the other.

Symbols go out at the rate of a single carrier, N of them at once for N times as long, and the cyclic prefix before. The
same band is then N subcarriers wide, with frequencies (k - (N - 1) / 2) R / N for a rate R.
"""

import math
from dataclasses import dataclass
from typing import Self

from airmixml.scenario.air import SYMBOLS_PER_SECOND, Air


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What the keys of the table ``[air]`` make of time and frequency; all lengths in symbols of a single carrier.

    Attributes:
        subcarriers: N.
        prefix: length of the cyclic prefix, a whole number.
        widths: subcarriers of each cluster; the last may have fewer.
        pilots: OFDM symbols at the start of a block that carry pilots, for the workers and then for the server.
        guard: silence after a block.
    """

    subcarriers: int
    prefix: int
    widths: tuple[int, ...]
    pilots: int
    guard: int

    @classmethod
    def of(cls, air: Air) -> Self:
        """Return the grid of an air."""
        count, width = air.subcarriers, min(air.cluster_subcarriers, air.subcarriers)
        return cls(
            subcarriers=count,
            prefix=math.ceil(air.cyclic_prefix * count),
            widths=tuple(min(width, count - first) for first in range(0, count, width)),
            pilots=-(-air.pilot_symbols // count) + -(-air.estimation_pilots // count),
            guard=air.guard_symbols,
        )

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
