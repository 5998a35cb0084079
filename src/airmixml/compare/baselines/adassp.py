"""AdaSSP: least squares from sufficient statistics with noise and a ridge that adapts to them (Wang 2018, Alg. 2).

The curator adds noise to the smallest eigenvalue of X^T X, to X^T X (symmetric, as in Analyze Gauss) and to X^T Y. The
ridge covers what the noise can do to the smallest eigenvalue. In the paper the three share epsilon and delta equally;
here they share mu^2, which is exact and kinder to it. Rows and one-hot labels have norm at most 1.
"""

import math
from typing import Final

import numpy as np
import torch

from airmixml.compare.baselines.central import Curator
from airmixml.compare.methods import Method, Outcome, Work

_FAILURE: Final = 0.05  # rho of the paper


class AdaSsp(Method):
    """Central least squares by sufficient statistics with adaptive ridge."""

    about = "central AdaSSP (Wang 2018): noisy sufficient statistics, adaptive ridge; a trusted curator"

    def run(self, work: Work) -> Outcome:
        """Solve the noisy normal equations."""
        curator = Curator.of(work)
        rng = curator.streams.generator("noise")
        weights = adaptive_ridge(curator.inputs, curator.labels, curator.mu, curator.scenario.privacy.delta, rng)
        return curator.outcome(weights)


def adaptive_ridge(
    inputs: torch.Tensor, labels: torch.Tensor, mu: float, delta: float, rng: np.random.Generator
) -> torch.Tensor:
    """Return the weights; d x classes.

    Args:
        inputs: rows x d, of norm at most 1.
        labels: rows x classes, of norm at most 1.
        mu: of the three Gaussian mechanisms together.
        delta: for the margin on the smallest eigenvalue.
        rng: draws the noise.
    """
    size = inputs.shape[1]
    deviation = math.sqrt(3.0) / mu
    second, cross = inputs.T @ inputs, inputs.T @ labels
    smallest = float(torch.linalg.eigvalsh(second)[0]) + deviation * float(rng.standard_normal())
    smallest = max(smallest - math.sqrt(math.log(6.0 / delta)) * deviation, 0.0)
    needed = math.sqrt(size * math.log(2.0 * size**2 / _FAILURE)) * deviation
    upper = torch.from_numpy(np.triu(rng.standard_normal((size, size))))
    noisy = second + deviation * (upper + upper.triu(1).T)
    noisy_cross = cross + deviation * torch.from_numpy(rng.standard_normal(tuple(cross.shape)))
    ridge = max(needed - smallest, 0.0) * torch.eye(size, dtype=second.dtype)
    solution: torch.Tensor = torch.linalg.lstsq(noisy + ridge, noisy_cross).solution
    return solution


ADASSP: Final = AdaSsp()
