"""Files that are written whole or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import RunFolderError

TEMPORARY_SUFFIX = ".tmp"


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as a compressed NPZ file, whole or not at all."""
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    write_bytes(path, content.getvalue())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file under another name, wait until it is on the disk, and rename it."""
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:  # Ctrl-C too
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def writing_to(place: Path | str) -> Iterator[None]:
    """Tell in one line of a disk that is full or forbidden."""
    try:
        yield
    except OSError as problem:
        raise RunFolderError(
            f"{problem.filename or place}: cannot be written ({problem.strerror or problem}); free space or choose "
            "another --out"
        ) from problem
