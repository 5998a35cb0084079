"""Features that a torch module computes: ``torchscript:FILE``, or a module of one's own in Python."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from airmixml.arrays import Singles
from airmixml.errors import PluginError
from airmixml.wording import reason
from airmixml.workers.encoder import FeatureCost
from airmixml.workers.encoders.network import FileEncoder, Network, NetworkEncoder, Shape


class TorchEncoder(NetworkEncoder):
    """Features by a torch module, in evaluation mode: rows x d, or rows x the shape of an image, to rows x features."""

    def __init__(self, module: torch.nn.Module, about: str = "features by a torch module") -> None:
        self._module, self.about = module.eval(), about
        self._network: TorchNetwork | None = None

    def name(self) -> str:
        return f"TorchEncoder({type(self._module).__name__})"

    def network(self) -> "TorchNetwork":
        if self._network is None:
            self._network = TorchNetwork(self._module)
        return self._network

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_network": None}


class TorchScriptFile(FileEncoder):
    """Features by a file that ``torch.jit.save`` wrote."""

    about = "features by a TorchScript file"
    form = "torchscript"

    def read(self, path: str) -> "TorchNetwork":
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch wants to replace TorchScript one day
                return TorchNetwork(torch.jit.load(path, map_location="cpu").eval())  # type: ignore[no-untyped-call]
        except Exception as problem:  # torch raises many types on broken files
            raise PluginError(
                f"{path}: not a whole TorchScript file ({reason(problem)[:120]}); save it with torch.jit.save"
            ) from None


class TorchNetwork(Network):
    """A torch module on the CPU."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module
        self._problem = ""

    def takes(self, shapes: Sequence[Shape]) -> Shape | None:
        for shape in shapes:
            if shape in self.widths:
                return shape
            try:
                with torch.no_grad():
                    output = self.module(torch.zeros((2, *shape)))
            except Exception as problem:  # whatever a module raises on inputs that it is not made for
                self._problem = _last_line(problem)
                continue
            if isinstance(output, torch.Tensor) and output.dim() and len(output) == 2:
                return shape
            self._problem = f"it gives {type(output).__name__} and not one tensor with a row for each input"
        return None

    def wants(self) -> str:
        return f"inputs of another shape ({self._problem})"

    def run(self, inputs: Singles) -> Singles:
        """Return the module's output, in evaluation mode whatever was done with the module since it was given."""
        self.module.eval()
        with torch.no_grad():
            return np.asarray(self.module(torch.from_numpy(np.ascontiguousarray(inputs))).float().numpy())

    def exported(self) -> torch.nn.Module | None:
        return None if isinstance(self.module, torch.jit.ScriptModule) else self.module

    def cost(self, shape: Shape) -> FeatureCost:
        values = [*self.module.parameters(), *self.module.buffers()]
        counter = _Counter()  # type: ignore[no-untyped-call]
        with torch.no_grad(), counter:
            self.module(torch.zeros((1, *shape)))
        return FeatureCost(
            multiply_accumulates=counter.products,
            constant_bytes=sum(value.numel() * value.element_size() for value in values),
            working_numbers=counter.largest,
        )


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves parts of itself untyped
    """Counts products, and notes how many numbers the largest result of an operation has."""

    products = largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._overloadpacket in flop_registry:
            self.products += flop_registry[func._overloadpacket](*args, **(kwargs or {}), out_val=out) // 2
        self.largest = max(self.largest, out.numel() if isinstance(out, torch.Tensor) else 0)
        return out


def _last_line(problem: BaseException) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return lines[-1][:120] if lines else type(problem).__name__
