"""What a server does with rounds of gradients: which model it broadcasts next. One class per way of stepping.

A descent is made of what is known before the first round, is asked for a ``Broadcast``, and receives the mean of the
workers' clipped gradients with its noise. Other packages add their own through the group ``airmixml.descents``.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

import torch

from airmixml.edge.closed_form import ReceivedMoments
from airmixml.scenario import Learner
from airmixml.workers.gradients import Broadcast

_ADAM_FLOOR: Final = 1e-8


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """What is known before the first round.

    Attributes:
        weights: of the first model; features x outputs, float64.
        biases: of the first model, which rounds keep; shape outputs.
        classes: whether outputs are classes, by softmax; else they are numbers, by least squares.
        moments: what the slots before gave; None where there were none.
    """

    weights: torch.Tensor
    biases: torch.Tensor
    classes: bool
    moments: ReceivedMoments | None = None


class Descent(Protocol):
    """A way of stepping; it is made of the learner's settings and the start.

    Attributes:
        about: what it is, in one line.
        needs_moments: whether slots of moments must come before its rounds.
        weights: of the model as it stands; features x outputs, float64.
    """

    about: ClassVar[str]
    needs_moments: ClassVar[bool] = True
    weights: torch.Tensor

    def __init__(self, learner: Learner, start: Start) -> None: ...

    def broadcast(self) -> Broadcast:
        """Return what the workers are told before the next round."""

    def receive(self, gradient: torch.Tensor, deviation: float) -> None:
        """Take the mean clipped gradient of a round, features x outputs, whose noise has this deviation."""


class _Stepping(Descent):
    """Keeps the model; a subclass steps."""

    def __init__(self, learner: Learner, start: Start) -> None:
        self.learner, self.start = learner, start
        self.weights = start.weights.clone()

    def broadcast(self) -> Broadcast:
        """Return the model with the learner's clip."""
        return Broadcast(
            weights=self.weights.cpu().numpy(),
            biases=self.start.biases.cpu().numpy(),
            clip=self.learner.gradient_clip,
            classes=self.start.classes,
        )


class Preconditioned(_Stepping):
    """Steps by the inverse of the noisy second moments A = V diag(v) V^T: W <- W - V diag(1 / (k (v + f))) V^T G.

    Eigenvalues below 0 are noise and count as 0. f is the noise's own level, half the radius that its eigenvalues
    fill, and k the curvature of the loss over that of least squares. The moments are private already, so that nothing
    is paid for using them once more. Central relatives: Mehta et al. 2022 (arXiv 2211.13403), Ganesh et al. 2023 (arXiv
    2305.13209).
    """

    about = "steps by the inverse of the noisy second moments"

    def __init__(self, learner: Learner, start: Start) -> None:
        super().__init__(learner, start)
        assert start.moments is not None
        values, self._vectors = start.moments.spectrum
        curvature = learner.curvature or (1.0 / (2 * start.weights.shape[1]) if start.classes else 1.0)
        self._divisor = curvature * (values.clamp(min=0.0) + start.moments.noise_edge / 2.0)

    def receive(self, gradient: torch.Tensor, deviation: float) -> None:
        """Step along each eigenvector by what it is worth."""
        along = self._vectors.T @ gradient.to(self._vectors)
        self.weights = self.weights - (self._vectors @ (along / self._divisor[:, None])).to(self.weights)


class AdamDescent(_Stepping):
    """Steps by Adam, as federated learning does; it needs no moments."""

    about = "steps by Adam, without moments"
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
