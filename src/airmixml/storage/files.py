"""Atomic files, and locks on folders: a file that one process at a time holds."""

from __future__ import annotations

import contextlib
import io
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import RunFolderError
from airmixml.wording import reason

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK: Final = ".lock"
# No user and no other program names a file so: what a killed process leaves behind can be removed safely.
_TEMPORARY_NAME: Final = re.compile(r"\..+\.[0-9a-f]{8}\.airmix-unfinished", re.DOTALL)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as a compressed NPZ file, whole or not at all."""
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    write_bytes(path, content.getvalue())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file under another name, wait until it is on the disk, and rename it: no reader ever sees part of it."""
    # Not the tempfile module: its files are readable by their owner alone, and a folder may be shared.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.airmix-unfinished")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:  # Ctrl-C too
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system allows that."""
    if os.name != "nt":
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


def is_temporary(path: Path) -> bool:
    """Return whether ``write_bytes`` gave the file its name, and the process was killed before it gave the real one."""
    return _TEMPORARY_NAME.fullmatch(path.name) is not None


def remove_temporaries(folder: Path) -> None:
    """Remove what killed processes left half-written in a folder that no other process writes."""
    for path in filter(is_temporary, list(folder.rglob(".*"))):
        with contextlib.suppress(OSError):
            path.unlink()


@contextmanager
def writing_to(place: Path | str, *, option: str = "--out") -> Iterator[None]:
    """Report in one line that a disk is full, a folder may not be written, or a file is where a folder should be.

    ``option`` is what the user can change to write elsewhere than to ``place``.
    """
    try:
        yield
    except OSError as problem:
        in_the_way = isinstance(problem, FileExistsError | NotADirectoryError)
        named = problem.filename if problem.filename and not is_temporary(Path(problem.filename)) else place
        where = f"{place}: is a file or lies in one and" if in_the_way else f"{named}:"
        raise RunFolderError(
            f"{where} cannot be written ({reason(problem)}); free space or choose another {option}"
        ) from problem


def take_lock(folder: Path) -> BaseFileLock:
    """Lock the folder, or say in one line that another process has it.

    The file is neither emptied nor followed where it is a link; it belongs to us only where it is empty.
    """
    from filelock import FileLock, Timeout  # here: most commands take no lock

    path = folder / LOCK
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise RunFolderError(f"{path}: must be a plain file, or not be there; delete it or choose another --out")
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except (Timeout, FileNotFoundError):  # the last: the folder has just been taken away
        raise RunFolderError(f"{folder}: another process is writing it; wait for it or choose another --out") from None
    return lock


def drop_lock(lock: BaseFileLock) -> None:
    """Remove the file of a lock and give the lock back."""
    if os.name == "nt":  # no open file can be removed there
        lock.release()
    with contextlib.suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held: no process locks a file that is about to go
    lock.release()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder for a while; its file stays."""
    lock = take_lock(folder)
    try:
        yield
    finally:
        lock.release()
