"""What the scheduled workers send, added up with their shares: samples, or products of their numbers.

Digital symbols: each is rounded to one of the levels that b bits can name, at random so that it is right on average.

The vector may be longer after rounding. The worker then sends all of it more softly, so that the norm that it has
declared holds whatever the number of bits: a removal moves no more than before, and no more energy is spent. A
replacement may move more, since rounded vectors can point apart.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import torch

from airmixml.data import DataSet
from airmixml.errors import ScenarioError
from airmixml.radio.air import mix_samples
from airmixml.radio.private_sums import BLOCK, add_up_products, add_up_samples, softness
from airmixml.radio.row_sums import NUMBERS_AT_ONCE, RowSums
from airmixml.scenario import Scenario
from airmixml.streams import Secret, Streams
from airmixml.workers import Holdings, Signal, declared_bounds, within_declared

_SHORT_RANGE: Final = 3.0
_RANGE_OF_TWO_BITS: Final = 10.0
_LONG_RANGE: Final = 20.0
_MOST_IN_FLOAT32: Final = 128  # workers of a simulation, which protects nobody: twice as fast


Dither = np.random.Generator | torch.Generator
"""What symbols are rounded with: NumPy's where it is secret, or else torch's on the device of the symbols."""


_Parts = list[tuple[torch.Tensor, torch.Tensor]]
"""Samples and shares of some of the workers at a time, each slots x workers."""


class Sender(Protocol):
    """Turns who sends with which share into the sum on the air."""

    @property
    def in_any_order(self) -> bool:
        """Whether blocks of slots may be mixed in any order, and several at once."""

    def mix(self, sample_index: torch.Tensor, ratios: torch.Tensor) -> torch.Tensor:
        """Return sum_i q_i v_i, slots x symbols, of workers with these samples and shares q, slots x scheduled.

        In float64 where real data are protected, or so many workers send that float32 would let one move it too far.
        """


def make_sender(
    scenario: Scenario,
    dataset: DataSet,
    device: torch.device,
    *,
    secret: Secret | None = None,
    holdings: Holdings | None = None,
    in_slot: int = 0,
) -> Sender:
    """Return what the scenario's workers send of the samples of the pool, or of several rows each (``holdings``)."""
    workers = scenario.workers
    signal = Signal.of(workers, dataset.input_dim, dataset.label_dim)
    inputs = torch.from_numpy(within_declared(workers, dataset.train_inputs)).to(device)
    labels = torch.from_numpy(dataset.label_code.coded(dataset.train_labels)).to(inputs)
    rounding = Streams(scenario.seed, secret).generator("encoder", 1)
    dither: Dither = rounding
    if secret is None:
        dither = torch.Generator(device=device).manual_seed(int(rounding.integers(2**63 - 1)))
    kind = MomentSender if signal.moments else SampleSender
    if workers.several_rows and holdings is None:
        raise ScenarioError(
            "population: must say which rows each worker holds (Population.holdings), since the scenario's workers "
            "hold several; deploy it with the data"
        )
    rows = None if holdings is None else RowSums.of(holdings, inputs, labels, workers, signal)
    return kind(
        signal=signal,
        inputs=inputs,
        labels=labels,
        norm=math.sqrt(declared_bounds(workers, dataset.input_dim)[0]),
        bits_range=_range_of(signal, workers.bits_range),
        dither=dither,
        rows=rows,
        protects=secret is not None,
        in_slot=in_slot,
    )


@dataclass(kw_only=True, eq=False)
class _PoolSender:
    """The samples of the pool, ``norm`` the largest of an input, and how symbols are rounded where they are."""

    signal: Signal
    inputs: torch.Tensor
    labels: torch.Tensor
    norm: float
    bits_range: float
    dither: Dither
    rows: RowSums | None = None
    protects: bool = False  # whether the data are real
    in_slot: int = 0  # how many send in a slot, where they are added up in parts; 0: those that are added up at once

    @property
    def in_any_order(self) -> bool:
        """Rounding draws as it goes."""
        return not self.signal.bits

    def rounded(self, symbols: torch.Tensor, norm: float, count: int) -> torch.Tensor:
        """Quantise symbols of which ``count`` have that norm; levels end at so many times their root mean square."""
        largest = min(self.bits_range * norm / math.sqrt(count), norm)
        return quantise(symbols, largest=largest, bits=self.signal.bits, generator=self.dither)

    def shortened(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return rounded vectors no longer than declared."""
        return shorten(vectors, math.sqrt(self.signal.largest_squared_norm(self.norm**2)))


class SampleSender(_PoolSender):
    """Each worker sends (x, w l): its encoded input and its weighted one-hot label."""

    @cached_property
    def table(self) -> torch.Tensor:
        """The symbols of each sample of the pool; samples x symbols."""
        weight = torch.tensor(self.signal.label_weight, dtype=self.labels.dtype)
        if float(weight) > self.signal.label_weight:  # rounded to the side that moves less
            weight = torch.nextafter(weight, torch.zeros_like(weight))
        weighted = float(weight) * self.labels
        if not self.signal.bits:
            return torch.cat([self.inputs, weighted], dim=1)
        inputs = self.rounded(self.inputs, self.norm, self.signal.input_symbols)
        return self.shortened(torch.cat([inputs, weighted], dim=1))

    @cached_property
    def exact_table(self) -> torch.Tensor:
        """The same in float64."""
        return self.table.double()

    def mix(self, sample_index: torch.Tensor, ratios: torch.Tensor) -> torch.Tensor:
        """Return sum_i q_i (x_i, w l_i); slots x symbols."""
        workers = self.in_slot or sample_index.shape[1]
        if self.protects or workers > _MOST_IN_FLOAT32:
            return add_up_samples(self.exact_table, sample_index, softness(workers) * ratios.double())
        return mix_samples(self.table, sample_index, ratios)


class MomentSender(_PoolSender):
    """Each worker sends (svec(x x^T), w x l^T): the products of its numbers, and those with its label."""

    numbers_at_once = NUMBERS_AT_ONCE

    def mix(self, sample_index: torch.Tensor, ratios: torch.Tensor) -> torch.Tensor:
        """Return sum_i q_i (svec(x_i x_i^T), w x_i l_i^T), in float64; slots x symbols."""
        scheduled, most_rows = sample_index.shape[1], 1 if self.rows is None else self.rows.index.shape[1]
        width = self.signal.symbols if self.signal.bits else self.signal.features
        workers_at_once = max(1, min(BLOCK, self.numbers_at_once // width) // most_rows)
        workers = self.in_slot or scheduled
        shares = softness(workers * most_rows, workers_at_once * most_rows) * ratios.double()
        # Rounding slot by slot, in parts that follow from the signal alone: then blocks of any size round alike.
        slots_at_once = 1
        if not self.signal.bits:
            slots_at_once = max(1, self.numbers_at_once // (width * max(most_rows * scheduled, width)))
        add_up = self._add_rounded if self.signal.bits else self._add_exact
        parts = [torch.split(part, workers_at_once, dim=1) for part in (sample_index, shares)]
        mixed = [
            add_up([(index[here], share[here]) for index, share in zip(*parts, strict=True)])
            for here in (slice(first, first + slots_at_once) for first in range(0, len(sample_index), slots_at_once))
        ]
        return torch.cat(mixed)

    def _add_exact(self, parts: _Parts) -> torch.Tensor:
        """Add up products by matrix products, without forming any worker's own; slots x symbols."""
        products: torch.Tensor | float = 0.0
        with_labels: torch.Tensor | float = 0.0
        for part in parts:
            index, shares = part if self.rows is None else self.rows.spread(*part)
            more, more_with_labels = add_up_products(self.inputs[index], self.labels[index], shares)
            products, with_labels = products + more, with_labels + more_with_labels
        packed = pack_symmetric(torch.as_tensor(products))
        return torch.cat([packed, self.signal.label_weight * torch.as_tensor(with_labels).flatten(1)], dim=1)

    def _add_rounded(self, parts: _Parts) -> torch.Tensor:
        """Round every worker's own symbols, then add them up; slots x symbols."""
        total: torch.Tensor | float = 0.0
        for index, shares in parts:
            products, with_labels = self._products(index.flatten())
            rounded = [
                self.rounded(products, self.norm**2, self.signal.input_symbols),
                self.rounded(with_labels, self.signal.label_weight * self.norm, self.signal.features),
            ]
            sent = self.shortened(torch.cat(rounded, dim=1)).double()
            total = total + torch.einsum("ts,tsd->td", shares, sent.reshape(*index.shape, -1))
        return torch.as_tensor(total)

    def _products(self, sample_index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return every worker's own products, of inputs and with labels; workers x input, and x label symbols."""
        if self.rows is None:
            inputs, labels = self.inputs[sample_index], self.labels[sample_index]
            products = inputs[:, :, None] * inputs[:, None, :]
            with_labels = self.signal.label_weight * (inputs[:, :, None] * labels[:, None, :])
        else:
            index, weights = self.rows.index[sample_index], self.rows.weights[sample_index]
            inputs, labels = self.inputs[index], self.labels[index]
            weighted = (inputs * weights[..., None]).transpose(1, 2)
            products, with_labels = weighted @ inputs, self.signal.label_weight * (weighted @ labels)
        return pack_symmetric(products), with_labels.flatten(1)


def quantise(symbols: torch.Tensor, *, largest: float, bits: int, generator: Dither | None = None) -> torch.Tensor:
    """Return symbols rounded to levels between -largest and largest, values beyond them to the outermost level.

    One bit names the two levels at the ends. More bits name an odd number of equally spaced levels with zero among
    them, 2^b - 1, so that silence stays silent. Each symbol goes up or down with the chances that keep its mean.
    """
    steps_to_end = 0.5 if bits == 1 else float(2 ** (bits - 1) - 1)
    step = largest / steps_to_end
    offset = 0.5 if bits == 1 else 0.0
    if isinstance(generator, np.random.Generator):
        chance = torch.from_numpy(generator.random(symbols.shape, dtype=np.float32)).to(symbols.device)
    else:
        chance = torch.rand(symbols.shape, device=symbols.device, generator=generator)
    places = torch.floor(symbols.clamp(-largest, largest) / step - offset + chance)
    return (places + offset).clamp_(-steps_to_end, steps_to_end).mul_(step)


def shorten(vectors: torch.Tensor, largest_norm: float) -> torch.Tensor:
    """Return the rows, those longer than the norm shortened to it; rows x symbols."""
    lengths = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64).clamp(min=math.ulp(0.0))
    factors = (largest_norm * (1.0 - 1e-6) / lengths).clamp(max=1.0)
    return vectors.mul(factors.to(vectors.dtype)[:, None])


def pack_symmetric(matrices: torch.Tensor) -> torch.Tensor:
    """Return svec of symmetric matrices: the upper triangle, off the diagonal times sqrt(2); ... x d (d + 1) / 2."""
    size = matrices.shape[-1]
    rows, columns = torch.triu_indices(size, size, device=matrices.device)
    weight = matrices.new_full((len(rows),), math.sqrt(2.0)).masked_fill_(rows == columns, 1.0)
    return matrices[..., rows, columns] * weight


def unpack_symmetric(packed: torch.Tensor, size: int) -> torch.Tensor:
    """Return the symmetric matrices of which ``pack_symmetric`` made these; ... x d x d."""
    rows, columns = torch.triu_indices(size, size, device=packed.device)
    weight = packed.new_full((len(rows),), math.sqrt(0.5)).masked_fill_(rows == columns, 1.0)
    matrices = torch.zeros((*packed.shape[:-1], size, size), dtype=packed.dtype, device=packed.device)
    matrices[..., rows, columns] = packed * weight
    matrices[..., columns, rows] = packed * weight
    return matrices


def _range_of(signal: Signal, bits_range: float) -> float:
    """Return the outermost level over the root mean square of a symbol: what is asked for, or what suits the bits.

    Products have long tails, which must not be cut off unless the levels would lie too far apart; docs/beyond.md has
    the accuracies that this was chosen by.
    """
    if bits_range:
        return bits_range
    if not signal.moments or signal.bits == 1:
        return _SHORT_RANGE
    return _RANGE_OF_TWO_BITS if signal.bits == 2 else _LONG_RANGE
