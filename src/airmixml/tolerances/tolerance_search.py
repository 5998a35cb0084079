"""A study of tolerances: search every impairment's ladder at once, round by round; what is finished is kept."""

import math
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from airmixml.engines import Engine
from airmixml.errors import AirMixError, ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio.privacy_target import check_privacy_target
from airmixml.scenario import AIR_PRESETS, Air, Scenario, keys_in_force
from airmixml.scenario.air import named_air
from airmixml.storage.run_folder import identity_of
from airmixml.storage.study import consecutive_seeds, study_folder, study_path
from airmixml.sweeps.batched_task import run_sweep
from airmixml.sweeps.batches import Outcome, cut_into_batches
from airmixml.sweeps.cells import RunCells
from airmixml.sweeps.grid_sweep import CELLS
from airmixml.tolerances.tolerance import ImpairmentLadder, LadderSearch, Tried, chosen_ladders
from airmixml.wording import one_line

METRICS: Final = {"classification": "accuracy.final", "regression": "scores.r2", "multi-label": "scores.labels_right"}
_BEST_FIRST: Final = ("lab", "line-of-sight", "campus")
HARDWARE: Final = tuple(
    dict.fromkeys(name for name in (*_BEST_FIRST, *AIR_PRESETS) if name in AIR_PRESETS and name != "ideal")
)
"""The classes of hardware whose numbers stand beside the tolerances."""


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """What a study found."""

    plain: dict[str, Any]  #: everything that was found, as ``tolerances.json`` has it
    out: Path  #: folder with everything
    seconds: float  #: how long it took


def find_tolerances(
    scenario: Scenario,
    *,
    drop: float = 1.0,
    seeds: int = 3,
    only: str | None = None,
    quick: bool = False,
    engine: str = "local",
    jobs: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    device: str = "cpu",
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> Tolerances:
    """Find how bad each impairment may get, alone, before the accuracy falls by ``drop`` points.

    Every size is run with the same seeds as the ideal air, and compared seed by seed.

    Args:
        scenario: settled; its air is the base, on which one impairment at a time is changed.
        drop: how many points accuracy may fall.
        seeds: how many, beginning with the scenario's.
        only: keys of the table ``[air]``, with commas between them (default: all).
        quick: try every second size alone.
        out: folder that keeps every finished run (default: ``runs/tolerances-NAME``); the same call resumes.
        engine, jobs, force, device, data_dir, progress: those of ``airmixml.sweep``.
    """
    started, chosen = time.perf_counter(), _felt(scenario, chosen_ladders(only), asked=only is not None)
    if not (0.0 < drop <= 100.0):
        raise ScenarioError(f"--drop = {drop:g}: must be a number of points above 0 and of at most 100")
    numbers = list(consecutive_seeds(scenario, seeds))
    check_privacy_target(scenario)
    label = "" if scenario.air.is_ideal else f"-{scenario.air.preset}"
    folder = study_path(out, f"tolerances-{scenario.name}{label}")
    identity = {**identity_of(scenario.with_seed(0)), "tolerances": True}
    where = {"engine": Engine.of(engine, jobs or None, default=0).name, "jobs": jobs, "data_dir": data_dir}
    trials = _Trials(scenario, numbers, folder / CELLS, device, where, progress)
    with study_folder(folder, identity, stem="tolerances", keeps=(CELLS,), force=force):
        trials.run([Air(), scenario.air], "ideal air")
        trials.ideal, base = trials.scores(Air()), trials.scores(scenario.air)
        searches = [LadderSearch(ladder, coarse=quick) for ladder in chosen]
        round_number = 0
        while asked := [(each, each.next_size) for each in searches if each.next_size is not None]:
            round_number += 1
            airs = [search.ladder.on(scenario.air, size) for search, size in asked]
            trials.run(airs, f"search {round_number}")
            for (search, size), air in zip(asked, airs, strict=True):
                search.told(size, tolerated=trials.tried(air, size).is_tolerated(drop))
    plain = {
        "name": scenario.name,
        "air": keys_in_force(scenario.air),
        "mode": "simulation",
        "metric": trials.metric,
        "drop": drop,
        "seeds": numbers,
        "ideal": {"mean": statistics.fmean(trials.ideal), "scores": list(trials.ideal)},
        "base": {"mean": statistics.fmean(base), "scores": list(base)},
        "tolerances": [_tolerance(search, trials) for search in searches],
        "scenario": scenario.to_json(),
        "runs": len(trials.outcomes),
        "kept": trials.kept,
    }
    return Tolerances(plain=plain, out=folder, seconds=time.perf_counter() - started)


def _felt(scenario: Scenario, chosen: Sequence[ImpairmentLadder], *, asked: bool) -> tuple[ImpairmentLadder, ...]:
    """Return the impairments that what is sent meets: digital links feel absent workers alone.

    Refused where there are none, or where the scenario goes with none of all impairments.
    """
    met, felt, refusals = scenario.met.air, list[ImpairmentLadder](), list[AirMixError]()
    for ladder in chosen:
        try:
            changed = replace(scenario, air=ladder.on(scenario.air, ladder.sizes[0]))
        except AirMixError as problem:  # one that cannot be is reported, with why
            refusals.append(problem)
            felt.append(ladder)
            continue
        if changed.met.air != met:
            felt.append(ladder)
    if not felt:
        keys = ", ".join(each.key for each in chosen)
        raise ScenarioError(
            f'--only {keys}: nothing of it changes what arrives over radio.link = "{scenario.radio.link}"; use '
            "--only absent: workers with a lost packet are absent too"
        )
    if not asked and len(refusals) == len(felt):
        raise refusals[0]
    return tuple(felt)


@dataclass
class _Trials:
    """Runs a scenario on airs, with every seed, and keeps what each gave in a folder."""

    scenario: Scenario
    seeds: Sequence[int]
    folder: Path
    device: str
    where: dict[str, Any]  # engine, jobs and data
    progress: Progress
    ideal: tuple[float, ...] = ()  # scores on the ideal air
    kept: int = 0  # runs that were there already
    outcomes: dict[Scenario, Outcome] = field(default_factory=dict)
    refused: dict[Air, str] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        return METRICS[self.scenario.workers.task]

    def run(self, airs: Iterable[Air], stage: str) -> None:
        """Run all airs that have not been run yet; seed after seed, so that a seed's data are encoded once."""
        wanted: list[Scenario] = []
        for air in dict.fromkeys(airs):
            try:
                on_air = replace(self.scenario, air=air)
            except AirMixError as problem:  # an air that cannot be, such as blocks without a symbol for data
                self.refused[air] = one_line(str(problem))
                continue
            wanted += [on_air.with_seed(seed) for seed in self.seeds]
        new = sorted((each for each in wanted if each not in self.outcomes), key=lambda each: each.seed)
        if not new:
            return
        alone = cut_into_batches(new, RunCells(), device=self.device, jobs=0)
        result = run_sweep(
            alone, self.folder, progress=lambda _, done, total: self.progress(stage, done, total), **self.where
        )
        self.kept += result.kept_batches
        self.outcomes |= {each: result.outcome("run", each) for each in new}

    def scores(self, air: Air) -> tuple[float, ...]:
        """Return the score with each seed, in points; refuse an air that could not be run."""
        if air in self.refused:
            raise ScenarioError(self.refused[air])
        scores: list[float] = []
        for seed in self.seeds:
            outcome = self.outcomes[replace(self.scenario, air=air, seed=seed)]
            if "error" in outcome:
                raise ScenarioError(outcome["error"])
            value = outcome.get(self.metric)
            if not isinstance(value, int | float):
                raise ScenarioError(f"{self.metric}: the run has none; give a scenario with a test set")
            scores.append(100.0 * float(value))
        return tuple(scores)

    def tried(self, air: Air, size: float) -> Tried:
        """Return what an air gave, beside what the ideal one did."""
        try:
            found = self.scores(air)
        except ScenarioError as problem:
            return Tried(size=size, scores=(), falls=(), error=str(problem))
        falls = tuple(best - score for best, score in zip(self.ideal, found, strict=True))
        return Tried(size=size, scores=found, falls=falls, test_error=self._test_error(found))

    def _test_error(self, scores: Sequence[float]) -> float:
        """Return the standard error of a mean accuracy p on n test samples, sqrt(p (1 - p) / n), in points."""
        samples = next(iter(self.outcomes.values())).get("dataset.test_samples")
        if self.metric != METRICS["classification"] or not isinstance(samples, int) or not samples:
            return 0.0
        share = statistics.fmean(scores) / 100.0
        return 100.0 * math.sqrt(share * (1.0 - share) / (samples * len(scores)))


def _tolerance(search: LadderSearch, trials: _Trials) -> dict[str, Any]:
    """Return everything about one impairment, as plain values."""
    ladder, base = search.ladder, trials.scenario.air
    tried = [trials.tried(ladder.on(base, size), size) for size in ladder.sizes if size in search.tried]
    errors = [each.error for each in tried]
    return {
        "key": f"air.{ladder.key}",
        "name": ladder.name,
        "unit": ladder.unit,
        "hardware": ladder.hardware,
        "tolerated": search.largest_tolerated,  # None where not even the mildest is
        "refused": search.smallest_refused,  # None where all are tolerated
        "why_not": errors[0] if all(errors) else None,  # why none of the sizes could be run
        "tried": [each.to_dict() for each in tried],
        "delivered": {name: _delivered(search, base, named_air(name), name) for name in HARDWARE},
    }


def _delivered(search: LadderSearch, base: Air, hardware: Air, name: str) -> dict[str, Any]:
    """Return what a class of hardware has of an impairment, None for nothing, and whether accuracy tolerates that.

    That is None where the size lies between those that are known, or where keys that belong to it are others there.
    """
    ladder, size = search.ladder, float(getattr(hardware, search.ladder.key) or 0.0)
    if getattr(hardware, ladder.key) == getattr(Air(), ladder.key):
        if name not in ladder.limits:
            return {"size": None, "tolerated": None}
        size = ladder.limits[name]
    searched, tolerated = ladder.on(base, ladder.sizes[0]), None
    if all(getattr(hardware, key) == getattr(searched, key) for key in ladder.along):
        if search.largest_tolerated is not None and ladder.is_milder(size, search.largest_tolerated):
            tolerated = True
        elif search.smallest_refused is not None and ladder.is_milder(search.smallest_refused, size):
            tolerated = False
    return {"size": size, "tolerated": tolerated}
