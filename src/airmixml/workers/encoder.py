"""What an encoder computes of a sample, what it declares about the result, what it costs; encoders that keep inputs."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from numpy.random import Generator

from airmixml.arrays import ImageShape, Singles
from airmixml.registries import ENCODERS
from airmixml.scenario import Workers

HARD_OPERATION: Final = 10
FLOAT_BYTES: Final = 4


@dataclass(frozen=True, kw_only=True)
class FeatureCost:
    """What it costs a worker to compute the features of one sample, without scaling, centring and norm.

    Counts follow the arithmetic, without any vector unit. An addition or subtraction counts as a multiply-accumulate, a
    square root or a division as ``HARD_OPERATION`` = 10. Constants are counted as stored: signs take a bit each, other
    numbers ``FLOAT_BYTES`` = 4 bytes. Of a user's network only products of matrices and
    convolutions count, and the largest result of an operation.
    """

    multiply_accumulates: int
    constant_bytes: int = 0  #: filters, signs and tables
    working_numbers: int = 0  #: numbers in memory at once besides the input and the features


@dataclass(frozen=True)
class GraphPart:
    """A torch module, as a part of an exported model, that takes its inputs in a shape."""

    part: Any
    shape: tuple[int, ...]  # of one input


class Encoder(Protocol):
    """Turns an input in [0, 1]^d into the features that a worker sends. Inherit from it to add one.

    After ``features`` the package subtracts the centre, bounds the norm and appends the constant, as the scenario says.
    What an encoder declares must hold for every input, since the privacy guarantee rests on it; ``encode`` refuses
    features that contradict it.
    """

    about: str  #: what it computes, in one line
    #: whether the norm of the features is bounded by ``workers.clip_norm``. If not, the features must lie in [0, 1],
    #: and the scenario allows no centre, no constant, no moments and no bits
    bounds_norm: bool = True
    #: whether the features are the inputs themselves, in their order, so that pixels stay pixels
    keeps_inputs: bool = False
    never_negative: bool = False  #: whether no feature is ever negative before the centre is subtracted
    needs_images: bool = False  #: whether it looks at neighbouring pixels
    needs_series: bool = False  #: whether it looks at channels over time
    default_features: int = 0  #: how many features it computes unless ``workers.features`` says
    takes_features: bool = True  #: whether ``workers.features`` chooses the number of features
    #: whether inputs are scaled to [0, 1] by declared bounds first; else they come as they are
    scales_inputs: bool = True
    takes_device: bool = False  #: whether ``features`` takes ``device``, the name of a torch device to compute on

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        """Return how many features it computes of an input of ``input_dim`` numbers."""
        return workers.features or self.default_features

    @abstractmethod
    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        """Return the features of inputs in [0, 1], samples x inputs; samples x features.

        ``image_shape`` is (height, width) or (channels, height, width) of an input that is an image, (channels, 1,
        time) of a series, else None. ``rng`` gives the same numbers at every call of a run; no draw may depend on the
        samples or their number.
        """

    @abstractmethod
    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """Return what the features of one sample cost the worker."""

    def after_centring(self, workers: Workers, rng: Generator) -> Callable[[Singles], Singles] | None:
        """Return what makes the features of the centred output of ``features`` (samples x numbers); None: nothing."""
        return None

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        """Return ``features`` for an export to ONNX; None: it cannot be exported.

        It is a torch module, or another function of a tensor, from batch x input_dim to batch x features for a batch of
        any size; or a ``GraphPart``.
        """
        return None

    def graph_after_centring(self, workers: Workers, width: int, rng: Generator) -> Any:
        """Return what ``after_centring`` returns, for tensors of that width; None: it cannot be exported."""
        return None


def encoder_of(workers: Workers) -> Encoder:
    """Return the encoder that the scenario names."""
    encoder: Encoder = ENCODERS.load(workers.encoder)
    return encoder


def scales_inputs(workers: Workers) -> bool:
    """Whether inputs are scaled to [0, 1] by declared bounds before they are encoded."""
    return encoder_of(workers).scales_inputs


def sends_inputs_unchanged(workers: Workers) -> bool:
    """Whether what leaves the encoder is the scaled input as it is."""
    encoder = encoder_of(workers)
    return encoder.keeps_inputs and not encoder.bounds_norm


class Inputs(Encoder):
    """The inputs in [0, 1], as many as there are."""

    keeps_inputs = True
    never_negative = True
    takes_features = False

    def __init__(self, about: str, *, bounds_norm: bool) -> None:
        self.about, self.bounds_norm = about, bounds_norm

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        return input_dim

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        return unit_inputs

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        return FeatureCost(multiply_accumulates=0)

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        return lambda inputs: inputs


class Embeddings(Inputs):
    """Features that were computed before, by whatever: nothing is known of them, so their norm is bounded."""

    keeps_inputs = False
    never_negative = False
    scales_inputs = False


SCALE: Final = Inputs("the inputs, scaled to [0, 1] by declared bounds", bounds_norm=False)
CLIP: Final = Inputs("the scaled inputs, their norm bounded", bounds_norm=True)
EMBEDDINGS: Final = Embeddings("rows that are features already, not scaled, their norm bounded", bounds_norm=True)
