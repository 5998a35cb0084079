"""The paper's two networks: dense layers for short inputs, convolutions with max-pooling for images.

The paper names layers, filters, units, strides and pooling. It does not name activations, padding or initial values;
here: ReLU, no padding, Glorot-uniform weights, zero biases.
"""

from __future__ import annotations

import torch
from torch import nn

from airmixml.devices import physical_memory_bytes
from airmixml.errors import ScenarioError
from airmixml.scenario import CLOSED_FORM_MODELS, Learner


def build_model(learner: Learner, input_dim: int, label_dim: int, image_shape: tuple[int, int] | None) -> nn.Sequential:
    """Return the network the learner asks for: inputs (batch x input_dim) to class scores (batch x label_dim).

    Its parameters hold no values yet; ``initialise`` sets them.
    """
    with torch.device("meta"):  # torch's own initial values would be drawn from its global random state
        layers: list[nn.Module] = []
        width = input_dim
        if learner.model in CLOSED_FORM_MODELS:
            return nn.Sequential(nn.Linear(input_dim, label_dim)).to_empty(device="cpu")
        if learner.model == "cnn":
            layers, width = _convolutions(learner, image_shape)
        for units in learner.hidden_units:
            layers += [nn.Linear(width, units), nn.ReLU()]
            width = units
        model = nn.Sequential(*layers, nn.Linear(width, label_dim))
    _check_size(learner, model)
    return model.to_empty(device="cpu")


def _check_size(learner: Learner, model: nn.Module) -> None:
    """Refuse a network that this machine cannot hold: parameters, gradients and Adam's two moments in float32."""
    needed = 4 * 4 * sum(parameter.numel() for parameter in model.parameters())
    if needed > physical_memory_bytes():
        raise ScenarioError(
            f"learner.hidden_units = {list(learner.hidden_units)}: needs {needed / 1e9:.0f} GB of memory, "
            f"this machine has {physical_memory_bytes() / 1e9:.0f} GB; use smaller layers"
        )


def _convolutions(learner: Learner, image_shape: tuple[int, int] | None) -> tuple[list[nn.Module], int]:
    if image_shape is None:
        raise ScenarioError('learner.model = "cnn": needs images, but the data set has none; use learner.model = "mlp"')
    height, width = image_shape
    layers: list[nn.Module] = [nn.Unflatten(1, (1, height, width))]
    channels = 1
    for filters in learner.filters:
        layers += [
            nn.Conv2d(channels, filters, learner.kernel_size),
            nn.ReLU(),
            nn.MaxPool2d(learner.pool_size),
        ]
        channels = filters
        height = (height - learner.kernel_size + 1) // learner.pool_size
        width = (width - learner.kernel_size + 1) // learner.pool_size
        if min(height, width) < 1:
            raise ScenarioError(
                f"learner.filters = {list(learner.filters)}: filters of side {learner.kernel_size} and pools of "
                f"{learner.pool_size} use up an image of {image_shape[0]} x {image_shape[1]}; use fewer or smaller ones"
            )
    return [*layers, nn.Flatten()], channels * height * width


def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Set Glorot-uniform weights and zero biases, drawn on the CPU so that every device starts from the same point."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
