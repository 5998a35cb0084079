"""A study: many cells, each run once and kept as soon as it is finished.

``Study`` is the one place that resumes, counts what workers spend and keeps what is finished. What is done with a cell
is a ``Task``: it also says how an outcome is kept, and on which engine cells are run.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from airmixml.errors import RunFolderError, ScenarioError
from airmixml.files import writing_to
from airmixml.scenario import Scenario
from airmixml.storage.run_folder import PARTIAL, REPORT, RUNS_FOLDER, hold_folder

Cell = TypeVar("Cell")
Outcome = TypeVar("Outcome")
_MOST_SEEDS: Final = 100_000
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


def consecutive_seeds(scenario: Scenario, seeds: int) -> range:
    """Return so many seeds, beginning with the scenario's; refuse none, too many, and a last one that is too large."""
    if not 1 <= seeds <= _MOST_SEEDS:
        raise ScenarioError(f"--seeds = {seeds}: must be at least 1 and at most {_MOST_SEEDS:,}")
    scenario.with_seed(scenario.seed + seeds - 1)
    return range(scenario.seed, scenario.seed + seeds)


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
