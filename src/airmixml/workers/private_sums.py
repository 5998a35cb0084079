"""Sums over workers before noise is added: computed so that rounding never lets one worker move them too far.

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

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import torch  # takes seconds to load, and an account needs the sums of NumPy at most

    from airmixml.arrays import Doubles, Singles
from airmixml.errors import ScenarioError

BLOCK: Final = 4096  #: So many workers are added up at once, so that no number passes through many more additions

_UNIT_ROUNDOFF: Final = 2.0**-53
# Products, square roots of shares, weights of labels and of rows: each is rounded once.
_OTHER_ROUNDINGS: Final = 8
_LEAST: Final = 0.9


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


def add_up_products(inputs: torch.Tensor, labels: torch.Tensor, shares: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return sum_i q_i x_i x_i^T, slots x d x d, and sum_i q_i x_i l_i^T, slots x d x outputs, of one block in float64.

    Inputs are slots x workers x d, labels slots x workers x outputs, shares slots x workers and nowhere negative.
    """
    import torch

    roots = shares.double().sqrt()[..., None]
    weighted = inputs * roots
    with_labels = weighted.transpose(1, 2) @ (labels * roots)
    if len(weighted) > 1 or weighted.device.type != "cpu":
        return weighted.transpose(1, 2) @ weighted, with_labels
    # NumPy knows a product of a matrix with itself, and computes half of it.
    one = weighted[0].numpy()
    return torch.from_numpy(one.T @ one)[None], with_labels
