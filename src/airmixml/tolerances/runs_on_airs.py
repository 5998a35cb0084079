"""Runs of one scenario on many airs, with every seed: kept in a folder, several at a time."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from airmixml.errors import AirMixError, ScenarioError
from airmixml.progress import Progress
from airmixml.scenario import Air, Scenario
from airmixml.sweeps.batched_task import run_sweep
from airmixml.sweeps.batches import cut_into_batches
from airmixml.sweeps.cells import CellOutcome, Measured
from airmixml.sweeps.command_cells import RunCells
from airmixml.tolerances.tolerance import Tried
from airmixml.wording import one_line

_METRICS: Final = {"classification": "accuracy.final", "regression": "scores.r2", "multi-label": "scores.labels_right"}


class RunsOnAirs:
    """Runs a settled scenario on airs and keeps what each gave.

    Args:
        scenario: its air is replaced.
        seeds: every air is run with each.
        folder: where finished runs are kept.
        where: engine, jobs, device and data_dir of ``find_tolerances``.
    """

    def __init__(self, scenario: Scenario, seeds: Sequence[int], folder: Path, where: dict[str, Any]) -> None:
        self.metric = _METRICS[scenario.workers.task]
        self.kept = 0
        self._scenario, self._seeds, self._folder = scenario, seeds, folder
        self._device, self._where = where.pop("device"), where
        self._outcomes: dict[Scenario, CellOutcome] = {}
        self._refused: dict[Air, str] = {}

    @property
    def runs(self) -> int:
        """How many runs there are by now."""
        return len(self._outcomes)

    def run(self, airs: Iterable[Air], progress: Progress, stage: str) -> None:
        """Run all airs that have not been run yet; seed after seed, so that a seed's data are encoded once."""
        wanted: list[Scenario] = []
        for air in dict.fromkeys(airs):
            try:
                on_air = replace(self._scenario, air=air)
            except AirMixError as problem:  # an air that cannot be, such as blocks without a symbol for data
                self._refused[air] = one_line(str(problem))
                continue
            wanted += [on_air.with_seed(seed) for seed in self._seeds]
        new = sorted((each for each in wanted if each not in self._outcomes), key=lambda each: each.seed)
        if not new:
            return
        alone = cut_into_batches(new, RunCells(), device=self._device, jobs=0)
        result = run_sweep(
            alone, self._folder, progress=lambda _stage, done, total: progress(stage, done, total), **self._where
        )
        self.kept += result.kept_batches
        self._outcomes |= {each: result.outcome("run", each) for each in new}

    def scores(self, air: Air) -> tuple[float, ...]:
        """Return the score with each seed, in points; refuse an air that could not be run."""
        found, error = self._found(air)
        if error:
            raise ScenarioError(error)
        return found

    def tried(self, air: Air, size: float, ideal: Sequence[float]) -> Tried:
        """Return what an air gave, beside what the ideal one did."""
        found, error = self._found(air)
        if error:
            return Tried(size=size, scores=(), falls=(), error=error)
        falls = tuple(best - score for best, score in zip(ideal, found, strict=True))
        return Tried(size=size, scores=found, falls=falls, test_error=self._test_error(found))

    def _test_error(self, scores: Sequence[float]) -> float:
        """Return the standard error of a mean accuracy p on n test samples, sqrt(p (1 - p) / n), in points."""
        outcome = next(iter(self._outcomes.values()))
        samples = outcome.metrics.get("dataset.test_samples") if isinstance(outcome, Measured) else None
        if self.metric != _METRICS["classification"] or not isinstance(samples, int) or not samples:
            return 0.0
        share = statistics.fmean(scores) / 100.0
        return 100.0 * math.sqrt(share * (1.0 - share) / (samples * len(scores)))

    def _found(self, air: Air) -> tuple[tuple[float, ...], str]:
        """Return the scores, or why there are none."""
        if air in self._refused:
            return (), self._refused[air]
        scores: list[float] = []
        for seed in self._seeds:
            outcome = self._outcomes[replace(self._scenario, air=air, seed=seed)]
            if not isinstance(outcome, Measured):
                return (), outcome.error
            value = outcome.metrics.get(self.metric)
            if not isinstance(value, int | float):
                return (), f"{self.metric}: the run has none; give a scenario with a test set"
            scores.append(100.0 * float(value))
        return tuple(scores), ""
