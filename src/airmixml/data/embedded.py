"""Data sets that come with scikit-learn: Iris and digits; breast cancer and wine (classes), diabetes (a target).

The bounds of Iris are the extremes of its 150 flowers, as in the paper. The 1797 digits are nobody's secret: averages
of their features serve as public constants. They must not be used where these very images are the private data.

Bounds of the tables are examples of what can be declared without measuring: lengths, areas and contents are not
negative, and a round number well above what is usual for the quantity serves as the upper bound. They are no row's
extremes, so no row's value can be read from them. The room that they leave has a price: the mean of a column is rarely
near the middle of its bounds.
"""

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.arrays import Shape, Singles
from airmixml.data.dataset import KnownDataSet, RawData


def _read_file(name: str, skipped_lines: int, class_names: tuple[str, ...], *_where: object) -> RawData:
    """Return the samples in a file of scikit-learn, which takes longer to import than an Iris run takes."""
    found = find_spec("sklearn")
    folder = Path(found.origin).parent / "datasets" / "data" if found and found.origin else Path()
    if not (folder / name).is_file():
        return load_embedded(name.partition(".")[0])
    rows = np.loadtxt(folder / name, delimiter=",", skiprows=skipped_lines)
    return RawData(inputs=rows[:, :-1], labels=rows[:, -1].astype(np.int64), class_names=class_names)


load_iris: Final = partial(_read_file, "iris.csv", 1, ("setosa", "versicolor", "virginica"))
load_digits: Final = partial(_read_file, "digits.csv.gz", 0, tuple("0123456789"))


def load_embedded(name: str, *_where: object) -> RawData:
    """Return the samples of a data set that scikit-learn loads under that name; of diabetes in their own units."""
    # Imported here: scikit-learn takes a second to import, and most commands never need it.
    from sklearn import datasets

    if name == "diabetes":  # with how far the disease progressed within a year
        inputs, progression = datasets.load_diabetes(scaled=False, return_X_y=True)
        targets, names = progression[:, None], ("progression",)
        return RawData(inputs=inputs, labels=targets, class_names=names, target_lower=(0.0,), target_upper=(400.0,))
    bunch = getattr(datasets, f"load_{name}")()
    labels = np.asarray(bunch.target, dtype=np.int64)
    return RawData(inputs=bunch.data, labels=labels, class_names=tuple(map(str, bunch.target_names)))


IRIS: Final = KnownDataSet(
    name="iris",
    about="sepal length, sepal width, petal length, petal width in cm",
    train_samples=150,
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
    input_dim=64,
    label_dim=10,
    lower=(0.0,),
    upper=(16.0,),
    scaled_mean=0.402,
    scaled_deviation=0.271,
    load=load_digits,
    image_shape=(8, 8),
)


def public_images(shape: Shape) -> Singles:
    """Return the digits drawn large in the middle 5/7 of images of that shape; images x (height width)."""
    import torch
    from torch.nn import functional

    raw = load_digits()
    small = torch.from_numpy(raw.inputs.astype(np.float32)).reshape(-1, 1, 8, 8) / 16.0
    inner = [max(1, round(side * 5 / 7)) for side in shape]
    large = functional.interpolate(small, size=inner, mode="bilinear", align_corners=False)
    before = [(side - part) // 2 for side, part in zip(shape, inner, strict=True)]
    padding = (before[1], shape[1] - inner[1] - before[1], before[0], shape[0] - inner[0] - before[0])
    return np.asarray(functional.pad(large, padding).flatten(1).numpy())


def are_public(unit_inputs: Singles, shape: Shape) -> bool:
    """Whether some inputs in [0, 1], samples x (height width), are among the public images as these come."""
    if shape != (8, 8):
        return False
    known = {row.tobytes() for row in load_digits().inputs.astype(np.uint8)}
    return any(row.tobytes() in known for row in np.rint(unit_inputs * 16.0).astype(np.uint8))


BREAST_CANCER: Final = KnownDataSet(
    name="breast-cancer",
    about="30 measures of the cell nuclei in a sample of breast tissue: mean, standard error and worst of 10 each",
    train_samples=569,
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
    input_dim=13,
    label_dim=3,
    lower=(10.0, *(0.0,) * 12),
    upper=(16.0, 8.0, 5.0, 40.0, 200.0, 5.0, 6.0, 1.0, 5.0, 15.0, 2.0, 5.0, 2000.0),
    scaled_mean=0.426,
    scaled_deviation=0.126,
    load=partial(load_embedded, "wine"),
)


DIABETES: Final = KnownDataSet(
    name="diabetes",
    about="age, sex, body-mass index, blood pressure and six blood values of patients; target: progression in a year",
    train_samples=442,
    input_dim=10,
    label_dim=1,
    lower=(0.0, 1.0, 10.0, 40.0, 50.0, 0.0, 0.0, 0.0, 2.0, 40.0),
    upper=(100.0, 2.0, 50.0, 160.0, 350.0, 300.0, 120.0, 12.0, 8.0, 160.0),
    scaled_mean=0.431,
    scaled_deviation=0.188,
    load=partial(load_embedded, "diabetes"),
    task="regression",
)
