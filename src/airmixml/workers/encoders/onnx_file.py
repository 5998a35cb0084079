"""``onnx:FILE``: features that the graph of an ONNX file computes of inputs in [0, 1]."""

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.random import Generator

from airmixml.arrays import Singles
from airmixml.errors import PluginError, ScenarioError
from airmixml.scenario import Workers
from airmixml.shapes import ImageShape
from airmixml.wording import reason
from airmixml.workers.encoder import FeatureCost, GraphPart
from airmixml.workers.encoders.file_cache import read_once
from airmixml.workers.encoders.graph_cost import cost_of_steps, step_of_node
from airmixml.workers.encoders.network import Network, NetworkEncoder, Shape


class OnnxFile(NetworkEncoder):
    """The first output of a graph with one input of 32-bit numbers."""

    about = "features by the graph of an ONNX file"

    def __init__(self, path: str) -> None:
        self._path = path

    def name(self) -> str:
        """Return the value of workers.encoder."""
        return f"onnx:{self._path}"

    def network(self) -> "OnnxNetwork":
        """Return the graph, read again where the file has changed."""
        return _read(self._path, self.name())

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        """Return the ONNX model, for a batch of any size."""
        network = self.network()
        if network.batch:
            raise PluginError(
                f'workers.encoder = "{self.name()}": is for batches of {network.batch}; to export a run, make the '
                "first dimension of its graph dynamic"
            )
        return GraphPart(network.model, self.shape_of(input_dim, image_shape))


class OnnxNetwork(Network):
    """An ONNX graph in onnxruntime."""

    def __init__(self, path: str) -> None:
        super().__init__()
        onnx, onnxruntime = import_onnx(f'workers.encoder = "onnx:{path}"')
        try:
            self.model = onnx.load(path)
            onnx.checker.check_model(self.model)
            self._session = onnxruntime.InferenceSession(path, _options(onnxruntime), ["CPUExecutionProvider"])
        except Exception as problem:  # both libraries raise types of their own on broken files
            raise PluginError(f"{path}: not a whole ONNX file ({reason(problem)[:120]}); export it again") from None
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or inputs[0].type != "tensor(float)" or len(inputs[0].shape) < 2:
            found = ", ".join(f"{each.name}: {each.type} {each.shape}" for each in inputs)
            raise ScenarioError(
                f"{path}: has the inputs {found}: must have one, tensor(float), N x numbers or N x shape"
            )
        self._input = inputs[0].name
        batch, *dims = inputs[0].shape
        self.batch = batch if isinstance(batch, int) else 0
        self._dims = [size if isinstance(size, int) else 0 for size in dims]  # 0: any

    def takes(self, shapes: Sequence[Shape]) -> Shape | None:
        """Return the first shape that agrees with the graph's input."""
        for shape in shapes:
            if len(shape) == len(self._dims) and all(w in (0, g) for w, g in zip(self._dims, shape, strict=True)):
                return shape
        (flat,) = (shape[0] for shape in shapes if len(shape) == 1)
        table = all(len(shape) == 1 for shape in shapes)  # numbers of which nobody said that they are an image
        return tuple(self._dims) if table and math.prod(self._dims) == flat else None

    def wants(self) -> str:
        """Return the shape of the graph's input."""
        return "N x " + " x ".join(str(size or "any") for size in self._dims)

    def run(self, inputs: Singles) -> Singles:
        """Return the first output; a graph for batches of one size gets batches of that size."""
        at_once = self.batch or len(inputs)
        parts = [self._run(inputs[start : start + at_once], at_once) for start in range(0, len(inputs), at_once)]
        return np.concatenate(parts)

    def _run(self, some: Singles, at_once: int) -> Singles:
        missing = np.zeros((at_once - len(some), *some.shape[1:]), dtype=np.float32)
        fed = np.ascontiguousarray(np.concatenate([some, missing]), dtype=np.float32)
        try:
            output = np.asarray(self._session.run(None, {self._input: fed})[0])
        except Exception as problem:  # onnxruntime raises types of its own
            raise ScenarioError(
                f"the ONNX graph cannot be run on inputs of {some.shape[1:]} ({reason(problem)})"
            ) from None
        return output[: len(some)] if output.ndim else output

    def cost(self, shape: Shape) -> FeatureCost:
        """Run one input with all that is computed on the way as outputs, and count what each operation does."""
        onnx, onnxruntime = import_onnx("the cost of an ONNX graph")
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        graph, there = model.graph, {each.name for each in model.graph.output}
        written = [name for node in graph.node for name in node.output if name]
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in written if name not in there)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), _options(onnxruntime, as_it_is=True), ["CPUExecutionProvider"]
        )
        batch = self.batch or 1
        names = [each.name for each in session.get_outputs()]
        found = session.run(None, {self._input: np.zeros((batch, *shape), dtype=np.float32)})
        shapes = {name: np.shape(value) for name, value in zip(names, found, strict=True)} | {
            self._input: (batch, *shape)
        }
        constants = {each.name: tuple(each.dims) for each in graph.initializer}
        shapes |= constants
        stored = sum(math.prod(each.dims) * _item_bytes(onnx, each) for each in graph.initializer)
        steps = [step_of_node(node, shapes, batch) for node in graph.node if node.op_type != "Constant"]
        return cost_of_steps(steps, stored, {self._input, self.model.graph.output[0].name, *constants})


def _options(onnxruntime: Any, *, as_it_is: bool = False) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.use_deterministic_compute = True
    if as_it_is:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def _item_bytes(onnx: Any, tensor: Any) -> int:
    return int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)


def import_onnx(what: str) -> tuple[Any, Any]:
    """Return the packages onnx and onnxruntime, or say what to install for ``what``."""
    try:
        return import_module("onnx"), import_module("onnxruntime")
    except ImportError:
        raise PluginError(f"{what}: needs onnx and onnxruntime; pip install 'airmixml[onnx]'") from None


_read = read_once(OnnxNetwork)
