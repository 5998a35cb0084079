"""Symbols above a transmitter's peak amplitude, cut where they are: of samples, and of products that nobody has formed.

Only workers whose largest symbol exceeds their amplitude are looked at; of products only those of numbers that can
exceed it. Mild clipping of many workers then costs little, and hard clipping as much as forming all their symbols.
"""

import math
from collections.abc import Sequence
from typing import Final

import torch

_NUMBERS_AT_ONCE: Final = 1 << 23


def clip_samples(
    table: torch.Tensor, index: torch.Tensor, shares: torch.Tensor, limits: torch.Tensor, piece: torch.Tensor
) -> torch.Tensor:
    """Return sum_i q_ip clip(v_i) of one slot; shape symbols.

    The table is samples x symbols; index and limits have the shape workers, shares are workers x pieces, and ``piece``
    tells the piece of each symbol.
    """
    total = table.new_zeros(table.shape[1])
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, table.shape[1]))
    for first in range(0, len(index), at_once):
        some = slice(first, first + at_once)
        limit = limits[some, None].to(table.dtype)
        sent = torch.minimum(torch.maximum(table[index[some]], -limit), limit)
        total += (sent * shares[some][:, piece].to(table.dtype)).sum(dim=0)
    return total


def clipped_products(
    inputs: torch.Tensor,
    labels: torch.Tensor,
    label_weight: float,
    shares: torch.Tensor,
    limits: torch.Tensor,
    lengths: Sequence[int],
) -> torch.Tensor:
    """Return sum_i q_ip (v_i - clip(v_i)), what clipping takes off moments of these workers; shape symbols, float64.

    Inputs are workers x features, labels workers x outputs, shares workers x pieces, limits workers.
    """
    features, outputs = inputs.shape[1], labels.shape[1]
    packed = features * (features + 1) // 2
    piece = torch.repeat_interleave(torch.tensor(lengths)).to(inputs.device)
    total = torch.zeros(packed + features * outputs, dtype=torch.float64, device=inputs.device)
    sizes = inputs.abs()
    largest_partner = torch.maximum(
        math.sqrt(2.0) * sizes.amax(dim=1), label_weight * labels.abs().amax(dim=1).to(sizes)
    )
    may_exceed = (sizes * largest_partner[:, None] > limits[:, None]).sum(dim=1)
    # Workers with about equally many such numbers at a time: then few numbers that cannot exceed it come along.
    order, first = may_exceed.argsort(descending=True), 0
    while first < len(order) and (most := int(may_exceed[order[first]])):
        some = order[first : first + max(1, _NUMBERS_AT_ONCE // most**2)]
        first += len(some)
        # In the order of the numbers, so that every pair is met as it is sent.
        which = sizes[some].topk(most, dim=1).indices.sort(dim=1).values
        chosen, limit = inputs[some].gather(1, which).double(), limits[some].double()
        weight = torch.full((most, most), math.sqrt(2.0), dtype=torch.float64, device=inputs.device).triu_(1)
        weight.fill_diagonal_(1.0)
        pairs = chosen[:, :, None] * chosen[:, None, :] * weight
        with_labels = label_weight * chosen[:, :, None] * labels[some].double()[:, None, :]
        for products, of_labels in ((pairs, False), (with_labels, True)):
            lost = products - torch.minimum(torch.maximum(products, -limit[:, None, None]), limit[:, None, None])
            worker, left, right = torch.nonzero(lost, as_tuple=True)
            row = which[worker, left]
            if of_labels:
                place = packed + row * outputs + right
            else:
                place = row * features - row * (row - 1) // 2 + which[worker, right] - row
            total.index_add_(0, place, lost[worker, left, right] * shares[some[worker], piece[place]])
    return total
