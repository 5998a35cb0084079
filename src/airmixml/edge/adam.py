"""Adam by torch's own kernel, the losses that it descends, and both in NumPy for stacks of small dense networks.

``torch.optim.Adam`` is not used: it imports torch's compiler when it is made, which takes longer than a small training.

A step of a small network takes as long as its few dozen calls, and torch's take longer. In NumPy a batch is (networks
x) features x samples, so that the output of a layer is the input of the next without a copy. Under its features stands
a row of ones, and the bias is the last column of a layer's matrix. All matrices lie in one array, of which Adam moves
all at once. Each product stays below the size from which a linear-algebra library shares it among threads, so the
result does not depend on their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from airmixml.arrays import Singles
from airmixml.edge.stack import NetworkStack
from airmixml.scenario import Learner

EPSILON: Final = 1e-8
# A GPU moves 65,536 values by one block of threads: cut into as many pieces as one launch takes, 10 times faster.
_PIECES, _SMALLEST_PIECE = 30, 4096


class Adam:
    """Moves a model by its gradients; its state is there at once, to be restored and recorded in a CUDA graph."""

    def __init__(self, model: nn.Module, learner: Learner) -> None:
        self.learner = learner
        self.parameters: list[torch.Tensor] = [each for each in model.parameters() if each.requires_grad]
        self.steps = [torch.zeros((), device=each.device) for each in self.parameters]
        self.means, self.squares = ([torch.zeros_like(each) for each in self.parameters] for _ in range(2))
        values = sum(parameter.numel() for parameter in self.parameters)
        on_gpu = any(parameter.is_cuda for parameter in self.parameters)
        self._piece = max(_SMALLEST_PIECE, -(-values // (4 * _PIECES)) * 4) if on_gpu else max(values, 1)
        values_there = [each.detach() for each in self.parameters]
        self._moved = [self._pieces(each) for each in (values_there, self.means, self.squares)]
        self._step_of_piece = [
            step for step, mean in zip(self.steps, self.means, strict=True) for _ in self._pieces([mean])
        ]

    def _pieces(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [piece for tensor in tensors for piece in torch.split(tensor.reshape(-1), self._piece)]

    @property
    def moments(self) -> list[dict[str, torch.Tensor]]:
        """Those of each parameter, by the names that a checkpoint has for them."""
        each = zip(self.steps, self.means, self.squares, strict=True)
        return [{"step": step, "exp_avg": mean, "exp_avg_sq": square} for step, mean, square in each]

    @torch.no_grad()
    def step(self, gradients: Sequence[torch.Tensor]) -> None:
        torch._foreach_add_(self.steps, 1.0)
        values, means, squares = self._moved
        torch._fused_adam_(
            values,
            self._pieces(gradients),
            means,
            squares,
            [],
            self._step_of_piece,
            lr=self.learner.learning_rate,
            beta1=self.learner.adam_beta1,
            beta2=self.learner.adam_beta2,
            weight_decay=0.0,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )


SMALLEST_PROBABILITY: Final = 1e-7


def soft_cross_entropy(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return -mean_t sum_c y_tc ln max(p_tc, 1e-7) with p = softmax(scores), the loss f of Eq. (opt).

    The labels enter as they were received: they need not be positive nor sum to 1. A negative y_tc rewards a small
    p_tc without end, so probabilities count as at least 1e-7: the loss is finite and bounded below for any labels, and
    its gradient vanishes where the bound holds. On a one-hot label it is the usual cross-entropy. Scores and labels are
    batch x classes, or networks x batch x classes for one loss per network.
    """
    log_probability = torch.log_softmax(scores, dim=-1).clamp(min=math.log(SMALLEST_PROBABILITY))
    return -(labels * log_probability).sum(dim=-1).mean(dim=-1)


def squared_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return mean_t ||scores_t - y_t||^2, per network where there is an axis of networks.

    Noise of mean zero on the labels adds a constant to it and moves no minimum: what it learns is E[y | x].
    """
    return (scores - labels).square().sum(dim=-1).mean(dim=-1)


def brier_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return mean_t ||softmax(scores_t) - y_t||^2, per network where there is an axis of networks.

    Unmoved by label noise like the squared loss, and bounded in the scores: no noisy label pulls without end.
    """
    return (torch.softmax(scores, dim=-1) - labels).square().sum(dim=-1).mean(dim=-1)


# By the name that a learner gives it.
LOSSES: Final[dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "cross-entropy": soft_cross_entropy,
    "squared": squared_loss,
    "brier": brier_loss,
}


_MOST_MULTIPLICATIONS: Final = 1 << 18  # of the product of one layer; OpenBLAS shares larger ones among threads

Loss = Callable[[Singles, Singles, Singles], None]
"""Takes scores and labels (networks x classes x samples); writes the loss of each entry to the third array, and to the
scores the gradient of the loss summed over classes and samples."""


def _cross_entropy(scores: Singles, labels: Singles, losses: Singles) -> None:
    scores -= scores.max(axis=1, keepdims=True)
    probability = np.exp(scores)
    total = probability.sum(axis=1, keepdims=True)
    scores -= np.log(total)
    probability /= total
    smallest = math.log(SMALLEST_PROBABILITY)
    counted = labels * (scores >= smallest)  # the bound holds still: no gradient
    np.maximum(scores, smallest, out=scores)
    np.multiply(scores, labels, out=losses)
    np.negative(losses, out=losses)
    np.multiply(probability, counted.sum(axis=1, keepdims=True), out=scores)
    scores -= counted


def _squared(scores: Singles, labels: Singles, losses: Singles) -> None:
    scores -= labels
    np.square(scores, out=losses)
    scores *= 2.0


def _brier(scores: Singles, labels: Singles, losses: Singles) -> None:
    scores -= scores.max(axis=1, keepdims=True)
    probability = np.exp(scores)
    probability /= probability.sum(axis=1, keepdims=True)
    difference = probability - labels
    np.square(difference, out=losses)
    difference -= (difference * probability).sum(axis=1, keepdims=True)
    np.multiply(difference, probability, out=scores)
    scores *= 2.0


_LOSSES: Final[dict[str, Loss]] = {"cross-entropy": _cross_entropy, "squared": _squared, "brier": _brier}


@contextmanager
def _no_denormals() -> Iterator[None]:
    """Let the processor take numbers below 1e-38 for 0: Adam's moments of idle units decay to them, which take long."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def is_small(model: nn.Module, optimiser: Adam) -> bool:
    """Return whether it is a stack of small networks, each dense with ReLU between its layers and nothing frozen."""
    layers = model.layers if isinstance(model, NetworkStack) else []
    weights = [each.weight for each in layers if isinstance(each, nn.Linear)]
    return (
        len(layers) % 2 == 1
        and all(isinstance(each, (nn.Linear, nn.ReLU)[number % 2]) for number, each in enumerate(layers))
        and 2 * len(weights) == len(optimiser.parameters)
        and all(each.dtype == torch.float32 and each.device.type == "cpu" for each in optimiser.parameters)
        and optimiser.learner.batch_size * max(each.numel() for each in weights) <= _MOST_MULTIPLICATIONS
    )


@dataclass(frozen=True)
class _Layer:
    """A layer and a size of batch: views of all that a step reads and writes; the first layer gets the batch."""

    matrix: Singles  # networks x outputs x (inputs and one)
    gradient: Singles  # as the matrix
    given: Singles | None
    output: Singles  # networks x outputs x samples; what the layer gives, then the gradient of that
    zeros: Singles  # as the output: NumPy compares arrays twice as fast as an array and a number
    positive: NDArray[np.bool_]  # as the output: what ReLU let through


class SmallNetworks:
    """A stack of small dense networks in training: one epoch per call, after which torch's tensors are written."""

    def __init__(
        self, optimiser: Adam, loss_sum: torch.Tensor, mixtures: tuple[torch.Tensor, torch.Tensor], order: torch.Tensor
    ) -> None:
        """Arguments are those of ``make_epoch``."""
        networks, learner = len(optimiser.parameters[0]), optimiser.learner
        self._learner, self._optimiser, self._loss_sum, self._order = learner, optimiser, loss_sum, order
        self._mixtures = [each.reshape(networks, *each.shape[-2:]) for each in mixtures]
        shapes = [(each.shape[1], each.shape[2] + 1) for each in optimiser.parameters[::2]]
        ends = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
        self._values, self._means, self._squares, self._gradient, self._scratch = (
            np.zeros((networks, ends[-1]), dtype=np.float32) for _ in range(5)
        )

        def matrices(array: Singles) -> list[Singles]:
            return [
                array[:, start:end].reshape(networks, *shape)
                for start, end, shape in zip(ends, ends[1:], shapes, strict=False)
            ]

        ours = (self._values, self._means, self._squares)
        self._shared = [  # each tensor of torch, and the same numbers here
            (tensor.detach(), torch.from_numpy(matrix[..., columns]))
            for tensors, array in zip((optimiser.parameters, optimiser.means, optimiser.squares), ours, strict=True)
            for first, columns in ((0, slice(-1)), (1, -1))
            for tensor, matrix in zip(tensors[first::2], matrices(array), strict=True)
        ]
        for tensor, here in self._shared:
            here.copy_(tensor)
        self._steps = int(optimiser.steps[0])
        self._layers: dict[int, list[_Layer]] = {}
        slots = order.shape[-1]
        for samples in {min(learner.batch_size, slots), slots % learner.batch_size or learner.batch_size}:
            kept = [np.ones((networks, shape[0] + 1, samples), dtype=np.float32) for shape in shapes]
            self._layers[samples] = [
                _Layer(matrix, gradient, given, buffer[:, :-1], np.zeros_like(buffer[:, :-1]), buffer[:, :-1] > 0.0)
                for matrix, gradient, given, buffer in zip(
                    matrices(self._values), matrices(self._gradient), [None, *kept[:-1]], kept, strict=True
                )
            ]

    def __call__(self) -> None:
        """Train for an epoch, in the order that stands in ``order`` now."""
        inputs, labels = (
            part.index_select(-2, self._order).transpose(1, 2).contiguous().numpy() for part in self._mixtures
        )
        inputs = np.concatenate([inputs, np.ones_like(inputs[:, :1])], axis=1)
        losses = np.empty_like(labels)
        size = self._learner.batch_size
        with np.errstate(all="ignore"), _no_denormals():  # a loss that stops being a number is noticed after the epoch
            for start in range(0, inputs.shape[-1], size):
                some = np.s_[:, :, start : start + size]
                self._find_gradient(inputs[some], labels[some], losses[some])
                self._move()
            total = torch.from_numpy(losses.sum(axis=(1, 2), dtype=np.float64))
        self._loss_sum.add_(total.to(self._loss_sum.dtype).reshape(self._loss_sum.shape))
        for tensor, here in self._shared:
            tensor.copy_(here)
        for step in self._optimiser.steps:
            step.fill_(self._steps)

    def _find_gradient(self, batch: Singles, labels: Singles, losses: Singles) -> None:
        """Write the gradient of the mean loss of a batch, and the loss of each entry of its labels."""
        layers = self._layers[batch.shape[-1]]
        for layer in layers:
            np.matmul(layer.matrix, batch if layer.given is None else layer.given, out=layer.output)
            if layer is not layers[-1]:
                np.maximum(layer.output, layer.zeros, out=layer.output)
        back = layers[-1].output
        _LOSSES[self._learner.loss](back, labels, losses)
        back *= 1.0 / batch.shape[-1]
        for number in range(len(layers) - 1, -1, -1):
            layer = layers[number]
            given = batch if layer.given is None else layer.given
            np.matmul(back, given.transpose(0, 2, 1), out=layer.gradient)
            if number:
                below = layers[number - 1]
                np.greater(below.output, below.zeros, out=below.positive)
                back = np.matmul(layer.matrix[..., :-1].transpose(0, 2, 1), back, out=below.output)
                back *= below.positive

    def _move(self) -> None:
        """Move all values by one step of Adam, as ``torch.optim.Adam`` does."""
        self._steps += 1
        beta1, beta2 = self._learner.adam_beta1, self._learner.adam_beta2
        gradient, scratch, means, squares = self._gradient, self._scratch, self._means, self._squares
        np.subtract(gradient, means, out=scratch)
        scratch *= 1.0 - beta1
        means += scratch
        np.multiply(gradient, gradient, out=scratch)
        scratch *= 1.0 - beta2
        squares *= beta2
        squares += scratch
        np.sqrt(squares, out=scratch)
        scratch *= 1.0 / math.sqrt(1.0 - beta2**self._steps)
        scratch += EPSILON
        np.divide(means, scratch, out=scratch)
        scratch *= self._learner.learning_rate / (1.0 - beta1**self._steps)
        self._values -= scratch
