"""What ``learner.model`` names: networks trained on the mixtures, and linear learners solved from their moments.

The paper names layers, filters, units, strides and pooling of its two networks. It does not name activations and
padding; here: ReLU, no padding. torch is imported where it is used: a scenario asks a learner questions without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from airmixml.arrays import ImageShape, in_words, is_series, planes
from airmixml.errors import ScenarioError
from airmixml.scenario import Learner

if TYPE_CHECKING:
    import torch
    from torch import nn

    from airmixml.edge.closed_form import ReceivedMoments


class LearnerModel(Protocol):
    """One learner, made without arguments: trained on mixtures, or, as a ``ClosedForm``, solved from their moments."""

    about: ClassVar[str]  # what it is, in one line
    closed_form: ClassVar[bool] = False
    classes_only: ClassVar[bool] = False  # whether it cannot learn targets, or several labels at once

    def build(self, learner: Learner, input_dim: int, label_dim: int, image_shape: ImageShape) -> nn.Sequential:
        """Return the network: inputs (batch x input_dim) to class scores (batch x label_dim).

        Its values are set later, so only ``nn.Linear`` and ``nn.Conv2d`` may have any. Raise a ScenarioError where the
        data do not suit it.
        """


class ClosedForm(LearnerModel, Protocol):
    """A linear learner that is solved from first and second moments."""

    closed_form: ClassVar[bool] = True
    gives_probabilities: ClassVar[bool] = False  # whether softmax of its scores is what it holds for probabilities
    several_runs: ClassVar[bool] = False  # whether it takes moments of several runs, along a first axis

    def build(self, learner: Learner, input_dim: int, label_dim: int, image_shape: ImageShape) -> nn.Sequential:
        from torch import nn

        return nn.Sequential(nn.Linear(input_dim, label_dim))

    def solve(self, learner: Learner, moments: ReceivedMoments) -> tuple[torch.Tensor, torch.Tensor]:
        """Return weights (d x classes) and biases (classes) of the linear classifier, in float64."""


class Mlp(LearnerModel):
    """The paper's network for short inputs."""

    about = "dense layers with ReLU between them"

    def build(self, learner: Learner, input_dim: int, label_dim: int, image_shape: ImageShape) -> nn.Sequential:
        from torch import nn

        layers: list[nn.Module] = []
        for units in learner.hidden_units:
            layers += [nn.Linear(input_dim, units), nn.ReLU()]
            input_dim = units
        return nn.Sequential(*layers, nn.Linear(input_dim, label_dim))


class Cnn(LearnerModel):
    """The paper's network for images."""

    about = "convolutions with max-pooling, then dense layers"

    def build(self, learner: Learner, input_dim: int, label_dim: int, image_shape: ImageShape) -> nn.Sequential:
        from torch import nn

        if image_shape is None or is_series(image_shape):
            there = f"an input is a series of {in_words(image_shape)}" if image_shape else "the data set has none"
            raise ScenarioError(f'learner.model = "cnn": needs images, but {there}; use learner.model = "mlp"')
        channels, height, width = planes(image_shape)
        layers: list[nn.Module] = [nn.Unflatten(1, (channels, height, width))]
        for filters in learner.filters:
            convolution = nn.Conv2d(channels, filters, learner.kernel_size)
            layers += [convolution, nn.ReLU(), nn.MaxPool2d(learner.pool_size)]
            channels = filters
            height, width = ((side - learner.kernel_size + 1) // learner.pool_size for side in (height, width))
            if min(height, width) < 1:
                raise ScenarioError(
                    f"learner.filters = {list(learner.filters)}: filters of side {learner.kernel_size} and pools of "
                    f"{learner.pool_size} use up an image of {in_words(image_shape)}; use fewer or smaller ones"
                )
        dense = Mlp().build(learner, channels * height * width, label_dim, None)
        return nn.Sequential(*layers, nn.Flatten(), *dense)


class Ridge(ClosedForm):
    """Least squares with the noise known."""

    about = "least squares from inputs to labels, in closed form"
    several_runs = True

    def solve(self, learner: Learner, moments: ReceivedMoments) -> tuple[torch.Tensor, torch.Tensor]:
        from airmixml.edge.closed_form import ridge

        return ridge(learner, moments)


class Lda(ClosedForm):
    """Linear discriminants with the noise known."""

    about = "linear discriminants, classes as Gaussian clouds of one shape, in closed form"
    classes_only = True
    gives_probabilities = True

    def solve(self, learner: Learner, moments: ReceivedMoments) -> tuple[torch.Tensor, torch.Tensor]:
        from airmixml.edge.closed_form import lda

        return lda(learner, moments)
