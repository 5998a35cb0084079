"""Rounds: the server broadcasts its model, workers send clipped gradients, the server steps and broadcasts again.

After slots of moments the first model is solved from them. Most rows are then told apart well enough for their
gradients to be far shorter than the clip, so that few rounds gain much for the noise that they are paid with.
"""

from collections.abc import Iterator
from typing import Final

import torch

from airmixml.edge.closed_form import ReceivedMoments
from airmixml.edge.descents import Descent, Start
from airmixml.radio.rounds import RoundsOnAir
from airmixml.registries import DESCENTS, LEARNERS
from airmixml.scenario import Learner

_TEMPERATURE: Final = 4.0

Solution = tuple[torch.Tensor, torch.Tensor]
"""Weights (features x outputs) and biases (outputs) of a linear model, float64."""


def run_rounds(
    on_air: RoundsOnAir, first: Solution | None = None, moments: ReceivedMoments | None = None
) -> Iterator[Solution]:
    """Yield the first model as it is broadcast, zeros by default, and the model after each round."""
    learner, held = on_air.report.scenario.learner, on_air.air.dataset
    zeros = torch.zeros((held.input_dim, held.label_dim), dtype=torch.float64)
    weights, biases = first or (zeros, zeros[0].clone())
    classes = held.task == "classification"
    if classes and moments is not None:
        factor = learner.temperature or _temperature(learner)
        weights, biases = factor * weights, factor * biases
    norm = on_air.report.scenario.workers.clip_norm
    start = Start(weights=weights, biases=biases, norm=norm, classes=classes, moments=moments)
    descent: Descent = DESCENTS.load(learner.descent)(learner, start)
    yield descent.weights, biases
    for _ in range(len(on_air)):
        received = on_air.send(descent.broadcast())
        descent.receive(received.gradient, received.deviation)
        yield descent.weights, biases


def _temperature(learner: Learner) -> float:
    """Return what scores of least squares are multiplied with, which are near 0 and 1; discriminants need nothing."""
    return 1.0 if getattr(LEARNERS.load(learner.model), "gives_probabilities", False) else _TEMPERATURE
