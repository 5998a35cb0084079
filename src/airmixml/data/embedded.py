"""Data sets that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from airmixml.data.catalogue import DIGITS, IRIS
from airmixml.data.dataset import RawData


def load_iris() -> RawData:
    """Return the 150 Iris flowers."""
    # Imported here: scikit-learn takes a second to import, and most commands never need it.
    from sklearn import datasets

    bunch = datasets.load_iris()
    return RawData(
        name=IRIS.name,
        inputs=np.asarray(bunch.data, dtype=np.float64),
        labels=np.asarray(bunch.target, dtype=np.int64),
        class_names=tuple(str(name) for name in bunch.target_names),
        lower=IRIS.lower,
        upper=IRIS.upper,
    )


def load_digits() -> RawData:
    """Return the 1797 digits of 8x8 pixels."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    return RawData(
        name=DIGITS.name,
        inputs=np.asarray(bunch.data, dtype=np.float64),
        labels=np.asarray(bunch.target, dtype=np.int64),
        class_names=tuple(str(name) for name in bunch.target_names),
        image_shape=DIGITS.image_shape,
        lower=DIGITS.lower,
        upper=DIGITS.upper,
    )
