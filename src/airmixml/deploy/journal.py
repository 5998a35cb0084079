"""A log: what a server accepted and decided, and what workers spent, on the disk before anything follows from it.

    length u32 | its complement u32 | digest 8 bytes | digest of the record before, 8 bytes | kind 1 byte | content

A digest is that of all that follows in its record. A record at the end that is shorter than its length says, or whose
rest is zeros from a sector on, was not written to its end when a crash came: nothing followed from it, and it is left
out. Any other that is damaged, the last one too, or that follows one that is lost makes the file unusable.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Final

from airmixml.files import sync_folder
from airmixml.messages import ProtocolError

Record = tuple[bytes, bytes]
"""Its kind, one byte, and its content."""

_HEAD: Final = struct.Struct(">II8s")
_DIGEST_BYTES: Final = 8
_GUARD_BYTES: Final = 8  # length and its complement
_SECTOR_BYTES: Final = 512  # a power of two that no disk writes less of
_ONES: Final = 0xFFFFFFFF
_FIRST: Final = b"R"


class Journal:
    """An append-only file of records, the first of which names the run, held by one process.

    Where it ``goes_on`` that record must be there; ``mend`` says what to do with a damaged file. After a failed write
    it takes nothing more: what it holds is unknown.
    """

    def __init__(
        self,
        path: Path,
        run: bytes,
        *,
        goes_on: bool = False,
        mend: str = "start the run again in another folder, which spends again what was sent",
    ) -> None:
        self._path, self._mend, self._last = path, mend, bytes(_DIGEST_BYTES)
        self._found: list[Record] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            try:
                _lock(self._file)
            except OSError:
                raise ProtocolError(f"{path}: another process holds this file; stop it first") from None
            sync_folder(path.parent)
            self._read(run, goes_on=goes_on)
        except ProtocolError:
            self.close()
            raise

    def _read(self, run: bytes, *, goes_on: bool) -> None:
        with os.fdopen(os.dup(self._file), "rb") as file:
            content = file.read()
        end = 0
        for kind, body in self._records(content):
            self._found.append((kind, body))
            end += _HEAD.size + _DIGEST_BYTES + 1 + len(body)
        if goes_on and not self._found:
            raise ProtocolError(f"{self._path}: has lost its first record; {self._mend}")
        if end < len(content):  # the rest of a record that a crash cut off
            os.ftruncate(self._file, end)
            os.fsync(self._file)
        if not self._found:
            self.append([(_FIRST, run)])
        elif self._found.pop(0) != (_FIRST, run):
            raise ProtocolError(f"{self._path}: is the log of another run; give each run a folder of its own")

    def _records(self, content: bytes) -> Iterator[Record]:
        place = 0
        while place + _HEAD.size <= len(content):
            length, complement, digest = _HEAD.unpack_from(content, place)
            first, last = place + _HEAD.size, place + _HEAD.size + length
            sound = length and length == complement ^ _ONES
            right = sound and _digest(content[first:last]) == digest
            if sound and last > len(content):
                return  # cut off
            if not right and _is_unwritten(content, place, last if sound else place + _GUARD_BYTES):
                return
            if not right or content[first : first + _DIGEST_BYTES] != self._last:
                raise ProtocolError(f"{self._path}: is damaged or has lost a record at byte {place}; {self._mend}")
            first += _DIGEST_BYTES
            yield content[first : first + 1], content[first + 1 : last]
            self._last, place = digest, last

    def records(self) -> list[Record]:
        """Return what earlier processes have noted, once."""
        found, self._found = self._found, []
        return found

    def append(self, records: Iterable[Record]) -> None:
        """Write records and return when they are on the disk."""
        content = b"".join([self._packed(kind + body) for kind, body in records])
        if self._file < 0:
            raise ProtocolError(f"{self._path}: is closed; start again")
        try:
            while content:
                content = content[os.write(self._file, content) :]
            os.fsync(self._file)
        except OSError as problem:
            self.close()
            raise ProtocolError(f"{self._path}: cannot be written ({problem}); make room and start again") from None

    def _packed(self, content: bytes) -> bytes:
        content = self._last + content
        self._last = _digest(content)
        return _HEAD.pack(len(content), len(content) ^ _ONES, self._last) + content

    def close(self) -> None:
        """Let another process have the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _is_unwritten(content: bytes, place: int, end: int) -> bool:
    """Whether a file grew and zeros stand for what was to be written, from ``place`` or a sector before ``end`` on."""
    written = len(content.rstrip(b"\0"))
    sector = -(-written // _SECTOR_BYTES) * _SECTOR_BYTES
    return written <= place or sector < min(end, len(content))


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()


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
