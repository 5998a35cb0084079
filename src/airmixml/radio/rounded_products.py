"""Sums of moments that every worker's converter has rounded, without keeping any worker's own: for simulations.

One number of some workers is multiplied with those after it, rounded, and added up while it is still in the cache: four
times as fast as forming all symbols of a worker first.
"""

import math
from collections.abc import Sequence
from typing import Final

import torch

from airmixml.impairments.converters import steps_to_end
from airmixml.radio.transmitters import largest_product

_WORKERS_AT_ONCE: Final = 256
_SAMPLED_NUMBERS: Final = 64


def add_rounded_products(
    inputs: torch.Tensor,
    labels: torch.Tensor,
    label_weight: float,
    shares: torch.Tensor,
    lengths: Sequence[int],
    *,
    bits: int,
    largest_norm: float,
    limits: torch.Tensor | None = None,
    numbers: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return sum_i q_ip Q(v_i), v = (svec(x x^T), w x l^T), clipped to ``limits`` if there are any; symbols, float64.

    Inputs are workers x features, labels workers x outputs, shares workers x pieces, limits workers. ``numbers`` asks
    for the products of these with themselves and those after them alone. Needs two bits or more. Who is longer than
    ``largest_norm`` after rounding is shortened, by what 64 numbers or more, spread over all, tell of the growth.
    """
    features, outputs = inputs.shape[1], labels.shape[1]
    packed = features * (features + 1) // 2
    piece = torch.repeat_interleave(torch.tensor(lengths)).tolist()
    total = torch.zeros(packed + features * outputs, dtype=torch.float64, device=inputs.device)
    wanted = range(features) if numbers is None else numbers.tolist()
    for first in range(0, len(inputs), _WORKERS_AT_ONCE):
        some = slice(first, first + _WORKERS_AT_ONCE)
        left, label = inputs[some].float(), labels[some].float()
        step = (largest_product(left, label, label_weight) / steps_to_end(bits)).clamp(min=1e-30)
        in_steps = left / step[:, None].float()
        right = math.sqrt(2.0) * left
        factor = _shortening(in_steps, left, right, step, label, label_weight, largest_norm)
        weights = (shares[some] * (step * factor)[:, None]).float()
        limit = None if limits is None else (limits[some] / (step * factor))[:, None].float()
        for number in wanted:
            begin = number * features - number * (number - 1) // 2
            total[begin : begin + features - number] += _weighted(
                _rounded(in_steps, left, right, number, limit), weights, piece[begin : begin + features - number]
            )
        if numbers is None:
            with_labels = torch.round(label_weight * in_steps[:, :, None] * label[:, None, :]).flatten(1)
            if limit is not None:
                with_labels = torch.minimum(torch.maximum(with_labels, -limit), limit)
            total[packed:] += _weighted(with_labels, weights, piece[packed:])
    return total


def _rounded(
    in_steps: torch.Tensor, left: torch.Tensor, right: torch.Tensor, number: int, limit: torch.Tensor | None
) -> torch.Tensor:
    """Return the products of one number with itself and those after it, in steps; workers x numbers from it on."""
    products = _products(in_steps, left, right, number).round_()
    return products if limit is None else torch.minimum(torch.maximum(products, -limit), limit)


def _products(in_steps: torch.Tensor, left: torch.Tensor, right: torch.Tensor, number: int) -> torch.Tensor:
    products = in_steps[:, number, None] * right[:, number:]
    products[:, 0] = in_steps[:, number] * left[:, number]
    return products


def _weighted(products: torch.Tensor, weights: torch.Tensor, piece: list[int]) -> torch.Tensor:
    """Return the sum over workers with the weight of each piece; weights are workers x pieces, or x 1."""
    if weights.shape[1] == 1 or piece[0] == piece[-1]:
        return (weights[:, 0 if weights.shape[1] == 1 else piece[0]] @ products).double()
    lengths = [piece.count(each) for each in range(piece[0], piece[-1] + 1)]
    parts = zip(torch.split(products, lengths, dim=1), range(piece[0], piece[-1] + 1), strict=True)
    return torch.cat([weights[:, each] @ part for part, each in parts]).double()


def _shortening(
    in_steps: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    step: torch.Tensor,
    label: torch.Tensor,
    label_weight: float,
    largest_norm: float,
) -> torch.Tensor:
    """Return what workers multiply with to keep the norm: from ||Q(v)||^2 over ||v||^2 of some products; workers."""
    with_labels = (label_weight * in_steps[:, :, None] * label[:, None, :]).flatten(1)
    before, after = (each.square().sum(dim=1).double() for each in (with_labels, with_labels.round()))
    for number in range(0, in_steps.shape[1], max(1, in_steps.shape[1] // _SAMPLED_NUMBERS)):
        products = _products(in_steps, left, right, number)
        before += products.square().sum(dim=1)
        after += products.round_().square().sum(dim=1)
    squares = left.double().square().sum(dim=1)
    squared_length = squares * (squares + label_weight**2 * label.double().square().sum(dim=1))
    longer = (squared_length * after / before.clamp(min=1e-30)).clamp(min=1e-30).sqrt()
    return (largest_norm / longer).clamp(max=1.0)
