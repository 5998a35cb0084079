"""How the symbols of a slot are laid out: blocks, each with its pilots, and pieces over which gains stay put.

A block lasts until the next resynchronisation, or as long as a moving worker's channel does. Within a block phases
drift; the fast path holds them for a *piece*, in whose middle they are right. Pieces are short enough for a root mean
square drift of at most 0.2 rad from end to end, so an error of 0.06 rad.

With OFDM a block has a pilot on every cluster of subcarriers. Between pilots, a few OFDM symbols at a time (as many as
a piece may last) are filled cluster by cluster, so that a piece is what such a run sends on one cluster.

Phases that drift apart leave less of a sum: E exp(j phi(t)) falls from the start of a block on. A pilot tells the mean
gain there; a server built for a class of hardware knows what follows from how large drifts are (``expected_drift``):
exp(-(2 pi s t)^2 / 2) for carrier offsets of s Hz, exp(-pi w t) for phase noise of linewidth w, J_0(2 pi f_D t) for
workers that move.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from scipy.special import j0

from airmixml.arrays import Doubles
from airmixml.scenario import Scenario
from airmixml.scenario.air import Air
from airmixml.scenario.waveform import SYMBOLS_PER_SECOND

_DRIFT_RADIANS: Final = 0.2
_MOST_PIECES_PER_BLOCK: Final = 64


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The data symbols of a slot in pieces, in the order they are sent."""

    lengths: tuple[int, ...]  #: data symbols of each piece
    blocks: tuple[int, ...]  #: the block of each piece
    seconds: tuple[float, ...]  #: middle of each piece, counted from the resynchronisation at the start of its block
    overhead_symbols: int  #: pilots, guards and the like of the whole slot
    clusters: tuple[int, ...] = ()  #: the cluster of subcarriers of each piece; all 0 on a single carrier
    hertz: tuple[float, ...] = ()  #: middle of each piece in frequency, from the carrier; all 0 on a single carrier

    @property
    def pieces(self) -> int:
        """How many pieces there are."""
        return len(self.lengths)

    @property
    def block_count(self) -> int:
        """How many blocks there are."""
        return self.blocks[-1] + 1

    @property
    def symbols(self) -> int:
        """All symbols of a slot on the air, data and overhead."""
        return sum(self.lengths) + self.overhead_symbols

    @property
    def first_pieces(self) -> list[int]:
        """The first piece of each block, next to its pilot."""
        return [piece for piece, block in enumerate(self.blocks) if piece == 0 or block != self.blocks[piece - 1]]

    @cached_property
    def pilots(self) -> tuple[int, ...]:
        """The pilot of each piece: that of its block and cluster, counted in the order of their first pieces."""
        places = list(zip(self.blocks, self.clusters or (0,) * self.pieces, strict=True))
        number = {place: pilot for pilot, place in enumerate(dict.fromkeys(places))}
        return tuple(number[place] for place in places)

    @cached_property
    def pilot_pieces(self) -> list[int]:
        """The first piece of each pilot, next to it."""
        first: dict[int, int] = {}
        for piece, pilot in enumerate(self.pilots):
            first.setdefault(pilot, piece)
        return list(first.values())

    @property
    def pilot_count(self) -> int:
        """How many pilots a slot has: one per block and cluster."""
        return len(self.pilot_pieces)

    @property
    def longest_block(self) -> int:
        """Data symbols of every block but the last, which may have fewer."""
        return sum(length for length, block in zip(self.lengths, self.blocks, strict=True) if block == 0)


@lru_cache(maxsize=64)
def frame_of(air: Air, symbols: int, *, piece_symbols: int = 0) -> Frame:
    """Lay out so many data symbols; ``piece_symbols`` asks for pieces of that length (1: nothing is held)."""
    if air.is_ideal:
        return Frame(lengths=(symbols,), blocks=(0,), seconds=(0.0,), overhead_symbols=0)
    if air.waveform == "ofdm":
        return _ofdm_frame(air, symbols, held=not piece_symbols)
    overhead = air.block_overhead_symbols
    before = overhead - air.silence_symbols - air.ringing_symbols
    fitting = air.block_seconds * SYMBOLS_PER_SECOND
    per_block = symbols if math.isinf(fitting) else min(symbols, int(fitting) - overhead)
    block_count = -(-symbols // per_block)
    pieces = _pieces_per_block(air, per_block / SYMBOLS_PER_SECOND)
    most = piece_symbols or max(1, -(-per_block // pieces))
    lengths, blocks, seconds = [], [], []
    for block in range(block_count):
        left = min(per_block, symbols - block * per_block)
        for first in range(0, left, most):
            length = min(most, left - first)
            lengths.append(length)
            blocks.append(block)
            seconds.append((before + first + length / 2.0) / SYMBOLS_PER_SECOND)
    return Frame(
        lengths=tuple(lengths),
        blocks=tuple(blocks),
        seconds=tuple(seconds),
        overhead_symbols=block_count * overhead,
    )


def _ofdm_frame(air: Air, symbols: int, *, held: bool) -> Frame:
    """Lay out data symbols on a grid; not ``held``, every one of them is a piece, on the place it has anyway."""
    grid = air.grid
    in_all = -(-symbols // grid.subcarriers)
    per_block = int(min(in_all, grid.fitting(air.block_seconds)))
    block_count = -(-in_all // per_block)
    pieces = _pieces_per_block(air, per_block * grid.seconds)
    run = -(-per_block // pieces)
    rows: list[tuple[int, int, float, int, float]] = []  # length, block, seconds, cluster, hertz
    left = symbols
    for block in range(block_count):
        in_block = min(per_block, in_all - block * per_block)
        for first in range(0, in_block, run):
            steps = min(run, in_block - first)
            for cluster, (subcarrier, width) in enumerate(zip(grid.firsts, grid.widths, strict=True)):
                length = min(width * steps, left)
                left -= length
                if held and length:
                    middle = grid.pilots + first + steps / 2.0
                    rows.append((length, block, middle * grid.seconds, cluster, grid.centres_hz[cluster]))
                elif length:
                    for place in range(length):  # subcarrier by subcarrier, one OFDM symbol after the other
                        when = (grid.pilots + first + place // width + 0.5) * grid.seconds
                        rows.append((1, block, when, cluster, grid.hertz(subcarrier + place % width)))
    lengths, blocks, seconds, clusters, hertz = zip(*rows, strict=True)
    on_air = in_all * grid.length + block_count * (grid.pilots * grid.length + grid.guard)
    return Frame(
        lengths=lengths,
        blocks=blocks,
        seconds=seconds,
        overhead_symbols=on_air - symbols,
        clusters=clusters,
        hertz=hertz,
    )


def _pieces_per_block(air: Air, seconds: float) -> int:
    """Return how many pieces keep the drift within each small."""
    needed = math.ceil(math.sqrt(air.squared_drift(seconds)) / _DRIFT_RADIANS)
    return max(1, min(_MOST_PIECES_PER_BLOCK, needed))


def expected_drift(scenario: Scenario, frame: Frame) -> Doubles:
    """Return the expected mean gain of each piece over that of the piece beside its pilot; shape pieces."""
    seconds = np.array(frame.seconds)
    at_pilot = seconds[np.array(frame.pilot_pieces)[np.array(frame.pilots)]]
    return np.asarray(_expected(scenario, seconds) / _expected(scenario, at_pilot))


def _expected(scenario: Scenario, seconds: Doubles) -> Doubles:
    """Return E g so long after a resynchronisation; shape of the seconds. At least a half: noise is raised too."""
    air = scenario.air
    turns = 2.0 * math.pi * seconds
    log_gain = -0.5 * (air.frequency_offset_hz * turns) ** 2 - 0.5 * air.phase_noise_hz * turns
    scattered = 1.0
    if scenario.radio.fading == "rician":
        scattered = 1.0 / (1.0 + scenario.radio.rician_k)
    moved = 1.0 - scattered + scattered * j0(air.doppler_hz * turns)
    return np.asarray(np.maximum(np.exp(np.maximum(log_gain, -50.0)) * moved, 0.5))
