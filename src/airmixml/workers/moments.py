"""Workers that send products of their numbers, (svec(x x^T), w x l^T), and sums of those by matrix products.

On an air that is not ideal weights differ from piece to piece of a slot. Symbols are products of a left number with a
right one. Each left number is weighted for each piece in which it occurs, which are few, since the products of one
number are sent one after the other. One matrix product of all weighted left numbers with all right ones would hold
every symbol, and much else where pieces are short: then right numbers are taken a tile at a time, with the left numbers
that meet them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from airmixml.arrays import Integers, Singles
from airmixml.workers.payloads import NUMBERS_AT_ONCE, Part, Places, PoolPayload, Vectors
from airmixml.workers.private_sums import BLOCK, add_up_products, rounding_backoff
from airmixml.workers.signal import Signal

if TYPE_CHECKING:
    import torch

_TILE: Final = 64


class Moments(PoolPayload):
    """Each worker sends (svec(x x^T), w x l^T): the products of its numbers, and those with its label."""

    about = "products of the input's numbers, and with the label"
    moments, tabled = True, False
    most_rows = 1  # of the pool on one worker
    _tiles: tuple[list[int], list[Tile]] | None = None  # of the lengths of pieces

    @staticmethod
    def layout(signal: Signal) -> tuple[int, int]:
        """Return the d (d + 1) / 2 different products of two numbers, and one per class and number."""
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

    def vectors(self, index: Integers) -> Vectors:
        """Return (svec(x x^T), w x l^T) of each worker; workers x symbols."""
        inputs, labels = self.inputs[index], self.labels[index]
        left, right = self._pairs
        products = inputs[:, left]
        products *= inputs[:, right]
        products *= _svec_weights(left, right).astype(products.dtype)
        with_labels = (inputs[:, :, None] * labels[:, None, :]).reshape(len(inputs), -1)
        return np.concatenate([products, self.signal.label_weight * with_labels], axis=1)

    @cached_property
    def _pairs(self) -> tuple[Integers, ...]:
        return np.triu_indices(self.signal.features)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Products of inputs have the norm ||x||^2; of those with labels as many as the input has have w ||x||."""
        inputs, labels = self.signal.input_symbols, self.signal.label_symbols
        with_label = Part(labels, self.signal.label_weight * self.norm, self.signal.features)
        return Part(inputs, self.norm**2, inputs), with_label

    @cached_property
    def largest_symbols(self) -> torch.Tensor:
        """The largest product of each sample; samples."""
        return largest_product(*self._pool, self.signal.label_weight)

    @cached_property
    def squared_lengths(self) -> torch.Tensor:
        """||x||^4 + w^2 ||x||^2 ||l||^2 of each sample; samples."""
        import torch

        inputs, labels = (torch.linalg.vector_norm(each, dim=1).double().square() for each in self._pool)
        lengths: torch.Tensor = inputs * (inputs + self.signal.label_weight**2 * labels)
        return lengths

    @cached_property
    def _pool(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and labels of the pool on the device."""
        import torch

        return torch.from_numpy(self.inputs).to(self.device), torch.from_numpy(self.labels).to(self.device)

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        """Return sum_i q_i (svec(x_i x_i^T), w x_i l_i^T), in float64; slots x symbols."""
        if places is None:
            return self._exact(index, weights)
        together: torch.Tensor
        (together,) = self._in_tiles(index, weights, places)
        return together

    def weighted_sums(
        self, index: torch.Tensor, weights: torch.Tensor, factors: torch.Tensor, places: Places
    ) -> torch.Tensor:
        """Return sum_i w_ip f_ik v_i for each k; products are weighted once for all factors."""
        return self._in_tiles(index, weights, places, factors)

    def spread(self, index: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return rows of the pool that workers hold, and the weight of each row, from weights slots x workers x any."""
        return index, weights

    def _workers_at_once(self, width: int) -> int:
        return max(1, min(BLOCK, NUMBERS_AT_ONCE // width) // self.most_rows)

    def _backed_off(self, weights: torch.Tensor, in_slot: int, workers_at_once: int) -> torch.Tensor:
        """Return weights that leave room for what rounding adds; same shape."""
        return rounding_backoff(in_slot * self.most_rows, workers_at_once * self.most_rows) * weights

    def _exact(self, index: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Add up products with weights slots x workers, without forming any worker's own; slots x symbols."""
        import torch

        width = self.signal.features
        workers_at_once = self._workers_at_once(width)
        weights = self._backed_off(weights.double(), self.workers_in_slot(index, None), workers_at_once)[:, :, None]
        slots_at_once = max(1, NUMBERS_AT_ONCE // (width * max(self.most_rows * index.shape[1], width)))
        mixed, (inputs, labels) = [], self._pool
        for first in range(0, len(index), slots_at_once):
            here = slice(first, first + slots_at_once)
            products: torch.Tensor | float = 0.0
            with_labels: torch.Tensor | float = 0.0
            for start in range(0, index.shape[1], workers_at_once):
                some = slice(start, start + workers_at_once)
                rows, shares = self.spread(index[here, some], weights[here, some])
                more, more_with_labels = add_up_products(inputs[rows], labels[rows], shares[:, :, 0])
                products, with_labels = products + more, with_labels + more_with_labels
            packed = pack_symmetric(torch.as_tensor(products))
            weighted = self.signal.label_weight * torch.as_tensor(with_labels).flatten(1)
            mixed.append(torch.cat([packed, weighted], dim=1))
        return torch.cat(mixed)

    def _in_tiles(
        self, index: torch.Tensor, weights: torch.Tensor, places: Places, factors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Add up products with weights of each piece; factors x slots x symbols, float64 (see ``weighted_sums``).

        In a simulation, which protects nobody, products of some workers at a time are added up in float32.
        """
        import torch

        _, lengths = self._in_pieces(weights, places)
        if self._tiles is None or self._tiles[0] != lengths:  # parts of a slot have the same
            self._tiles = lengths, tiles_of(self.signal, lengths, self._pool[0].device)
        tiles = self._tiles[1]
        width = self.signal.features + max(len(tile.left) for tile in tiles)
        workers_at_once = self._workers_at_once(width)
        if not self.protects:
            weights = weights.float()
        weights = self._backed_off(weights, self.workers_in_slot(index, places), workers_at_once)
        slots_at_once = max(1, NUMBERS_AT_ONCE // (width * min(index.shape[1], workers_at_once) * self.most_rows))
        mixed, (inputs, labels) = [], self._pool
        for first in range(0, len(index), slots_at_once):
            here, total = slice(first, first + slots_at_once), torch.zeros((), device=inputs.device)
            for start in range(0, index.shape[1], workers_at_once):
                some = slice(start, start + workers_at_once)
                rows, shares = self.spread(index[here, some], weights[here, some])
                their_factors = None if factors is None else factors[here, some]
                total = total + add_up_tiles(tiles, inputs[rows], labels[rows], shares, their_factors)
            mixed.append(total)
        return torch.cat(mixed, dim=1)


@dataclass(kw_only=True, eq=False)
class MomentsOfRows(Moments):
    """Each worker sends the weighted sum of the moments of several rows, by weights that bound its norm."""

    rows: Integers  #: of the pool; holdings x most rows
    row_weights: Singles  #: what each row's products are multiplied with, 0 where there is none; holdings x most rows

    @cached_property
    def pool_size(self) -> int:
        """How many holdings there are."""
        return len(self.rows)

    @property
    def most_rows(self) -> int:  # type: ignore[override]
        """Rows of the worker that holds most."""
        return int(self.rows.shape[1])

    def vectors(self, index: Integers) -> Vectors:
        """Return sum_r w_r (svec(x_r x_r^T), w x_r l_r^T) of each worker; float64 where data are protected."""
        at_once = max(1, NUMBERS_AT_ONCE // (self.most_rows * self.signal.features))
        return np.concatenate([self._summed(index[i : i + at_once]) for i in range(0, len(index), at_once)])

    def _summed(self, index: Integers) -> Vectors:
        rows, kind = self.rows[index], np.dtype(np.float64 if self.protects else np.float32)
        inputs: Vectors = self.inputs[rows].astype(kind)
        labels: Vectors = self.labels[rows].astype(kind)
        weighted = (inputs * self.row_weights[index][..., None]).transpose(0, 2, 1)
        left, right = self._pairs
        products = (weighted @ inputs)[:, left, right] * _svec_weights(left, right).astype(kind)
        with_labels = (weighted @ labels).reshape(len(index), -1)
        return np.concatenate([products, self.signal.label_weight * with_labels], axis=1)

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        """Return the sum over workers and their rows; slots x symbols.

        Protected workers are formed one by one: added up row by row, the sum of all would be rounded, and backed off,
        by the largest number of rows that any of them holds.
        """
        add_up = self.stream if self.protects else super().weighted_sum
        return add_up(index, weights, places)

    weighted_sums = PoolPayload.weighted_sums

    def spread(self, index: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of workers with these holdings, slots x rows, and the weight of each; slots x rows x any."""
        rows, row_weights = self._held
        return rows[index].flatten(1), (row_weights[index][..., None] * weights[:, :, None]).flatten(1, 2)

    @cached_property
    def _held(self) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        return torch.from_numpy(self.rows).to(self.device), torch.from_numpy(self.row_weights).to(self.device)

    @cached_property
    def largest_symbols(self) -> torch.Tensor:
        """A bound: the sum of the largest products of a worker's rows; holdings."""
        rows, row_weights = self._held
        return (row_weights * largest_product(*self._pool, self.signal.label_weight)[rows]).sum(dim=1)

    @cached_property
    def squared_lengths(self) -> torch.Tensor:
        """What is declared; holdings."""
        import torch

        bound = self.signal.largest_squared_norm(self.norm**2)
        return torch.full((self.pool_size,), bound, dtype=torch.float64, device=self.device)


def largest_product(inputs: torch.Tensor, labels: torch.Tensor, label_weight: float) -> torch.Tensor:
    """Return the largest symbol of (svec(x x^T), w x l^T) without forming it; rows, float64.

    It is the square of the largest number, or sqrt(2) times its product with the next, or that with a label.
    """
    import torch

    leading = inputs.abs().topk(min(2, inputs.shape[1]), dim=1).values.double()
    largest, next_one = leading[:, 0], leading[:, -1]
    of_inputs = largest * torch.maximum(largest, math.sqrt(2.0) * next_one) if leading.shape[1] > 1 else largest**2
    return torch.maximum(of_inputs, label_weight * largest * labels.abs().amax(dim=1).double())


def _svec_weights(left: Integers, right: Integers) -> Vectors:
    return np.where(left == right, 1.0, math.sqrt(2.0))


def pack_symmetric(matrices: torch.Tensor) -> torch.Tensor:
    """Return svec of symmetric matrices: the upper triangle, off the diagonal times sqrt(2); ... x d (d + 1) / 2."""
    import torch

    size = matrices.shape[-1]
    rows, columns = torch.triu_indices(size, size, device=matrices.device)
    weight = matrices.new_full((len(rows),), math.sqrt(2.0)).masked_fill_(rows == columns, 1.0)
    return matrices[..., rows, columns] * weight


def unpack_symmetric(packed: torch.Tensor, size: int) -> torch.Tensor:
    """Return the symmetric matrices of which ``pack_symmetric`` made these; ... x d x d."""
    import torch

    rows, columns = torch.triu_indices(size, size, device=packed.device)
    weight = packed.new_full((len(rows),), math.sqrt(0.5)).masked_fill_(rows == columns, 1.0)
    matrices = torch.zeros((*packed.shape[:-1], size, size), dtype=packed.dtype, device=packed.device)
    matrices[..., rows, columns] = packed * weight
    matrices[..., columns, rows] = packed * weight
    return matrices


class Tile(NamedTuple):
    """Symbols whose right numbers lie side by side."""

    left: torch.Tensor  # left number of each pair of a number and a piece; pairs
    piece: torch.Tensor  # piece of each pair; pairs
    columns: slice  # right numbers, labels after inputs
    row: torch.Tensor  # pair that each symbol is made with; symbols of the tile
    column: torch.Tensor  # its right number, counted from the first; symbols of the tile
    symbols: torch.Tensor  # where it stands among all symbols; symbols of the tile
    weight: torch.Tensor  # what its product is multiplied with; symbols of the tile


def tiles_of(signal: Signal, lengths: list[int], device: torch.device) -> list[Tile]:
    """Return how the symbols of a slot with pieces of these lengths are made of products."""
    import torch

    features = signal.features
    left, right = torch.triu_indices(features, features)
    with_label = torch.arange(features).repeat_interleave(signal.classes)
    labels = features + torch.arange(signal.classes).repeat(features)
    weight = torch.full((len(left),), math.sqrt(2.0), dtype=torch.float64).masked_fill_(left == right, 1.0)
    weight = torch.cat([weight, torch.full((len(labels),), signal.label_weight, dtype=torch.float64)])
    left, right = torch.cat([left, with_label]), torch.cat([right, labels])
    piece = torch.repeat_interleave(torch.tensor(lengths))
    numbers = features + signal.classes
    width = _TILE if len(lengths) > features else numbers
    tiles = []
    for first in range(0, numbers, width):
        here = torch.nonzero((right >= first) & (right < first + width))[:, 0]
        if not len(here):
            continue
        pairs, row = torch.unique(piece[here] * features + left[here], return_inverse=True)
        tensors = (pairs % features, pairs // features, row, right[here] - first, here, weight[here])
        of_left, of_piece, row, column, places, weights = (each.to(device) for each in tensors)
        tiles.append(Tile(of_left, of_piece, slice(first, first + width), row, column, places, weights))
    return tiles


def add_up_tiles(
    tiles: list[Tile],
    inputs: torch.Tensor,
    labels: torch.Tensor,
    shares: torch.Tensor,
    factors: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return sum_i q_ip f_ik times the products of worker i, for each k; factors x slots x symbols, float64.

    Inputs are slots x workers x features, labels slots x workers x outputs, shares slots x workers x pieces in the
    precision that products are to have, factors slots x workers x any number (None: one, of 1).
    """
    import torch

    right = torch.cat([inputs, labels], dim=2).to(shares.dtype)
    count = 1 if factors is None else factors.shape[2]
    symbols = sum(len(tile.symbols) for tile in tiles)
    total = torch.empty((count, len(right), symbols), dtype=torch.float64, device=right.device)
    # In memory that is kept, since fresh memory is slow, and of two axes: of three torch takes ten times as long.
    workers, most = right[:, :, 0].numel(), max(len(tile.left) for tile in tiles)
    rooms = [torch.empty(workers * most, dtype=right.dtype, device=right.device) for _ in range(2)]
    for tile in tiles:
        weighted, weights = (room[: workers * len(tile.left)].view(workers, -1) for room in rooms)
        torch.index_select(right.flatten(0, 1), 1, tile.left, out=weighted)
        torch.index_select(shares.flatten(0, 1), 1, tile.piece, out=weights)
        weighted = weighted.mul_(weights).view(*right.shape[:2], -1)
        columns = right[:, :, tile.columns]
        width = columns.shape[2]
        if factors is not None:  # on the side that has few numbers
            columns = (factors[..., None].to(columns.dtype) * columns[:, :, None, :]).flatten(2)
        products = (weighted.transpose(1, 2) @ columns).reshape(len(right), -1, count, width)
        found = products[:, tile.row, :, tile.column] * tile.weight[:, None, None]  # symbols x slots x factors
        total[:, :, tile.symbols] = found.permute(2, 1, 0).to(total.dtype)
    return total
