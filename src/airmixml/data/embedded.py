"""Iris and digits, which come with scikit-learn.

The bounds of Iris are the extremes of its 150 flowers, as in the paper. The 1797 digits are nobody's secret: averages
of their features serve as public constants. They must not be used where these very images are the private data.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.arrays import Singles
from airmixml.data.dataset import KnownDataSet, RawData
from airmixml.progress import Progress, silent
from airmixml.shapes import Shape


def load_iris(_data_dir: Path | None = None, _progress: Progress = silent) -> RawData:
    """Return the 150 Iris flowers."""
    return _read_embedded("iris", "iris.csv", skipped_lines=1, class_names=("setosa", "versicolor", "virginica"))


def load_digits(_data_dir: Path | None = None, _progress: Progress = silent) -> RawData:
    """Return the 1797 digits of 8x8 pixels."""
    return _read_embedded("digits", "digits.csv.gz", skipped_lines=0, class_names=tuple("0123456789"))


def _read_embedded(name: str, file_name: str, *, skipped_lines: int, class_names: tuple[str, ...]) -> RawData:
    """Return the samples in a file of scikit-learn, which takes longer to import than an Iris run takes."""
    found = find_spec("sklearn")
    folder = Path(found.origin).parent / "datasets" / "data" if found and found.origin else Path()
    if not (folder / file_name).is_file():
        return load_embedded(name)
    rows = np.loadtxt(folder / file_name, delimiter=",", skiprows=skipped_lines)
    return RawData(inputs=rows[:, :-1], labels=rows[:, -1].astype(np.int64), class_names=class_names)


def load_embedded(name: str, _data_dir: Path | None = None, _progress: Progress = silent) -> RawData:
    """Return the samples of a data set that scikit-learn loads under that name."""
    # Imported here: scikit-learn takes a second to import, and most commands never need it.
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
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
