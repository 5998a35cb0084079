"""Workers that send products of numbers: (svec(x x^T), w x l^T), the moments; and sums of products by matrix products.

A symbol is the product of a left number of a row with a right one, added up over the rows that a worker holds. All
workers together are then one matrix product, and no vector of a single worker is formed. On an air that is not ideal
weights differ from piece to piece of a slot: each left number is weighted for each piece in which it occurs, which are
few. Where pieces are short, right numbers are taken a tile at a time, with the left numbers that meet them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from airmixml.arrays import Doubles, Integers, Singles, in_order, rows_of, torch, turned_over
from airmixml.workers.signal import BLOCK, NUMBERS_AT_ONCE, Part, Places, PoolPayload, Signal, Vectors, rounding_backoff

_SUM_MARGIN: Final = 1e-5  # what weights in float32 may be rounded up by, many times over
_SHORTEST: Final = 1e-60
_TILE: Final = 64  # right numbers of one, where pieces are short


class Grid(NamedTuple):
    """Of which two numbers each symbol is the product, and what that is multiplied with; each of shape symbols."""

    left: Integers
    right: Integers
    weight: Doubles


class Tile(NamedTuple):
    """Symbols whose right numbers lie side by side; they share one matrix product, however many pieces they are in."""

    left: torch.Tensor  #: left number of each pair of a number and a piece; pairs
    piece: torch.Tensor  #: piece of each pair; pairs
    columns: slice  #: right numbers
    place: torch.Tensor  #: where each symbol stands among products of pairs and right numbers; symbols of the tile


@dataclass(kw_only=True, eq=False)
class Products(PoolPayload):
    """Workers that send products of two numbers, added up over the rows that they hold."""

    tabled = False
    products = True
    #: rows of the pool that each holding has, holdings x most rows; None: a worker holds one row of the pool
    rows: Integers | None = None
    present: Singles | None = None  #: which of them there are; holdings x most rows
    rows_bound: float = 1.0  #: rows whose products a sum may be as long as

    @property
    def precision(self) -> type[np.floating]:
        """In which products are formed."""
        return np.float64

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """How symbols are made of products."""

    @abstractmethod
    def factors(self, rows: Integers) -> tuple[Vectors, Vectors]:
        """Return left and right numbers of rows of the pool; any x numbers each."""

    @property
    @abstractmethod
    def row_weights(self) -> Vectors:
        """What each row's products are multiplied with, 0 where there is none; holdings x most rows."""

    @cached_property
    def held(self) -> Integers:
        """Rows of the pool that each holding has; holdings x most rows."""
        return np.arange(len(self.inputs))[:, None] if self.rows is None else self.rows

    @cached_property
    def pool_size(self) -> int:
        return len(self.held)

    def squared_sums(self, left: Vectors, right: Vectors) -> Doubles:
        """Return ||sum_r l_r r_r^T||^2 of each holding, given left and right numbers of the pool; holdings.

        Two rows have the product (l . l') (r . r'), so that their Gram matrices are all that is needed.
        """
        assert self.present is not None
        most, found = self.held.shape[1], []
        at_once = max(1, NUMBERS_AT_ONCE // (most * (most + left.shape[1] + right.shape[1])))
        for here in (slice(first, first + at_once) for first in range(0, len(self.held), at_once)):
            lefts = left[self.held[here]].astype(np.float64) * self.present[here, :, None]
            rights = right[self.held[here]].astype(np.float64)
            found.append(((lefts @ lefts.mT) * (rights @ rights.mT)).sum(axis=(1, 2)))
        return np.asarray(np.maximum(np.concatenate(found), 0.0))

    def vectors(self, index: Integers) -> Vectors:
        at_once = max(1, NUMBERS_AT_ONCE // (self.held.shape[1] * self.signal.features))
        parts = (slice(first, first + at_once) for first in range(0, max(len(index), 1), at_once))
        return np.concatenate([self._formed(index[part]) for part in parts])

    def _formed(self, index: Integers) -> Vectors:
        left, right = (each.astype(self.precision) for each in self.factors(self.held[index]))
        products = (left * self.row_weights[index][..., None]).mT @ right
        grid = self.grid
        return np.asarray(products[:, grid.left, grid.right] * grid.weight.astype(self.precision))

    @cached_property
    def squared_lengths(self) -> torch.Tensor:
        """What is declared; pool."""
        return torch.full((self.pool_size,), self.largest_norm**2, dtype=torch.float64, device=self.device)

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        """Return sum_i w_i v_i without forming any worker's vector, in float64; slots x symbols."""
        return self._sums(index, weights, places, None).squeeze(0)

    def weighted_sums(
        self, index: torch.Tensor, weights: torch.Tensor, factors: torch.Tensor, places: Places
    ) -> torch.Tensor:
        """Return sum_i w_ip f_ik v_i for each k; single rows are weighted once for all factors."""
        if self.rows is not None:
            return super().weighted_sums(index, weights, factors, places)
        return self._sums(index, weights, places, factors)

    def _sums(
        self, index: torch.Tensor, weights: torch.Tensor, places: Places | None, factors: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the sum for each factor (None: one, of 1); factors x slots x symbols."""
        most, features, count = self.held.shape[1], self.signal.features, 1 if factors is None else factors.shape[2]
        at_once = max(1, BLOCK // most)
        backoff = rounding_backoff(self.workers_in_slot(index, places) * most, at_once * most)
        pieces, lengths = self._in_pieces(weights, places)
        in_singles = places is not None and self.precision is np.float32 and not self.protects
        precision = torch.float32 if in_singles else torch.float64
        total = torch.zeros((count, len(pieces), self.signal.symbols), dtype=torch.float64, device=self.device)
        numbers = max(most * index.shape[1] * (features + len(lengths) - 1), features**2)
        slots_at_once = max(1, NUMBERS_AT_ONCE // numbers)
        for slots in (slice(first, first + slots_at_once) for first in range(0, len(pieces), slots_at_once)):
            for some in (slice(first, first + at_once) for first in range(0, index.shape[1], at_once)):
                chosen = index[slots, some].cpu().numpy()
                shares = torch.from_numpy(self.row_weights[chosen]).to(self.device, precision)
                rows, of_pieces = self.held[chosen].reshape(len(chosen), -1), pieces[slots, some].to(precision)
                if places is None:
                    total[:, slots] += self.added_up(rows, (backoff * of_pieces * shares).flatten(1))
                    continue
                their_factors = None if factors is None else factors[slots, some]
                shares = (backoff * shares).flatten(1)
                total[:, slots] += self.added_in_pieces(rows, shares, of_pieces, lengths, their_factors)
        return total

    def added_up(self, rows: Integers, weights: torch.Tensor) -> torch.Tensor:
        """Return weighted sums over rows of the pool, both slots x rows; 1 x slots x symbols.

        Weights have the precision that products are to have, and none is negative.
        """
        left, right = (torch.from_numpy(each).to(weights) for each in self.factors(rows))
        products = (left * weights[..., None]).mT @ right
        grid = self.grid
        return (products[:, grid.left, grid.right] * torch.from_numpy(grid.weight).to(products))[None]

    def added_in_pieces(
        self,
        rows: Integers,
        shares: torch.Tensor,
        pieces: torch.Tensor,
        lengths: list[int],
        factors: torch.Tensor | None,
    ) -> torch.Tensor:
        """Return sums over rows of the pool, weighted in each piece, for each factor; factors x slots x symbols.

        Shares are slots x rows, pieces of these lengths slots x workers, who hold as many rows each, x pieces, both in
        the precision that products are to have; factors slots x workers x any. Rows lie side by side in memory.
        """
        left, right = (torch.from_numpy(each).to(pieces) for each in self.factors(rows))
        left, of_pieces = turned_over(left * shares[..., None]), pieces.mT.contiguous()[..., None]
        most, (tiles, places) = rows.shape[1] // pieces.shape[1], self.tiles(tuple(lengths))

        def of_tile(tile: Tile) -> torch.Tensor:
            weighted = torch.unflatten(rows_of(left, tile.left), 2, (-1, most)).mul_(rows_of(of_pieces, tile.piece))
            columns = right[:, :, None, tile.columns]
            if factors is not None:  # on the side that has few numbers
                columns = columns * factors[..., None].to(columns)
            products = weighted.flatten(2) @ columns.flatten(2)
            products = products.view(len(rows), len(tile.left), *columns.shape[2:])
            return products.movedim(2, 0).flatten(2)[:, :, tile.place]

        threads = torch.get_num_threads() if pieces.device.type == "cpu" else 1
        found = list(in_order(of_tile, tiles, threads))
        return torch.cat(found, dim=2)[:, :, places].double() * torch.from_numpy(self.grid.weight).to(self.device)

    def tiles(self, lengths: tuple[int, ...]) -> tuple[list[Tile], torch.Tensor]:
        """Return how symbols of a slot with pieces of these lengths are made, and where all tiles have each; kept."""
        if lengths not in self._tiles:
            left, right = (torch.from_numpy(each).to(self.device) for each in self.grid[:2])
            piece = torch.repeat_interleave(torch.tensor(lengths)).to(self.device)
            lefts, rights = int(left.max()) + 1, int(right.max()) + 1
            width = _TILE if len(lengths) > self.signal.features else rights
            tiles, symbols = [], []
            for first in range(0, rights, width):
                (here,) = torch.nonzero((right >= first) & (right < first + width), as_tuple=True)
                pairs, row = torch.unique(piece[here] * lefts + left[here], return_inverse=True)
                columns = slice(first, min(first + width, rights))
                place = row * (columns.stop - first) + right[here] - first
                tiles.append(Tile(pairs % lefts, pairs // lefts, columns, place))
                symbols.append(here)
            self._tiles[lengths] = tiles, torch.cat(symbols).argsort()
        return self._tiles[lengths]

    @cached_property
    def _tiles(self) -> dict[tuple[int, ...], tuple[list[Tile], torch.Tensor]]:
        return {}


class Moments(Products):
    """Each worker sends (svec(x x^T), w x l^T): the products of its numbers, and those with its label.

    A worker with several rows adds up their products. It shortens the sum to the norm that ``rows_bound`` rows can
    have, then divides it by their number: so it has no more than the norm that is declared for a single row, whatever
    rows a worker holds and however many.
    """

    about = "products of the input's numbers, and with the label"
    moments = True

    @property
    def precision(self) -> type[np.floating]:
        # One row is sent as devices form it. Sums of several are exact where rows are real, and faster in simulations.
        return np.float64 if self.protects and self.rows is not None else np.float32

    @staticmethod
    def layout(signal: Signal) -> tuple[int, int]:
        return signal.features * (signal.features + 1) // 2, signal.features * signal.classes

    @staticmethod
    def largest_squared_norm(signal: Signal, squared_norm: float) -> float:
        """Return the bound on ||(svec(x x^T), w x l^T)||^2 <= ||x||^4 + w^2 ||x||^2."""
        return squared_norm**2 + signal.label_weight**2 * squared_norm

    @staticmethod
    def largest_squared_distance(signal: Signal, squared_norm: float, squared_distance: float) -> float:
        """Return the bound on ||v - v'||^2.

        With s = x . x' and t = l . l' the product v . v' is s^2 + w^2 s t. One-hot labels make t 0 or 1, so it
        is least for equal labels at s = -w^2 / 2, or as near to it as two inputs can point apart. Signed labels reach
        s t = -|s| for inputs of any sign: least at |s| = w^2 / 2, or at |s| = ||x||^2 where that is less.
        """
        label = signal.label_weight**2
        farthest = squared_norm * 4.0 if signal.signed else max(squared_distance, squared_norm * 2.0)
        lowest_product = max(-label / 2.0, squared_norm - farthest / 2.0)
        overlap = lowest_product**2 + label * lowest_product
        return 2.0 * Moments.largest_squared_norm(signal, squared_norm) - 2.0 * overlap

    @staticmethod
    def operations(signal: Signal) -> int:
        """Return one for each product of two numbers, and one to weight each number for its label."""
        return signal.input_symbols + signal.features

    @cached_property
    def grid(self) -> Grid:
        left, right = np.triu_indices(self.signal.features)
        weight = np.where(left == right, 1.0, math.sqrt(2.0))
        number, label = np.indices((self.signal.features, self.signal.classes)).reshape(2, -1)
        with_label = Grid(number, self.signal.features + label, np.full(len(label), self.signal.label_weight))
        return Grid(*map(np.concatenate, zip((left, right, weight), with_label, strict=True)))

    def factors(self, rows: Integers) -> tuple[Vectors, Vectors]:
        inputs = self.inputs[rows]
        return inputs, np.concatenate([inputs, self.labels[rows]], axis=-1)

    @cached_property
    def row_weights(self) -> Singles:
        if self.present is None:
            return np.ones(self.held.shape, dtype=np.float32)
        with_labels = self.squared_sums(self.inputs, self.labels)
        squares = self.squared_sums(self.inputs, self.inputs) + self.signal.label_weight**2 * with_labels
        largest = self.largest_norm * self.rows_bound * (1.0 - _SUM_MARGIN)
        factors = np.minimum(largest / np.sqrt(np.maximum(squares, _SHORTEST)), 1.0) / self.rows_bound
        exact = self.present * factors[:, None]
        rounded = exact.astype(np.float32)
        # Rounded to the side that moves less.
        return np.where(rounded > exact, np.nextafter(rounded, np.float32(0.0)), rounded)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Products of inputs have the norm ||x||^2; of those with labels as many as the input has have w ||x||."""
        inputs, labels = self.signal.input_symbols, self.signal.label_symbols
        with_label = Part(labels, self.signal.label_weight * self.norm, self.signal.features)
        return Part(inputs, self.norm**2, inputs), with_label

    @cached_property
    def largest_symbols(self) -> torch.Tensor:
        """The largest product of each sample; of several rows a bound, the sum of theirs."""
        of_rows = largest_product(*self._pool, self.signal.label_weight)
        weights = torch.from_numpy(self.row_weights).to(self.device)
        return (weights * of_rows[torch.from_numpy(self.held).to(self.device)]).sum(dim=1)

    @cached_property
    def squared_lengths(self) -> torch.Tensor:
        """||x||^4 + w^2 ||x||^2 ||l||^2 of each sample; of several rows what is declared."""
        if self.rows is not None:
            return super().squared_lengths
        inputs, labels = (torch.linalg.vector_norm(each, dim=1).double().square() for each in self._pool)
        lengths: torch.Tensor = inputs * (inputs + self.signal.label_weight**2 * labels)
        return lengths

    @cached_property
    def _pool(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and labels of the pool on the device."""
        return torch.from_numpy(self.inputs).to(self.device), torch.from_numpy(self.labels).to(self.device)

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        """Return the sum over workers and their rows; slots x symbols.

        Protected workers with several rows are formed one by one: added up row by row, the sum of all would be rounded,
        and backed off, by the largest number of rows that any of them holds.
        """
        add_up = self.stream if self.protects and self.rows is not None else super().weighted_sum
        return add_up(index, weights, places)

    def added_up(self, rows: Integers, weights: torch.Tensor) -> torch.Tensor:
        chosen = torch.from_numpy(rows).to(self.device)
        inputs, labels = (each[chosen] for each in self._pool)
        products, with_labels = add_up_products(inputs, labels, weights)
        return torch.cat([pack_symmetric(products), self.signal.label_weight * with_labels.flatten(1)], dim=1)[None]


def add_up_products(inputs: torch.Tensor, labels: torch.Tensor, shares: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return sum_i q_i x_i x_i^T, slots x d x d, and sum_i q_i x_i l_i^T, slots x d x outputs, of one block in float64.

    Inputs are slots x workers x d, labels slots x workers x outputs, shares slots x workers and nowhere negative.
    """
    roots = shares.double().sqrt()[..., None]
    weighted = inputs * roots
    with_labels = weighted.transpose(1, 2) @ (labels * roots)
    if len(weighted) > 1 or weighted.device.type != "cpu":
        return weighted.transpose(1, 2) @ weighted, with_labels
    # NumPy knows a product of a matrix with itself, and computes half of it.
    one = weighted[0].numpy()
    return torch.from_numpy(one.T @ one)[None], with_labels


def largest_product(inputs: torch.Tensor, labels: torch.Tensor, label_weight: float) -> torch.Tensor:
    """Return the largest symbol of (svec(x x^T), w x l^T) without forming it; rows, float64.

    It is the square of the largest number, or sqrt(2) times its product with the next, or that with a label.
    """
    leading = inputs.abs().topk(min(2, inputs.shape[1]), dim=1).values.double()
    largest, next_one = leading[:, 0], leading[:, -1]
    of_inputs = largest * torch.maximum(largest, math.sqrt(2.0) * next_one) if leading.shape[1] > 1 else largest**2
    return torch.maximum(of_inputs, label_weight * largest * labels.abs().amax(dim=1).double())


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
