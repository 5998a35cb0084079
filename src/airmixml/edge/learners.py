"""What ``learner.model`` names: networks trained on the mixtures, and linear learners solved from their moments.

With the values that a network starts from, what its scores predict, and how good they are: quality on the clean test
set is by the task, shares that are right, or errors in a target's own units. The paper names layers, filters, units,
strides and pooling of its two networks. It does not name activations and padding; here: ReLU, no padding. torch is
imported where it is used: a scenario asks a learner questions without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import ImageShape, in_words, is_series, physical_memory_bytes, planes
from airmixml.data import Bounded, DataSet, LabelCode, Signs
from airmixml.messages import PluginError, ScenarioError, reason, shown
from airmixml.notebook import html_facts
from airmixml.registries import LEARNERS
from airmixml.scenario import Learner
from airmixml.scenario.score_links import LOGISTIC, NEVER_CERTAIN, SOFTMAX, ScoreLink
from airmixml.streams import Streams

if TYPE_CHECKING:
    import torch
    from torch import nn

    from airmixml.edge.closed_form import ReceivedMoments

_SCORED_AT_ONCE: Final = 1000
_FEWEST_SCORED_AT_ONCE: Final = 100
_TRIED_ROWS: Final = 2


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


def predicted(scores: torch.Tensor, link: ScoreLink, code: LabelCode | None = None) -> torch.Tensor:
    """Return what scores (samples x outputs) say, by their link and the code in which labels were sent; same shape.

    The probability of each class or label, or targets in their own units, within their bounds. What least squares
    learns of a sign is its mean, (2 p - 1) / sqrt(labels).
    """
    import torch

    if link is LOGISTIC:
        return torch.sigmoid(scores).clamp(NEVER_CERTAIN, 1.0 - NEVER_CERTAIN)
    if link is SOFTMAX:
        return torch.softmax(scores, dim=1)
    if isinstance(code, Signs):
        return ((1.0 + scores * math.sqrt(code.count)) / 2.0).clamp(NEVER_CERTAIN, 1.0 - NEVER_CERTAIN)
    assert isinstance(code, Bounded)
    lower, upper = (scores.new_tensor(bounds) for bounds in (code.lower, code.upper))
    unit = (scores * math.sqrt(len(code.lower))).clamp(-1.0, 1.0)
    return lower + (unit + 1.0) / 2.0 * (upper - lower)


def leading_score(dataset: DataSet, outputs: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Return the leading score of (networks x) samples x outputs; shape networks, float64."""
    import torch

    if dataset.task == "classification":
        return (outputs.argmax(dim=-1) == truth).double().mean(dim=-1).reshape(-1)
    code = dataset.label_code
    networks = outputs.double().cpu().numpy().reshape(-1, *outputs.shape[-2:])
    true = np.broadcast_to(truth.cpu().numpy(), (len(networks), *truth.shape[-2:]))
    return torch.tensor(
        [
            code.scores(code.decoded(each), correct, dataset.class_names)[code.leading]
            for each, correct in zip(networks, true, strict=True)
        ],
        dtype=torch.float64,
    )


@dataclass(kw_only=True)
class TrainingHistory:
    """Loss on the mixtures and accuracy on the clean test set after each epoch (empty without a test set).

    A learner in closed form has no loss and one accuracy, and that of each class. Tasks without accuracy have a
    ``test_score`` instead (``score_name``), and all ``scores`` of the last epoch (``LabelCode.scores``).
    """

    loss: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    class_accuracy: list[float] = field(default_factory=list)
    class_names: list[str] = field(default_factory=list)
    score_name: str = "accuracy"
    test_score: list[float] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    predicted: NDArray[Any] | None = field(default=None, compare=False, repr=False)  # test samples (x outputs)

    def rows(self) -> list[dict[str, Any]]:
        """Return the curve as a table: loss and score of each epoch from 1 on, or of each round from 0 on."""
        columns = {"training_loss": self.loss, f"test_{self.score_name}": self.test_accuracy or self.test_score}
        present = {name: values for name, values in columns.items() if values}
        steps, first = max(map(len, present.values()), default=0), 0 if self.in_rounds else 1
        step = "round" if self.in_rounds else "epoch"
        return [{step: first + at, **{name: each[at] for name, each in present.items()}} for at in range(steps)]

    @property
    def in_rounds(self) -> bool:
        """Whether what it has scored are the first model and that after each round of gradients."""
        return bool(self.class_names) and len(self.test_accuracy or self.test_score) > 1

    @property
    def final_accuracy(self) -> float:
        """Accuracy of the model after the last epoch: the figure to trust."""
        return self.test_accuracy[-1]

    @property
    def best_accuracy(self) -> float:
        """Accuracy of the best epoch. It is picked on the test set, so it flatters."""
        return max(self.test_accuracy)

    @property
    def best_epoch(self) -> int:
        """Number of the best epoch, counted from 1."""
        return self.test_accuracy.index(self.best_accuracy) + 1


def build_model(learner: Learner, input_dim: int, label_dim: int, image_shape: ImageShape) -> nn.Sequential:
    """Return the learner's network, batch x input_dim to batch x label_dim, its values not set (``initialise``)."""
    import torch

    with torch.device("meta"):  # torch's own initial values would be drawn from its global random state
        model: nn.Sequential = LEARNERS.make(learner.model).build(learner, input_dim, label_dim, image_shape)
        if learner.model not in LEARNERS.own:
            _check_shapes(learner, model, input_dim, label_dim)
    needed = 4 * 4 * sum(parameter.numel() for parameter in model.parameters())  # with gradients and Adam's two moments
    if needed > physical_memory_bytes():
        raise ScenarioError(
            f"learner.hidden_units = {list(learner.hidden_units)}: needs {needed / 1e9:.0f} GB of memory, "
            f"this machine has {physical_memory_bytes() / 1e9:.0f} GB; use smaller layers"
        )
    # Not ``to_empty``: it imports SymPy, which takes longer than a small training.
    for module in model.modules():
        for name, value in list(module.named_parameters(recurse=False)):
            empty = torch.empty(value.shape, dtype=value.dtype)
            setattr(module, name, torch.nn.Parameter(empty, requires_grad=value.requires_grad))
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, torch.empty(buffer.shape, dtype=buffer.dtype))
    return model


def _check_shapes(learner: Learner, model: nn.Module, input_dim: int, label_dim: int) -> None:
    """Refuse what is no network, or one that does not turn inputs into as many scores as there are labels."""
    import torch
    from torch import nn

    named = f"learner.model = {shown(learner.model)}"
    if not isinstance(model, nn.Sequential):
        raise PluginError(f"{named}: its build returns {shown(model)}; must return a network, torch.nn.Sequential")
    inputs, wanted = torch.zeros(_TRIED_ROWS, input_dim), (_TRIED_ROWS, label_dim)
    taken = f"inputs of shape {tuple(inputs.shape)}"
    try:
        made = tuple(model(inputs).shape)
    except Exception as problem:  # whatever the layers of a user do
        raise PluginError(f"{named}: its network takes no {taken} ({reason(problem)}); correct its build") from problem
    if made != wanted:
        raise PluginError(f"{named}: its network makes scores of shape {made} of {taken}; must make {wanted}")


def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Set Glorot-uniform weights and zero biases, drawn on the CPU so that every device starts from the same point."""
    from torch import nn

    for module in model.modules():
        values = {name for name, _ in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))}
        if isinstance(module, (nn.Linear, nn.Conv2d)) and values <= {"weight", "bias"}:
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif values:
            raise ScenarioError(
                f"learner.model: its network has a layer {type(module).__name__}, for which no initial values are "
                "defined; use layers with values of type Linear and Conv2d only"
            )


def start_network(learner: Learner, dataset: DataSet, seed: int) -> nn.Sequential:
    """Return the learner's network with the initial values of the seed."""
    import torch

    network = build_model(learner, dataset.input_dim, dataset.label_dim, dataset.image_shape)
    first_draw = int(Streams(seed).generator("training").integers(2**63 - 1))
    initialise(network, torch.Generator().manual_seed(first_draw))
    return network


def note_scores(history: TrainingHistory, dataset: DataSet, curve: list[float], outputs: torch.Tensor) -> None:
    """Write down how the task's leading score went, and of the last outputs, test samples x outputs, all others."""
    code = dataset.label_code
    history.predicted = code.decoded(outputs.double().cpu().numpy())
    if dataset.task == "classification":
        history.test_accuracy += curve
        return
    history.test_score += curve
    history.score_name = code.leading
    history.scores |= code.scores(history.predicted, dataset.test_labels, dataset.class_names)


def class_scores(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Return the class scores of clean inputs, some at a time; (networks x) samples x classes."""
    import torch

    at_once = _SCORED_AT_ONCE
    if count := getattr(model, "count", 0):  # of networks in a stack
        at_once = max(_FEWEST_SCORED_AT_ONCE, _SCORED_AT_ONCE // count)
        inputs = inputs.unsqueeze(0)
    with torch.no_grad():
        return torch.cat([model(batch) for batch in torch.split(inputs, at_once, dim=-2)], dim=-2)


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """The model after the last epoch, and how it got there."""

    model: nn.Sequential
    history: TrainingHistory
    probability_factor: float = 1.0  #: of scores of least squares, so that their softmax gives probabilities

    def _repr_html_(self) -> str:
        history, numbers = self.history, sum(each.numel() for each in self.model.parameters())
        facts = {"parameters": f"{numbers:,}"}
        if history.test_accuracy:
            facts["accuracy"] = f"{100 * history.final_accuracy:.1f} % on the clean test set after the last epoch"
            facts["best epoch"] = f"{100 * history.best_accuracy:.1f} % in epoch {history.best_epoch}"
        return html_facts("Trained model", facts)
