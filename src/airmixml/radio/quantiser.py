"""Digital symbols: each is rounded to one of the levels that b bits can name, at random so that it is right on average.

The vector may be longer after rounding. The worker then sends all of it more softly, so that the norm that it has
declared holds whatever the number of bits: a removal moves no more than before, and no more energy is spent. A
replacement may move more, since rounded vectors can point apart.
"""

from __future__ import annotations

import math

import torch


def quantise(
    symbols: torch.Tensor, *, largest: float, bits: int, generator: torch.Generator | None = None
) -> torch.Tensor:
    """Return symbols rounded to levels between -largest and largest, values beyond them to the outermost level.

    One bit names the two levels at the ends. More bits name an odd number of equally spaced levels with zero among
    them, 2^b - 1, so that silence stays silent. Each symbol goes up or down with the chances that keep its mean.

    Args:
        symbols: any shape.
        largest: the outermost level.
        bits: b, at least 1.
        generator: source of the chances, on the device of the symbols.
    """
    steps_to_end = 0.5 if bits == 1 else float(2 ** (bits - 1) - 1)
    step = largest / steps_to_end
    offset = 0.5 if bits == 1 else 0.0
    chance = torch.rand(symbols.shape, device=symbols.device, generator=generator)
    places = torch.floor(symbols.clamp(-largest, largest) / step - offset + chance)
    return (places + offset).clamp_(-steps_to_end, steps_to_end).mul_(step)


def shorten(vectors: torch.Tensor, largest_norm: float) -> torch.Tensor:
    """Return the rows, those longer than the norm shortened to it; rows x symbols."""
    lengths = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64).clamp(min=math.ulp(0.0))
    factors = (largest_norm * (1.0 - 1e-6) / lengths).clamp(max=1.0)
    return vectors.mul(factors.to(vectors.dtype)[:, None])
