"""``onnx:FILE``: features that the graph of an ONNX file computes of inputs in [0, 1]."""

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from airmixml.arrays import Singles
from airmixml.errors import PluginError, ScenarioError
from airmixml.wording import reason
from airmixml.workers.encoder import FeatureCost
from airmixml.workers.encoders.network import FileEncoder, Network, Shape

Shapes = dict[str, tuple[int, ...]]


class OnnxFile(FileEncoder):
    """The first output of a graph with one input of 32-bit numbers."""

    about = "features by the graph of an ONNX file"
    form = "onnx"

    def read(self, path: str) -> "OnnxNetwork":
        return OnnxNetwork(path)


class OnnxNetwork(Network):
    """An ONNX graph in onnxruntime."""

    def __init__(self, path: str) -> None:
        super().__init__()
        onnx, onnxruntime = import_onnx(f'workers.encoder = "onnx:{path}"')
        try:
            self._model = onnx.load(path)
            onnx.checker.check_model(self._model)
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
        if isinstance(batch, int):
            raise PluginError(f"{path}: is for batches of {batch}; export it with a dynamic first dimension")
        self._dims = [size if isinstance(size, int) else 0 for size in dims]  # 0: any

    def takes(self, shapes: Sequence[Shape]) -> Shape | None:
        for shape in shapes:
            if len(shape) == len(self._dims) and all(w in (0, g) for w, g in zip(self._dims, shape, strict=True)):
                return shape
        (flat,) = (shape[0] for shape in shapes if len(shape) == 1)
        table = all(len(shape) == 1 for shape in shapes)  # numbers of which nobody said that they are an image
        return tuple(self._dims) if table and math.prod(self._dims) == flat else None

    def wants(self) -> str:
        return "N x " + " x ".join(str(size or "any") for size in self._dims)

    def run(self, inputs: Singles) -> Singles:
        try:
            return np.asarray(self._session.run(None, {self._input: np.ascontiguousarray(inputs, dtype=np.float32)})[0])
        except Exception as problem:  # onnxruntime raises types of its own
            raise ScenarioError(
                f"the ONNX graph cannot be run on inputs of {inputs.shape[1:]} ({reason(problem)})"
            ) from None

    def cost(self, shape: Shape) -> FeatureCost:
        onnx, onnxruntime = import_onnx("the cost of an ONNX graph")
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        graph, there = model.graph, {each.name for each in model.graph.output}
        written = [name for node in graph.node for name in node.output if name]
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in written if name not in there)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), _options(onnxruntime, as_it_is=True), ["CPUExecutionProvider"]
        )
        names = [each.name for each in session.get_outputs()]
        found = session.run(None, {self._input: np.zeros((1, *shape), dtype=np.float32)})
        constants = {each.name: tuple(each.dims) for each in graph.initializer}
        shapes = {name: np.shape(value) for name, value in zip(names, found, strict=True)}
        shapes |= {self._input: (1, *shape), **constants}
        type_of = onnx.helper.tensor_dtype_to_np_dtype
        stored = sum(math.prod(each.dims) * type_of(each.data_type).itemsize for each in graph.initializer)
        return FeatureCost(
            multiply_accumulates=sum(_products(node, shapes) for node in graph.node),
            constant_bytes=stored,
            working_numbers=max(map(np.size, found)),
        )

    def exported(self) -> Any:
        return self._model


def _products(node: Any, shapes: Shapes) -> int:
    """Return how many products a node adds up, given the shape of every value."""
    kind, given = node.op_type, shapes.get(node.input[0], ()) if node.input else ()
    written = math.prod(shapes.get(node.output[0], ()))
    if "Conv" in kind:  # weights: out x in / groups x kernel; an input's scale and zero point may stand before them
        weights = next(shapes[name] for name in node.input[1:] if len(shapes.get(name, ())) > 2)
        return (math.prod(given) if "Transpose" in kind else written) * math.prod(weights[1:])
    if kind == "Gemm":
        turned = any(each.name == "transA" and each.i for each in node.attribute)
        return written * given[0 if turned else 1]
    if "MatMul" in kind:
        return written * given[-1]
    if kind in ("LSTM", "GRU", "RNN"):  # time x batch x numbers; both matrices are used in each step
        return math.prod(given[:2]) * sum(math.prod(shapes[name]) for name in node.input[1:3])
    return 0


def _options(onnxruntime: Any, *, as_it_is: bool = False) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.use_deterministic_compute = True
    if as_it_is:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def import_onnx(what: str) -> tuple[Any, Any]:
    """Return the packages onnx and onnxruntime, or say what to install for ``what``."""
    try:
        return import_module("onnx"), import_module("onnxruntime")
    except ImportError:
        raise PluginError(f"{what}: needs onnx and onnxruntime; pip install 'airmixml[onnx]'") from None
