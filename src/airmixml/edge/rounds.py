"""Rounds: the server broadcasts its model, workers send clipped gradients, the server steps and broadcasts again.

The first model is solved from the moments. It classifies most rows well enough that their gradients are far shorter
than the clip, so a few rounds improve it at little cost in noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import torch

from airmixml.edge.closed_form import ReceivedMoments, Solution
from airmixml.edge.descents import Descent, Start
from airmixml.errors import ScenarioError
from airmixml.registries import DESCENTS, LEARNERS
from airmixml.scenario import Learner, Scenario
from airmixml.workers.broadcasts import Broadcast

if TYPE_CHECKING:
    from airmixml.radio.rounds import RoundsOnAir

_TEMPERATURE: Final = 4.0
_OF_DISCRIMINANTS: Final = 0.5


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
    norm, link = scenario.workers.clip_norm, scenario.score_link
    if link.logits and moments is not None:
        factor = (learner.temperature or _temperature(learner, moments, norm)) * link.length(biases.shape[-1])
        weights, biases = factor * weights, factor * biases
    start = Start(weights=weights, biases=biases, norm=norm, link=link, moments=moments)
    descent: Descent = DESCENTS.load(learner.descent)(learner, start)
    yield _checked(descent, biases, learner)
    for _ in range(rounds):
        descent.receive(*send(descent.broadcast()))
        yield _checked(descent, biases, learner)


def _checked(descent: Descent, biases: torch.Tensor, learner: Learner) -> Solution:
    """Return the model as it stands; refuse one with numbers that single precision, which is broadcast, cannot hold."""
    if all(torch.isfinite(part.float()).all() for part in (descent.weights, biases)):
        return descent.weights, biases
    steps: tuple[str, ...] = ("learning_rate",)
    or_clip = ""
    if descent.needs_moments:
        given = tuple(name for name in ("rounds_step", "temperature") if getattr(learner, name))
        steps, or_clip = given or ("rounds_step",), f", or a learner.gradient_clip above {learner.gradient_clip:g}"
    told = " and ".join(f"learner.{name} = {getattr(learner, name):g}" for name in steps)
    than = "" if getattr(learner, steps[0]) else " than the default, such as 1"
    raise ScenarioError(
        f"{told}: the rounds diverge, their model has numbers that are not finite; use a smaller value{than}{or_clip}"
    )


def _temperature(learner: Learner, moments: ReceivedMoments, norm: float) -> float:
    """Return what scores are multiplied with before the first round.

    Discriminants are logits, but those of noisy moments are far too certain for rounds to move: half of them, less as
    the noise in all directions together exceeds what inputs have.
    """
    if not getattr(LEARNERS.load(learner.model), "gives_probabilities", False):
        return _TEMPERATURE
    return _OF_DISCRIMINANTS / max(1.0, moments.noise_edge * len(moments.cross) / norm**2)
