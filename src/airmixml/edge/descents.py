"""What a server does with rounds of gradients: which model it broadcasts next. One class per way of stepping.

A descent is made of what is known before the first round, is asked for a ``Broadcast``, and receives the mean of the
workers' clipped gradients with its noise. Other packages add their own through the group ``airmixml.descents``.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

import torch

from airmixml.edge.closed_form import ReceivedMoments
from airmixml.scenario import Learner
from airmixml.scenario.automatic import ScoreLink
from airmixml.workers.broadcasts import Broadcast

_ADAM_FLOOR: Final = 1e-8
_STEPS: Final = 24.0
_NEWTON_STEPS: Final = 8.0
_STEPS_PER_ROUND: Final = 10.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """What is known before the first round."""

    weights: torch.Tensor  #: of the first model; features x outputs, float64
    biases: torch.Tensor  #: of the first model, which rounds keep; shape outputs
    norm: float  #: largest of an encoded input
    link: ScoreLink  #: what scores stand for
    moments: ReceivedMoments | None = None  #: what the slots before gave; None where there were none


class Descent(Protocol):
    """A way of stepping; it is made of the learner's settings and the start."""

    about: ClassVar[str]  #: what it is, in one line
    needs_moments: ClassVar[bool] = True  #: whether slots of moments must come before its rounds
    several_runs: ClassVar[bool] = False  #: whether tensors may have several runs along a first axis, as in an audit
    weights: torch.Tensor  #: of the model as it stands; features x outputs, float64

    def __init__(self, learner: Learner, start: Start) -> None: ...

    def broadcast(self) -> Broadcast:
        """Return what the workers are told before the next round."""

    def receive(self, gradient: torch.Tensor, deviation: float) -> None:
        """Take the mean clipped gradient of a round, features x outputs, whose noise has this deviation."""


class Stepping(Descent):
    """Keeps the model; a subclass steps."""

    def __init__(self, learner: Learner, start: Start) -> None:
        self.learner, self.start = learner, start
        self.weights = start.weights.clone()

    def broadcast(self) -> Broadcast:
        """Return the model with the learner's clip, for all outputs of a row together."""
        return Broadcast(
            weights=self.weights.cpu().numpy(),
            biases=self.start.biases.cpu().numpy(),
            clip=self.learner.gradient_clip * self.start.norm * self.start.link.length(self.start.biases.shape[-1]),
            link=self.start.link,
        )


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
        together = start.norm * (learner.rounds_step or _all_steps(learner, start))
        step = together / learner.rounds / (learner.gradient_clip * start.norm)
        self._steps = step / (values.clamp(min=0.0) + start.moments.noise_edge / 2.0)

    def receive(self, gradient: torch.Tensor, deviation: float) -> None:
        """Step along each eigenvector by what it is worth."""
        along = self._vectors.mT @ gradient.to(self._vectors)
        self.weights = self.weights - (self._vectors @ (along * self._steps[..., None])).to(self.weights)


def _all_steps(learner: Learner, start: Start) -> float:
    """Return M for inputs of norm 1; for numbers, what eight steps of Newton's amount to."""
    if not start.link.logits:
        return _NEWTON_STEPS * learner.gradient_clip
    return min(_STEPS * math.sqrt(math.sqrt(start.weights.shape[-2])), _STEPS_PER_ROUND * learner.rounds)


class AdamDescent(Stepping):
    """Steps by Adam, as federated learning does; it needs no moments."""

    about = "steps by Adam, without moments"
    several_runs = True
    needs_moments = False

    def __init__(self, learner: Learner, start: Start) -> None:
        super().__init__(learner, start)
        self._done, self._mean, self._square = 0, torch.zeros(()), torch.zeros(())

    def receive(self, gradient: torch.Tensor, deviation: float) -> None:
        """Take one step with the learner's rate."""
        learner, gradient = self.learner, gradient.to(self.weights)
        first, second = learner.adam_beta1, learner.adam_beta2
        self._done += 1
        self._mean = first * self._mean.to(gradient) + (1.0 - first) * gradient
        self._square = second * self._square.to(gradient) + (1.0 - second) * gradient.square()
        mean, square = self._mean / (1.0 - first**self._done), self._square / (1.0 - second**self._done)
        self.weights = self.weights - learner.learning_rate * mean / (square.sqrt() + _ADAM_FLOOR)
