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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from airmixml.errors import RunFolderError

__all__ = ["FileCheckpoint", "RunFolder", "claim_folder", "claim_free_folder", "load_metrics", "write_file"]

_IDENTITY = "identity.json"
_LOCK = ".lock"
_CHECKPOINT = "checkpoint.pt"
_PARTIAL = ".partial"
METRICS = "metrics.json"


class RunFolder:
    """A folder being filled; ``publish`` gives it its final name."""

    def __init__(self, final: Path, lock: IO[str]) -> None:
        self.final = final
        self.work = _partial(final)
        self._lock = lock

    def publish(self, *, replace: bool = False) -> Path:
        """Rename the finished folder to its final name; ``replace`` puts it in the place of an older run folder."""
        if replace and self.final.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{self.final.name}.replaced-", dir=self.final.parent))
            self.final.rename(old / self.final.name)
            self.work.rename(self.final)
            shutil.rmtree(old, ignore_errors=True)
        else:
            self.work.rename(self.final)
        for leftover in (_IDENTITY, _LOCK, _CHECKPOINT):
            (self.final / leftover).unlink(missing_ok=True)
        return self.final

    def release(self) -> None:
        """Unlock; where nothing was begun, leave no trace."""
        with contextlib.suppress(OSError):
            if {entry.name for entry in self.work.iterdir()} <= {_IDENTITY, _LOCK}:
                shutil.rmtree(self.work)
        self._lock.close()


class FileCheckpoint:
    """Keeps the state of a training in the folder being filled, at most once in a few seconds.

    ``made_with`` says on what it was made (device, versions); a state made on something else is not gone on from, since
    the run would then end elsewhere than an uninterrupted one.
    """

    def __init__(self, folder: Path, *, made_with: str = "", every_seconds: float = 5.0) -> None:
        self._path = folder / _CHECKPOINT
        self._made_with = made_with
        self._every_seconds = every_seconds
        self._last_save = time.monotonic()
        self.resumed_epoch = 0

    def load(self) -> dict[str, Any] | None:
        """Return the last state, or None if there is none that can be read."""
        import torch

        if not self._path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(self._path, map_location="cpu", weights_only=True)
            if state["made_with"] != self._made_with:
                return None
            self.resumed_epoch = int(state["epoch"])
        except Exception:  # a damaged checkpoint, in whatever way, only costs the epochs it held
            return None
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Keep the state, unless the last one is only seconds old."""
        import torch

        if time.monotonic() - self._last_save < self._every_seconds:
            return
        temporary = self._path.with_suffix(".tmp")
        torch.save({**state, "made_with": self._made_with}, temporary)
        temporary.replace(self._path)
        self._last_save = time.monotonic()


def write_file(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@contextmanager
def claim_folder(final: Path, identity: dict[str, Any], *, force: bool = False) -> Iterator[RunFolder]:
    """Lock and enter the partial folder of ``final``; it may hold the beginnings of the same run."""
    final = Path(os.path.abspath(final)) if final.name in ("", "..") else final
    if not final.name or final.name.endswith(_PARTIAL):
        raise RunFolderError(f"{final}: cannot be a run folder; choose an --out that does not end in {_PARTIAL}")
    if final.exists() and not (force and (final / METRICS).exists()):
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
        folder = "" if final.exists() else _enter(final, identity, force=False)
        if isinstance(folder, RunFolder):
            try:
                yield folder
            finally:
                folder.release()
            return


def load_metrics(folder: Path) -> dict[str, Any]:
    """Return the metrics of a finished run folder; refuse one that is not finished."""
    if folder.name.endswith(_PARTIAL):
        raise RunFolderError(f"{folder}: an interrupted run; run the same command again to finish it")
    try:
        metrics: dict[str, Any] = json.loads((folder / METRICS).read_text(encoding="utf-8"))
    except OSError as problem:
        raise RunFolderError(
            f"{folder}: not a run folder ({METRICS}: {problem.strerror}); give one that airmix run made"
        ) from None
    except ValueError:
        raise RunFolderError(
            f"{folder / METRICS}: not valid JSON; the file was changed, run the scenario again"
        ) from None
    return metrics


def _partial(final: Path) -> Path:
    return final.with_name(final.name + _PARTIAL)


def _enter(final: Path, identity: dict[str, Any], *, force: bool) -> RunFolder | str:
    """Return the claimed folder, or the line that says why it cannot be claimed."""
    work = _partial(final)
    work.mkdir(parents=True, exist_ok=True)
    lock = _take_lock(work / _LOCK)
    if lock is None:
        return f"{work}: another process is writing it; wait for it or choose another --out"
    known = work / _IDENTITY
    text = json.dumps(identity, sort_keys=True)
    if known.exists() and known.read_text(encoding="utf-8") == text:
        return RunFolder(final, lock)
    begun = [entry for entry in work.iterdir() if entry.name != _LOCK]
    if begun and not force:
        lock.close()
        return f"{work}: holds an interrupted run of something else; delete it, choose another --out, or use --force"
    for entry in begun:
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    write_file(known, text)
    return RunFolder(final, lock)


def _take_lock(path: Path) -> IO[str] | None:
    """Lock the file at ``path``; None if another process holds it or has just taken the folder away."""
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    lock.close()
    return None
