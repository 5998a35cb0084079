"""Kinds of payloads that are samples, and what changes single vectors.

Samples are a table of the pool (``Table``); moments and gradients are matrix products (``moments``). Whatever changes
single vectors (rounding, converters, peak limits) is a ``Wrapper`` around ``vectors``, and streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers, Singles, torch
from airmixml.scenario.score_links import SOFTMAX, ScoreLink
from airmixml.streams import Streams
from airmixml.workers.signal import BLOCK, Part, Payload, Places, PoolPayload, Signal, Vectors, rounding_backoff

_SHORTEST: Final = 1e-300  # stands for the length of a vector of zeros
_MOST_IN_FLOAT32: Final = 128  # workers of a simulation, which protects nobody: twice as fast
_SHORT_RANGE: Final = 3.0
_RANGE_OF_TWO_BITS: Final = 10.0
_LONG_RANGE: Final = 20.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Broadcast:
    """What the server sends to all workers before a round.

    In an audit several runs are made at once: weights and biases have them along a first axis, and rows of the first
    come first, as many of each.
    """

    weights: Doubles  #: W; features x outputs
    biases: Doubles  #: b; shape outputs
    clip: float  #: C, the norm that gradients are shortened to
    link: ScoreLink = SOFTMAX  #: what scores stand for

    def errors(self, inputs: NDArray[np.floating], labels: Doubles | Singles) -> Doubles:
        """Return e of rows with these inputs (rows x features) and labels (rows x outputs); rows x outputs."""
        models = self.weights.reshape(-1, *self.weights.shape[-2:]).astype(inputs.dtype)
        scores = (inputs.reshape(len(models), -1, inputs.shape[1]) @ models).astype(np.float64)
        scores = (scores + self.biases.reshape(len(models), 1, -1)).reshape(len(inputs), -1)
        return np.asarray(self.link.mean(scores) - self.link.truth(labels))


class Wrapper(Payload):
    """Another payload with something done to its vectors; all else is as it was."""

    def __init__(self, inner: Payload) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # of an object that is being made
            raise AttributeError(name)
        return getattr(self.inner, name)

    def vectors(self, index: Integers) -> Vectors:
        return self.inner.vectors(index)


class Samples(PoolPayload):
    """Each worker sends (x, w l): its encoded input and its weighted label."""

    about = "the encoded input and its label"

    def vectors(self, index: Integers) -> Vectors:
        weight = np.float32(self.signal.label_weight)
        if float(weight) > self.signal.label_weight:  # rounded to the side that moves less
            weight = np.nextafter(weight, np.float32(0.0))
        return np.concatenate([self.inputs[index], weight * self.labels[index]], axis=1)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        inputs, labels = self.signal.input_symbols, self.signal.label_symbols
        return Part(inputs, self.norm, inputs), Part(labels, 0.0, labels)


class Table(Wrapper):
    """A payload whose vectors are no larger than the samples: all of the pool are laid out once, as a table."""

    @cached_property
    def table(self) -> torch.Tensor:
        """The vector of each sample of the pool; samples x symbols."""
        return torch.from_numpy(self.inner.vectors(np.arange(self.pool_size))).to(self.device)

    def vectors(self, index: Integers) -> Vectors:
        rows: Vectors = self.table[torch.from_numpy(index).to(self.device)].cpu().numpy()
        return rows

    @cached_property
    def largest_symbols(self) -> torch.Tensor:
        return self.table.abs().amax(dim=1).double()

    @cached_property
    def squared_lengths(self) -> torch.Tensor:
        lengths: torch.Tensor = torch.linalg.vector_norm(self.table, dim=1, dtype=torch.float64)
        return lengths.square()

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        workers = self.workers_in_slot(index, places)
        exact = self.protects or workers > _MOST_IN_FLOAT32
        weights, lengths = self._in_pieces(weights, places)
        if exact:
            weights = rounding_backoff(workers) * weights.double()
        parts = torch.split(self._in_float64 if exact else self.table, lengths, dim=1)
        sums = [mix_samples(some, index, weights[:, :, piece]) for piece, some in enumerate(parts) if some.shape[1]]
        return sums[0] if len(sums) == 1 else torch.cat(sums, dim=1)

    @cached_property
    def _in_float64(self) -> torch.Tensor:
        return self.table.double()


class Rounded(Wrapper):
    """Digital symbols: each is rounded to one of the levels that b bits can name, at random and right on average.

    The vector may be longer after rounding. The worker then sends all of it more softly, so that the norm that it has
    declared holds whatever the number of bits: a removal moves no more than before, and no more energy is spent. A
    replacement may move more, since rounded vectors can point apart. ``levels_end`` is the outermost level over the
    root mean square of a symbol; ``uniforms`` draws numbers between 0 and 1 of a shape.
    """

    def __init__(self, inner: Payload, levels_end: float, uniforms: Callable[[tuple[int, ...]], Singles]) -> None:
        super().__init__(inner)
        self._levels_end, self._uniforms = levels_end, uniforms

    def vectors(self, index: Integers) -> Vectors:
        """Return the levels that are sent; workers x symbols."""
        exact, rounded, first = self.inner.vectors(index), [], 0
        for part in self.parts:
            symbols = exact[:, first : first + part.symbols]
            first += part.symbols
            if part.norm:
                largest = min(self._levels_end * part.norm / math.sqrt(part.numbers), part.norm)
                chance = self._uniforms(symbols.shape)
                symbols = quantise(symbols, chance, largest=largest, bits=self.signal.bits)
            rounded.append(symbols)
        return shorten(np.concatenate(rounded, axis=1), self.largest_norm)


class Dither:
    """Numbers that symbols are rounded with: NumPy's where they are secret, or else torch's on the device."""

    def __init__(self, streams: Streams, chapter: int, device: torch.device) -> None:
        self._generator, self._device = streams.generator("encoder", chapter), device
        self._torch: torch.Generator | None = None
        if streams.secret is None:
            self._torch = torch.Generator(device=device).manual_seed(int(self._generator.integers(2**63 - 1)))

    def __call__(self, shape: tuple[int, ...]) -> Singles:
        if self._torch is None:
            return self._generator.random(shape, dtype=np.float32)
        drawn: Singles = torch.rand(shape, device=self._device, generator=self._torch).cpu().numpy()
        return drawn


def outermost_level(signal: Signal, bits_range: float) -> float:
    """Return the outermost level over the root mean square of a symbol: what is asked for, or what suits the bits.

    Products have long tails, which must not be cut off unless the levels would lie too far apart; docs/beyond.md has
    the accuracies that this was chosen by.
    """
    if bits_range:
        return bits_range
    if not signal.moments or signal.bits == 1:
        return _SHORT_RANGE
    return _RANGE_OF_TWO_BITS if signal.bits == 2 else _LONG_RANGE


def steps_to_end(bits: int) -> float:
    """Return how many steps lie between zero and the outermost of the levels that so many bits name."""
    return 0.5 if bits == 1 else float(2 ** (bits - 1) - 1)


def quantise(symbols: Vectors, chance: Singles, *, largest: float, bits: int) -> Vectors:
    """Return symbols rounded to levels between -largest and largest, values beyond them to the outermost level.

    One bit names the two levels at the ends. More bits name an odd number of equally spaced levels with zero among
    them, 2^b - 1, so that silence stays silent. Each symbol goes up or down with the chances that keep its mean.
    ``chance`` is uniform between 0 and 1, of the symbols' shape.
    """
    end, offset = steps_to_end(bits), 0.5 if bits == 1 else 0.0
    step = largest / end
    places = np.floor(np.clip(symbols, -largest, largest) / step - offset + chance)
    return np.asarray(np.clip(places + offset, -end, end) * step)


def shorten(vectors: Vectors, largest_norm: float) -> Vectors:
    """Return the rows, those longer than the norm shortened to it; rows x symbols."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    factors = np.minimum(largest_norm * (1.0 - 1e-6) / np.maximum(lengths, _SHORTEST), 1.0)
    return np.asarray(vectors * factors.astype(vectors.dtype)[:, None])


def mix_samples(table: torch.Tensor, index: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return sum_i q_i s_i, the mixture without noise, in the precision of the table (of samples); slots x symbols.

    Samples and ratios q are slots x workers. At most ``BLOCK`` workers are added up at once, then the sums of blocks.
    """
    bag, (slots, workers) = torch.nn.functional.embedding_bag, index.shape
    weights = weights.to(table.dtype)
    if workers <= BLOCK:
        return bag(index, table, per_sample_weights=weights, mode="sum")
    starts = torch.arange(0, workers, BLOCK).to(index)
    offsets = (workers * torch.arange(slots).to(index)[:, None] + starts).flatten()
    blocks = bag(index.flatten(), table, offsets, per_sample_weights=weights.flatten(), mode="sum")
    return blocks.reshape(slots, len(starts), -1).sum(dim=1)


def add_up_rows(shares: Doubles, rows: Singles) -> Doubles:
    """Return sum_i q_i x_i in float64, shape numbers, of rows (samples x numbers) that workers hold; shape samples."""
    total = np.zeros(rows.shape[1])
    for first in range(0, len(rows), BLOCK):
        block = slice(first, first + BLOCK)
        total += shares[block] @ rows[block].astype(np.float64)
    return total
