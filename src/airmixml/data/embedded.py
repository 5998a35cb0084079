"""Iris and digits, which come with scikit-learn.

The bounds of Iris are the extremes of its 150 flowers, as in the paper.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np

from airmixml.data.dataset import KnownDataSet, RawData
from airmixml.progress import Progress, silent


def load_iris(_data_dir: Path | None = None, _progress: Progress = silent) -> RawData:
    """Return the 150 Iris flowers."""
    # Imported here: scikit-learn takes a second to import, and most commands never need it.
    from sklearn import datasets

    return _raw(datasets.load_iris())


def load_digits(_data_dir: Path | None = None, _progress: Progress = silent) -> RawData:
    """Return the 1797 digits of 8x8 pixels."""
    from sklearn import datasets

    return _raw(datasets.load_digits())


def _raw(bunch: Any) -> RawData:
    return RawData(
        inputs=np.asarray(bunch.data, dtype=np.float64),
        labels=np.asarray(bunch.target, dtype=np.int64),
        class_names=tuple(str(name) for name in bunch.target_names),
    )


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
    load=load_iris,
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
    load=load_digits,
    image_shape=(8, 8),
)
