"""A data set: the 178 wines that come with scikit-learn, three growers to distinguish."""

from pathlib import Path

import numpy as np
from sklearn import datasets

from airmixml.data import KnownDataSet, RawData
from airmixml.progress import Progress


def load_wine(data_dir: Path | None, progress: Progress) -> RawData:
    """Return the wines; a data set with files would look for them in ``data_dir``."""
    bunch = datasets.load_wine()
    return RawData(
        inputs=np.asarray(bunch.data),
        labels=np.asarray(bunch.target, dtype=np.int64),
        class_names=tuple(str(name) for name in bunch.target_names),
    )


WINE = KnownDataSet(
    name="wines",
    about="13 chemical measurements of wines of three growers",
    train_samples=178,
    test_samples=0,  # no test set of its own: it is split at random
    input_dim=13,
    label_dim=3,
    # Round numbers that any wine keeps to, not the extremes of these samples.
    lower=(10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    upper=(16.0, 6.0, 4.0, 40.0, 200.0, 5.0, 6.0, 1.0, 5.0, 15.0, 2.0, 5.0, 2000.0),
    scaled_mean=0.443,
    scaled_deviation=0.131,
    load=load_wine,
)
