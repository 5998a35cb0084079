"""Sums of products whose shares differ from piece to piece of a slot, by matrix products.

Symbols are products of a left number with a right one. Each left number is weighted for each piece in which it occurs,
which are few, since the products of one number are sent one after the other. One matrix product of all weighted left
numbers with all right ones would hold every symbol, and much else where pieces are short: then right numbers are taken
a tile at a time, with the left numbers that meet them.
"""

import math
from typing import Final, NamedTuple

import torch

from airmixml.workers import Signal

_TILE: Final = 128


class Tile(NamedTuple):
    """Symbols whose right numbers lie side by side."""

    left: torch.Tensor  # left number of each pair of a number and a piece; pairs
    piece: torch.Tensor  # piece of each pair; pairs
    columns: slice  # right numbers, labels after inputs
    row: torch.Tensor  # pair that each symbol is made with; symbols of the tile
    column: torch.Tensor  # its right number, counted from the first; symbols of the tile
    symbols: torch.Tensor  # where it stands among all symbols; symbols of the tile
    weight: torch.Tensor  # what its product is multiplied with; symbols of the tile


def tiles_of(
    signal: Signal, lengths: tuple[int, ...], symbols: torch.Tensor | None, device: torch.device
) -> list[Tile]:
    """Return how the symbols of a slot with pieces of these lengths, or some of them, are made of products."""
    features = signal.features
    left, right = torch.triu_indices(features, features)
    with_label = torch.arange(features).repeat_interleave(signal.classes)
    labels = features + torch.arange(signal.classes).repeat(features)
    weight = torch.full((len(left),), math.sqrt(2.0), dtype=torch.float64).masked_fill_(left == right, 1.0)
    weight = torch.cat([weight, torch.full((len(labels),), signal.label_weight, dtype=torch.float64)])
    left, right = torch.cat([left, with_label]), torch.cat([right, labels])
    piece = torch.repeat_interleave(torch.tensor(lengths))
    if symbols is not None:
        wanted = symbols.cpu()
        left, right, weight, piece = left[wanted], right[wanted], weight[wanted], piece[wanted]
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


def most_pairs(tiles: list[Tile]) -> int:
    """Return how many weighted numbers are held at a time."""
    return max(len(tile.left) for tile in tiles)


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
    right = torch.cat([inputs, labels], dim=2).to(shares.dtype)
    count = 1 if factors is None else factors.shape[2]
    symbols = sum(len(tile.symbols) for tile in tiles)
    total = torch.empty((count, len(right), symbols), dtype=torch.float64, device=right.device)
    for tile in tiles:
        weighted, columns = right[:, :, tile.left] * shares[:, :, tile.piece], right[:, :, tile.columns]
        width = columns.shape[2]
        if factors is not None:  # on the side that has few numbers
            columns = (factors[..., None].to(columns.dtype) * columns[:, :, None, :]).flatten(2)
        products = (weighted.transpose(1, 2) @ columns).reshape(len(right), -1, count, width)
        found = products[:, tile.row, :, tile.column] * tile.weight[:, None, None]  # symbols x slots x factors
        total[:, :, tile.symbols] = found.permute(2, 1, 0).to(total.dtype)
    return total
