"""A lock on a folder: a file in it that one process at a time holds."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import BaseFileLock, FileLock, Timeout

from airmixml.errors import RunFolderError

LOCK: Final = ".lock"


def take_lock(folder: Path) -> BaseFileLock:
    """Lock the folder, or say in one line that another process has it.

    The file is neither emptied nor followed where it is a link; it belongs to us only where it is empty.
    """
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
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held: nobody locks a file that is about to go
    lock.release()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder for a while; its file stays."""
    lock = take_lock(folder)
    try:
        yield
    finally:
        lock.release()
