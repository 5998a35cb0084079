"""Tables of measurements, which come with scikit-learn: breast cancer and wine (classes), diabetes (a target).

Their bounds are examples of what can be declared without measuring: lengths, areas and contents are not negative, and
a round number well above what is usual for the quantity serves as the upper bound. They are no row's extremes, so no
row's value can be read from them. The room that they leave has a price: the mean of a column is rarely near the middle
of its bounds.
"""

from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.data.dataset import KnownDataSet, RawData
from airmixml.data.embedded import load_embedded
from airmixml.progress import Progress, silent

BREAST_CANCER: Final = KnownDataSet(
    name="breast-cancer",
    about="30 measures of the cell nuclei in a sample of breast tissue: mean, standard error and worst of 10 each",
    train_samples=569,
    test_samples=0,
    input_dim=30,
    label_dim=2,
    lower=(0.0,) * 30,
    # Radius, texture, perimeter, area, smoothness, compactness, concavity, concave points, symmetry, fractal dimension.
    upper=(
        *(30.0, 40.0, 200.0, 3000.0, 0.2, 0.4, 0.5, 0.25, 0.4, 0.1),
        *(3.0, 5.0, 25.0, 600.0, 0.05, 0.2, 0.5, 0.1, 0.1, 0.05),
        *(40.0, 50.0, 300.0, 5000.0, 0.3, 1.5, 1.5, 0.4, 0.8, 0.3),
    ),
    scaled_mean=0.317,
    scaled_deviation=0.104,
    load=partial(load_embedded, "breast_cancer"),
)

WINE: Final = KnownDataSet(
    name="wine",
    about="13 chemical measures of wines from three growers, alcohol in per cent by volume first",
    train_samples=178,
    test_samples=0,
    input_dim=13,
    label_dim=3,
    lower=(10.0, *(0.0,) * 12),
    upper=(16.0, 8.0, 5.0, 40.0, 200.0, 5.0, 6.0, 1.0, 5.0, 15.0, 2.0, 5.0, 2000.0),
    scaled_mean=0.426,
    scaled_deviation=0.126,
    load=partial(load_embedded, "wine"),
)


def load_diabetes(_data_dir: Path | None = None, _progress: Progress = silent) -> RawData:
    """Return the 442 patients in their own units, with how far their disease progressed within a year."""
    from sklearn import datasets

    bunch = datasets.load_diabetes(scaled=False)
    return RawData(
        inputs=np.asarray(bunch.data, dtype=np.float64),
        labels=np.asarray(bunch.target, dtype=np.float64)[:, None],
        class_names=("progression",),
        target_lower=(0.0,),
        target_upper=(400.0,),
    )


DIABETES: Final = KnownDataSet(
    name="diabetes",
    about="age, sex, body-mass index, blood pressure and six blood values of patients; target: progression in a year",
    train_samples=442,
    test_samples=0,
    input_dim=10,
    label_dim=1,
    lower=(0.0, 1.0, 10.0, 40.0, 50.0, 0.0, 0.0, 0.0, 2.0, 40.0),
    upper=(100.0, 2.0, 50.0, 160.0, 350.0, 300.0, 120.0, 12.0, 8.0, 160.0),
    scaled_mean=0.431,
    scaled_deviation=0.188,
    load=load_diabetes,
    task="regression",
)
