"""``scale``, ``clip`` and ``embeddings``: the inputs themselves, scaled or not, their norm bounded or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airmixml.arrays import ImageShape
from airmixml.workers.encoder import Encoder, FeatureCost

if TYPE_CHECKING:
    from numpy.random import Generator

    from airmixml.arrays import Singles
    from airmixml.scenario import Workers


class Inputs(Encoder):
    """The inputs in [0, 1], as many as there are."""

    keeps_inputs = True
    never_negative = True
    takes_features = False

    def __init__(self, about: str, *, bounds_norm: bool) -> None:
        self.about, self.bounds_norm = about, bounds_norm

    def feature_count(self, workers: Workers, input_dim: int) -> int:
        """Return the number of inputs."""
        return input_dim

    def features(self, workers: Workers, unit_inputs: Singles, image_shape: ImageShape, rng: Generator) -> Singles:
        """Return the inputs."""
        return unit_inputs

    def cost(self, workers: Workers, input_dim: int) -> FeatureCost:
        """Scaling and norm are counted elsewhere."""
        return FeatureCost(multiply_accumulates=0)

    def graph(self, workers: Workers, input_dim: int, image_shape: ImageShape, rng: Generator) -> Any:
        """Return what changes nothing."""
        return lambda inputs: inputs


class Embeddings(Inputs):
    """Features that were computed before, by whatever: nothing is known of them, so their norm is bounded."""

    keeps_inputs = False
    never_negative = False
    scales_inputs = False


SCALE: Final = Inputs("the inputs, scaled to [0, 1] by declared bounds", bounds_norm=False)
CLIP: Final = Inputs("the scaled inputs, their norm bounded", bounds_norm=True)
EMBEDDINGS: Final = Embeddings("rows that are features already, not scaled, their norm bounded", bounds_norm=True)
