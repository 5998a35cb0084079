"""What every source of samples hands over, before splitting and scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["RawData"]


@dataclass(frozen=True, kw_only=True)
class RawData:
    """Samples as their source has them: inputs in their own units, labels already as class numbers.

    Attributes:
        name: what messages call the data set.
        inputs: samples x features, of any real type.
        labels: samples, each 0 .. classes - 1.
        class_names: one per class, in the order of the label numbers.
        image_shape: height and width where an input is an image, else None.
        lower: public lower bound of each feature, or a single one for all; empty where none is known.
        upper: public upper bounds, likewise.
        test_inputs: inputs of the source's own test set, where it has one.
        test_labels: labels of the source's own test set, where it has one.
    """

    name: str
    inputs: NDArray[Any]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    image_shape: tuple[int, int] | None = None
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    test_inputs: NDArray[Any] | None = None
    test_labels: NDArray[np.int64] | None = None
