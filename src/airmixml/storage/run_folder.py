"""A run folder that is either whole or not there.

A run is made in ``NAME.partial``, which it locks, and renamed to ``NAME`` when everything is in it. A killed run leaves
the partial folder behind; the same run finds it again by what it wrote about itself and goes on from its checkpoint.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

from airmixml.errors import RunFolderError
from airmixml.storage.files import TEMPORARY_SUFFIX, write_text

RUNS_FOLDER = Path("runs")
METRICS = "metrics.json"
SCENARIO = "scenario.toml"
_IDENTITY = "identity.json"
_LOCK = ".lock"
_PARTIAL = ".partial"


class RunFolder:
    """A folder being filled; ``publish`` gives it its final name."""

    def __init__(self, final: Path, lock: IO[str], new_parents: list[Path]) -> None:
        self.final = final
        self.work = _partial(final)
        self._lock = lock
        self._new_parents = new_parents

    def publish(self, *, replace: bool = False, leave_out: tuple[str, ...] = ()) -> Path:
        """Rename the finished folder to its final name, without the files of the making.

        Args:
            replace: put it in the place of an older run folder of that name.
            leave_out: names of files that served the making alone.
        """
        if replace and self.final.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{self.final.name}.replaced-", dir=self.final.parent))
            self.final.rename(old / self.final.name)
            self.work.rename(self.final)
            shutil.rmtree(old, ignore_errors=True)
        else:
            self.work.rename(self.final)
        for leftover in (_IDENTITY, _LOCK, *leave_out):
            (self.final / leftover).unlink(missing_ok=True)
        return self.final

    def release(self) -> None:
        """Unlock; where nothing was begun, leave no trace."""
        with contextlib.suppress(OSError):
            if {entry.name for entry in self.work.iterdir()} <= {_IDENTITY, _LOCK}:
                shutil.rmtree(self.work)
                _remove_empty(self._new_parents)
        self._lock.close()


def claim(
    out: Path | str | None, name: str, identity: dict[str, Any], *, force: bool
) -> AbstractContextManager[RunFolder]:
    """Claim the folder that was asked for, or a free one of that name below ``runs``."""
    if out is not None:
        return claim_folder(Path(out), identity, force=force)
    return claim_free_folder(RUNS_FOLDER, name, identity)


@contextmanager
def claim_folder(final: Path, identity: dict[str, Any], *, force: bool = False) -> Iterator[RunFolder]:
    """Lock and enter the partial folder of ``final``; it may hold the beginnings of the same run."""
    final = Path(os.path.abspath(final)) if final.name in ("", "..") else final
    if not final.name or final.name.endswith(_PARTIAL):
        raise RunFolderError(f"{final}: cannot be a run folder; choose an --out that does not end in {_PARTIAL}")
    if os.path.lexists(final) and not (force and (final / METRICS).exists()):
        what = "exists already" if (final / METRICS).exists() else "exists and is not a run folder"
        advice = ", or --force to replace it" if (final / METRICS).exists() else ""
        raise RunFolderError(f"{final}: {what}; choose another --out{advice}")
    folder = _enter(final, identity, force=force)
    if isinstance(folder, str):
        raise RunFolderError(folder)
    try:
        yield folder
    finally:
        folder.release()


@contextmanager
def claim_free_folder(parent: Path, name: str, identity: dict[str, Any]) -> Iterator[RunFolder]:
    """Claim ``parent/name``, or ``name-2``, ``name-3``, ... where that is taken by another run."""
    for number in itertools.count(1):
        final = parent / (name if number == 1 else f"{name}-{number}")
        folder = "" if os.path.lexists(final) else _enter(final, identity, force=False)
        if isinstance(folder, RunFolder):
            try:
                yield folder
            finally:
                folder.release()
            return


def load_metrics(folder: Path | str) -> dict[str, Any]:
    """Return the metrics of a finished run folder; refuse one that is not finished."""
    folder = Path(folder)
    if folder.absolute().name.endswith(_PARTIAL):
        raise RunFolderError(f"{folder}: an interrupted run; run the same command again to finish it")
    try:
        metrics = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    except OSError as problem:
        raise RunFolderError(
            f"{folder}: not a run folder ({METRICS}: {problem.strerror}); give one that airmix run made"
        ) from None
    except (ValueError, RecursionError):
        metrics = None
    if not isinstance(metrics, dict):
        raise RunFolderError(
            f"{folder / METRICS}: not the metrics of a run; the file was changed, run the scenario again"
        )
    return metrics


def _partial(final: Path) -> Path:
    return final.with_name(final.name + _PARTIAL)


def _enter(final: Path, identity: dict[str, Any], *, force: bool) -> RunFolder | str:
    """Return the claimed folder, or the line that says why it cannot be claimed."""
    work = _partial(final)
    new_parents = [parent for parent in work.parents if not parent.exists()]
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError:
        _remove_empty(new_parents)
        raise
    lock = take_lock(work / _LOCK)
    if lock is None:
        return f"{work}: another process is writing it; wait for it or choose another --out"
    folder = RunFolder(final, lock, new_parents)
    for half_written in work.glob(f"*{TEMPORARY_SUFFIX}"):
        half_written.unlink()
    known = work / _IDENTITY
    text = json.dumps(identity, sort_keys=True)
    if known.exists() and known.read_bytes() == text.encode("utf-8"):
        return folder
    begun = [entry for entry in work.iterdir() if entry.name not in (_LOCK, _IDENTITY)]
    if begun and not known.exists():
        (work / _LOCK).unlink()
        lock.close()
        return f"{work}: is in the way and was not made by airmix; move it or choose another --out"
    if begun and not force:
        lock.close()
        return f"{work}: holds an interrupted run of something else; delete it, choose another --out, or use --force"
    for entry in begun:
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    try:
        write_text(known, text)
    except OSError:
        folder.release()
        raise
    return folder


def take_lock(path: Path) -> IO[str] | None:
    """Lock the file at ``path``; None if another process holds it or has just taken the folder away."""
    try:
        lock = path.open("w")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    lock.close()
    return None


def _remove_empty(parents: list[Path]) -> None:
    """Remove folders that a claim made and that hold nothing, the innermost first."""
    with contextlib.suppress(OSError):
        for parent in parents:
            parent.rmdir()
