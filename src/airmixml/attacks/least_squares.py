"""Least squares for all workers' samples at once: conjugate gradients on blocks of columns.

SciPy's iterative solvers take one right-hand side at a time and know no GPU. Here every column of a block is a problem
of its own that shares the products with A, which are what costs time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

from airmixml.attacks.mixing_matrix import MixingMatrix

__all__ = ["solve_least_squares", "solve_within_bounds"]

_TINY: Final = 1e-30


def solve_least_squares(
    matrix: MixingMatrix,
    mixtures: torch.Tensor,
    *,
    ridge: torch.Tensor,
    start: torch.Tensor | None = None,
    free: torch.Tensor | None = None,
    iterations: int,
    tolerance: float,
    step: Callable[[], None] = lambda: None,
) -> torch.Tensor:
    """Minimise ||A X - Y||^2 + sum_k ridge_k ||X_k||^2 by conjugate gradients; workers x columns.

    Started from zero and without a ridge this tends to the solution of least norm where slots are fewer than workers.

    Args:
        matrix: A.
        mixtures: Y, rows weighted as those of A; slots x columns.
        ridge: shape columns.
        start: where to begin; zero by default.
        free: which entries may move, all by default; workers x columns.
        iterations: at most so many.
        tolerance: stop when every column's gradient is that much smaller than that of zero.
        step: called after each iteration.
    """
    target = matrix.collect(mixtures)
    found = torch.zeros_like(target) if start is None else start.clone()
    gradient = target - matrix.collect(matrix.mix(found)) - ridge * found if start is not None else target.clone()
    if free is not None:
        gradient *= free
    direction = gradient.clone()
    squares = gradient.square().sum(dim=0)
    enough = tolerance**2 * target.square().sum(dim=0)
    for _ in range(iterations):
        if bool((squares <= enough).all()):
            break
        image = matrix.collect(matrix.mix(direction)) + ridge * direction
        if free is not None:
            image *= free
        # A column that is done has no direction left: it must stay where it is, not become 0 / 0.
        length = squares / (direction * image).sum(dim=0).clamp_min(_TINY)
        found.addcmul_(direction, length)
        gradient.addcmul_(image, -length)
        shorter = gradient.square().sum(dim=0)
        direction = torch.addcmul(gradient, direction, shorter / squares.clamp_min(_TINY))
        squares = shorter
        step()
    return found


def solve_within_bounds(
    matrix: MixingMatrix,
    mixtures: torch.Tensor,
    *,
    lower: torch.Tensor,
    upper: torch.Tensor,
    start: torch.Tensor,
    rounds: int,
    iterations: int,
    step: Callable[[], None] = lambda: None,
) -> torch.Tensor:
    """Minimise ||A X - Y||^2 with lower <= X <= upper; workers x columns.

    In each round the entries that sit at a bound and would leave it are held there, the others are moved by conjugate
    gradients, and what goes beyond a bound is brought back to it (Bertsekas 1982, projected Newton).

    Args:
        matrix: A.
        mixtures: Y, rows weighted as those of A; slots x columns.
        lower: least value of each column; shape columns.
        upper: largest value of each column; shape columns.
        start: where to begin, such as the solution without bounds; workers x columns.
        rounds: how often the held entries are chosen anew.
        iterations: of conjugate gradients in each round.
        step: called after each iteration.
    """
    found = start.clamp(lower, upper)
    none = torch.zeros_like(lower)
    for _ in range(rounds):
        downhill = matrix.collect(mixtures - matrix.mix(found))
        held = ((found <= lower) & (downhill < 0.0)) | ((found >= upper) & (downhill > 0.0))
        found = solve_least_squares(
            matrix,
            mixtures,
            ridge=none,
            start=found,
            free=(~held).to(found.dtype),
            iterations=iterations,
            tolerance=0.0,
            step=step,
        ).clamp(lower, upper)
    return found
