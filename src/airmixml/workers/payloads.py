"""What workers send: one vector each, and the weighted sums of them that arrive on the air.

``Payload.vectors`` is the reference: NumPy alone, so that a device computes what a simulation adds up. A payload that
says no more is added up by ``stream``: a few workers at a time, each with its own vector. Kinds that are used much have
a ``weighted_sum`` of their own: samples are a table of the pool (``Table``), moments are matrix products (``moments``).
Whatever changes single vectors (rounding, converters, peak limits) is a ``Wrapper`` around ``vectors``, and streams.

Sums before noise is added are computed so that rounding never lets one worker move them too far.
Rounding differs between the sums with and without a worker, in every partial sum after it. In float32 that adds up: in
the worst case a removal moved the sum of 60,000 workers by 1.0014 times the declared sensitivity, that of 10^7 by 1.21.

The bound. Let n workers send q_i v_i, with q_i ||v_i|| at most D, the sensitivity. Whatever the order of additions, if
no number passes through more than m of them, and r other roundings, the computed sum is sum_i (1 + e_i) q_i v_i in
every component, |e_i| <= (m + r) u / (1 - (m + r) u) for the unit roundoff u (Higham 2002, section 4.2). So it is off
by a vector of norm at most (m + r) u n D, and two sums differ by at most (1 + 2 (m + r) u n) D. In float64, u is 2^-53,
and blocks of at most B = 4096 workers that are added up one after the other make m = B + n / B: this is
1 + 6e-8 at 60,000 workers, 1 + 1e-6 at 10^6 and 1 + 1.5e-5 at 10^7. What is above 1 every worker takes off by sending
that much more softly (``rounding_backoff``). A sum stays in float64 until the noise is on it: to round it before would
move it by as much as float32 sums do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.errors import ScenarioError
from airmixml.scenario.score_links import SOFTMAX, ScoreLink
from airmixml.workers.signal import Signal

if TYPE_CHECKING:
    import torch  # takes seconds to load, and a device needs the vectors alone

Vectors = NDArray[np.floating]

NUMBERS_AT_ONCE: Final = 1 << 25
"""Bounds the memory: so many numbers of products or Gram matrices are formed at once."""

BLOCK: Final = 4096  #: So many workers are added up at once, so that no number passes through many more additions

_UNIT_ROUNDOFF: Final = 2.0**-53
# Products, square roots of shares, weights of labels and of rows: each is rounded once.
_OTHER_ROUNDINGS: Final = 8
_LEAST: Final = 0.9
_SHORTEST: Final = 1e-300  # stands for the length of a vector of zeros
_MOST_IN_FLOAT32: Final = 128  # workers of a simulation, which protects nobody: twice as fast


class Places(NamedTuple):
    """Where weights fall that differ within a slot: on pieces, one after the other."""

    lengths: Sequence[int]  #: symbols of each piece
    in_slot: int = 0  #: how many workers send in the slot, where these are some; 0: these


class Part(NamedTuple):
    """So many symbols of a vector, and the norm of ``numbers`` of them, by which they are rounded; 0: never rounded."""

    symbols: int
    norm: float
    numbers: int


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


class Payload:
    """Vectors of bounded norm, and their sums."""

    signal: Signal  #: layout and bounds
    norm: float  #: largest of an encoded input
    device: str | torch.device  #: that sums are added up on
    protects: bool  #: whether the data are real: then sums are float64, and nothing is modelled
    models_rounding: bool  #: whether errors of converters are left to the receiver's noise
    taken_for_exact: bool = False  #: whether no converter and no peak limit of the air changes it

    if TYPE_CHECKING:  # kinds and tables have them; a wrapper has those of the inner payload
        pool_size: Any  #: samples of the pool, or holdings of several rows
        parts: Any  #: how the symbols are rounded where they are (``workers.bits``): a ``Part`` each
        largest_symbols: Any  #: the largest amplitude that each sample is sent with, or a bound; samples, float64
        squared_lengths: Any  #: ||v||^2 of what each sample sends, or a bound on it; samples, float64
        unit: Any  #: gradients alone: what one is multiplied with before it is sent

        def broadcast(self, told: Broadcast) -> None:
            """Gradients alone: take the model and the clip of the next round."""

    def vectors(self, index: Integers) -> Vectors:
        """Return what workers with these samples of the pool send; workers x symbols."""
        raise NotImplementedError

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        """Return sum_i w_i v_i of workers with these samples; slots x symbols.

        Samples are slots x workers. Weights are slots x workers and nowhere negative; or, where there are ``places``,
        slots x workers x pieces (or x 1) of any sign. In float64 where data are protected, or so many send that float32
        would let one move the sum too far.
        """
        return self.stream(index, weights, places)

    def weighted_sums(
        self, index: torch.Tensor, weights: torch.Tensor, factors: torch.Tensor, places: Places
    ) -> torch.Tensor:
        """Return sum_i w_ip f_ik v_i for each k, factors slots x workers x any number; number x slots x symbols."""
        import torch

        each = (weights * factor[:, :, None] for factor in factors.unbind(dim=2))
        return torch.stack([self.weighted_sum(index, weighted, places) for weighted in each])

    def stream(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        """Form every worker's vector and add them up, in float64; arguments and result as of ``weighted_sum``.

        Slot by slot, in parts that follow from the signal alone: then blocks of any size round alike.
        """
        import torch

        workers_at_once = max(1, min(BLOCK, NUMBERS_AT_ONCE // self.signal.symbols))
        backoff = rounding_backoff(self.workers_in_slot(index, places), workers_at_once)
        weights, lengths = self._in_pieces(weights, places)
        weights = backoff * weights.double()
        total = torch.zeros((len(weights), self.signal.symbols), dtype=torch.float64, device=self.device)
        for slot in range(len(weights)):
            for first in range(0, index.shape[1], workers_at_once):
                some = slice(first, first + workers_at_once)
                sent = self.sent(index[slot, some], slot, some)
                pieces = zip(torch.split(sent, lengths, dim=1), weights[slot, some].unbind(dim=1), strict=True)
                total[slot] += torch.cat([weight @ piece for piece, weight in pieces])
        return total

    def sent(self, index: torch.Tensor, slot: int, some: slice) -> torch.Tensor:
        """Return the vectors of some workers of a slot, both counted from the first added up; workers x symbols."""
        import torch

        return torch.from_numpy(self.vectors(index.cpu().numpy())).to(self.device).double()

    def workers_in_slot(self, index: torch.Tensor, places: Places | None) -> int:
        """Return how many workers send in a slot of which these, slots x workers, are added up."""
        return (places is not None and places.in_slot) or index.shape[1]

    def _in_pieces(self, weights: torch.Tensor, places: Places | None) -> tuple[torch.Tensor, list[int]]:
        """Return weights of every piece, slots x workers x pieces, and how many symbols each has."""
        if places is None:
            return weights[:, :, None], [self.signal.symbols]
        return weights, list(places.lengths) if weights.shape[2] > 1 else [self.signal.symbols]

    @property
    def in_any_order(self) -> bool:
        """Whether blocks of slots may be added up in any order, and several at once; rounding draws as it goes."""
        return not self.signal.bits

    @property
    def largest_norm(self) -> float:
        """The norm that no vector exceeds."""
        return math.sqrt(self.signal.largest_squared_norm(self.norm**2))


@dataclass(kw_only=True, eq=False)
class PoolPayload(Payload):
    """A kind of payload, made of the encoded inputs (samples x features) and labels (samples x outputs) of a pool."""

    about: ClassVar[str]  #: what it is, in one line
    moments: ClassVar[bool] = False  #: whether it is the products that learners in closed form solve from
    tabled: ClassVar[bool] = True  #: whether vectors are so short that those of the whole pool are laid out once
    signal: Signal
    norm: float
    inputs: Singles
    labels: Singles
    device: str | torch.device = "cpu"
    protects: bool = False
    models_rounding: bool = False

    @cached_property
    def pool_size(self) -> int:
        return len(self.inputs)

    @staticmethod
    def layout(signal: Signal) -> tuple[int, int]:
        """Return how many symbols carry the input, and how many the label."""
        return signal.features, signal.classes

    @staticmethod
    def largest_squared_norm(signal: Signal, squared_norm: float) -> float:
        """Return the bound on ||v||^2 for inputs with ||x||^2 <= ``squared_norm`` and labels with ||l|| <= 1.

        Of samples: ||(x, w l)||^2 <= ||x||^2 + w^2.
        """
        return squared_norm + signal.label_weight**2

    @staticmethod
    def largest_squared_distance(signal: Signal, squared_norm: float, squared_distance: float) -> float:
        """Return the bound on ||v - v'||^2, from bounds on ||x||^2 and on ||x - x'||^2.

        Of samples: ||x - x'||^2 + 2 w^2, the labels being different at worst, or + 4 w^2 where they can be opposite.
        """
        return squared_distance + (4.0 if signal.signed else 2.0) * signal.label_weight**2

    @staticmethod
    def operations(signal: Signal) -> int:
        """Return the multiply-accumulates of a worker that forms all symbols once; of samples none."""
        return 0

    @staticmethod
    def downlink_bits(signal: Signal) -> int:
        """Return how much the server broadcasts before each slot; of samples nothing."""
        return 0


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
        import torch

        return torch.from_numpy(self.inner.vectors(np.arange(self.pool_size))).to(self.device)

    def vectors(self, index: Integers) -> Vectors:
        import torch

        rows: Vectors = self.table[torch.from_numpy(index).to(self.device)].cpu().numpy()
        return rows

    @cached_property
    def largest_symbols(self) -> torch.Tensor:
        return self.table.abs().amax(dim=1).double()

    @cached_property
    def squared_lengths(self) -> torch.Tensor:
        import torch

        lengths: torch.Tensor = torch.linalg.vector_norm(self.table, dim=1, dtype=torch.float64)
        return lengths.square()

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        import torch

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


def quantise(symbols: Vectors, chance: Singles, *, largest: float, bits: int) -> Vectors:
    """Return symbols rounded to levels between -largest and largest, values beyond them to the outermost level.

    One bit names the two levels at the ends. More bits name an odd number of equally spaced levels with zero among
    them, 2^b - 1, so that silence stays silent. Each symbol goes up or down with the chances that keep its mean.
    ``chance`` is uniform between 0 and 1, of the symbols' shape.
    """
    steps_to_end = 0.5 if bits == 1 else float(2 ** (bits - 1) - 1)
    step = largest / steps_to_end
    offset = 0.5 if bits == 1 else 0.0
    places = np.floor(np.clip(symbols, -largest, largest) / step - offset + chance)
    return np.asarray(np.clip(places + offset, -steps_to_end, steps_to_end) * step)


def shorten(vectors: Vectors, largest_norm: float) -> Vectors:
    """Return the rows, those longer than the norm shortened to it; rows x symbols."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    factors = np.minimum(largest_norm * (1.0 - 1e-6) / np.maximum(lengths, _SHORTEST), 1.0)
    return np.asarray(vectors * factors.astype(vectors.dtype)[:, None])


def mix_samples(table: torch.Tensor, index: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return sum_i q_i s_i in the precision of the table, the mixture without noise; slots x symbols.

    The table holds the symbols of each sample of the pool, samples x symbols; samples and ratios q are slots x workers.
    At most ``BLOCK`` workers are added up at once, then the sums of these blocks.
    """
    import torch

    bag, (slots, workers) = torch.nn.functional.embedding_bag, index.shape
    weights = weights.to(table.dtype)
    if workers <= BLOCK:
        return bag(index, table, per_sample_weights=weights, mode="sum")
    starts = torch.arange(0, workers, BLOCK).to(index)
    offsets = (workers * torch.arange(slots).to(index)[:, None] + starts).flatten()
    blocks = bag(index.flatten(), table, offsets, per_sample_weights=weights.flatten(), mode="sum")
    return blocks.reshape(slots, len(starts), -1).sum(dim=1)


def rounding_backoff(workers: int, block: int = BLOCK) -> float:
    """Return what the shares of so many workers are multiplied with, so that rounding is covered; just below 1."""
    additions = min(workers, block) + -(-workers // block)
    factor = 1.0 - 2.0 * (additions + _OTHER_ROUNDINGS) * _UNIT_ROUNDOFF * workers
    if factor < _LEAST:
        raise ScenarioError(
            f"radio.scheduled = {workers}: what rounding may add to the sum of so many can no longer be covered; "
            "schedule fewer workers at once"
        )
    return factor


def add_up_rows(shares: Doubles, rows: Singles) -> Doubles:
    """Return sum_i q_i x_i in float64, shape numbers, of rows (samples x numbers) that workers hold; shape samples."""
    total = np.zeros(rows.shape[1])
    for first in range(0, len(rows), BLOCK):
        block = slice(first, first + BLOCK)
        total += shares[block] @ rows[block].astype(np.float64)
    return total
