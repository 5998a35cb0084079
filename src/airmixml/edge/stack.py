"""Many networks of one shape as one: every parameter has the networks as its first axis.

Small networks leave a processor idle between their operations. Stacked, one batched product does the work of all of
them, and each network computes what it would compute alone.

Convolution, max-pooling and ReLU of all networks at once are products of matrices. Images are networks x rows x columns
x batch x channels. With the batch beside the channels, patches and tiles of images are copied in long runs, and what a
pool compares lies in whole blocks. Two ways lead to the same numbers up to rounding: a product with all patches, and
one with tiles after Winograd's transform, which takes 25 / 4 fewer multiplications for filters of 5 x 5. The pool comes
before bias and ReLU, which changes nothing but the work, since both keep the order of values.
"""

from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import product
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from airmixml.arrays import Doubles

# Where Toom and Cook evaluate the polynomials, beside infinity; few and small ones keep rounding errors small.
_POINTS: Final = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)
_TILE: Final = 4  # outputs of a tile, per side
_FEWEST_CHANNELS: Final = 8  # with fewer the transform takes longer than what it spares


def convolve(images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, pool: int) -> torch.Tensor:
    """Return max-pooled, rectified convolutions: networks x rows x columns x batch x filters.

    Images are networks x rows x columns x batch x channels, ``weight`` networks x filters x channels x side x side,
    ``bias`` networks x filters. Rows and columns that fill no pool are left out.
    """
    side, channels = weight.shape[-1], weight.shape[2]
    fits = all((length - side + 1) % _TILE == 0 for length in images.shape[1:3])
    tiled = fits and _TILE % pool == 0 and channels >= _FEWEST_CHANNELS and 3 <= side <= len(_POINTS) + 2 - _TILE
    way: Any = _OverTiles if tiled else _OverPatches
    convolved: torch.Tensor = way.apply(images, weight, bias, pool)
    return convolved


class _OverPatches(torch.autograd.Function):
    """One product of the filters with every patch that a pool looks at."""

    @staticmethod
    def forward(ctx: Any, images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, pool: int) -> torch.Tensor:
        """Patches are (network, place in the pool, some rows of pools) x (channel and pixel) x (pool and sample)."""
        images = images.contiguous()
        networks, rows, columns, batch, channels = images.shape
        filters, side = weight.shape[1], weight.shape[-1]
        rows, columns = (rows - side + 1) // pool, (columns - side + 1) // pool
        # A GPU needs many products to fill it, a CPU few of a good size: rows of pools are apart or together.
        apart, together = (rows, 1) if images.is_cuda else (1, rows)
        of_network, of_row, of_column, of_sample, of_channel = images.stride()
        pools = (of_row * pool, of_column * pool)
        patches = images.as_strided(
            (networks, pool, pool, apart, channels, side, side, together, columns, batch),
            (of_network, of_row, of_column, pools[0], of_channel, of_row, of_column, *pools, of_sample),
        ).reshape(networks * pool * pool * apart, channels * side * side, together * columns * batch)
        matrix = weight.reshape(networks, 1, filters, -1).transpose(2, 3)
        matrix = matrix.expand(-1, pool * pool * apart, -1, -1).reshape(len(patches), -1, filters)
        outputs = torch.bmm(patches.transpose(1, 2), matrix)
        outputs = outputs.view(networks, pool * pool, rows, columns, batch, filters)
        highest = reduce(torch.maximum, outputs.unbind(1))
        values = torch.relu(highest + bias.view(networks, 1, 1, 1, filters))
        ctx.save_for_backward(patches, matrix, outputs, highest, values)
        ctx.image_shape, ctx.weight_shape, ctx.pool, ctx.apart = images.shape, weight.shape, pool, apart
        return values

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor, None]:
        patches, matrix, outputs, highest, values = ctx.saved_tensors
        networks, filters, channels, side, _ = ctx.weight_shape
        rows, columns, batch = values.shape[1:4]
        gradient = _rectified(gradients[0], values)
        spread = torch.empty_like(outputs)
        _unpool(gradient, highest, outputs.unbind(1), spread.unbind(1))
        spread = spread.view(len(patches), -1, filters)
        for_weight = torch.bmm(patches, spread).view(networks, -1, channels * side * side, filters).sum(dim=1)
        for_images = None
        if ctx.needs_input_grad[0]:
            pool, apart = ctx.pool, ctx.apart
            shape = (networks, pool, pool, apart, channels, side, side, rows // apart, columns, batch)
            of_patches = torch.bmm(matrix, spread.transpose(1, 2).contiguous()).view(shape)
            of_patches = of_patches.permute(1, 2, 5, 6, 0, 3, 7, 8, 9, 4).flatten(5, 6)
            for_images = gradient.new_zeros(ctx.image_shape)
            for row, column, down, right in product(range(pool), range(pool), range(side), range(side)):
                window = for_images[:, row + down :: pool, column + right :: pool][:, :rows, :columns]
                window += of_patches[row, column, down, right]
        for_weight = for_weight.transpose(1, 2).reshape(ctx.weight_shape)
        return for_images, for_weight, gradient.sum(dim=(1, 2, 3)), None


class _OverTiles(torch.autograd.Function):
    """Winograd's minimal filtering, with the transforms of Toom and Cook, for tiles of 4 x 4 outputs.

    y = A [(G g) * (B x)] for a tile x of the image and a filter g: all tiles, channels and filters give one product of
    matrices for each of the points (Lavin and Gray 2016, Sec. 4.1). Rounding errors are a few times those of a sum over
    patches: of the order of 1e-6 in float32.
    """

    @staticmethod
    def forward(ctx: Any, images: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, pool: int) -> torch.Tensor:
        """Values at the points are (point, network) x (tile and sample) x channels."""
        networks, _, _, batch, channels = images.shape
        filters, side = weight.shape[1], weight.shape[-1]
        to_outputs, of_filters, of_tiles = _transforms(side, images.device, images.dtype)
        reach = _TILE + side - 1
        windows = images.unfold(1, reach, _TILE).unfold(2, reach, _TILE).permute(5, 6, 0, 1, 2, 3, 4)
        down, right = windows.shape[3:5]
        at_points = torch.mm(of_tiles, windows.reshape(reach * reach, -1)).view(reach**2 * networks, -1, channels)
        kernels = weight.permute(3, 4, 0, 2, 1).reshape(side * side, -1)
        kernels = torch.mm(of_filters, kernels).view(len(at_points), channels, filters)
        outputs = torch.mm(to_outputs, torch.bmm(at_points, kernels).view(reach**2, -1))
        in_tile = _TILE // pool
        outputs = outputs.view(in_tile, pool, in_tile, pool, networks, down, right, batch, filters)
        highest = reduce(torch.maximum, _places(outputs))
        values = torch.relu(highest + bias.view(networks, 1, 1, 1, filters))
        ctx.save_for_backward(at_points, kernels, outputs, highest, values)
        ctx.image_shape, ctx.weight_shape = images.shape, weight.shape
        return values.permute(2, 3, 0, 4, 1, 5, 6).reshape(networks, down * in_tile, right * in_tile, batch, filters)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor, None]:
        at_points, kernels, outputs, highest, values = ctx.saved_tensors
        networks, filters, channels, side, _ = ctx.weight_shape
        in_tile, _, _, down, right, batch, _ = values.shape
        to_outputs, of_filters, of_tiles = _transforms(side, values.device, values.dtype)
        reach = _TILE + side - 1
        gradient = gradients[0].reshape(networks, down, in_tile, right, in_tile, batch, filters)
        gradient = _rectified(gradient.permute(2, 4, 0, 1, 3, 5, 6), values)
        spread = torch.empty_like(outputs)
        _unpool(gradient, highest, _places(outputs), _places(spread))
        spread = torch.mm(to_outputs.t(), spread.view(_TILE**2, -1)).view(len(at_points), -1, filters)
        for_kernels = torch.bmm(at_points.transpose(1, 2), spread).view(reach**2, -1)
        for_weight = torch.mm(of_filters.t(), for_kernels).view(side, side, networks, channels, filters)
        for_images = None
        if ctx.needs_input_grad[0]:
            for_points = torch.bmm(spread, kernels.transpose(1, 2).contiguous()).view(reach**2, -1)
            windows = torch.mm(of_tiles.t(), for_points).view(reach, reach, networks, down, right, batch, channels)
            windows = windows.permute(2, 3, 0, 4, 1, 5, 6)
            for_images = gradient.new_zeros(ctx.image_shape)
            # Tiles overlap: what reaches into the next ones is added apart, block by block.
            for row, column in product(range(0, reach, _TILE), repeat=2):
                part = windows[:, :, row : row + _TILE, :, column : column + _TILE]
                blocks = for_images[:, row:, column:].unfold(1, part.shape[2], _TILE).unfold(2, part.shape[4], _TILE)
                blocks.permute(0, 1, 5, 2, 6, 3, 4)[:, :down, :, :right].add_(part)
        return for_images, for_weight.permute(2, 4, 3, 0, 1), gradient.sum(dim=(0, 1, 3, 4, 5)), None


@lru_cache
def _transforms(side: int, device: torch.device, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return A (outputs x points), G (points x pixels of a filter) and B (points x pixels of a tile), in both axes.

    With V the Vandermonde matrix of the points, the product of two polynomials is V^-1 [(V g) * (V h)]. The transpose
    of that map in h filters a tile: A = V_4^T, G = V_side, B = V^-T, where V_n has the first n columns. Rows of B are
    scaled to a largest value of 1, and G by the inverse, so that no point drowns in the rounding errors of another.
    """
    points = np.array(_POINTS[: _TILE + side - 2])

    def evaluated(coefficients: int) -> Doubles:
        at_infinity = np.eye(coefficients)[-1:]
        return np.concatenate([np.vander(points, coefficients, increasing=True), at_infinity])

    inverse = np.linalg.inv(evaluated(_TILE + side - 1)).T
    scale = np.abs(inverse).max(axis=1, keepdims=True)
    of_axis = (evaluated(_TILE).T, evaluated(side) * scale, inverse / scale)
    to_outputs, of_filters, of_tiles = (
        torch.tensor(np.kron(each, each), dtype=dtype, device=device) for each in of_axis
    )
    return to_outputs, of_filters, of_tiles


def _places(outputs: torch.Tensor) -> list[torch.Tensor]:
    """Return the outputs of each place in their pool, row by row: pools of a tile (rows, columns) x all else."""
    pool = outputs.shape[1]
    return [outputs[:, row, :, column] for row, column in product(range(pool), repeat=2)]


def _rectified(gradient: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return the gradient where the ReLU let a value pass, zero elsewhere."""
    return torch.mul(gradient, torch.gt(values, 0.0, out=torch.empty_like(values)))


def _unpool(
    gradient: torch.Tensor, highest: torch.Tensor, places: Sequence[torch.Tensor], out: Sequence[torch.Tensor]
) -> None:
    """Send the gradient to the place whose output was the highest, the first of equal ones; write that of each place.

    Comparisons are written as 0.0 and 1.0: torch multiplies those several times faster than truth values.
    """
    left = gradient
    for place, sent in zip(places[:-1], out[:-1], strict=True):
        sent.copy_(torch.eq(place, highest, out=torch.empty_like(highest)).mul_(left))
        left = left - sent
    out[-1].copy_(left)


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
        values, weight = ctx.saved_tensors
        gradient = gradients[0]
        for_values = torch.bmm(gradient, weight) if ctx.needs_input_grad[0] else None
        return for_values, torch.bmm(gradient.transpose(1, 2), values), gradient.sum(dim=1)


def _name(parameter: str) -> str:
    return parameter.replace(".", "_")


def _is_block(layers: Sequence[nn.Module]) -> bool:
    """Return whether the layers are a convolution of every place without padding, then ReLU and max-pooling."""
    match layers:
        case [
            nn.Conv2d(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1) as convolution,
            nn.ReLU(),
            nn.MaxPool2d(padding=0, dilation=1, ceil_mode=False, kernel_size=int(side), stride=step),
        ]:
            down, right = convolution.kernel_size
            return convolution.bias is not None and side == step and down == right
    return False


def can_be_stacked(network: nn.Sequential) -> bool:
    """Return whether a stack has all layers of the network. It is then faster as a stack of one than by itself."""
    layers = list(network)
    blocks = [number for number in range(len(layers)) if _is_block(layers[number : number + 3])]
    in_blocks = {number + offset for number in blocks for offset in range(3)}
    others = (layer for number, layer in enumerate(layers) if number not in in_blocks)
    known = (nn.Linear, nn.ReLU, nn.Flatten, nn.Unflatten)
    return all(isinstance(each, known) and getattr(each, "bias", 0) is not None for each in others)
