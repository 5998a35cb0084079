"""The one way in which a file of the user or of a run folder is opened.

Nothing but a regular file is read: opening a pipe waits until something writes to it, and a device may never end.
"""

import errno
import io
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, TextIO

Read = Callable[[Path], bytes]
_OTHERS = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}

_LINK: Final = "a link, which is not followed here"


def open_regular(path: Path | str) -> io.BufferedReader:
    """Open a regular file, or a link to one, to read its bytes; anything else is an OSError, at once."""
    return open(path, "rb", opener=_regular)


def open_lines(path: Path | str, encoding: str = "utf-8-sig") -> TextIO:
    """Open a regular file of text with its line ends as they are, which is what a reader of CSV wants."""
    # utf-8-sig: spreadsheet programs put a byte-order mark before the first column name.
    return io.TextIOWrapper(open_regular(path), encoding=encoding, newline="")


def read_regular(path: Path | str, most_bytes: int = -1) -> bytes:
    """Return the bytes of a regular file, of a larger one the first ``most_bytes``."""
    with open_regular(path) as file:
        return file.read(most_bytes)


def open_within(root: Path, path: Path) -> io.BufferedReader:
    """Open a regular file below ``root`` without following any link on the way, however names change meanwhile."""
    if os.open not in os.supports_dir_fd:  # there is no way to hold a folder: names are looked at before
        for passed in (path, *path.parents[: len(path.relative_to(root).parts) - 1]):
            if passed.is_symlink():
                raise OSError(errno.ELOOP, _LINK, str(passed))
        return open_regular(path)
    *folders, name = path.relative_to(root).parts
    held = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for each in folders:
            inner = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held)
            os.close(held)
            held = inner
        return open(name, "rb", opener=lambda own, flags: _regular(own, flags | os.O_NOFOLLOW, held))
    except OSError as problem:
        linked = problem.errno in (errno.ELOOP, errno.ENOTDIR)
        why = _LINK if linked else problem.strerror
        raise OSError(problem.errno, why, str(path)) from None
    finally:
        os.close(held)


def read_within(root: Path, path: Path, most_bytes: int) -> bytes:
    """Return the bytes of a file as ``open_within`` opens it; one of more than ``most_bytes`` is an OSError."""
    with open_within(root, path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"larger than {most_bytes:,} bytes", str(path))
    return content


def _regular(path: str, flags: int, folder: int | None = None) -> int:
    # Without waiting: what the name leads to is known only when it is open, and may change until then.
    file = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), dir_fd=folder)
    kind = stat.S_IFMT(os.fstat(file).st_mode)
    if kind == stat.S_IFREG:
        return file
    os.close(file)
    raise OSError(errno.EINVAL, f"not a regular file, but a {_OTHERS.get(kind, 'device')}", path)
