"""Rounds: the server broadcasts its model, workers send clipped gradients, the server steps and broadcasts again.

After slots of moments the first model is solved from them. Most rows are then told apart well enough for their
gradients to be far shorter than the clip, so that few rounds gain much for the noise that they are paid with.
"""

from collections.abc import Iterator

import torch

from airmixml.edge.calibration import probability_factor
from airmixml.edge.closed_form import ReceivedMoments
from airmixml.edge.descents import Descent, Start
from airmixml.radio.rounds import RoundsOnAir
from airmixml.registries import DESCENTS, LEARNERS
from airmixml.scenario import Learner

Solution = tuple[torch.Tensor, torch.Tensor]
"""Weights (features x outputs) and biases (outputs) of a linear model, float64."""


def run_rounds(on_air: RoundsOnAir, first: Solution, moments: ReceivedMoments | None = None) -> Iterator[Solution]:
    """Yield the first model as it is broadcast, and the model after each round."""
    learner, (weights, biases) = on_air.report.scenario.learner, first
    classes = on_air.air.dataset.task == "classification"
    if classes and moments is not None:
        factor = first_temperature(learner, moments, weights, biases)
        weights, biases = factor * weights, factor * biases
    start = Start(weights=weights, biases=biases, classes=classes, moments=moments)
    descent: Descent = DESCENTS.load(learner.descent)(learner, start)
    yield descent.weights, biases
    for _ in range(len(on_air)):
        descent.receive(*on_air.send(descent.broadcast()))
        yield descent.weights, biases


def first_temperature(learner: Learner, moments: ReceivedMoments, weights: torch.Tensor, biases: torch.Tensor) -> float:
    """Return what scores solved from moments are multiplied with: as asked, or what makes them probabilities."""
    if learner.temperature:
        return learner.temperature
    if getattr(LEARNERS.load(learner.model), "gives_probabilities", False):
        return 1.0
    return probability_factor(learner, weights, biases, moments)
