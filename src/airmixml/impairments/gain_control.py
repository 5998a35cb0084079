"""Automatic gain of the server's converter from the past alone: what a block will hold is not known before it came.

The gain of a block puts the outermost level at ``headroom`` times the largest symbol of the blocks before it in the
slot, as the converter saw them: of a block that saturated it saw its outermost level, and raises that by the headroom
once more. A slot begins with what is known without data: the declared norm over all symbols, times 32, since products
have symbols of 30 root mean squares, and four deviations of the noise.
"""

import math
from typing import Final

import torch

from airmixml.impairments.frame import Frame

HEADROOM: Final = 8.0  # 18 dB: of products, a later block may have symbols several times as large
_START_ROOT_MEAN_SQUARES: Final = 32.0
_START_DEVIATIONS: Final = 4.0


def first_level(largest_norm: float, symbols: int, deviation: torch.Tensor) -> torch.Tensor:
    """Return the outermost level of the first block, for noise of that deviation on a symbol; shape of it."""
    of_data = largest_norm * min(1.0, _START_ROOT_MEAN_SQUARES / math.sqrt(symbols))
    return of_data + _START_DEVIATIONS * deviation


def causal_levels(received: torch.Tensor, frame: Frame, start: torch.Tensor, headroom: float) -> torch.Tensor:
    """Return the outermost level for every symbol that is received, slots x symbols; ``start`` has shape slots."""
    block_of = torch.tensor(frame.blocks, device=received.device)
    block_of = block_of.repeat_interleave(torch.tensor(frame.lengths, device=received.device))
    peaks = torch.zeros((len(received), frame.block_count), dtype=torch.float64, device=received.device)
    peaks.scatter_reduce_(1, block_of.expand(len(received), -1), received.abs().double(), "amax")
    levels, seen = [start.double()], torch.zeros_like(start, dtype=torch.float64)
    for block in range(frame.block_count - 1):
        seen = torch.maximum(seen, torch.minimum(peaks[:, block], levels[-1]))
        levels.append(headroom * seen)
    return torch.stack(levels, dim=1)[:, block_of]
