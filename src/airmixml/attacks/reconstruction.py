"""Reconstruction by the server: every worker's sample at once, from all mixtures, schedule and shares known.

The received mixtures are Y = A X + noise with a known A, so this is linear algebra. Two ways to solve it:

- ``least-squares`` uses nothing else. Where slots are fewer than workers it is the solution nearest to the public mean.
- ``prior`` knows how samples vary: with mean and covariance of public samples it is the best linear estimate there is
  (Wiener filter), which keeps what is smooth and common and drops what noise would drown.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles, Singles
from airmixml.attacks.least_squares import solve_least_squares
from airmixml.attacks.target import ServerView, no_sample
from airmixml.errors import ScenarioError
from airmixml.progress import Progress, silent

RECONSTRUCTIONS: Final = ("least-squares", "prior")
# A block of so many columns stays in the cache of a CPU while random rows of it are added up.
_COLUMNS_ON_CPU: Final = 112
_COLUMNS_ON_GPU: Final = 1024
# Directions are left out in which even the worker heard best would be known no better than by this part of what was
# known before.
_NOTHING_TO_LEARN: Final = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class Reconstruction:
    """What the server makes of all workers."""

    inputs: Singles  # encoded; workers x inputs
    labels: Singles  # shares of the classes; workers x classes


def reconstruct(view: ServerView, method: str, *, progress: Progress = silent) -> Reconstruction:
    """Recover all workers' samples from what the server holds, by one of ``RECONSTRUCTIONS``."""
    if method not in RECONSTRUCTIONS:
        raise ScenarioError(f"method = {method!r}: must be one of {', '.join(RECONSTRUCTIONS)}")
    if refusal := no_sample(view.scenario.workers):
        raise ScenarioError(f"method = {method!r}: cannot be used, {refusal}")
    public = view.layout.numbers_of(view.dataset.test_inputs, view.dataset.test_labels)
    if method == "prior":
        numbers = _with_prior(view, public, progress)
    else:
        numbers = _without_prior(view, public.mean(axis=0), progress)
    inputs, labels = view.layout.read(numbers)
    return Reconstruction(inputs=inputs, labels=labels)


def _blocks(method: str, columns: int, device: torch.device, progress: Progress) -> Iterator[slice]:
    """Yield so many columns in blocks that are solved for together."""
    width = _COLUMNS_ON_GPU if device.type == "cuda" else _COLUMNS_ON_CPU
    for first in range(0, columns, width):
        progress(method, first, columns)
        yield slice(first, first + width)
    progress(method, columns, columns)


def _without_prior(view: ServerView, mean: Doubles, progress: Progress) -> torch.Tensor:
    """Solve for every number by itself; returns workers x numbers."""
    matrix, device = view.matrix, view.received.device
    centre, root = torch.from_numpy(mean).float().to(device), _root_weights(view)
    found = torch.empty((matrix.workers, len(mean)), device=device)
    for columns in _blocks("least-squares", len(mean), device, progress):
        public = centre[columns].expand(matrix.workers, -1).contiguous()
        surplus, ridge = view.received[:, columns] * root - matrix.mix(public), torch.zeros_like(centre[columns])
        found[:, columns] = centre[columns] + solve_least_squares(matrix, surplus, ridge=ridge)
    return found


def _with_prior(view: ServerView, public: Doubles, progress: Progress) -> torch.Tensor:
    """Solve along the principal directions of public samples, each with the ridge that its variance asks for.

    With v ~ N(m, U diag(s) U^T) and white noise the posterior mean is a ridge regression of ridge 1 / s_k along every
    direction k by itself. Returns workers x numbers.
    """
    matrix, device = view.matrix, view.received.device
    mean, variances, directions = principal_directions(public)
    learnable = np.flatnonzero(variances * float(matrix.heard.max(initial=0.0)) > _NOTHING_TO_LEARN)[::-1].copy()
    found = torch.from_numpy(mean).float().to(device).expand(matrix.workers, -1).contiguous()
    surplus = view.received * _root_weights(view) - matrix.mix(found)
    for columns in _blocks("prior", len(learnable), device, progress):
        some = learnable[columns]
        basis = torch.from_numpy(directions[:, some]).float().to(device)
        ridge = torch.from_numpy(1.0 / variances[some]).float().to(device)
        found.addmm_(solve_least_squares(matrix, surplus @ basis, ridge=ridge), basis.T)
    return found


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
