"""A study: what is kept is not run again, a budget is reserved before the first cell."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

import pytest

from airmixml import RunFolderError, Scenario, ScenarioError
from airmixml.scenario.scenario import consecutive_seeds
from airmixml.storage.folders import Study, study_folder, study_path


class Squares:
    """Squares numbers and keeps the results in memory; odd ones break when asked to."""

    def __init__(self, kept: dict[int, int] | None = None, *, break_odd: bool = False) -> None:
        self.kept, self.break_odd = dict(kept or {}), break_odd
        self.log: list[str] = []

    def load(self, cell: int) -> int | None:
        return self.kept.get(cell)

    def save(self, cell: int, outcome: int) -> None:
        self.log.append(f"save {cell}")
        if outcome >= 0:
            self.kept[cell] = outcome

    def run(self, unfinished: Iterable[int], finished: Callable[[int, int], None]) -> None:
        for cell in unfinished:
            self.log.append(f"run {cell}")
            finished(cell, -1 if self.break_odd and cell % 2 else cell**2)


class Log:
    """A budget that writes into the log of the task what it is asked for."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def reserve(self, finished: Container[Any]) -> None:
        self.log.append(f"reserve all but {[cell for cell in range(4) if cell in finished]}")


def test_what_is_kept_is_not_run_again_and_outcomes_have_the_order_of_the_cells() -> None:
    task = Squares({1: 100})
    found, kept = Study(cells=[3, 1, 2, 3], task=task).run()
    assert (list(found.items()), kept) == ([(3, 9), (1, 100), (2, 4)], 1)
    assert task.log == ["run 3", "save 3", "run 2", "save 2"]


def test_a_budget_is_reserved_before_the_first_cell() -> None:
    task = Squares({2: 4}, break_odd=True)
    found, kept = Study(cells=range(4), task=task, reserve=Log(task.log).reserve).run()
    assert (found, kept) == ({0: 0, 1: -1, 2: 4, 3: -1}, 1)
    runs = ["run 0", "save 0", "run 1", "save 1", "run 3", "save 3"]
    assert task.log == ["reserve all but [2]", *runs]
    assert task.kept == {2: 4, 0: 0}  # what broke is tried again


def test_any_number_of_cells_begins_at_once() -> None:
    class Stop(Exception):
        pass

    class First(Squares):
        def run(self, unfinished: Iterable[int], finished: Callable[[int, int], None]) -> None:
            assert list(itertools.islice(unfinished, 2)) == [0, 2]
            raise Stop

    with pytest.raises(Stop):
        Study(cells=range(10**12), task=First({1: 1})).run()


def test_seeds_follow_the_scenarios_own() -> None:
    scenario = Scenario.preset("private-iris").with_seed(7)
    assert list(consecutive_seeds(scenario, 3)) == [7, 8, 9]
    for seeds in (0, -1, 2**200):
        with pytest.raises(ScenarioError):
            consecutive_seeds(scenario, seeds)


def test_a_folder_belongs_to_one_identity_at_a_time(tmp_path: Path) -> None:
    assert study_path(None, "sweep-x") == Path("runs") / "sweep-x"
    with pytest.raises(RunFolderError, match=r"choose an --out that does not end in \.partial"):
        study_path(tmp_path / "a.partial", "")
    options: dict[str, Any] = {"stem": "sweep", "keeps": ("cells",)}
    for name in ("one", "two"):
        identity = {"scenario": name}
        if name == "two":
            refused = study_folder(tmp_path / "a", identity, force=False, **options)
            with pytest.raises(RunFolderError, match="holds a study with other settings"), refused:
                pass
        with study_folder(tmp_path / "a", identity, force=name == "two", **options):
            assert not (tmp_path / "a" / "cells").exists()
            (tmp_path / "a" / "cells").mkdir()
            (tmp_path / "a" / "mine.txt").write_text("mine")
    assert (tmp_path / "a" / "mine.txt").exists()


def test_more_seeds_than_ever_finish_are_refused() -> None:
    with pytest.raises(ScenarioError, match="--seeds = 100001: must be at least 1 and at most 100,000"):
        consecutive_seeds(Scenario(), 100_001)
