"""What a network costs a worker: counted from its operations, one after the other."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from airmixml.workers.encoder import HARD_OPERATION, FeatureCost


@dataclass(frozen=True)
class Step:
    """One operation on one input: what it reads and writes, by key, with how many numbers, and what it costs."""

    reads: tuple[Any, ...]
    writes: dict[Any, int]
    multiply_accumulates: int


def cost_of_steps(steps: Iterable[Step], constant_bytes: int, kept: set[Any]) -> FeatureCost:
    """Return the cost of operations that are done one after the other.

    A result takes memory from the operation that writes it to the last one that reads it. ``kept`` are the keys of the
    input and of the output, which are counted elsewhere.
    """
    steps = list(steps)
    last_read = {key: number for number, step in enumerate(steps) for key in step.reads}
    live: dict[Any, int] = {}
    most = 0
    for number, step in enumerate(steps):
        live |= {key: size for key, size in step.writes.items() if key not in kept and key not in live}
        most = max(most, sum(live.values()))
        live = {key: size for key, size in live.items() if last_read.get(key, -1) > number}
    return FeatureCost(
        multiply_accumulates=sum(step.multiply_accumulates for step in steps),
        constant_bytes=constant_bytes,
        working_numbers=most,
    )


# --- The operations of ONNX -------------------------------------------------------------------------------------------

Shapes = dict[str, tuple[int, ...]]

_HARD: Final = frozenset(
    {"Div", "Sqrt", "Exp", "Log", "Pow", "Sigmoid", "Tanh", "Erf", "Gelu", "Softmax", "LogSoftmax", "Softplus", "Elu"}
    | {"HardSwish", "Mish", "Swish", "Reciprocal", "Sin", "Cos", "Atan", "LayerNormalization", "InstanceNormalization"}
)
_MOVES: Final = frozenset(
    {"Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Concat", "Split", "Slice", "Gather", "Pad", "Identity"}
    | {"Cast", "Constant", "ConstantOfShape", "Shape", "Expand", "Dropout", "Tile", "Range", "Size", "DepthToSpace"}
    | {"SpaceToDepth", "GatherElements", "GatherND", "Where", "QuantizeLinear", "DequantizeLinear"}
)
_PER_RESIZED_NUMBER: Final = 3  # two interpolations along a line and one between lines


def step_of_node(node: Any, shapes: Shapes, batch: int) -> Step:
    """Return what an ONNX node does to one of a batch of inputs, given the shape of every value."""
    reads = tuple(name for name in node.input if name)
    writes = {name: math.prod(shapes.get(name, ())) // batch for name in node.output if name}
    kind = node.op_type
    count = next((count for part, count in _COUNTS.items() if part in kind), _plainly)
    return Step(reads, writes, 0 if kind in _MOVES else count(node, shapes) // batch)


def _plainly(node: Any, shapes: Shapes) -> int:
    return (HARD_OPERATION if node.op_type in _HARD else 1) * _written(node, shapes)


def _written(node: Any, shapes: Shapes) -> int:
    return math.prod(shapes.get(node.output[0], ()))


def _convolution(node: Any, shapes: Shapes) -> int:
    """Weights are out x in / groups x kernel; an input's scale and zero point may stand before them."""
    weights = next(shapes[name] for name in node.input[1:] if len(shapes.get(name, ())) > 2)
    places = math.prod(shapes[node.input[0]]) if "Transpose" in node.op_type else _written(node, shapes)
    return places * math.prod(weights[1:])


def _gemm(node: Any, shapes: Shapes) -> int:
    turned = any(each.name == "transA" and each.i for each in node.attribute)
    return _written(node, shapes) * shapes[node.input[0]][0 if turned else 1]


def _recurrence(node: Any, shapes: Shapes) -> int:
    """The input is time x batch x numbers; both matrices are used in each step."""
    given, weights, again = (shapes[name] for name in node.input[:3])
    return math.prod(given[:2]) * (math.prod(weights) + math.prod(again))


def _pooling(node: Any, shapes: Shapes) -> int:
    window = next((each.ints for each in node.attribute if each.name == "kernel_shape"), ())
    return _written(node, shapes) * math.prod(window)


def _reduction(node: Any, shapes: Shapes) -> int:
    return math.prod(shapes.get(node.input[0], ()))


_COUNTS: Final[dict[str, Callable[[Any, Shapes], int]]] = {
    "Conv": _convolution,
    "Gemm": _gemm,
    "MatMul": lambda node, shapes: _written(node, shapes) * shapes[node.input[0]][-1],
    "LSTM": _recurrence,
    "GRU": _recurrence,
    "RNN": _recurrence,
    "Global": _reduction,
    "Pool": _pooling,
    "Reduce": _reduction,
    "ArgM": _reduction,
    "Resize": lambda node, shapes: _PER_RESIZED_NUMBER * _written(node, shapes),
}
