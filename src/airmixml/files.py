"""Files: how one is opened, written whole or not at all, and locked; and the one store of finished results.

Nothing but a regular file is read: opening a pipe waits until something writes to it, and a device may never end.

A result is taken up again only by the work that made it. A file that is damaged, or that other work made, counts as not
there. One that is whole but holds something else than airmix wrote is reported in one line: a user changed it, and only
the user can say whether it is needed.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from airmixml.messages import RunFolderError, UnknownObjectError, in_plain_words, reason, shown

if TYPE_CHECKING:
    from filelock import BaseFileLock


Read = Callable[[Path], bytes]
_OTHERS = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}

_LINK: Final = "a link, which is not followed here"
LOCK: Final = ".lock"
# No user and no other program names a file so: what a killed process leaves behind can be removed safely.
_UNFINISHED: Final = ".airmix-unfinished"
_TEMPORARY_NAME: Final = re.compile(rf"\..+\.[0-9a-z_]{{8}}{re.escape(_UNFINISHED)}", re.DOTALL)
Result = TypeVar("Result")
Arrays = Mapping[str, NDArray[Any]]
_ABOUT: Final = "about"


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


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as a compressed NPZ file, whole or not at all."""
    content = io.BytesIO()
    np.savez_compressed(content, **_plain_arrays(arrays))
    write_bytes(path, content.getvalue())


def _plain_arrays(arrays: Arrays) -> dict[str, Any]:
    """Return the arrays; refuse one of objects, which NumPy would pickle: before 2.2 it cannot be told not to."""
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise ValueError(f"{name}: is an array of objects, which no file of ours holds")
    return dict(arrays)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file under another name, wait until it is on the disk, and rename it: no reader ever sees part of it."""
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write files as ``write_bytes`` does; none gets its name before all are on the disk."""
    # Not the tempfile module: its files are readable by their owner alone, and a folder may be shared.
    temporaries = {path: path.with_name(f".{path.name}.{secrets.token_hex(4)}{_UNFINISHED}") for path in contents}
    try:
        for path, content in contents.items():
            with temporaries[path].open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path, temporary in temporaries.items():
            temporary.replace(path)
    except BaseException:  # Ctrl-C too
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)
        raise


def check_writable(path: Path, folder: Path) -> None:
    """Raise what writing the file, or first what lies between it and a ``folder``, would raise."""
    from tempfile import TemporaryFile  # here: small devices write without it

    TemporaryFile(dir=folder, prefix=f".{path.name}.", suffix=_UNFINISHED).close()


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


@contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """Give a folder inside another, which goes with all that is in it; ``remove_temporaries`` takes a leftover one."""
    from tempfile import TemporaryDirectory  # here: as above

    with TemporaryDirectory(dir=folder, prefix=".folder.", suffix=_UNFINISHED) as place:
        yield Path(place)


def remove_temporaries(folder: Path) -> None:
    """Remove what killed processes left half-written in a folder that no other process writes."""
    for path in filter(is_temporary, list(folder.rglob(".*"))):
        with suppress(OSError):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


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
        free = "free space or " if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else ""
        raise RunFolderError(
            f"{where} cannot be written ({reason(problem)}); {free}choose another {option}"
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
    with suppress(OSError):
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


class ResultStore:
    """Results in a folder, one file each: ``NAME.json``, or ``NAME.npz`` where they have arrays.

    The folder is made with the first of them. Only what was saved with the same ``identity`` is loaded again.
    """

    def __init__(self, folder: Path, identity: str = "") -> None:
        self.folder = folder
        self._identity = identity

    def save(self, name: str, values: Any, arrays: Arrays | None = None) -> None:
        """Keep plain values, and arrays where the name ends in ``.npz``."""
        made_by, values = [self._identity, name], json.loads(json.dumps(values))  # with lists for tuples
        about = {"made_by": made_by, "checksum": _checksum(made_by, values, arrays or {}), "values": values}
        content = io.BytesIO()
        if name.endswith(".npz"):  # not compressed: that takes seconds for the checkpoint of a large network
            text = np.array(json.dumps(about))
            np.savez(content, **_plain_arrays({_ABOUT: text, **(arrays or {})}))
        else:
            content.write(json.dumps(about, indent=1).encode("utf-8") + b"\n")
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(self.folder / name, content.getvalue())

    def load(self, name: str, read: Callable[[Any, dict[str, NDArray[Any]]], Result]) -> Result | None:
        """Return what ``read`` makes of values and arrays; None where there are none, or damaged or other ones."""
        path, made_by = self.folder / name, [self._identity, name]
        try:
            content, arrays = read_regular(path), dict[str, NDArray[Any]]()
            if path.suffix == ".npz":
                with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                    arrays = dict(archive)
                content = arrays.pop(_ABOUT).item()
                arrays.pop("allow_pickle", None)  # as NumPy before 2.2 stored this argument of ours
            about = json.loads(content)
            if about["made_by"] != made_by or about["checksum"] != _checksum(made_by, about["values"], arrays):
                return None
        except Exception:  # no such file, or whatever a damaged one makes NumPy and JSON say
            return None
        try:
            return read(about["values"], arrays)
        except Exception as problem:
            raise corrupt_file(path, problem) from problem


def corrupt_file(path: Path, problem: Exception, delete: str = "it") -> RunFolderError:
    """Return the error for a file that is whole, but does not hold what it should."""
    if isinstance(problem, UnknownObjectError):  # nothing is wrong with the file
        return RunFolderError(f"{path}: {problem}")
    again = "give the same command again"
    if delete != "it":
        again = "run the command that made it again, which sends again and spends again what it protects"
    return RunFolderError(
        f"{path}: does not hold what airmix wrote ({in_plain_words(problem)}); delete {delete} and {again}"
    )


def _checksum(made_by: list[str], values: Any, arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps([made_by, values], sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {arrays[name].shape} ".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def to_plain(result: Any) -> dict[str, Any]:
    """Return a dataclass as the plain values that JSON gives back: its tuples are lists."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(result)))
    return plain


def from_plain(kind: Any, value: Any, name: str = "the content") -> Any:
    """Return plain values as the dataclass (or other type) they were made of; ValueError names what does not fit.

    NaN is never a result; an infinite number may be.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _field_types(kind)
        needed = {each.name for each in fields(kind) if each.default is MISSING}
        if not isinstance(value, dict) or not needed <= set(value) <= set(hints):
            wrong = (needed - set(value)) | (set(value) - set(hints)) if isinstance(value, dict) else hints
            raise ValueError(f"{name} has too many or too few keys: {', '.join(sorted(wrong))}")
        return kind(**{key: from_plain(hint, value[key], key) for key, hint in hints.items() if key in value})
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return None if value is None and NoneType in inner else _one_of(inner, value, name)
    if origin in (tuple, list) and isinstance(value, list):
        return origin(from_plain(inner[0], each, name) for each in value)
    if origin is dict and isinstance(value, dict):
        return {key: from_plain(inner[1], each, f"{name}.{key}") for key, each in value.items()}
    fits = isinstance(value, float | int if kind is float else kind) if origin is None else False
    if fits and not (isinstance(value, bool) and kind is not bool):
        with suppress(OverflowError):  # a whole number beyond what a double holds
            if not (kind is float and math.isnan(value)):
                return kind(value)
    raise ValueError(f"{name} = {shown(value)}: must be {getattr(kind, '__name__', kind)}")


def _one_of(kinds: tuple[Any, ...], value: Any, name: str) -> Any:
    """Return the value as the first of the kinds that it fits; where it fits none, the first says why not."""
    first, *others = (kind for kind in kinds if kind is not NoneType)
    try:
        return from_plain(first, value, name)
    except ValueError:
        for kind in others:
            with suppress(ValueError):
                return from_plain(kind, value, name)
        raise


@cache
def _field_types(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
