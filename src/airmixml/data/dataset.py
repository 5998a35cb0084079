"""What a data set is once workers can send it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Training pool and clean test set, inputs in [0, 1], labels as class numbers.

    Attributes:
        train_inputs: pool samples x input_dim.
        train_labels: pool samples, each 0 .. classes - 1.
        test_inputs: test samples x input_dim.
        test_labels: test samples.
        class_names: one per class, in the order of the label numbers.
        image_shape: height and width where an input is an image, else None.
        clipped_values: how many input values lay outside the declared bounds and were clipped.
        clipped_samples: how many samples of the pool the encoder shortened to its norm.
        held_dim: numbers in an input before it was encoded; 0 where that is not known.
        private_mean: what was subtracted from the inputs, where that was estimated over the air.
    """

    name: str
    train_inputs: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test_inputs: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    image_shape: tuple[int, int] | None
    clipped_values: int
    clipped_samples: int = 0
    held_dim: int = 0
    private_mean: NDArray[np.float32] | None = None

    @property
    def input_dim(self) -> int:
        """d_X, numbers in an input."""
        return int(self.train_inputs.shape[1])

    @property
    def label_dim(self) -> int:
        """d_Y, numbers in a one-hot label."""
        return len(self.class_names)

    @property
    def train_samples(self) -> int:
        """Samples in the pool that workers draw from."""
        return int(self.train_inputs.shape[0])
