"""A study of tolerances: the sizes of each impairment that are tried, from mild to severe, and the search along them.

All ladders are searched at once, round by round; what is finished is kept.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from airmixml.engines import Engine
from airmixml.messages import AirMixError, ScenarioError, did_you_mean, one_line, shown_name
from airmixml.progress import Progress, silent
from airmixml.radio.privacy_target import check_privacy_target
from airmixml.scenario import AIR_PRESETS, Air, Scenario, keys_in_force
from airmixml.scenario.air import named_air
from airmixml.scenario.scenario import consecutive_seeds, identity_of
from airmixml.storage.folders import study_folder, study_path
from airmixml.sweeps.batches import Outcome, cut_into_batches
from airmixml.sweeps.cells import RunCells
from airmixml.sweeps.grid_sweep import CELLS, run_sweep

NOT_ALONE: Final = {
    "resync_seconds": "does nothing by itself: how often phases are put right, which the base air says (--set)",
}
"""Numeric keys that have no ladder, and why."""


@dataclass(frozen=True, kw_only=True)
class ImpairmentLadder:
    """One impairment and the sizes that are tried."""

    key: str  #: of the table ``[air]``
    name: str  #: what it is, in a few words
    unit: str  #: of its size
    sizes: Sequence[float]  #: from mild to severe
    hardware: str  #: what real devices have
    log: bool = True  #: whether equal steps are equal factors
    needs: dict[str, Any] = field(default_factory=dict)  #: other keys without which it does nothing, and their values
    along: Sequence[str] = ()  #: keys that belong to it: a class of hardware with others of its own is not judged
    limits: dict[str, float] = field(default_factory=dict)  #: what classes of hardware have whose air leaves it out

    @property
    def fewer_is_worse(self) -> bool:
        """Whether small sizes are the severe ones."""
        return self.sizes[0] > self.sizes[-1]

    def on(self, air: Air, size: float) -> Air:
        return replace(air, **{**self.needs, self.key: size})

    def is_milder(self, size: float, other: float) -> bool:
        """Return whether a size is milder than another, or as mild."""
        return size >= other if self.fewer_is_worse else size <= other


_TABLE: Final = files(__package__).joinpath("impairment_ladders.toml").read_text(encoding="utf-8")
IMPAIRMENT_LADDERS: Final = tuple(ImpairmentLadder(key=key, **each) for key, each in tomllib.loads(_TABLE).items())
"""Every impairment whose size is varied."""


def chosen_ladders(only: str | None) -> tuple[ImpairmentLadder, ...]:
    """Return the ladders that ``--only KEY,KEY`` names, in the order of the table; all without it."""
    if only is None:
        return IMPAIRMENT_LADDERS
    known = {each.key: each for each in IMPAIRMENT_LADDERS}
    asked = [name.strip().removeprefix("air.") for name in only.split(",")]
    for name in asked:
        if name in NOT_ALONE:
            raise ScenarioError(f"--only {name}: {NOT_ALONE[name]}; leave it out")
        if name not in known:
            raise ScenarioError(
                f"--only {shown_name(name)}: must be numeric keys of the table [air], such as "
                f"phase_error_radians,absent{did_you_mean(name, list(known))}"
            )
    return tuple(each for each in IMPAIRMENT_LADDERS if each.key in asked)


class LadderSearch:
    """Where the search along one ladder stands: try the most severe size, then halve what is left.

    The size before the first one is none at all, which is tolerated by definition. Every size that the answer names was
    tried: the search assumes nothing but that more is not better. ``coarse`` leaves out every second size, and keeps
    the most severe.
    """

    def __init__(self, ladder: ImpairmentLadder, *, coarse: bool = False) -> None:
        self.ladder = ladder
        self._rungs = ladder.sizes[::-2][::-1] if coarse else ladder.sizes
        self._tolerated, self._refused = -1, len(self._rungs)
        self.tried: list[float] = []

    @property
    def next_size(self) -> float | None:
        """What to try next; None when the answer is known."""
        if self._refused - self._tolerated == 1:
            return None
        return self._rungs[(self._tolerated + self._refused) // 2 if self.tried else -1]

    @property
    def largest_tolerated(self) -> float | None:
        """None where not even the mildest is."""
        return None if self._tolerated < 0 else self._rungs[self._tolerated]

    @property
    def smallest_refused(self) -> float | None:
        """None where all are tolerated."""
        return None if self._refused == len(self._rungs) else self._rungs[self._refused]

    def told(self, size: float, *, tolerated: bool) -> None:
        self.tried.append(size)
        place = self._rungs.index(size)
        self._tolerated, self._refused = (place, self._refused) if tolerated else (self._tolerated, place)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One size that was tried."""

    size: float  #: how bad the impairment was
    scores: tuple[float, ...]  #: with each seed, in points (accuracy in per cent); empty where it could not be run
    falls: tuple[float, ...]  #: by how many points each is below that of the ideal air with the same seed
    #: standard error of a mean score that is due to the number of test samples; 0 where it is not known
    test_error: float = 0.0
    error: str = ""  #: why it could not be run

    @property
    def score(self) -> float:
        """Mean over the seeds; NaN where it could not be run."""
        return statistics.fmean(self.scores) if self.scores else math.nan

    @property
    def fall(self) -> float:
        """Mean fall over the seeds; infinite where it could not be run."""
        return statistics.fmean(self.falls) if self.falls else math.inf

    @property
    def standard_error(self) -> float:
        """Of the mean fall: that of the seeds, and not less than that of so few test samples."""
        of_seeds = statistics.stdev(self.falls) / math.sqrt(len(self.falls)) if len(self.falls) > 1 else 0.0
        return max(of_seeds, self.test_error)

    def is_tolerated(self, drop: float) -> bool:
        """Return whether the fall is at most ``drop``, or not more than that by more than its standard error."""
        return self.fall - self.standard_error <= drop

    def to_dict(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "score": None if self.error else self.score,
            "fall": None if self.error else self.fall,
            "standard_error": self.standard_error,
            "scores": list(self.scores),
            "error": self.error or None,
        }


METRICS: Final = {"classification": "accuracy.final", "regression": "scores.r2", "multi-label": "scores.labels_right"}
_BEST_FIRST: Final = dict.fromkeys(("lab", "line-of-sight", "campus", *AIR_PRESETS))
HARDWARE: Final = tuple(name for name in _BEST_FIRST if name != "ideal")
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
    trials = _Trials(scenario, METRICS[scenario.workers.task], numbers, folder / CELLS, device, where, progress)
    with study_folder(folder, identity, stem="tolerances", keeps=(CELLS,), force=force):
        trials.run([Air(), scenario.air], "ideal air")
        trials.ideal, base = trials.scores(Air()), trials.scores(scenario.air)
        searches = [LadderSearch(ladder, coarse=quick) for ladder in chosen]
        for number in itertools.count(1):
            asked = [(each, each.next_size) for each in searches if each.next_size is not None]
            if not asked:
                break
            trials.run([search.ladder.on(scenario.air, size) for search, size in asked], f"search {number}")
            for search, size in asked:
                search.told(size, tolerated=trials.tried(search.ladder, size).is_tolerated(drop))
    plain = {
        "name": scenario.name,
        "air": keys_in_force(scenario.air),
        "mode": "simulation",
        "metric": trials.metric,
        "drop": drop,
        "quick": quick,
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
    metric: str  # that must not fall
    seeds: Sequence[int]
    folder: Path
    device: str
    where: dict[str, Any]  # engine, jobs and data
    progress: Progress
    ideal: tuple[float, ...] = ()  # scores on the ideal air
    kept: int = 0  # runs that were there already
    outcomes: dict[Scenario, Outcome] = field(default_factory=dict)
    refused: dict[Air, str] = field(default_factory=dict)

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

    def tried(self, ladder: ImpairmentLadder, size: float) -> Tried:
        """Return what the air with an impairment of that size gave, beside what the ideal one did."""
        try:
            found = self.scores(ladder.on(self.scenario.air, size))
        except ScenarioError as problem:
            return Tried(size=size, scores=(), falls=(), error=str(problem))
        falls = tuple(best - score for best, score in zip(self.ideal, found, strict=True))
        samples, share = next(iter(self.outcomes.values())).get("dataset.test_samples"), statistics.fmean(found) / 100.0
        error = 0.0
        if self.metric == METRICS["classification"] and isinstance(samples, int) and samples:
            error = 100.0 * math.sqrt(share * (1.0 - share) / (samples * len(found)))  # of an accuracy on n samples
        return Tried(size=size, scores=found, falls=falls, test_error=error)


def _tolerance(search: LadderSearch, trials: _Trials) -> dict[str, Any]:
    """Return everything about one impairment, as plain values."""
    ladder, base = search.ladder, trials.scenario.air
    tried = [trials.tried(ladder, size) for size in ladder.sizes if size in search.tried]
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
        "delivered": {name: _delivered(search, base, name) for name in HARDWARE},
    }


def _delivered(search: LadderSearch, base: Air, name: str) -> dict[str, Any]:
    """Return what a class of hardware has of an impairment, None for nothing, and whether accuracy tolerates that.

    That is None where the size lies between those that are known, or where keys that belong to it are others there.
    """
    ladder, hardware = search.ladder, named_air(name)
    without = getattr(hardware, ladder.key) == getattr(Air(), ladder.key)
    size = ladder.limits.get(name) if without else float(getattr(hardware, ladder.key) or 0.0)
    if size is None:
        return {"size": None, "tolerated": None}
    searched, tolerated = ladder.on(base, ladder.sizes[0]), None
    if all(getattr(hardware, key) == getattr(searched, key) for key in ladder.along):
        if search.largest_tolerated is not None and ladder.is_milder(size, search.largest_tolerated):
            tolerated = True
        elif search.smallest_refused is not None and ladder.is_milder(search.smallest_refused, size):
            tolerated = False
    return {"size": size, "tolerated": tolerated}
