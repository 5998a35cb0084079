"""Features from a user's network: how it is fed, what it must keep to, what it costs; ``onnx:FILE``."""

import math
import os
from abc import abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Protocol

import numpy as np
from numpy.random import Generator

from airmixml.arrays import ImageShape, Singles
from airmixml.data import known_dataset
from airmixml.files import open_regular
from airmixml.messages import PluginError, ScenarioError, reason
from airmixml.scenario import Workers
from airmixml.workers.encoder import Encoder, FeatureCost

_ROWS_AT_ONCE: Final = 256
_PROBED_ROWS: Final = 16

Shape = tuple[int, ...]


class Network(Protocol):
    """A network that is ready to run."""

    wants: str  #: which inputs it takes, in words
    widths: dict[Shape, int]  #: of the output, by the shape of an input; of those that were tried

    def takes(self, shapes: Sequence[Shape]) -> Shape | None:
        """Return the first of these shapes of one input that suits it; None: none does."""

    def run(self, inputs: Singles) -> Singles:
        """Return the output for inputs (rows x shape); rows x anything."""

    def cost_of(self, shape: Shape) -> FeatureCost:
        """Return what one input costs: products of matrices and convolutions, and the largest result on the way."""


class NetworkEncoder(Encoder):
    """The output of a network for inputs in [0, 1]; ``encode`` tries it on random rows first."""

    takes_features = False

    @abstractmethod
    def network(self) -> tuple[Network, str]:
        """Return the network, and what messages call it; often asked for, so it is kept."""

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        return self.tried(_assumed_shapes(workers, input_dim))[2]

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        network, shape, width = self.tried(input_shapes(unit_inputs.shape[1], image_shape))
        starts = range(0, len(unit_inputs), _ROWS_AT_ONCE)
        blocks = (unit_inputs[start : start + _ROWS_AT_ONCE].reshape(-1, *shape) for start in starts)
        outputs = [network.run(block).astype(np.float32).reshape(len(block), -1) for block in blocks]
        return np.concatenate([np.empty((0, width), dtype=np.float32), *outputs])

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        network, shape, _ = self.tried(_assumed_shapes(workers, input_dim))
        return network.cost_of(shape)

    def tried(self, shapes: Sequence[Shape]) -> tuple[Network, Shape, int]:
        """Return the network, the shape that it takes and the width of its output; it is tried once for each shape."""
        network, named = self.network()
        shape = network.takes(shapes)
        if shape is None:
            given = " or ".join("N x " + " x ".join(map(str, each)) for each in shapes)
            raise ScenarioError(
                f'workers.encoder = "{named}": takes {network.wants}, but the data give {given}; put resizing and '
                "channels into the network, or use data of that shape"
            )
        if shape not in network.widths:
            output = network.run(np.random.default_rng(0).random((_PROBED_ROWS, *shape), dtype=np.float32))
            if output.ndim == 0 or len(output) != _PROBED_ROWS or not output.size:
                raise PluginError(
                    f'workers.encoder = "{named}": gives an output of shape {output.shape} for {_PROBED_ROWS} rows: '
                    "must be features, one row each"
                )
            network.widths[shape] = output.size // _PROBED_ROWS
        return network, shape, network.widths[shape]


class OnnxFile(NetworkEncoder):
    """The first output of a graph with one input of 32-bit numbers."""

    about = "features by the graph of an ONNX file"

    def __init__(self, path: str) -> None:
        self._path = path

    def network(self) -> tuple["_Graph", str]:
        path, named = os.path.abspath(os.path.expanduser(self._path)), f"onnx:{self._path}"
        try:
            with open_regular(path) as file:  # what the libraries that read it would wait for is refused here
                found = os.fstat(file.fileno())
        except (OSError, ValueError) as problem:
            raise ScenarioError(
                f'workers.encoder = "{named}": {path} cannot be read ({reason(problem)}); paths are relative to the '
                "current directory"
            ) from None
        return _read_once(path, (found.st_mtime_ns, found.st_size, found.st_ino)), named


def input_shapes(input_dim: int, image_shape: ImageShape) -> list[Shape]:
    """Return the shapes in which one input can be given to a network, the likeliest first."""
    if image_shape is None:
        return [(input_dim,)]
    shape: Shape = tuple(image_shape)
    images = [(1, *shape), shape, (*shape, 1)] if len(shape) == 2 else [shape]
    if len(shape) == 3 and shape[1] == 1:  # a series: channels x 1 x time
        images.append((shape[0], shape[2]))
    return [*images, (input_dim,)]


def _assumed_shapes(workers: Workers, input_dim: int) -> list[Shape]:
    """Return the shapes where only the number of inputs is known: a named data set's, a square image's, or flat."""
    known = known_dataset(workers.dataset)
    if known is not None and known.image_shape is not None and known.input_dim == input_dim:
        return input_shapes(input_dim, known.image_shape)
    squares: list[Any] = [(channels, *(round((input_dim / channels) ** 0.5),) * 2) for channels in (1, 3)]
    return [(input_dim,), *(shape for shape in squares if np.prod(shape) == input_dim)]


class _Graph:
    """An ONNX graph in onnxruntime."""

    def __init__(self, path: str) -> None:
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
        if isinstance(batch, int):
            raise PluginError(f"{path}: is for batches of {batch}; export it with a dynamic first dimension")
        self._dims = [size if isinstance(size, int) else 0 for size in dims]  # 0: any
        self.wants = "N x " + " x ".join(str(size or "any") for size in self._dims)
        self.widths: dict[Shape, int] = {}

    def takes(self, shapes: Sequence[Shape]) -> Shape | None:
        for shape in shapes:
            if len(shape) == len(self._dims) and all(w in (0, g) for w, g in zip(self._dims, shape, strict=True)):
                return shape
        (flat,) = (shape[0] for shape in shapes if len(shape) == 1)
        table = all(len(shape) == 1 for shape in shapes)  # numbers of which nobody said that they are an image
        return tuple(self._dims) if table and math.prod(self._dims) == flat else None

    def run(self, inputs: Singles) -> Singles:
        try:
            return np.asarray(self._session.run(None, {self._input: np.ascontiguousarray(inputs, dtype=np.float32)})[0])
        except Exception as problem:  # onnxruntime raises types of its own
            raise ScenarioError(
                f"the ONNX graph cannot be run on inputs of {inputs.shape[1:]} ({reason(problem)})"
            ) from None

    def cost_of(self, shape: Shape) -> FeatureCost:
        onnx, onnxruntime = import_onnx("the cost of an ONNX graph")
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
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


@lru_cache(maxsize=8)
def _read_once(path: str, _changed: tuple[int, ...]) -> _Graph:
    return _Graph(path)


def _products(node: Any, shapes: dict[str, Shape]) -> int:
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
