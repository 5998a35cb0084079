"""How the symbols of a slot are laid out: blocks, each with its pilots, and pieces over which gains stay put.

A block lasts until the next resynchronisation, or as long as a moving worker's channel does. Within a block phases
drift; the fast path holds them for a *piece*, as they are at the time when the mean square of their drift is its mean
over the piece. Pieces are short enough for a root mean square drift of at most 0.15 rad from end to end, and a block
has four or more of them unless it drifts by less than 0.03 rad: then the mean square of what drifting makes of a sum
is right within 5 %. With OFDM a piece is what a few OFDM symbols have on one cluster of subcarriers, or on half of one
where workers are off time and phases fall along it.

Gains are drawn for pilots as for pieces, at their own time: a pilot is a piece without data (``with_pilots``), so that
no impairment has to know of pilots, and what drifts has drifted by then.

A server built for a class of hardware knows how E exp(j phi(t)) falls after a pilot (``expected_drift``):
exp(-(2 pi s t)^2 / 2) for carrier offsets of s Hz, exp(-pi w t) for phase noise of linewidth w, J_0(2 pi f_D t) for
workers that move.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, Self

import numpy as np
from scipy.special import j0

from airmixml.arrays import Doubles, Integers
from airmixml.impairments.fading import fades
from airmixml.scenario import Scenario
from airmixml.scenario.air import SYMBOLS_PER_SECOND, Air

_DRIFT_RADIANS: Final = 0.15
_LITTLE_DRIFT_RADIANS: Final = 0.03
_PIECES_OF_A_DRIFT: Final = 4
_MOST_PIECES_PER_BLOCK: Final = 64


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The data symbols of a slot in pieces, in the order they are sent."""

    lengths: tuple[int, ...]  #: data symbols of each piece
    blocks: tuple[int, ...]  #: the block of each piece
    #: time at which each piece is held, about its middle, counted from the resynchronisation at the start of its block
    seconds: tuple[float, ...]
    overhead_symbols: int  #: pilots, guards and the like of the whole slot
    clusters: tuple[int, ...]  #: the cluster of subcarriers of each piece; all 0 on a single carrier
    hertz: tuple[float, ...]  #: frequency of each piece, from the carrier; all 0 on a single carrier
    pilot_seconds: float = 0.0  #: middle of the pilots of a block, counted like ``seconds``
    pilot_hertz: tuple[float, ...] = (0.0,)  #: middle of the pilot of each cluster in frequency

    @classmethod
    def of(cls, pieces: Iterable[tuple[int, int, float, int, float]], **others: Any) -> Self:
        """Return the frame of pieces, each with its length, block, seconds, cluster and hertz."""
        lengths, blocks, seconds, clusters, hertz = zip(*pieces, strict=True)
        return cls(lengths=lengths, blocks=blocks, seconds=seconds, clusters=clusters, hertz=hertz, **others)

    @property
    def pieces(self) -> int:
        return len(self.lengths)

    @cached_property
    def times(self) -> Doubles:
        """The same as ``seconds``, as an array; shape pieces."""
        return np.array(self.seconds)

    @property
    def block_count(self) -> int:
        return self.blocks[-1] + 1

    @property
    def symbols(self) -> int:
        """All symbols of a slot on the air, data and overhead."""
        return sum(self.lengths) + self.overhead_symbols

    @cached_property
    def per_block(self) -> int:
        """Pieces of every block but the last, which may have fewer."""
        return self.blocks.count(0)

    @cached_property
    def steps(self) -> Doubles:
        """Seconds from the piece before to each piece, or from the start of its block to the first; shape pieces."""
        return np.where(np.diff(self.blocks, prepend=-1) > 0, self.times, np.diff(self.times, prepend=0.0))

    @cached_property
    def pilots(self) -> tuple[int, ...]:
        """The pilot of each piece: that of its block and cluster, counted in the order of their first pieces."""
        places = list(zip(self.blocks, self.clusters, strict=True))
        number = {place: pilot for pilot, place in enumerate(dict.fromkeys(places))}
        return tuple(number[place] for place in places)

    @property
    def pilot_count(self) -> int:
        """How many pilots a slot has: one per block and cluster."""
        return max(self.pilots) + 1

    @cached_property
    def with_pilots(self) -> Self:
        """The same slot with its pilots as pieces of no length, before the others of their block."""
        pieces = zip(self.lengths, self.blocks, self.seconds, self.clusters, self.hertz, strict=True)
        pilots = (
            (0, block, self.pilot_seconds, cluster, self.pilot_hertz[cluster])
            for block, cluster in dict.fromkeys(zip(self.blocks, self.clusters, strict=True))
        )
        order = sorted([*pilots, *pieces], key=lambda piece: piece[1])  # which leaves pilots first in their block
        others = {name: getattr(self, name) for name in ("overhead_symbols", "pilot_seconds", "pilot_hertz")}
        return type(self).of(order, **others)

    @cached_property
    def pieces_then_pilots(self) -> Integers:
        """Where ``with_pilots`` has each piece, and then each pilot."""
        return np.argsort(np.array(self.with_pilots.lengths) == 0, kind="stable")

    @property
    def longest_block(self) -> int:
        """Data symbols of every block but the last, which may have fewer."""
        return sum(length for length, block in zip(self.lengths, self.blocks, strict=True) if block == 0)


@lru_cache(maxsize=64)
def frame_of(air: Air, symbols: int, *, piece_symbols: int = 0) -> Frame:
    """Lay out so many data symbols; ``piece_symbols`` asks for pieces of that length (1: nothing is held)."""
    if air.is_ideal:
        return Frame.of([(symbols, 0, 0.0, 0, 0.0)], overhead_symbols=0)
    if air.waveform == "ofdm":
        return _ofdm_frame(air, symbols, held=not piece_symbols)
    overhead, of_pilots = air.block_overhead_symbols, air.estimation_pilots + air.pilot_symbols / 2.0
    before = overhead - air.silence_symbols - air.ringing_symbols
    fitting = air.block_seconds * SYMBOLS_PER_SECOND
    per_block = symbols if math.isinf(fitting) else min(symbols, int(fitting) - overhead)
    block_count = -(-symbols // per_block)
    pieces = _pieces_per_block(air, per_block / SYMBOLS_PER_SECOND)
    most = piece_symbols or max(1, -(-per_block // pieces))
    rows = []
    for block in range(block_count):
        left = min(per_block, symbols - block * per_block)
        for first in range(0, left, most):
            last = min(first + most, left)
            begin, end = ((before + symbol) / SYMBOLS_PER_SECOND for symbol in (first, last))
            rows.append((last - first, block, air.mean_drift_seconds(begin, end), 0, 0.0))
    return Frame.of(rows, overhead_symbols=block_count * overhead, pilot_seconds=of_pilots / SYMBOLS_PER_SECOND)


def _ofdm_frame(air: Air, symbols: int, *, held: bool) -> Frame:
    """Lay out data symbols on a grid; not ``held``, every one of them is a piece, on the place it has anyway."""
    grid = air.grid
    in_all = -(-symbols // grid.subcarriers)
    per_block = int(min(in_all, grid.fitting(air.block_seconds)))
    block_count = -(-in_all // per_block)
    pieces = _pieces_per_block(air, per_block * grid.seconds)
    run = -(-per_block // pieces)
    rows: list[tuple[int, int, float, int, float]] = []
    left = symbols
    for block in range(block_count):
        in_block = min(per_block, in_all - block * per_block)
        for first in range(0, in_block, run):
            steps = min(run, in_block - first)
            begin, end = ((grid.pilots + step) * grid.seconds for step in (first, first + steps))
            for cluster, subcarrier, width in _parts_of_clusters(air):
                length = min(width * steps, left)
                left -= length
                place = np.arange(length)  # subcarrier by subcarrier, one OFDM symbol after the other
                when = (grid.pilots + first + place // width + 0.5) * grid.seconds
                where = grid.hertz(subcarrier) + (grid.hertz(1) - grid.hertz(0)) * (place % width)
                if held and length:
                    off = where - grid.centres_hz[cluster]
                    hertz_off = math.copysign(math.sqrt(np.square(off).mean()), off.sum())
                    at = grid.centres_hz[cluster] + (hertz_off if width < grid.widths[cluster] else off.mean())
                    rows.append((length, block, air.mean_drift_seconds(begin, end), cluster, float(at)))
                else:
                    rows += [(1, block, *at) for at in zip(when, [cluster] * length, where, strict=True)]
    on_air = in_all * grid.length + block_count * (grid.pilots * grid.length + grid.guard)
    return Frame.of(
        rows,
        overhead_symbols=on_air - symbols,
        pilot_hertz=grid.centres_hz,
        pilot_seconds=(grid.pilots - grid.server_pilots / 2.0) * grid.seconds,
    )


def _parts_of_clusters(air: Air) -> list[tuple[int, int, int]]:
    """Return cluster, first subcarrier and width of what is filled one after the other: clusters, or halves of them."""
    parts = []
    for cluster, (first, width) in enumerate(zip(air.grid.firsts, air.grid.widths, strict=True)):
        lower = -(-width // 2) if air.timing_offset_symbols else width
        parts += [(cluster, first, lower), (cluster, first + lower, width - lower)]
    return [part for part in parts if part[2]]


def _pieces_per_block(air: Air, seconds: float) -> int:
    """Return how many pieces keep the drift within each small."""
    radians = math.sqrt(air.squared_drift(seconds))
    least = _PIECES_OF_A_DRIFT if radians > _LITTLE_DRIFT_RADIANS else 1
    return max(least, min(_MOST_PIECES_PER_BLOCK, math.ceil(radians / _DRIFT_RADIANS)))


def expected_drift(scenario: Scenario, frame: Frame) -> Doubles:
    """Return the expected mean gain of each piece over that of its pilot; shape pieces."""
    return np.asarray(_expected(scenario, frame.times) / _expected(scenario, np.array([frame.pilot_seconds])))


def _expected(scenario: Scenario, seconds: Doubles) -> Doubles:
    """Return E g so long after a resynchronisation; shape of the seconds. At least a half: noise is raised too."""
    air = scenario.air
    turns = 2.0 * math.pi * seconds
    log_gain = -0.5 * (air.frequency_offset_hz * turns) ** 2 - 0.5 * air.phase_noise_hz * turns
    scattered = 1.0 / (1.0 + scenario.radio.direct_path) if air.doppler_hz and fades(scenario) else 1.0
    moved = 1.0 - scattered + scattered * j0(air.doppler_hz * turns)
    return np.asarray(np.maximum(np.exp(np.maximum(log_gain, -50.0)) * moved, 0.5))
