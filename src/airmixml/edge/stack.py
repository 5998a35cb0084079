"""Many networks of one shape as one: every parameter has the networks as its first axis.

Small networks leave a processor idle between their operations. Stacked, one batched product does the work of all of
them, and each network computes what it would compute alone.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from airmixml.edge.convolutions import convolve


class NetworkStack(nn.Module):
    """Networks of one shape that share nothing but the clock; networks x batch x inputs to networks x batch x classes.

    A stack of one network moves that network itself, and takes batch x inputs to batch x classes too.
    """

    def __init__(self, networks: Sequence[nn.Sequential]) -> None:
        super().__init__()
        self.count = len(networks)
        self.layers = list(networks[0])
        for name, first in networks[0].named_parameters():
            values = [network.get_parameter(name).detach() for network in networks]
            stacked = torch.stack(values) if self.count > 1 else first.detach().unsqueeze(0)
            self.register_parameter(_name(name), nn.Parameter(stacked, requires_grad=first.requires_grad))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the class scores of each network; inputs that all networks share have one network's axis of size 1."""
        if inputs.dim() == 2:
            return self.forward(inputs.unsqueeze(0)).squeeze(0)
        values = inputs.expand(self.count, -1, -1)
        layers = iter(enumerate(self.layers))
        for number, layer in layers:
            match layer:
                case nn.Linear():
                    weight, bias = self._weights(number)
                    values = _Dense.apply(values, weight, bias)  # type: ignore[no-untyped-call]
                case nn.ReLU():
                    values = torch.relu(values)
                case nn.Unflatten():
                    values = values.reshape(*values.shape[:2], *layer.unflattened_size).permute(0, 3, 4, 1, 2)
                case nn.Conv2d() if _is_block(self.layers[number : number + 3]):
                    _, (_, pool) = next(layers), next(layers)
                    values = convolve(values, *self._weights(number), int(pool.kernel_size))  # type: ignore[arg-type]
                case nn.Flatten():  # in the order of a network alone: channel, row, column
                    values = values.permute(0, 3, 4, 1, 2).flatten(2)
                case _:
                    raise TypeError(f"a stack has no layer {type(layer).__name__}")
        return values

    def _weights(self, layer: int) -> tuple[nn.Parameter, nn.Parameter]:
        return self.get_parameter(_name(f"{layer}.weight")), self.get_parameter(_name(f"{layer}.bias"))


class _Dense(torch.autograd.Function):
    """A dense layer of each network. Only products that a CPU is fast at: never by the transpose of a right factor."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Values: networks x batch x inputs; weight: networks x outputs x inputs; bias: networks x outputs."""
        ctx.save_for_backward(values, weight)
        right = weight.transpose(1, 2)
        return torch.baddbmm(bias.unsqueeze(1), values, right if right.is_cuda else right.contiguous())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
        """Return the gradients of values (where asked for), weight and bias."""
        values, weight = ctx.saved_tensors
        gradient = gradients[0]
        for_values = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
        return for_values, torch.bmm(gradient.transpose(1, 2), values), gradient.sum(dim=1)


def _name(parameter: str) -> str:
    return parameter.replace(".", "_")


def _is_block(layers: Sequence[nn.Module]) -> bool:
    """Return whether the layers are a convolution of every place without padding, then ReLU and max-pooling."""
    match layers:
        case [nn.Conv2d() as convolution, nn.ReLU(), nn.MaxPool2d() as pool]:
            plain = (1, 1), (0, 0), (1, 1), 1, convolution.kernel_size[::-1]
            odd = pool.padding or pool.dilation != 1 or pool.ceil_mode or pool.kernel_size != pool.stride
            return (
                convolution.bias is not None
                and not odd
                and isinstance(pool.kernel_size, int)
                and plain
                == (
                    convolution.stride,
                    convolution.padding,
                    convolution.dilation,
                    convolution.groups,
                    convolution.kernel_size,
                )
            )
    return False


def can_be_stacked(network: nn.Sequential) -> bool:
    """Return whether a stack has all layers of the network. It is then faster as a stack of one than by itself."""
    layers = list(network)
    blocks = [number for number in range(len(layers)) if _is_block(layers[number : number + 3])]
    in_blocks = {number + offset for number in blocks for offset in range(3)}
    others = (layer for number, layer in enumerate(layers) if number not in in_blocks)
    known = (nn.Linear, nn.ReLU, nn.Flatten, nn.Unflatten)
    return all(isinstance(each, known) and getattr(each, "bias", 0) is not None for each in others)


def chosen_slots(mixtures: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Return some slots of (networks x) slots x symbols, the same ones for all networks or each network's own."""
    if numbers.dim() == 1:
        return mixtures.index_select(-2, numbers)
    return mixtures.take_along_dim(numbers.unsqueeze(-1), dim=-2)
