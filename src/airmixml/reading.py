"""The one way in which a file of the user or of a run folder is opened.

Nothing but a regular file is read: opening a pipe waits until something writes to it, and a device may never end.
"""

import errno
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO, TextIO

_OTHERS = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file, or a link to one, to read its bytes; anything else is an OSError, at once."""
    return open(path, "rb", opener=_regular)


def open_lines(path: Path | str) -> TextIO:
    """Open a regular file of UTF-8 text with its line ends as they are, which is what a reader of CSV wants."""
    # utf-8-sig: spreadsheet programs put a byte-order mark before the first column name.
    return io.TextIOWrapper(open_regular(path), encoding="utf-8-sig", newline="")


def read_regular(path: Path | str, most_bytes: int = -1) -> bytes:
    """Return the bytes of a regular file, of a larger one the first ``most_bytes``."""
    with open_regular(path) as file:
        return file.read(most_bytes)


def _regular(path: str, flags: int) -> int:
    # Without waiting: what the name leads to is known only when it is open, and may change until then.
    file = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    kind = stat.S_IFMT(os.fstat(file).st_mode)
    if kind == stat.S_IFREG:
        return file
    os.close(file)
    raise OSError(errno.EINVAL, f"not a regular file, but a {_OTHERS.get(kind, 'device')}", path)
