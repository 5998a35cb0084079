"""What the scheduled workers send, added up with their shares: samples, or products of their numbers.

Digital symbols: each is rounded to one of the levels that b bits can name, at random so that it is right on average.

The vector may be longer after rounding. The worker then sends all of it more softly, so that the norm that it has
declared holds whatever the number of bits: a removal moves no more than before, and no more energy is spent. A
replacement may move more, since rounded vectors can point apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import torch

from airmixml.data import DataSet
from airmixml.errors import ScenarioError
from airmixml.impairments.converters import steps_to_end
from airmixml.radio.air import mix_samples
from airmixml.radio.private_sums import BLOCK, add_up_products, add_up_samples, softness
from airmixml.radio.products_in_pieces import Tile, add_up_tiles, most_pairs, tiles_of
from airmixml.radio.row_sums import NUMBERS_AT_ONCE, RowSums
from airmixml.radio.transmitters import FEW_NUMBERS, STEPS_PER_DEVIATION, largest_product, rounded_to_own_peak
from airmixml.scenario import Scenario
from airmixml.streams import Secret, Streams
from airmixml.workers import Holdings, Signal, declared_bounds, within_declared

_SHORT_RANGE: Final = 3.0
_RANGE_OF_TWO_BITS: Final = 10.0
_LONG_RANGE: Final = 20.0
_PROBED_EVERY: Final = 11  # prime to the width of images, so that no column is left out
_PROBED_ROWS: Final = 32
_MOST_OF_THE_POOL: Final = 0.99
_MOST_IN_FLOAT32: Final = 128  # workers of a simulation, which protects nobody: twice as fast


Dither = np.random.Generator | torch.Generator
"""What symbols are rounded with: NumPy's where it is secret, or else torch's on the device of the symbols."""


class Sender(Protocol):
    """Turns who sends with which share into the sum on the air."""

    @property
    def in_any_order(self) -> bool:
        """Whether blocks of slots may be mixed in any order, and several at once."""

    def mix(self, sample_index: torch.Tensor, ratios: torch.Tensor) -> torch.Tensor:
        """Return sum_i q_i v_i, slots x symbols, of workers with these samples and shares q, slots x scheduled.

        In float64 where real data are protected, or so many workers send that float32 would let one move it too far.
        """


@runtime_checkable
class PieceSender(Sender, Protocol):
    """A sender that adds up shares that differ from piece to piece at once; see the functions of these names."""

    def mix_in_pieces(
        self,
        sample_index: torch.Tensor,
        shares: torch.Tensor,
        lengths: Sequence[int],
        symbols: torch.Tensor | None,
        in_slot: int,
        limits: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return sum_i q_ip v_i; slots x symbols."""

    def probed_symbols(self) -> torch.Tensor:
        """Return the symbols on which a server measures noise and distortion."""


def mix_in_pieces(
    sender: Sender,
    sample_index: torch.Tensor,
    shares: torch.Tensor,
    lengths: Sequence[int],
    symbols: torch.Tensor | None = None,
    *,
    in_slot: int = 0,
    limits: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return sum_i q_ip v_i of workers whose shares differ from piece to piece, and may be negative; slots x symbols.

    Samples are slots x scheduled, shares slots x scheduled x pieces (or x 1), ``lengths`` the symbols of each piece.
    ``symbols`` asks for some of them alone; ``in_slot`` says how many workers send in the slot, where these are some.
    ``limits`` are amplitudes to which transmitters clip their symbols; slots x scheduled.
    """
    if isinstance(sender, PieceSender):
        if symbols is not None and not shares.any():  # nothing arrives a quarter turn off where phases are right
            return shares.new_zeros((len(shares), len(symbols)))
        return sender.mix_in_pieces(sample_index, shares, lengths, symbols, in_slot, limits)
    # Somebody else's sender adds up whole slots: once for each piece.
    parts, first = [], 0
    for piece, length in enumerate(lengths if shares.shape[2] > 1 else [sum(lengths)]):
        parts.append(sender.mix(sample_index, shares[:, :, piece])[:, first : first + length])
        first += length
    mixed = torch.cat(parts, dim=1)
    return mixed if symbols is None else mixed[:, symbols]


def mix_with_factors(
    sender: Sender,
    sample_index: torch.Tensor,
    shares: torch.Tensor,
    factors: torch.Tensor,
    lengths: Sequence[int],
    symbols: torch.Tensor | None = None,
    *,
    in_slot: int = 0,
    limits: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return sum_i q_ip f_ik v_i for each k, factors slots x scheduled x any number; number x slots x symbols.

    All else is as in ``mix_in_pieces``. Products are weighted once for all factors.
    """
    if isinstance(sender, MomentSender) and sender.multiplies_pieces(limits):
        return sender.add_pieces(sample_index, shares, lengths, symbols, in_slot, factors)
    mixed = partial(mix_in_pieces, sender, sample_index, lengths=lengths, symbols=symbols, in_slot=in_slot)
    return torch.stack([mixed(shares=shares * factor[:, :, None], limits=limits) for factor in factors.unbind(dim=2)])


def probed_symbols(sender: Sender, symbols: int) -> torch.Tensor:
    """Return the symbols on which a server measures noise and distortion."""
    if isinstance(sender, PieceSender):
        return sender.probed_symbols()
    return torch.arange(0, symbols, _PROBED_EVERY)


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
    _check_waveform(scenario, secret)
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
        # A worker's own noise goes through its converter with the signal; see ``leftover``.
        dac_bits=scenario.air.dac_bits
        if scenario.air.waveform == "single-carrier" and scenario.privacy.noise == "receiver"
        else 0,
        all_numbers=scenario.radio.slots * scenario.radio.scheduled * signal.symbols,
    )


def _check_waveform(scenario: Scenario, secret: Secret | None) -> None:
    """Refuse to protect data with errors that are modelled as noise, of a size that follows from the data."""
    air = scenario.air
    if secret is None or air.waveform == "single-carrier":
        return
    for name, value, off in (("peak_power_dbm", air.peak_power_dbm, math.inf), ("dac_bits", air.dac_bits, 0)):
        if value != off:
            raise ScenarioError(
                f"air.{name} = {value:g}: is modelled as noise with air.waveform = ofdm, for simulations alone; to "
                f"protect data set it to {off:g}, or use single-carrier"
            )


@dataclass(kw_only=True, eq=False)
class PoolSender:
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
    dac_bits: int = 0  # of a converter that rounds symbol by symbol; 0: exact
    all_numbers: int = 0  # symbols of all workers of all slots

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

    def converted(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return what leaves a worker's converter, no longer than declared; rows x symbols."""
        return self.shortened(rounded_to_own_peak(vectors, self.dac_bits)) if self.dac_bits else vectors

    def vectors(self, sample_index: torch.Tensor) -> torch.Tensor:
        """Return what workers with these samples hold to send, each by itself, unrounded; workers x symbols."""
        raise NotImplementedError

    def formed(self, sample_index: torch.Tensor) -> torch.Tensor:
        """Return what leaves their converters, symbol by symbol; workers x symbols."""
        raise NotImplementedError

    def add_formed(
        self,
        sample_index: torch.Tensor,
        shares: torch.Tensor,
        lengths: Sequence[int],
        symbols: torch.Tensor | None = None,
        in_slot: int = 0,
        limits: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Form every worker's symbols, clip them to the limits if there are any, and add them up; slots x symbols.

        Arguments as in ``mix_in_pieces``. Slot by slot, in parts that follow from the signal alone: then blocks of any
        size round alike. In float64.
        """
        # Rows were added up before: how many one worker has decides nothing about how others are rounded.
        workers_at_once = max(1, min(BLOCK, NUMBERS_AT_ONCE // self.signal.symbols))
        softened = softness(in_slot or self.in_slot or sample_index.shape[1], workers_at_once) * shares.double()
        lengths = self._lengths(shares, lengths)
        total = torch.zeros((len(shares), self.signal.symbols), dtype=torch.float64, device=self.inputs.device)
        for slot in range(len(shares)):
            for first in range(0, sample_index.shape[1], workers_at_once):
                some = slice(first, first + workers_at_once)
                sent = self.formed(sample_index[slot, some]).double()
                if limits is not None:
                    limit = limits[slot, some, None]
                    sent = torch.minimum(torch.maximum(sent, -limit), limit)
                pieces = zip(torch.split(sent, lengths, dim=1), softened[slot, some].unbind(dim=1), strict=True)
                total[slot] += torch.cat([share @ piece for piece, share in pieces])
        return total if symbols is None else total[:, symbols]

    @property
    def _most_rows(self) -> int:
        return 1 if self.rows is None else self.rows.index.shape[1]

    def _lengths(self, shares: torch.Tensor, lengths: Sequence[int]) -> list[int]:
        return list(lengths) if shares.shape[2] > 1 else [self.signal.symbols]

    def _workers_at_once(self, width: int) -> int:
        return max(1, min(BLOCK, NUMBERS_AT_ONCE // width) // self._most_rows)

    def _softened(self, shares: torch.Tensor, in_slot: int, workers_at_once: int = BLOCK) -> torch.Tensor:
        """Return shares that leave room for what rounding adds, float64; same shape."""
        return softness(in_slot * self._most_rows, workers_at_once * self._most_rows) * shares.double()

    @cached_property
    def largest_symbols(self) -> torch.Tensor:
        """The largest amplitude that each sample of the pool is sent with, or a bound on it; samples."""
        raise NotImplementedError

    @cached_property
    def squared_lengths(self) -> torch.Tensor:
        """||v||^2 of what each sample of the pool sends, or a bound on it; samples."""
        raise NotImplementedError

    @property
    def models_rounding(self) -> bool:
        """Whether the converter's errors are left to the receiver's noise instead of being computed."""
        return False

    def probed_symbols(self) -> torch.Tensor:
        """Return the input symbols on which the server measures noise: some, spread over all."""
        raise NotImplementedError

    def mix_in_pieces(
        self,
        sample_index: torch.Tensor,
        shares: torch.Tensor,
        lengths: Sequence[int],
        symbols: torch.Tensor | None,
        in_slot: int,
        limits: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the sums of shares that differ from piece to piece; see the function of that name."""
        raise NotImplementedError


class SampleSender(PoolSender):
    """Each worker sends (x, w l): its encoded input and its weighted one-hot label."""

    @cached_property
    def table(self) -> torch.Tensor:
        """The symbols of each sample of the pool; samples x symbols."""
        weight = torch.tensor(self.signal.label_weight, dtype=self.labels.dtype)
        if float(weight) > self.signal.label_weight:  # rounded to the side that moves less
            weight = torch.nextafter(weight, torch.zeros_like(weight))
        weighted = float(weight) * self.labels
        if not self.signal.bits:
            return self.converted(torch.cat([self.inputs, weighted], dim=1))
        inputs = self.rounded(self.inputs, self.norm, self.signal.input_symbols)
        return self.converted(self.shortened(torch.cat([inputs, weighted], dim=1)))

    @cached_property
    def exact_table(self) -> torch.Tensor:
        """The same in float64."""
        return self.table.double()

    def vectors(self, sample_index: torch.Tensor) -> torch.Tensor:
        """Return (x, w l) of each worker; workers x symbols."""
        return self.table[sample_index]

    formed = vectors

    @cached_property
    def largest_symbols(self) -> torch.Tensor:
        """The largest amplitude of each sample; samples."""
        largest: torch.Tensor = self.table.abs().amax(dim=1).double()
        return largest

    @cached_property
    def squared_lengths(self) -> torch.Tensor:
        """||v||^2 of each sample; samples."""
        lengths: torch.Tensor = torch.linalg.vector_norm(self.table, dim=1, dtype=torch.float64)
        return lengths.square()

    def mix(self, sample_index: torch.Tensor, ratios: torch.Tensor) -> torch.Tensor:
        """Return sum_i q_i (x_i, w l_i); slots x symbols."""
        workers = self.in_slot or sample_index.shape[1]
        if self.protects or workers > _MOST_IN_FLOAT32:
            return add_up_samples(self.exact_table, sample_index, softness(workers) * ratios.double())
        return mix_samples(self.table, sample_index, ratios)

    def probed_symbols(self) -> torch.Tensor:
        """Return every eleventh symbol of the input, since neighbouring pixels are alike."""
        return torch.arange(0, self.signal.input_symbols, _PROBED_EVERY)

    def mix_in_pieces(
        self,
        sample_index: torch.Tensor,
        shares: torch.Tensor,
        lengths: Sequence[int],
        symbols: torch.Tensor | None,
        in_slot: int,
        limits: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return sum_i q_i (x_i, w l_i), piece after piece; slots x symbols."""
        if limits is not None:
            return self.add_formed(sample_index, shares, lengths, symbols, in_slot, limits)
        workers = in_slot or self.in_slot or sample_index.shape[1]
        exact = self.protects or workers > _MOST_IN_FLOAT32
        columns = self._columns(
            tuple(self._lengths(shares, lengths)), None if symbols is None else tuple(symbols.tolist()), exact
        )
        return torch.cat(
            [
                add_up_samples(part, sample_index, softness(workers) * shares[:, :, piece])
                if exact
                else mix_samples(part, sample_index, shares[:, :, piece])
                for piece, part in columns
            ],
            dim=1,
        )

    def _columns(
        self, lengths: tuple[int, ...], symbols: tuple[int, ...] | None, exact: bool
    ) -> list[tuple[int, torch.Tensor]]:
        """Return what of the table lies in each piece that has symbols, of all or of these in ascending order.

        It is kept, since to lay out a table for a block of slots takes longer than to add up its samples.
        """
        key = (lengths, symbols, exact)
        if key not in self._kept_columns:
            table = self.exact_table if exact else self.table
            if symbols is not None:
                table = table[:, torch.tensor(symbols, device=table.device)]
                ends, places = np.cumsum(lengths), np.array(symbols)
                lengths = tuple(np.diff(np.searchsorted(places, ends), prepend=0).tolist())
            parts = (
                [table]
                if len(lengths) == 1
                else [each.contiguous() for each in torch.split(table, list(lengths), dim=1)]
            )
            self._kept_columns[key] = [(piece, part) for piece, part in enumerate(parts) if part.shape[1]]
        return self._kept_columns[key]

    @cached_property
    def _kept_columns(self) -> dict[Any, list[tuple[int, torch.Tensor]]]:
        return {}


class MomentSender(PoolSender):
    """Each worker sends (svec(x x^T), w x l^T): the products of its numbers, and those with its label."""

    def vectors(self, sample_index: torch.Tensor) -> torch.Tensor:
        """Return (svec(x x^T), w x l^T) of each worker; workers x symbols."""
        return torch.cat(self._products(sample_index), dim=1)

    @cached_property
    def largest_symbols(self) -> torch.Tensor:
        """The largest product of each sample; of several rows a bound, the sum of theirs; samples or holdings."""
        largest = largest_product(self.inputs, self.labels, self.signal.label_weight)
        if self.rows is not None:
            largest = (self.rows.weights * largest[self.rows.index]).sum(dim=1)
        return largest

    @cached_property
    def squared_lengths(self) -> torch.Tensor:
        """||x||^4 + w^2 ||x||^2 ||l||^2 of each sample; of several rows what is declared; samples or holdings."""
        squares = [torch.linalg.vector_norm(each, dim=1).double().square() for each in (self.inputs, self.labels)]
        lengths: torch.Tensor = squares[0] * (squares[0] + self.signal.label_weight**2 * squares[1])
        if self.rows is not None:
            lengths = lengths.new_full((len(self.rows.index),), self.signal.largest_squared_norm(self.norm**2))
        return lengths

    @cached_property
    def models_rounding(self) -> bool:
        """Whether the converter's levels lie so close that its errors are noise; see ``transmitters``."""
        if not self.dac_bits or self.signal.bits or self.protects or self.all_numbers <= FEW_NUMBERS:
            return False
        deviations = (self.squared_lengths / self.signal.symbols).sqrt()
        steps = self.largest_symbols / steps_to_end(self.dac_bits)
        return bool((STEPS_PER_DEVIATION * steps <= deviations).double().mean() > _MOST_OF_THE_POOL)

    @property
    def forms_products(self) -> bool:
        """Whether every worker's own symbols must be computed.

        So must those of protected workers with several rows: added up row by row, the sum of all workers would be
        rounded, and softened, by the largest number of rows that any of them holds.
        """
        rounded = self.signal.bits or (self.dac_bits and not self.models_rounding)
        return bool(rounded or (self.protects and self.rows is not None))

    def formed(self, sample_index: torch.Tensor) -> torch.Tensor:
        """Return the products, rounded to the levels that are sent and through the converter; workers x symbols."""
        products, with_labels = self._products(sample_index)
        if not self.signal.bits:
            return self.converted(torch.cat([products, with_labels], dim=1))
        rounded = [
            self.rounded(products, self.norm**2, self.signal.input_symbols),
            self.rounded(with_labels, self.signal.label_weight * self.norm, self.signal.features),
        ]
        return self.converted(self.shortened(torch.cat(rounded, dim=1)))

    def mix(self, sample_index: torch.Tensor, ratios: torch.Tensor) -> torch.Tensor:
        """Return sum_i q_i (svec(x_i x_i^T), w x_i l_i^T), in float64; slots x symbols."""
        if self.forms_products:
            return self.add_formed(sample_index, ratios[:, :, None], [self.signal.symbols])
        width, scheduled = self.signal.features, sample_index.shape[1]
        workers_at_once = self._workers_at_once(width)
        shares = self._softened(ratios, self.in_slot or scheduled, workers_at_once)
        slots_at_once = max(1, NUMBERS_AT_ONCE // (width * max(self._most_rows * scheduled, width)))
        mixed = []
        for first in range(0, len(sample_index), slots_at_once):
            here = slice(first, first + slots_at_once)
            parts = [torch.split(part[here], workers_at_once, dim=1) for part in (sample_index, shares)]
            mixed.append(self._add_exact(list(zip(*parts, strict=True))))
        return torch.cat(mixed)

    def probed_symbols(self) -> torch.Tensor:
        """Return the products of every 32nd number with itself and those after it."""
        rows, _ = torch.triu_indices(self.signal.features, self.signal.features)
        return torch.nonzero(rows % _PROBED_ROWS == 0)[:, 0]

    def mix_in_pieces(
        self,
        sample_index: torch.Tensor,
        shares: torch.Tensor,
        lengths: Sequence[int],
        symbols: torch.Tensor | None,
        in_slot: int,
        limits: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return sum_i q_i (svec(x_i x_i^T), w x_i l_i^T), piece after piece; slots x symbols, float64."""
        if self.forms_products or limits is not None:
            return self.add_formed(sample_index, shares, lengths, symbols, in_slot, limits)
        together: torch.Tensor
        (together,) = self.add_pieces(sample_index, shares, lengths, symbols, in_slot)
        return together

    def add_pieces(
        self,
        sample_index: torch.Tensor,
        shares: torch.Tensor,
        lengths: Sequence[int],
        symbols: torch.Tensor | None,
        in_slot: int,
        factors: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Add up products by matrix products; factors x slots x symbols, float64 (see ``mix_with_factors``).

        In a simulation, which protects nobody, products of some workers at a time are added up in float32.
        """
        tiles = tiles_of(self.signal, tuple(self._lengths(shares, lengths)), symbols, self.inputs.device)
        scheduled, most_rows = sample_index.shape[1], self._most_rows
        width = self.signal.features + most_pairs(tiles)
        workers_at_once = self._workers_at_once(width)
        softened = self._softened(shares, in_slot or self.in_slot or scheduled, workers_at_once)
        if not self.protects:
            softened = softened.float()
        slots_at_once = max(1, NUMBERS_AT_ONCE // (width * min(scheduled, workers_at_once) * most_rows))
        mixed = []
        for first in range(0, len(sample_index), slots_at_once):
            here = slice(first, first + slots_at_once)
            together = (sample_index, softened) if factors is None else (sample_index, softened, factors)
            parts = [torch.split(part[here], workers_at_once, dim=1) for part in together]
            mixed.append(torch.as_tensor(sum(self._add_pieces(tiles, *part) for part in zip(*parts, strict=True))))
        return torch.cat(mixed, dim=1)

    def multiplies_pieces(self, limits: torch.Tensor | None) -> bool:
        """Whether sums are matrix products: no symbols are formed or clipped, or made of several rows."""
        return limits is None and self.rows is None and not self.forms_products

    def _add_pieces(
        self, tiles: list[Tile], sample_index: torch.Tensor, shares: torch.Tensor, factors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Add up products with shares of each piece, slots x workers x pieces; factors x slots x symbols."""
        if self.rows is not None:
            weights = self.rows.weights[sample_index][..., None] * shares[:, :, None, :]
            sample_index, shares = self.rows.index[sample_index].flatten(1), weights.flatten(1, 2)
        return add_up_tiles(tiles, self.inputs[sample_index], self.labels[sample_index], shares, factors)

    def _add_exact(self, parts: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        """Add up products by matrix products, without forming any worker's own; slots x symbols."""
        products: torch.Tensor | float = 0.0
        with_labels: torch.Tensor | float = 0.0
        for part in parts:
            index, shares = part if self.rows is None else self.rows.spread(*part)
            more, more_with_labels = add_up_products(self.inputs[index], self.labels[index], shares)
            products, with_labels = products + more, with_labels + more_with_labels
        packed = pack_symmetric(torch.as_tensor(products))
        return torch.cat([packed, self.signal.label_weight * torch.as_tensor(with_labels).flatten(1)], dim=1)

    def _products(self, sample_index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return every worker's own products, of inputs and with labels; workers x input, and x label symbols."""
        if self.rows is None:
            inputs, labels = self.inputs[sample_index], self.labels[sample_index]
            products = inputs[:, :, None] * inputs[:, None, :]
            with_labels = self.signal.label_weight * (inputs[:, :, None] * labels[:, None, :])
            return pack_symmetric(products), with_labels.flatten(1)
        at_once = max(1, NUMBERS_AT_ONCE // (self._most_rows * self.signal.features))
        parts = [self._summed_rows(self.rows, some) for some in torch.split(sample_index, at_once)]
        return torch.cat([products for products, _ in parts]), torch.cat([labels for _, labels in parts])

    def _summed_rows(self, rows: RowSums, holding: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the same of workers that hold several rows each; in float64 where they are protected."""
        index, kind = rows.index[holding], torch.float64 if self.protects else self.inputs.dtype
        inputs, labels = self.inputs[index].to(kind), self.labels[index].to(kind)
        weighted = (inputs * rows.weights[holding][..., None]).transpose(1, 2)
        return pack_symmetric(weighted @ inputs), self.signal.label_weight * (weighted @ labels).flatten(1)


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
