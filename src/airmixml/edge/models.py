"""A learner's network, and the values it starts from: Glorot-uniform weights, zero biases."""

import torch
from torch import nn

from airmixml.devices import physical_memory_bytes
from airmixml.doors import LEARNERS
from airmixml.errors import ScenarioError
from airmixml.scenario import Learner


def build_model(learner: Learner, input_dim: int, label_dim: int, image_shape: tuple[int, int] | None) -> nn.Sequential:
    """Return the network the learner asks for: inputs (batch x input_dim) to class scores (batch x label_dim).

    Its parameters hold no values yet; ``initialise`` sets them.
    """
    with torch.device("meta"):  # torch's own initial values would be drawn from its global random state
        model: nn.Sequential = LEARNERS.load(learner.model)().build(learner, input_dim, label_dim, image_shape)
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


def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Set Glorot-uniform weights and zero biases, drawn on the CPU so that every device starts from the same point."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
            raise ScenarioError(
                f"learner.model: its network has a layer {type(module).__name__}, for which no initial values are "
                "defined; use layers with values of type Linear and Conv2d only"
            )
