"""Features from a torch module that was given in Python."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from airmixml.arrays import ImageShape, Singles
from airmixml.messages import reason
from airmixml.scenario import Workers
from airmixml.workers.encoder import FeatureCost, GraphPart
from airmixml.workers.encoders.onnx_file import Network, NetworkEncoder, Shape, input_shapes


class TorchEncoder(NetworkEncoder):
    """The output of a copy of a module, in evaluation mode: rows x inputs, or rows x the shape of an image."""

    about = "features by a torch module"

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = copy.deepcopy(module).cpu().float().eval()
        self.wants, self.widths = "", dict[Shape, int]()

    def __getstate__(self) -> dict[str, Any]:
        return {"_module": self._module, "wants": "", "widths": {}}  # what was tried makes it no other encoder

    def network(self) -> tuple[Network, str]:
        return self, f"TorchEncoder({type(self._module).__name__})"

    def takes(self, shapes: Sequence[Shape]) -> Shape | None:
        for shape in shapes:
            try:
                output = self._output(torch.zeros((2, *shape)))
            except Exception as problem:  # whatever a module raises on inputs that it is not made for
                refused = reason(problem)
                continue
            if isinstance(output, torch.Tensor) and output.dim() and len(output) == 2:
                return shape
            refused = f"it gives {type(output).__name__}, not one tensor with a row for each input"
        self.wants = f"inputs of another shape ({refused})"
        return None

    def run(self, inputs: Singles) -> Singles:
        return np.asarray(self._output(torch.from_numpy(np.ascontiguousarray(inputs))).float().numpy())

    def cost_of(self, shape: Shape) -> FeatureCost:
        with _Counter() as counter:  # type: ignore[no-untyped-call]
            self._output(torch.zeros((1, *shape)))
        stored = sum(each.numel() * each.element_size() for each in self._module.state_dict().values())
        return FeatureCost(
            multiply_accumulates=counter.products, constant_bytes=stored, working_numbers=counter.largest
        )

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> GraphPart:
        return GraphPart(self._module, self.tried(input_shapes(input_dim, image_shape))[1])

    def _output(self, inputs: torch.Tensor) -> Any:
        with torch.no_grad():
            return self._module(inputs)


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves parts of itself untyped
    """Counts products, and notes how many numbers the largest result of an operation has."""

    products = largest = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else torch imports its compiler, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._overloadpacket in flop_registry:
            self.products += flop_registry[func._overloadpacket](*args, **(kwargs or {}), out_val=out) // 2
        self.largest = max(self.largest, out.numel() if isinstance(out, torch.Tensor) else 0)
        return out
