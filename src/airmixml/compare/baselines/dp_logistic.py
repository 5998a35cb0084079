"""Central logistic regression by gradient descent with noise: DP-SGD whose batch is all rows, without Opacus.

For a few hundred or thousand rows whole batches cost nothing and need no luck with sampling: every step is a Gaussian
mechanism, and all steps together are one, accounted for exactly. Steps and rate are those of federated learning.
"""

import math
from typing import Final

import torch

from airmixml.compare.baselines.central import Curator
from airmixml.compare.baselines.federated import CLIP_NORM, LEARNING_RATE, ROUNDS, RoundAdam
from airmixml.compare.methods import Method, Outcome, Work, slow_on_a_cpu
from airmixml.scenario import Scenario, Speed


class DpLogistic(Method):
    """Softmax regression on the scenario's features by noisy full gradients."""

    about = "central logistic regression by noisy full gradients (DP-SGD with whole batches); a trusted curator"

    def run(self, work: Work) -> Outcome:
        """Descend, and average the second half of the way."""
        curator = Curator.of(work)
        rows, labels = curator.inputs, curator.labels
        deviation = CLIP_NORM * math.sqrt(ROUNDS) / curator.mu / len(rows)
        weights = torch.zeros((rows.shape[1], labels.shape[1]), dtype=torch.float64)
        adam, average = RoundAdam(LEARNING_RATE), torch.zeros_like(weights)
        lengths = rows.norm(dim=1)
        for step in range(ROUNDS):
            errors = torch.softmax(rows @ weights, dim=1) - labels
            norms = errors.norm(dim=1) * lengths
            errors = errors * (CLIP_NORM / norms.clamp(min=CLIP_NORM))[:, None]
            noise = curator.streams.generator("noise", step).standard_normal(tuple(weights.shape))
            gradient = rows.T @ errors / len(rows) + deviation * torch.from_numpy(noise)
            weights = weights + adam.change(gradient)
            if step >= ROUNDS // 2:
                average += weights
        return curator.outcome(average)

    def skipped(self, scenario: Scenario, speed: Speed) -> str:
        """Return why it is not fitted unless asked for."""
        return slow_on_a_cpu(scenario, speed)


DP_LOGISTIC: Final = DpLogistic()
