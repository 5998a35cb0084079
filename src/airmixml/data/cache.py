"""The folder where fetched data is kept, and how files get into it whole or not at all."""

import os
from pathlib import Path

from airmixml.errors import DataError
from airmixml.storage.files import write_bytes
from airmixml.wording import reason

_VARIABLE = "AIRMIX_DATA_DIR"


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


def make_folder(folder: Path) -> None:
    """Make sure that files can be written to the folder, before anything is downloaded for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise _refused(folder, problem) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refused(folder, PermissionError(0, "Permission denied"))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that nobody ever sees part of it, even after a crash or with two writers at once."""
    try:
        write_bytes(path, content)
    except OSError as problem:
        raise _refused(path.parent, problem) from None


def _refused(folder: Path, problem: OSError) -> DataError:
    return DataError(
        f"{folder}: cannot be written to ({reason(problem)}); make room or set {_VARIABLE} to another folder"
    )
