"""Rounds: the server broadcasts its model, workers send clipped gradients, the server steps and broadcasts again.

The first model is solved from the moments. It classifies most rows well enough that their gradients are far shorter
than the clip, so a few rounds improve it at little cost in noise.

There is one class per way of stepping. A descent is made of what is known before the first round, is asked for a
``Broadcast``, and receives the mean of the workers' clipped gradients with its noise. Other packages add their own
through the group ``airmixml.descents``.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import torch

from airmixml.edge.closed_form import ReceivedMoments, Solution
from airmixml.messages import ScenarioError
from airmixml.radio.rounds import RoundsOnAir
from airmixml.scenario import Learner, Scenario
from airmixml.scenario.score_links import ScoreLink
from airmixml.workers.payloads import Broadcast

_ADAM_FLOOR: Final = 1e-8
_STEPS: Final = 24.0
_NEWTON_STEPS: Final = 8.0
_STEPS_PER_ROUND: Final = 10.0
_TEMPERATURE: Final = 4.0
_OF_DISCRIMINANTS: Final = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """What is known before the first round."""

    weights: torch.Tensor  #: of the first model; features x outputs, float64
    biases: torch.Tensor  #: of the first model, which rounds keep; shape outputs
    norm: float  #: largest of an encoded input
    link: ScoreLink  #: what scores stand for
    moments: ReceivedMoments | None = None  #: what the slots before gave; None where there were none


class Stepping:
    """A way of stepping, made of the learner's settings and the start: keeps the model, which a subclass moves."""

    about: ClassVar[str]  #: what it is, in one line
    needs_moments: ClassVar[bool] = True  #: whether slots of moments must come before its rounds
    several_runs: ClassVar[bool] = False  #: whether tensors may have several runs along a first axis, as in an audit
    weights: torch.Tensor  #: of the model as it stands; features x outputs, float64

    def __init__(self, learner: Learner, start: Start) -> None:
        self.learner, self.start = learner, start
        self.weights = start.weights.clone()

    def broadcast(self) -> Broadcast:
        """Return what the workers are told before the next round: the model, and the clip for all outputs of a row."""
        return Broadcast(
            weights=self.weights.cpu().numpy(),
            biases=self.start.biases.cpu().numpy(),
            clip=self.learner.gradient_clip * self.start.norm * self.start.link.length(self.start.biases.shape[-1]),
            link=self.start.link,
        )

    def receive(self, gradient: torch.Tensor, deviation: float) -> None:
        """Take the mean clipped gradient of a round, features x outputs, whose noise has this deviation."""
        raise NotImplementedError


class Preconditioned(Stepping):
    """Steps by the inverse of the noisy second moments A = V diag(v) V^T, whose noise has eigenvalues up to 2 f:

        W <- W - (M / R) V diag(1 / (max(v, 0) + f)) V^T G / C.

    Gradients are no longer than the clip C, so M is how far all R rounds together can move the model in units of the
    inverse; accuracy depends on it and hardly on R or C alone. The default was chosen on parts of the training rows of
    MNIST, Fashion-MNIST and six tables that were held out, at epsilon 0.1 to 10 (docs/rounds.md). The moments are
    private already, so that nothing is paid for using them once more. Central relatives: Mehta et al. 2022 (arXiv
    2211.13403), Ganesh et al. 2023 (arXiv 2305.13209).
    """

    about = "steps by the inverse of the noisy second moments"
    several_runs = True

    def __init__(self, learner: Learner, start: Start) -> None:
        super().__init__(learner, start)
        assert start.moments is not None
        values, self._vectors = start.moments.spectrum
        most = learner.rounds_step
        if not most:  # for inputs of norm 1; for numbers, what eight steps of Newton's amount to
            width = math.sqrt(math.sqrt(start.weights.shape[-2]))
            of_logits = min(_STEPS * width, _STEPS_PER_ROUND * learner.rounds)
            most = of_logits if start.link.logits else _NEWTON_STEPS * learner.gradient_clip
        together = start.norm * most
        step = together / learner.rounds / (learner.gradient_clip * start.norm)
        self._steps = step / (values.clamp(min=0.0) + start.moments.noise_edge / 2.0)

    def receive(self, gradient: torch.Tensor, deviation: float) -> None:
        along = self._vectors.mT @ gradient.to(self._vectors)
        self.weights = self.weights - (self._vectors @ (along * self._steps[..., None])).to(self.weights)


class AdamDescent(Stepping):
    """Steps by Adam, as federated learning does; it needs no moments."""

    about = "steps by Adam, without moments"
    several_runs = True
    needs_moments = False

    def __init__(self, learner: Learner, start: Start) -> None:
        super().__init__(learner, start)
        self._done, self._mean, self._square = 0, torch.zeros(()), torch.zeros(())

    def receive(self, gradient: torch.Tensor, deviation: float) -> None:
        learner, gradient = self.learner, gradient.to(self.weights)
        first, second = learner.adam_beta1, learner.adam_beta2
        self._done += 1
        self._mean = first * self._mean.to(gradient) + (1.0 - first) * gradient
        self._square = second * self._square.to(gradient) + (1.0 - second) * gradient.square()
        mean, square = self._mean / (1.0 - first**self._done), self._square / (1.0 - second**self._done)
        self.weights = self.weights - learner.learning_rate * mean / (square.sqrt() + _ADAM_FLOOR)


Send = Callable[[Broadcast], tuple[torch.Tensor, float] | None]
"""One round: from what is broadcast to the mean clipped gradient, features x outputs, and the deviation of its noise.

None: there is no further one so far."""


def run_rounds(
    on_air: RoundsOnAir, first: Solution | None = None, moments: ReceivedMoments | None = None
) -> Iterator[Solution]:
    """Yield the first model as it is broadcast, zeros by default, and the model after each round on the air."""
    held, scenario = on_air.air.dataset, on_air.report.scenario
    zeros = torch.zeros((held.input_dim, held.label_dim), dtype=torch.float64)
    first = first or (zeros, zeros[0].clone())
    return descend(scenario, lambda told: on_air.send(told)[1:], len(on_air), first, moments)


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
    descent: Stepping = learner.descent_kind(learner, start)
    yield _checked(descent, biases, learner)
    for _ in range(rounds):
        received = send(descent.broadcast())
        if received is None:
            return
        descent.receive(*received)
        yield _checked(descent, biases, learner)


def _checked(descent: Stepping, biases: torch.Tensor, learner: Learner) -> Solution:
    """Return the model as it stands; refuse one with numbers that single precision, which is broadcast, cannot hold."""
    if all(torch.isfinite(part.float()).all() for part in (descent.weights, biases)):
        return descent.weights, biases
    keys = ("rounds_step", "temperature", "gradient_clip") if descent.needs_moments else ("learning_rate",)
    told = ", ".join(f"learner.{key} = {getattr(learner, key):g}" for key in keys)
    raise ScenarioError(
        f"{told}: the rounds diverge, their model has numbers that are not finite; use smaller steps or a larger clip"
    )


def _temperature(learner: Learner, moments: ReceivedMoments, norm: float) -> float:
    """Return what scores are multiplied with before the first round.

    Discriminants are logits, but those of noisy moments are far too certain for rounds to move: half of them, less as
    the noise in all directions together exceeds what inputs have.
    """
    if not getattr(learner.model_kind, "gives_probabilities", False):
        return _TEMPERATURE
    return _OF_DISCRIMINANTS / max(1.0, moments.noise_edge * len(moments.cross) / norm**2)
