"""A file that only grows, held by one process, with everything on the disk before ``append`` returns."""

import os
from importlib import import_module
from pathlib import Path

from airmixml.errors import ProtocolError
from airmixml.storage.files import sync_folder


class GrowingFile:
    """Ledgers of workers and the log of a server. After a failed write it takes nothing more: what it holds is unknown.

    Without a path it keeps nothing, for simulations.
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self._file = path, -1
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            _lock(self._file)
        except OSError:
            self.close()
            raise ProtocolError(f"{path}: another process holds this file; stop it first") from None
        sync_folder(path.parent)

    def content(self) -> bytes:
        """Return all that is in it."""
        if self._file < 0:
            return b""
        os.lseek(self._file, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self._file), "rb") as file:
            return file.read()

    def cut(self, length: int) -> None:
        """Drop what lies behind so many bytes: the rest of a record that a crash cut off."""
        if self._file >= 0:
            os.ftruncate(self._file, length)
            os.fsync(self._file)

    def append(self, content: bytes) -> None:
        """Write, and return when it is on the disk."""
        if self.path is None:
            return
        if self._file < 0:
            raise ProtocolError(f"{self.path}: is closed; start again")
        try:
            while content:
                content = content[os.write(self._file, content) :]
            os.fsync(self._file)
        except OSError as problem:
            self.close()
            raise ProtocolError(f"{self.path}: cannot be written ({problem}); make room and start again") from None

    def close(self) -> None:
        """Let another process have the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _lock(file: int) -> None:
    """Hold a file until it is closed, however the process ends; an OSError where another process does.

    The package filelock, which other folders are locked with, would take a tenth of what is left of a worker's memory.
    """
    if os.name == "nt":
        windows = import_module("msvcrt")
        windows.locking(file, windows.LK_NBLCK, 1)
    else:
        unix = import_module("fcntl")
        unix.flock(file, unix.LOCK_EX | unix.LOCK_NB)
