"""MNIST from public mirrors on the web."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Final, cast

from airmixml.wording import reason
from airmixml.workers.mnist_files import MnistFile, read_bounded

__all__ = ["MIRRORS", "SourceFailure", "files_of_mirror"]

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
