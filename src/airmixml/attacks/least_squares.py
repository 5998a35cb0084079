"""Least squares for all workers' samples at once: conjugate gradients on blocks of columns.

SciPy's iterative solvers take one right-hand side at a time and know no GPU. Here every column of a block is a problem
of its own that shares the products with A, the sparse matrix of shares, which are what costs time.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Self

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array

from airmixml.arrays import Doubles
from airmixml.radio.draws import SlotDraws

_TINY: Final = 1e-30
_WEAKEST: Final = 1e-30


class MixingMatrix:
    """A with A_ti = sqrt(w_t) q_ti: the shares of all workers, each slot weighted by how well it was heard.

    Attributes:
        weights: w_t, how much a slot counts; shape slots.
        heard: sum_t w_t q_ti^2 of each worker, the diagonal of A^T A; shape workers.
        mix: returns A X, slots x columns, for samples X of shape workers x columns.
        collect: returns A^T Y, workers x columns, for mixtures Y of shape slots x columns.
    """

    def __init__(self, shares: csr_array, weights: Doubles, device: torch.device) -> None:
        self.slots, self.workers = map(int, shares.shape)
        self.weights = weights
        weighted = csr_array(shares.multiply(np.sqrt(weights)[:, None]))
        squares = weighted.copy()
        squares.data **= 2
        self.heard: Doubles = np.asarray(squares.sum(axis=0)).ravel()
        self.mix, self.collect = _product(weighted, device), _product(csr_array(weighted.T), device)

    @classmethod
    def of(cls, draws: Sequence[SlotDraws], workers: int, weights: Doubles, device: torch.device) -> Self:
        """Return the matrix of consecutive draws; a seat that nobody took leaves no entry."""
        if not draws:
            return cls(csr_array((0, workers)), weights, device)
        scheduled = np.concatenate([each.scheduled_workers for each in draws])
        ratios = np.concatenate([each.ratios for each in draws])
        slot, seat = np.nonzero(ratios)
        entries = (ratios[slot, seat], (slot, scheduled[slot, seat]))
        return cls(csr_array(coo_array(entries, shape=(len(ratios), workers))), weights, device)


def _product(matrix: csr_array, device: torch.device) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the product with a block of columns by ``embedding_bag``: threaded on a CPU, the same call on a GPU."""
    columns, starts = (
        torch.from_numpy(part.astype(np.int64)).to(device) for part in (matrix.indices, matrix.indptr[:-1])
    )
    values = torch.from_numpy(matrix.data.astype(np.float32)).to(device)
    bag = torch.nn.functional.embedding_bag
    return partial(bag, columns, offsets=starts, mode="sum", per_sample_weights=values)


def solve_least_squares(
    matrix: MixingMatrix,
    mixtures: torch.Tensor,
    *,
    ridge: torch.Tensor,
    iterations: int = 100,
    tolerance: float = 1e-5,
) -> torch.Tensor:
    """Minimise ||A X - Y||^2 + sum_k ridge_k ||X_k||^2 by conjugate gradients; returns X, workers x columns.

    Without a ridge this tends to the solution of least norm where slots are fewer than workers.
    Elsewhere there is but one solution as a rule, and steps are made in units of how well each worker was heard: one
    on the border may be heard ten thousand times worse than another, and would take hundreds of iterations.

    Rows of Y (slots x columns) are weighted as those of A. A column stops when its gradient is by ``tolerance`` smaller
    than that of zero; what rounding leaves of it has no curvature to follow where slots are fewer than workers.
    """
    # Received powers span 60 orders of magnitude and float32 squares 38: every column is brought to about 1.
    strength = min(max(float(matrix.heard.max(initial=0.0)), _WEAKEST), 1.0 / _WEAKEST)
    target = matrix.collect(mixtures) / strength
    size = target.abs().amax(dim=0).clamp_min(_TINY)
    target /= size
    ridge = ridge / strength

    def normal(samples: torch.Tensor) -> torch.Tensor:
        return matrix.collect(matrix.mix(samples)) / strength + ridge * samples

    found, gradient = torch.zeros_like(target), target.clone()
    units = torch.ones((1, 1), device=target.device)
    if matrix.slots >= matrix.workers:  # a weak ridge would take long to bring back what other units let stray
        heard = torch.from_numpy(matrix.heard / strength).float().to(target.device)[:, None]
        diagonal = heard + ridge if bool((ridge > 0.0).any()) else heard
        units = torch.where(diagonal > 0.0, 1.0 / diagonal.clamp_min(_TINY), 1.0)
    scaled = gradient * units
    direction = scaled
    squares = (gradient * scaled).sum(dim=0)
    enough = tolerance**2 * (target.square() * units).sum(dim=0)
    moving = squares > enough
    for _ in range(iterations):
        if not bool(moving.any()):
            break
        image = normal(direction)
        curvature = (direction * image).sum(dim=0)
        # A column that is done stays where it is, whichever others it is solved with.
        moving &= curvature > 0.0
        length = torch.where(moving, squares / curvature, 0.0)
        found.addcmul_(direction, length)
        gradient.addcmul_(image, -length)
        scaled = gradient * units
        shorter = (gradient * scaled).sum(dim=0)
        direction = torch.addcmul(scaled, direction, shorter / squares.clamp_min(_TINY))
        squares = shorter
        moving &= squares > enough
    return found * size
