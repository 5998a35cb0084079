"""Rounds: the server broadcasts its model, workers send clipped gradients, the server steps and broadcasts again.

The first model is solved from the moments. It classifies most rows well enough that their gradients are far shorter
than the clip, so a few rounds improve it at little cost in noise.
"""

from collections.abc import Callable, Iterator
from typing import Final

import torch

from airmixml.edge.closed_form import ReceivedMoments
from airmixml.edge.descents import Descent, Start
from airmixml.radio.rounds import RoundsOnAir
from airmixml.registries import DESCENTS, LEARNERS
from airmixml.scenario import Learner, Scenario
from airmixml.workers.broadcasts import Broadcast

_TEMPERATURE: Final = 4.0

Solution = tuple[torch.Tensor, torch.Tensor]
"""Weights (features x outputs) and biases (outputs) of a linear model, float64."""


Send = Callable[[Broadcast], tuple[torch.Tensor, float]]
"""One round: from what is broadcast to the mean clipped gradient, features x outputs, and the deviation of its noise"""


def run_rounds(
    on_air: RoundsOnAir, first: Solution | None = None, moments: ReceivedMoments | None = None
) -> Iterator[Solution]:
    """Yield the first model as it is broadcast, zeros by default, and the model after each round on the air."""
    held, scenario = on_air.air.dataset, on_air.report.scenario
    zeros = torch.zeros((held.input_dim, held.label_dim), dtype=torch.float64)

    def send(told: Broadcast) -> tuple[torch.Tensor, float]:
        received = on_air.send(told)
        return received.gradient, received.deviation

    first = first or (zeros, zeros[0].clone())
    return descend(scenario, send, len(on_air), first, moments)


def descend(
    scenario: Scenario,
    send: Send,
    rounds: int,
    first: Solution,
    moments: ReceivedMoments | None = None,
) -> Iterator[Solution]:
    """Yield the first model as it is broadcast, and the model after each of so many rounds, however they are sent."""
    learner, (weights, biases) = scenario.learner, first
    link = scenario.link
    if link.logits and moments is not None:
        factor = (learner.temperature or _temperature(learner)) * link.length(len(biases))
        weights, biases = factor * weights, factor * biases
    norm = scenario.workers.clip_norm
    start = Start(weights=weights, biases=biases, norm=norm, link=link, moments=moments)
    descent: Descent = DESCENTS.load(learner.descent)(learner, start)
    yield descent.weights, biases
    for _ in range(rounds):
        descent.receive(*send(descent.broadcast()))
        yield descent.weights, biases


def _temperature(learner: Learner) -> float:
    """Return what scores of least squares are multiplied with, which are near 0 and 1; discriminants need nothing."""
    return 1.0 if getattr(LEARNERS.load(learner.model), "gives_probabilities", False) else _TEMPERATURE
