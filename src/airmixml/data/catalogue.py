"""Public facts about the data sets known by name: written down here, never measured at run time.

The bounds are the documented ranges of public data. Taking them from the samples instead would let them
depend on what one worker holds, and the privacy guarantee would no longer cover them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class KnownDataSet:
    """One data set known by name.

    Attributes:
        train_samples: samples there are to draw the pool from.
        test_samples: size of the own test set; 0 where the data set has none and is split at random.
        lower: lower bound of each input, or a single one for all.
        upper: upper bounds, likewise.
        scaled_mean: root mean square, over the inputs, of their means over the public samples, scaled to [0, 1]; for
            planning only.
        scaled_deviation: the same of their standard deviations.
    """

    name: str
    about: str
    train_samples: int
    test_samples: int
    input_dim: int
    label_dim: int
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    scaled_mean: float
    scaled_deviation: float
    image_shape: tuple[int, int] | None = None


IRIS: Final = KnownDataSet(
    name="iris",
    about="sepal length, sepal width, petal length, petal width in cm",
    train_samples=150,
    test_samples=0,
    input_dim=4,
    label_dim=3,
    lower=(4.3, 2.0, 1.0, 0.1),
    upper=(7.9, 4.4, 6.9, 2.5),
    scaled_mean=0.449,
    scaled_deviation=0.262,
)

DIGITS: Final = KnownDataSet(
    name="digits",
    about="handwritten digits, 8x8 pixels",
    train_samples=1797,
    test_samples=0,
    input_dim=64,
    label_dim=10,
    lower=(0.0,),
    upper=(16.0,),
    scaled_mean=0.402,
    scaled_deviation=0.271,
    image_shape=(8, 8),
)

MNIST: Final = KnownDataSet(
    name="mnist",
    about="handwritten digits, 28x28 pixels",
    train_samples=60_000,
    test_samples=10_000,
    input_dim=784,
    label_dim=10,
    lower=(0.0,),
    upper=(255.0,),
    scaled_mean=0.212,
    scaled_deviation=0.259,
    image_shape=(28, 28),
)

CATALOGUE: Final = {known.name: known for known in (IRIS, DIGITS, MNIST)}
