"""Folders that one process at a time fills: run folders, which are either whole or not there, and those of studies.

A run is made in ``NAME.partial``, which it locks, and renamed to ``NAME`` when everything is in it. A killed run leaves
the partial folder behind; the same run recognises it by its identity and resumes from its checkpoint. A protected run
resumes nothing: it begins again, and nothing in the folder, its identity included, tells of its data. What the killed
one may have sent counts: each notes its attempt before it draws anything.

A study has many cells, each run once and kept as soon as it is finished. ``Study`` is the one place that resumes,
counts what workers spend and keeps what is finished.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from filelock import BaseFileLock

from airmixml.files import (
    LOCK,
    drop_lock,
    is_temporary,
    read_regular,
    remove_temporaries,
    sync_folder,
    take_lock,
    write_text,
    writing_to,
)
from airmixml.messages import RunFolderError
from airmixml.scenario.scenario import PROTECTION, Scenario

RUNS_FOLDER: Final = Path("runs")
METRICS: Final = "metrics.json"
SCENARIO: Final = "scenario.toml"
PARTIAL: Final = ".partial"
REPORT: Final = "report.html"
_IDENTITY: Final = "identity.json"
_ATTEMPTS: Final = "attempts.json"
_FINISHED: Final = "finished.json"
# What commands write into run folders; all else in one is the user's own.
_OURS: Final = re.compile(
    r"(metrics|noise|attempts|finished)\.json|scenario\.toml|learning_curve\.csv|figures|parts|seed-\d+|"
    r"(model|ledger|scores|trials|checkpoint)\.npz|(attack|audit|plan)\.(md|csv|png|svg)|report\.html|identity\.json|\.lock"
)


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """A folder being filled."""

    final: Path  # the name that it will have
    work: Path  # the name that it has now
    _lock: BaseFileLock
    _asked: str = ""  # what a command that makes it again is recognised by; empty where every one computes

    @property
    def attempts(self) -> list[Any]:
        """What each release that was begun in this folder spends, killed ones included."""
        path = self.work / _ATTEMPTS
        if not os.path.lexists(path):
            return []
        try:
            return list(json.loads(read_regular(path))["attempts"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
            raise RunFolderError(
                f"{path}: counts releases that were begun and cannot be read; count them as spent: to send once more, "
                "which spends again, move the folder away and give the same command again"
            ) from problem

    def note_attempt(self, spends: dict[str, Any]) -> None:
        """Note, on the disk, that a release is begun, and what it spends."""
        write_text(self.work / _ATTEMPTS, json.dumps({"attempts": [*self.attempts, spends]}, indent=1) + "\n")
        for folder in (self.work, self.work.parent):
            sync_folder(folder)

    def publish(
        self, *, replace: bool = False, leave_out: tuple[str, ...] = (), finish: "Finish | None" = None
    ) -> Path:
        """Rename the finished folder to its final name, without the files that served the making alone.

        With ``replace`` it takes the place of an older run folder of that name. ``finish`` adds the last files before:
        a process that is killed leaves no folder of that name without them.
        """
        if finish is not None:
            finish(self)
        if self._asked:
            write_text(self.work / _FINISHED, self._asked)
        if os.name == "nt":  # no folder with an open file in it can be renamed there
            self._lock.release()
        old = None
        if replace and self.final.exists():
            # Whatever kills the process between here and the last line, ``_recover`` puts right.
            old = Path(tempfile.mkdtemp(prefix=f".{self.final.name}.replaced-", dir=self.final.parent))
            self.final.rename(old / self.final.name)
        self.work.rename(self.final)
        for leftover in (_IDENTITY, LOCK, _ATTEMPTS, *leave_out):
            (self.final / leftover).unlink(missing_ok=True)
        if old is not None:
            if not (old / self.final.name).is_symlink():  # a run no more, however far the removing gets
                (old / self.final.name / METRICS).unlink(missing_ok=True)
            shutil.rmtree(old, ignore_errors=True)
        self._lock.release()
        return self.final


def is_protected(work: Path) -> bool:
    """Return whether a folder that is not finished is that of a protected run."""
    return _plain(work / _IDENTITY).get("mode") == PROTECTION


def unfinished(folder: Path) -> RunFolderError:
    """Return the error for the folder of a run that did not finish, with what its command does when it is repeated."""
    again = "run the same command again to finish it"
    if is_protected(folder):
        again = "run the same command again to begin it anew, which spends again what it may have sent"
    return RunFolderError(f"{folder}: an interrupted run; {again}")


def write_result(folder: Path, scenario: Scenario, plain: dict[str, Any]) -> None:
    """Write what every command leaves that ran a scenario: the scenario, and what came out."""
    write_text(folder / SCENARIO, scenario.to_toml())
    write_text(folder / METRICS, json.dumps(plain, indent=2, allow_nan=False) + "\n")


Finish = Callable[[RunFolder], None]
"""Adds the last files to a folder, such as its report, before it gets its name."""


class FinishedBefore(RunFolderError):
    """The same was asked for and finished before: ``folder`` holds it, and ``metrics`` is what came out."""

    def __init__(self, folder: Path, metrics: dict[str, Any]) -> None:
        super().__init__(f"{folder}: is finished already; choose another --out, or --force to replace it")
        self.folder, self.metrics = folder, metrics

    def hidden(self, _how_to_see: str) -> Self:
        """Return the same: nothing in it is taken from rows."""
        return type(self)(self.folder, self.metrics)


@contextmanager
def claim(
    out: Path | str | None,
    name: str,
    identity: dict[str, Any],
    *,
    force: bool,
    again: bool = True,
    ledger: Path | str | None = None,
) -> Iterator[RunFolder]:
    """Claim the folder that was asked for, or the first of NAME, NAME-2, NAME-3, ... below ``runs`` that is free.

    Unless it is to be made ``again``, a finished folder of the same identity, counted in the same ledger, raises
    ``FinishedBefore``; of a protected run the data may have changed since, which no file may tell.
    """
    counted = "" if ledger is None else os.path.abspath(ledger)
    asked = "" if again else json.dumps({**identity, "ledger": counted}, sort_keys=True, allow_nan=False)

    def places() -> Iterator[Path]:
        if out is not None:
            yield Path(out)
            return
        yield RUNS_FOLDER / name
        yield from (RUNS_FOLDER / f"{name}-{number}" for number in itertools.count(2))

    if asked and not force:
        for folder in itertools.takewhile(os.path.lexists, places()):
            with contextlib.suppress(OSError):  # no such file, or none that can be read
                if read_regular(folder / _FINISHED) == asked.encode("utf-8") and (metrics := _plain(folder / METRICS)):
                    raise FinishedBefore(folder, metrics)
    with ExitStack() as stack:
        for place in places():
            try:
                claimed = stack.enter_context(claim_folder(place, identity, force=force and out is not None))
                break
            except RunFolderError:
                if out is not None:
                    raise
        yield replace(claimed, _asked=asked)


@contextmanager
def claim_folder(final: Path, identity: dict[str, Any], *, force: bool = False) -> Iterator[RunFolder]:
    """Lock and enter the partial folder of ``final``; it may hold the beginnings of the same run."""
    final = Path(os.path.abspath(final)) if final.name in ("", "..") else final
    if not final.name or final.name.endswith(PARTIAL):
        other = f"an --out that does not end in {PARTIAL}" if final.name else "another --out"
        raise RunFolderError(f"{final}: cannot be a run folder; choose {other}")
    work = final.with_name(final.name + PARTIAL)
    _recover(final, work)
    check_free(final, force=force)
    with hold_folder(work, identity, holds="an interrupted run", force=force) as lock:
        yield RunFolder(final=final, work=work, _lock=lock)


def check_free(final: Path, *, force: bool) -> None:
    """Refuse a name that is taken; with ``force``, unless by a run folder that holds nothing but what airmix writes."""
    is_run = (final / METRICS).is_file() and (final / SCENARIO).is_file()
    if os.path.lexists(final) and not (force and is_run):
        what = "exists already" if is_run else "exists and is not a run folder"
        advice = ", or --force to replace it" if is_run else ""
        raise RunFolderError(f"{final}: {what}; choose another --out{advice}")
    foreign = sorted(entry.name for entry in final.iterdir() if not _OURS.fullmatch(entry.name)) if is_run else []
    if foreign:
        raise RunFolderError(f"{final}: holds {foreign[0]}, which is not airmix's; move it or choose another --out")


@contextmanager
def hold_folder(
    path: Path, identity: dict[str, Any], *, holds: str, force: bool, own: Iterable[str] | None = None
) -> Iterator[BaseFileLock]:
    """Lock a folder, made where it is not there, and enter it; where nothing is begun in it, leave no trace.

    Work of another identity in it (``holds``, in words) is refused, or with ``force`` removed: the names in ``own``, or
    with None everything in the folder.
    """
    _refuse_foreign(path)
    found_empty = path.exists() and not (path / _IDENTITY).exists()
    new_parents = [parent for parent in path.parents if not parent.exists()]
    lock = None
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = take_lock(path)
        _refuse_foreign(path)
        _take_over(path, identity, holds=holds, force=force, own=own)
        yield lock
    finally:
        if lock is not None and lock.is_locked:  # else it was published
            with contextlib.suppress(OSError):
                if not _begun(path):
                    (path / _IDENTITY).unlink(missing_ok=True)
                    remove_temporaries(path)
            drop_lock(lock)
        for folder in () if found_empty else (path, *new_parents):
            with contextlib.suppress(OSError):  # it is not empty, or is gone already
                folder.rmdir()


def _take_over(path: Path, identity: dict[str, Any], *, holds: str, force: bool, own: Iterable[str] | None) -> None:
    """Keep what the same work left in a locked folder; of other work, remove it or refuse to."""
    known, text = path / _IDENTITY, json.dumps(identity, sort_keys=True, allow_nan=False)
    same = known.is_file() and read_regular(known) == text.encode("utf-8")
    if not same or identity.get("mode") == PROTECTION:  # such a run resumes nothing
        begun = _begun(path)
        if begun and not same and not force:
            raise RunFolderError(
                f"{path}: holds {holds} with other settings; choose another --out, or --force to replace it"
            )
        for entry in begun:
            counts = same and entry.name == _ATTEMPTS
            ours = force or _OURS.fullmatch(entry.name.removesuffix(PARTIAL))
            if not counts and (own is None or entry.name in own) and ours:
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        write_text(known, text)
    remove_temporaries(path)


def _refuse_foreign(path: Path) -> None:
    """Refuse a folder that airmix did not make, before anything in it is touched."""
    if os.path.lexists(path) and not path.is_dir():
        raise RunFolderError(f"{path}: is not a folder; move it or choose another --out")
    if not path.is_dir() or "scenario" in _plain(path / _IDENTITY):
        return
    lock = path / LOCK
    foreign_lock = lock.is_file() and not lock.is_symlink() and lock.stat().st_size > 0  # ours are empty
    if foreign_lock or _begun(path) or (path / _IDENTITY).exists():
        raise RunFolderError(f"{path}: exists and was not made by airmix; move it or choose another --out")


def _begun(path: Path) -> list[Path]:
    return [entry for entry in path.iterdir() if entry.name not in (LOCK, _IDENTITY) and not is_temporary(entry)]


def _recover(final: Path, work: Path) -> None:
    """Undo or finish the replacing of a run folder that was killed half-way."""
    name = re.compile(rf"\.{re.escape(final.name)}\.replaced-[a-z0-9_]{{8}}", re.DOTALL)
    with contextlib.suppress(OSError, RunFolderError), ExitStack() as stack:
        left = [entry for entry in final.parent.iterdir() if name.fullmatch(entry.name) and entry.is_dir()]
        if left and work.is_dir():  # the process that replaces may still live: then it has the lock
            _refuse_foreign(work)
            stack.callback(drop_lock, take_lock(work))
        for folder in left:
            if {entry.name for entry in folder.iterdir()} <= {final.name}:
                if not os.path.lexists(final) and (folder / final.name / METRICS).exists():
                    (folder / final.name).rename(final)
                shutil.rmtree(folder, ignore_errors=True)


def _plain(path: Path) -> dict[str, Any]:
    """Return what a JSON file holds; nothing where it is none of ours."""
    try:
        plain = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return plain if isinstance(plain, dict) else {}


Cell = TypeVar("Cell")
Outcome = TypeVar("Outcome")
_SUFFIXES: Final = (".md", ".csv", ".json", ".png", ".svg")


class Task(Protocol[Cell, Outcome]):
    """What is done with each cell, and how what it gave is kept."""

    def load(self, cell: Cell) -> Outcome | None:
        """Return what an earlier process kept; None where there is nothing, or something damaged."""

    def save(self, cell: Cell, outcome: Outcome) -> None:
        """Keep what a cell gave, where it need not be run again."""

    def run(self, unfinished: Iterable[Cell], finished: Callable[[Cell, Outcome], None]) -> None:
        """Run these cells, in any order; ``finished`` gets each at once. One that fails stops no other."""


@dataclass(frozen=True, kw_only=True)
class Study(Generic[Cell, Outcome]):
    """Cells, and what is done with each."""

    cells: Sequence[Cell]  # what is run; equal ones once
    task: Task[Cell, Outcome]  # runs and keeps them
    # Reserves what all cells spend that are not finished, together or none of them, where a ledger counts it.
    reserve: Callable[[Container[Cell]], None] | None = None

    def run(self) -> tuple[dict[Cell, Outcome], int]:
        """Run the cells that are not kept yet; return all outcomes, in the order of the cells, and how many were kept.

        Cells are looked at when it is their turn, so that any number of them begins at once; where a ledger counts
        them, all are looked at before the first is run.
        """
        found: dict[Cell, Outcome] = {}
        already = 0

        def not_kept() -> Iterator[Cell]:
            nonlocal already
            seen = set()
            for cell in self.cells:
                if cell not in seen:
                    seen.add(cell)
                    if (kept := self.task.load(cell)) is None:
                        yield cell
                    else:
                        found[cell], already = kept, already + 1

        def finished(cell: Cell, outcome: Outcome) -> None:
            self.task.save(cell, outcome)
            found[cell] = outcome

        unfinished: Iterable[Cell] = not_kept()
        if self.reserve is not None:
            unfinished = list(unfinished)
            self.reserve(found)
        self.task.run(unfinished, finished)
        return {cell: found[cell] for cell in self.cells if cell in found}, already


def study_path(out: Path | str | None, name: str) -> Path:
    """Return the folder that a study was asked to use, or one of that name below ``runs``."""
    folder = RUNS_FOLDER / name if out is None else Path(out)
    if folder.name.endswith(PARTIAL):
        raise RunFolderError(f"{folder}: belongs to an interrupted run; choose an --out that does not end in {PARTIAL}")
    return folder


@contextmanager
def study_folder(
    folder: Path, identity: dict[str, Any], *, stem: str, keeps: Iterable[str], force: bool
) -> Iterator[None]:
    """Hold the folder of a study, which grows with every command of the same identity.

    A study of another identity in it is refused, or with ``force`` removed: its files, called ``stem``, and the folders
    in which it ``keeps`` what is finished.
    """
    own = (*keeps, REPORT, *(f"{stem}{suffix}" for suffix in _SUFFIXES))
    with writing_to(folder), hold_folder(folder, identity, holds="a study", force=force, own=own):
        yield
