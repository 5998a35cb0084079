"""Rounds after the moments: the server broadcasts its model, workers send clipped gradients, the server steps.

The slots before gave noisy moments, and a linear model solved from them. Most rows are then told apart well enough for
their gradients to be far shorter than the clip, so that few rounds gain much for the noise that they are paid with.
"""

from collections.abc import Iterator

import torch

from airmixml.edge.calibration import probability_factor
from airmixml.edge.closed_form import ReceivedMoments
from airmixml.edge.descents import Descent, Start
from airmixml.radio.rounds import RoundsOnAir
from airmixml.radio.transmission import Transmission
from airmixml.registries import DESCENTS, LEARNERS
from airmixml.scenario import Learner, RunContext


def run_rounds(
    sent: Transmission,
    moments: ReceivedMoments | None,
    weights: torch.Tensor,
    biases: torch.Tensor,
    context: RunContext,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield weights (features x outputs) and biases of the first model as it is broadcast, and after each round."""
    learner, classes = sent.scenario.learner, sent.dataset.task == "classification"
    if classes and moments is not None:
        factor = first_temperature(learner, moments, weights, biases)
        weights, biases = factor * weights, factor * biases
    start = Start(weights=weights, biases=biases, classes=classes, moments=moments)
    descent: Descent = DESCENTS.load(learner.descent)(learner, start)
    on_air = RoundsOnAir(sent, speed=context.speed, secret=context.secret, progress=context.progress)
    yield descent.weights, biases
    for _ in range(on_air.count):
        descent.receive(*on_air.send(descent.broadcast()))
        yield descent.weights, biases


def first_temperature(learner: Learner, moments: ReceivedMoments, weights: torch.Tensor, biases: torch.Tensor) -> float:
    """Return what scores solved from moments are multiplied with: as asked, or what makes them probabilities."""
    if learner.temperature:
        return learner.temperature
    if getattr(LEARNERS.load(learner.model), "gives_probabilities", False):
        return 1.0
    return probability_factor(learner, weights, biases, moments)
