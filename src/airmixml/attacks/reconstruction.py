"""Reconstruction by the server: every worker's sample at once, from all mixtures, schedule and shares known.

The received mixtures are Y = A X + noise with a known A, so this is linear algebra. Three ways to solve it:

- ``least-squares`` uses nothing else. Where slots are fewer than workers it is the solution nearest to the public mean.
- ``non-negative`` knows the range of the numbers that are sent.
- ``prior`` knows how samples vary: with mean and covariance of public samples it is the best linear estimate there is
  (Wiener filter), which keeps what is smooth and common and drops what noise would drown.
"""

import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles, Singles
from airmixml.attacks.least_squares import solve_least_squares, solve_within_bounds
from airmixml.attacks.target import ServerView, no_sample
from airmixml.errors import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.scenario import Workers
from airmixml.workers import input_range

RECONSTRUCTIONS: Final = ("least-squares", "non-negative", "prior")
# A block of so many columns stays in the cache of a CPU while random rows of it are added up.
_COLUMNS_ON_CPU: Final = 112
_COLUMNS_ON_GPU: Final = 1024


@dataclass(frozen=True, kw_only=True, eq=False)
class Reconstruction:
    """What the server makes of all workers with a method of ``RECONSTRUCTIONS``, and how long that took."""

    method: str
    inputs: Singles  # encoded; workers x inputs
    labels: Singles  # shares of the classes; workers x classes
    iterations: int  # products with A and its transpose, at most, over the blocks of columns
    seconds: float


def reconstruction_refusal(method: str, workers: Workers) -> str:
    """Return why a method does not fit what the workers send; empty if it does."""
    if refusal := no_sample(workers):
        return refusal
    if method != "non-negative":
        return ""
    if workers.sends == "moments":
        return "products are sent, not numbers of a known range"
    return "what the encoder sends may be negative" if workers.bits or input_range(workers)[0] < 0.0 else ""


def reconstruct(
    view: ServerView,
    method: str,
    *,
    columns_at_once: int | None = None,
    nothing_to_learn: float = 1e-3,
    progress: Progress = silent,
) -> Reconstruction:
    """Recover all workers' samples from what the server holds.

    Args:
        view: mixtures, schedule, shares and powers.
        method: one of ``RECONSTRUCTIONS``.
        columns_at_once: how many columns are solved for together; by default what is fastest on the device.
        nothing_to_learn: directions are left out in which even the worker heard best would be known no better than by
            this part of what was known before; of ``prior``.
        progress: told how many columns are solved for.
    """
    if method not in RECONSTRUCTIONS:
        raise ScenarioError(f"method = {method!r}: must be one of {', '.join(RECONSTRUCTIONS)}")
    refusal = reconstruction_refusal(method, view.transmission.scenario.workers)
    if refusal:
        raise ScenarioError(f"method = {method!r}: cannot be used, {refusal}")
    started = time.perf_counter()
    public = view.layout.numbers_of(view.dataset.test_inputs, view.dataset.test_labels)
    width = columns_at_once or (_COLUMNS_ON_GPU if view.received.device.type == "cuda" else _COLUMNS_ON_CPU)
    if method == "prior":
        numbers, iterations = _with_prior(view, public, width, nothing_to_learn, progress)
    else:
        numbers, iterations = _without_prior(view, public.mean(axis=0), method, width, progress)
    inputs, labels = view.layout.read(numbers)
    seconds = time.perf_counter() - started
    return Reconstruction(method=method, inputs=inputs, labels=labels, iterations=iterations, seconds=seconds)


def _without_prior(
    view: ServerView, mean: Doubles, method: str, width: int, progress: Progress
) -> tuple[torch.Tensor, int]:
    """Solve for every number by itself; returns workers x numbers, and the most iterations of a block."""
    matrix, device = view.matrix, view.received.device
    centre, root = torch.from_numpy(mean).float().to(device), _root_weights(view)
    workers = view.transmission.scenario.workers
    low, high = input_range(workers)
    bounds = [[low, high]] * view.dataset.input_dim + [[0.0, workers.label_weight]] * view.dataset.label_dim
    lower, upper = torch.tensor(bounds, device=device).T
    found, most = torch.empty((matrix.workers, len(mean)), device=device), 0
    for first in range(0, len(mean), width):
        progress(method, first, len(mean))
        columns = slice(first, first + width)
        mixtures = view.received[:, columns] * root
        public = centre[columns].expand(matrix.workers, -1).contiguous()
        surplus, ridge = mixtures - matrix.mix(public), torch.zeros_like(centre[columns])
        away, taken = solve_least_squares(matrix, surplus, ridge=ridge)
        solved = centre[columns] + away
        if method == "non-negative":
            solved, more = solve_within_bounds(
                matrix, mixtures, lower=lower[columns], upper=upper[columns], start=solved
            )
            taken += more
        found[:, columns] = solved
        most = max(most, taken)
    progress(method, len(mean), len(mean))
    return found, most


def _with_prior(
    view: ServerView, public: Doubles, width: int, nothing_to_learn: float, progress: Progress
) -> tuple[torch.Tensor, int]:
    """Solve along the principal directions of public samples, each with the ridge that its variance asks for.

    With v ~ N(m, U diag(s) U^T) and white noise the posterior mean is a ridge regression of ridge 1 / s_k along every
    direction k by itself. Returns workers x numbers, and the most iterations of a block.
    """
    matrix, device = view.matrix, view.received.device
    mean, variances, directions = principal_directions(public)
    learnable = np.flatnonzero(variances * float(matrix.heard.max(initial=0.0)) > nothing_to_learn)[::-1].copy()
    found, most = torch.from_numpy(mean).float().to(device).expand(matrix.workers, -1).contiguous(), 0
    surplus = view.received * _root_weights(view) - matrix.mix(found)
    for first in range(0, len(learnable), width):
        progress("prior", first, len(learnable))
        some = learnable[first : first + width]
        basis = torch.from_numpy(directions[:, some]).float().to(device)
        ridge = torch.from_numpy(1.0 / variances[some]).float().to(device)
        along, taken = solve_least_squares(matrix, surplus @ basis, ridge=ridge)
        found.addmm_(along, basis.T)
        most = max(most, taken)
    progress("prior", len(learnable), len(learnable))
    return found, most


def principal_directions(public: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Return mean, variances (ascending) and directions of public samples, shrunk where these are few.

    One sample says nothing of how samples vary: all variances are 0 then.
    """
    if len(public) < 2:
        return public.mean(axis=0), np.zeros(public.shape[1]), np.eye(public.shape[1])
    from sklearn.covariance import LedoitWolf

    model = LedoitWolf().fit(public)
    variances, directions = np.linalg.eigh(model.covariance_)
    return model.location_, np.maximum(variances, 0.0), directions


def _root_weights(view: ServerView) -> torch.Tensor:
    return torch.from_numpy(np.sqrt(view.matrix.weights)).float().to(view.received.device)[:, None]
