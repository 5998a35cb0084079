"""Features from a user's network: how it is fed, what it must keep to, what it costs."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.random import Generator

from airmixml.arrays import ImageShape, Singles
from airmixml.data import known_dataset
from airmixml.errors import PluginError, ScenarioError
from airmixml.reading import open_regular
from airmixml.scenario import Workers
from airmixml.wording import reason
from airmixml.workers.encoder import Encoder, FeatureCost, GraphPart

_ROWS_AT_ONCE: Final = 256
_PROBED_ROWS: Final = 16

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
        """Return what one input costs: products of matrices and convolutions, and the largest result on the way."""

    @abstractmethod
    def exported(self) -> Any:
        """Return it for batches of any size, as a part of a ``GraphPart``."""


class NetworkEncoder(Encoder):
    """An encoder that runs a network on inputs in [0, 1]; ``encode`` tries it on random rows before it is used."""

    takes_features = False

    @abstractmethod
    def network(self) -> Network:
        """Return the network; called often, so it is kept."""

    @abstractmethod
    def name(self) -> str:
        """Return what it is called in messages."""

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        return self._tried(_assumed_shapes(workers, input_dim))[1]

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        shape, width = self._tried(_input_shapes(unit_inputs.shape[1], image_shape))
        network, starts = self.network(), range(0, len(unit_inputs), _ROWS_AT_ONCE)
        blocks = (unit_inputs[start : start + _ROWS_AT_ONCE].reshape(-1, *shape) for start in starts)
        outputs = [np.asarray(network.run(block), dtype=np.float32).reshape(len(block), -1) for block in blocks]
        return np.concatenate(outputs) if outputs else np.empty((0, width), dtype=np.float32)

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        return self.network().cost(self._tried(_assumed_shapes(workers, input_dim))[0])

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        return GraphPart(self.network().exported(), self._tried(_input_shapes(input_dim, image_shape))[0])

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
            output = network.run(np.random.default_rng(0).random((_PROBED_ROWS, *shape), dtype=np.float32))
            if output.ndim == 0 or len(output) != _PROBED_ROWS or not output.size:
                raise PluginError(
                    f'workers.encoder = "{self.name()}": gives an output of shape {output.shape} for {_PROBED_ROWS} '
                    "rows: must be features, one row each"
                )
            network.widths[shape] = output.size // _PROBED_ROWS
        return shape, network.widths[shape]


class FileEncoder(NetworkEncoder):
    """An encoder whose network a file of the user holds, which is read again only when it has changed."""

    form: str  #: The word before the path in ``workers.encoder``

    def __init__(self, path: str) -> None:
        self._path = path

    @abstractmethod
    def read(self, path: str) -> Network:
        """Return the network in the file."""

    def name(self) -> str:
        return f"{self.form}:{self._path}"

    def network(self) -> Network:
        path = os.path.abspath(os.path.expanduser(self._path))
        try:
            with open_regular(path) as file:  # what the libraries that read it would wait for is refused here
                found = os.fstat(file.fileno())
        except (OSError, ValueError) as problem:
            raise ScenarioError(
                f'workers.encoder = "{self.name()}": {path} cannot be read ({reason(problem)}); paths are relative to '
                "the current directory"
            ) from None
        return _read_once(type(self), path, (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=8)
def _read_once(kind: type[FileEncoder], path: str, _changed: tuple[int, ...]) -> Network:
    return kind(path).read(path)


def _input_shapes(input_dim: int, image_shape: ImageShape) -> list[Shape]:
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
        return _input_shapes(input_dim, known.image_shape)
    squares: list[Any] = [(channels, *(round((input_dim / channels) ** 0.5),) * 2) for channels in (1, 3)]
    return [(input_dim,), *(shape for shape in squares if np.prod(shape) == input_dim)]
