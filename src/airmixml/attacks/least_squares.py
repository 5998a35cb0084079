"""Least squares for all workers' samples at once: conjugate gradients on blocks of columns.

SciPy's iterative solvers take one right-hand side at a time and know no GPU. Here every column of a block is a problem
of its own that shares the products with A, which are what costs time.
"""

from collections.abc import Callable
from typing import Final

import torch

from airmixml.attacks.mixing_matrix import MixingMatrix

_TINY: Final = 1e-30
_WEAKEST: Final = 1e-30
# What rounding leaves of a gradient has no curvature to follow where slots are fewer than workers.
_TOLERANCE_WITHIN_BOUNDS: Final = 1e-5


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
    Elsewhere there is but one solution as a rule, and steps are made in units of how well each worker was heard: one
    on the border may be heard ten thousand times worse than another, and would take hundreds of iterations.

    Args:
        matrix: A.
        mixtures: Y, rows weighted as those of A; slots x columns.
        ridge: shape columns.
        start: where to begin; zero by default.
        free: which entries may move, all by default; workers x columns.
        iterations: at most so many.
        tolerance: a column stops when its gradient is that much smaller than that of zero.
        step: called after each iteration.
    """
    # Received powers span 60 orders of magnitude and float32 squares 38: every column is brought to about 1.
    strength = min(max(float(matrix.heard.max(initial=0.0)), _WEAKEST), 1.0 / _WEAKEST)
    target = matrix.collect(mixtures) / strength
    size = target.abs().amax(dim=0).clamp_min(_TINY)
    target /= size
    ridge = ridge / strength

    def normal(samples: torch.Tensor) -> torch.Tensor:
        return matrix.collect(matrix.mix(samples)) / strength + ridge * samples

    found = torch.zeros_like(target) if start is None else start / size
    gradient = target.clone() if start is None else target - normal(found)
    if free is not None:
        gradient *= free
    units = _units(matrix, ridge, strength, target.device)
    scaled = gradient * units
    direction = scaled
    squares = (gradient * scaled).sum(dim=0)
    enough = tolerance**2 * (target.square() * units).sum(dim=0)
    moving = squares > enough
    for _ in range(iterations):
        if not bool(moving.any()):
            break
        image = normal(direction)
        if free is not None:
            image *= free
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
        step()
    return found * size


def _units(matrix: MixingMatrix, ridge: torch.Tensor, strength: float, device: torch.device) -> torch.Tensor:
    """Return 1 / diagonal of the normal equations where slots are enough, else 1; broadcasts to the samples."""
    if matrix.slots < matrix.workers:  # a weak ridge would take long to bring back what other units let stray
        return torch.ones((1, 1), device=device)
    heard = torch.from_numpy(matrix.heard / strength).float().to(device)[:, None]
    diagonal = heard + ridge if bool((ridge > 0.0).any()) else heard
    return torch.where(diagonal > 0.0, 1.0 / diagonal.clamp_min(_TINY), 1.0)


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
            tolerance=_TOLERANCE_WITHIN_BOUNDS,
            step=step,
        ).clamp(lower, upper)
    return found
