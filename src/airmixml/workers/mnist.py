"""MNIST: 60,000 training and 10,000 test images of handwritten digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from airmixml.errors import DataError
from airmixml.progress import Progress, silent
from airmixml.workers import mnist_files
from airmixml.workers.catalogue import MNIST
from airmixml.workers.idx import parse_idx
from airmixml.workers.mnist_fetch import ALREADY_THERE, ObtainedFile, fetch_mnist, mnist_cache_folder
from airmixml.workers.mnist_files import BrokenFileError, read_from_folder
from airmixml.workers.raw import RawData

__all__ = ["load_mnist"]


def load_mnist(data_dir: Path | None = None, progress: Progress = silent) -> RawData:
    """Return MNIST from ``data_dir`` if one is given, else from the cache, which is filled where needed."""
    if data_dir is not None:
        obtained = _from_folder(data_dir)
    else:
        obtained = fetch_mnist(mnist_cache_folder(), replace_broken=True, progress=progress)
    arrays = [parse_idx(entry.content, entry.file.shape, str(entry.path)) for entry in obtained]
    train_images, train_labels, test_images, test_labels = arrays
    return RawData(
        name=MNIST.name,
        inputs=train_images.reshape(len(train_images), MNIST.input_dim),
        labels=train_labels.astype(np.int64),
        class_names=tuple(str(digit) for digit in range(MNIST.label_dim)),
        image_shape=MNIST.image_shape,
        lower=MNIST.lower,
        upper=MNIST.upper,
        test_inputs=test_images.reshape(len(test_images), MNIST.input_dim),
        test_labels=test_labels.astype(np.int64),
    )


def _from_folder(folder: Path) -> list[ObtainedFile]:
    """Read the folder that the user named; nothing is fetched, since the user said where the files are."""
    obtained: list[ObtainedFile] = []
    missing: list[str] = []
    for file in mnist_files.MNIST_FILES:
        try:
            found = read_from_folder(folder, file)
        except BrokenFileError as problem:
            raise DataError(f"{problem}; remove it and get it anew (`airmix data fetch mnist`)") from None
        if found is None:
            missing.append(file.name)
        else:
            obtained.append(ObtainedFile(file, found[0], ALREADY_THERE, found[1]))
    if missing:
        raise DataError(
            f"{folder}: has no {', '.join(missing)}, neither plain nor as .gz; put them there, or leave "
            "--data-dir out to have MNIST fetched into the cache"
        )
    return obtained
