"""Features that a network computes which somebody else made: how it is fed, what it must keep to, what it costs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import Singles
from airmixml.data import known_dataset
from airmixml.errors import PluginError, ScenarioError
from airmixml.scenario import Workers
from airmixml.shapes import ImageShape
from airmixml.workers.encoder import Encoder, FeatureCost

ROWS_AT_ONCE: Final = 256
_PROBED_ROWS: Final = 16
_PROBED_ALONE: Final = 4
# How much batches of other sizes may round otherwise, relative to the spread of a feature, and to its size.
_TOLERANCE: Final = 1e-3
_ROUNDING: Final = 1e-5

Shape = tuple[int, ...]


class Network(ABC):
    """A network that is ready to run."""

    def __init__(self) -> None:
        self.widths: dict[Shape, int] = {}  # of the output, by the shape of an input; of those that were tried

    @abstractmethod
    def takes(self, shapes: Sequence[Shape]) -> Shape | None:
        """Return the first of these shapes of one input that suits it; None: none does."""

    @abstractmethod
    def wants(self) -> str:
        """Return in words what it takes."""

    @abstractmethod
    def run(self, inputs: Singles) -> Singles:
        """Return the output for inputs (rows x shape) as numbers; rows x anything."""

    @abstractmethod
    def cost(self, shape: Shape) -> FeatureCost:
        """Return what one input costs."""


class NetworkEncoder(Encoder):
    """An encoder that runs a network on inputs in [0, 1].

    Before it is used, the network is run on random inputs: it must give finite numbers, the same ones twice, and of a
    row the same ones alone as among others. Else the features of one worker would depend on chance or on another
    worker, and no bound on what a worker changes would hold.
    """

    takes_features = False

    @abstractmethod
    def network(self) -> Network:
        """Return the network; called often, so it is kept."""

    @abstractmethod
    def name(self) -> str:
        """Return what it is called in messages."""

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        """Return the width of what the network gives."""
        return self._tried(_assumed_shapes(workers, input_dim))[1]

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        """Return what the network gives, flattened, some samples at a time; samples x features."""
        shape, width = self._tried(input_shapes(unit_inputs.shape[1], image_shape))
        network, starts = self.network(), range(0, len(unit_inputs), ROWS_AT_ONCE)
        blocks = (unit_inputs[start : start + ROWS_AT_ONCE] for start in starts)
        outputs = [_flat(network.run(block.reshape(-1, *shape))) for block in blocks]
        return np.concatenate(outputs) if outputs else np.empty((0, width), dtype=np.float32)

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """Return what the operations of the network cost."""
        return self.network().cost(self._tried(_assumed_shapes(workers, input_dim))[0])

    def shape_of(self, input_dim: int, image_shape: ImageShape) -> Shape:
        """Return the shape in which the network takes an input."""
        return self._tried(input_shapes(input_dim, image_shape))[0]

    def _tried(self, shapes: Sequence[Shape]) -> tuple[Shape, int]:
        """Return the shape that the network takes and the width of its output; it is tried once for each shape."""
        network = self.network()
        shape = network.takes(shapes)
        if shape is None:
            given = " or ".join("N x " + " x ".join(map(str, each)) for each in shapes)
            raise ScenarioError(
                f'workers.encoder = "{self.name()}": takes {network.wants()}, but the data give {given}; put resizing '
                "and channels into the network, or use data of that shape"
            )
        if shape not in network.widths:
            network.widths[shape] = self._probe(network, shape)
        return shape, network.widths[shape]

    def _probe(self, network: Network, shape: Shape) -> int:
        """Return the width of the output; refuse a network that does not keep to what the class says."""
        inputs = np.random.default_rng(0).random((_PROBED_ROWS, *shape), dtype=np.float32)
        output = network.run(inputs)
        if output.ndim == 0 or len(output) != _PROBED_ROWS:
            raise self._refusal(
                f"gives an output of shape {output.shape} for {_PROBED_ROWS} rows: must be one row each"
            )
        first = _flat(output)
        if not first.shape[1]:
            raise self._refusal("gives no features")
        if not np.isfinite(first).all():
            raise self._refusal("gives features that are not finite for inputs in [0, 1]")
        if not np.array_equal(first, _flat(network.run(inputs))):
            raise self._refusal("gives other features for the same inputs; export it in evaluation mode")
        alone = np.concatenate([_flat(network.run(inputs[[row]])) for row in range(_PROBED_ALONE)])
        # Each feature by itself: a large one that is the same for all rows must not hide what others do to a small one.
        allowed = _TOLERANCE * np.ptp(first, axis=0) + _ROUNDING * np.abs(first).max(axis=0)
        if (np.abs(alone - first[:_PROBED_ALONE]) > np.maximum(allowed, 1e-30)).any():
            raise self._refusal(
                "gives a row other features among other rows than alone; export it in evaluation mode, since the "
                "privacy of a worker needs features that depend on that worker alone"
            )
        return int(first.shape[1])

    def _refusal(self, what: str) -> PluginError:
        return PluginError(f'workers.encoder = "{self.name()}": {what}')


def _flat(output: Singles) -> Singles:
    return np.ascontiguousarray(output, dtype=np.float32).reshape(len(output), -1)


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
