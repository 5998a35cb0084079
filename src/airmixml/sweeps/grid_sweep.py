"""Batches on any engine, and a sweep over a grid: every combination with every seed, in one table.

Each part is kept as soon as it is finished, and one that fails costs no other. A sweep is a study, so it simulates: its
noise follows from the seeds, and no cell protects anybody.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.engines import Engine
from airmixml.engines.processes import Lost, Tell
from airmixml.files import ResultStore, locked, remove_temporaries
from airmixml.messages import AirMixError, ScenarioError, did_you_mean, one_line, shown_name
from airmixml.progress import Progress, silent
from airmixml.registry import naming_objects
from airmixml.scenario import Scenario, Workers
from airmixml.scenario.grid import Grid, Point, scenario_at
from airmixml.scenario.scenario import consecutive_seeds, identity_of
from airmixml.storage.folders import Study, study_folder, study_path
from airmixml.sweeps.batches import (
    Batch,
    Kind,
    Outcome,
    Part,
    Place,
    cut_into_batches,
    may_be_mended,
    on_gpu,
    silent_share,
    useful_jobs,
)
from airmixml.sweeps.cells import kind_of
from airmixml.sweeps.sweep_page import Swept, SweptRow, write_sweep
from airmixml.workers import settle

if TYPE_CHECKING:
    from airmixml.audit import AuditSettings

_SHARES: Final = 1000
_ROUNDING: Final = 1e-6
_MOST_NAMED: Final = 3


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What each scenario of a part gave; ``broke``: nothing, for a reason that may not be there another time."""

    part: Part
    outcomes: list[Outcome]
    broke: bool = False

    @classmethod
    def failed(cls, part: Part, why: str, *, broke: bool = True) -> Finished:
        """Return what becomes of a part of which nothing came."""
        return cls(part=part, outcomes=[{"error": one_line(why)} for _ in part.scenarios], broke=broke)


def _attempt(place: Place, batch: Batch, tell: Tell) -> list[Finished]:
    """Run one batch; whatever goes wrong becomes the outcome of its scenarios, and others are run by themselves."""
    done: dict[Part, Finished] = {}
    try:
        with naming_objects():
            for part, outcomes in batch[0].kind.run(batch, replace(place, tell=tell)):
                done[part] = Finished(part=part, outcomes=outcomes)
                tell(done[part])
    except Exception as problem:  # whatever it is, the other batches must not be lost
        name = "" if isinstance(problem, AirMixError) else f"{type(problem).__name__}: "
        for part in (each for each in batch if each not in done):
            if len(batch) > 1:
                (done[part],) = _attempt(place, (part,), silent_share)
            else:
                broke = part.kind.stacked or may_be_mended(problem)
                done[part] = Finished.failed(part, f"{name}{problem}", broke=broke)
            tell(done[part])
    return list(done.values())


@dataclass(frozen=True, kw_only=True)
class BatchedTask:
    """Runs the parts of batches on an engine, and keeps each in a file of the place, named by its digest."""

    batches: Sequence[Batch]
    place: Place
    folder: Path
    engine: str = "local"
    jobs: int = 1
    progress: Progress = silent

    def load(self, part: Part) -> Finished | None:
        outcomes = ResultStore(self.folder).load(f"{part.digest}.json", lambda values, _: list(values["outcomes"]))
        if outcomes is None:
            return None
        self._forget_beginnings(part)
        return Finished(part=part, outcomes=outcomes)

    def save(self, part: Part, finished: Finished) -> None:
        """Keep the outcomes of a finished part; of one that broke nothing."""
        if not finished.broke:
            about = {"kind": part.kind.name, "seed": part.seed, "device": part.device}
            ResultStore(self.folder).save(f"{part.digest}.json", {**about, "outcomes": finished.outcomes})
            self._forget_beginnings(part)

    def _forget_beginnings(self, part: Part) -> None:
        shutil.rmtree(self.folder / f"{part.digest}.partial", ignore_errors=True)

    def run(self, unfinished: Iterable[Part], finished: Callable[[Part, Finished], None]) -> None:
        """Run what is left of each batch; parts that a dying process left undone are run again, each by itself."""
        left, on_ray = dict.fromkeys(unfinished), self.engine == "ray"
        if not on_ray:  # what the nodes of a cluster have is theirs to say
            for kind in dict.fromkeys(part.kind for part in left):
                kind.prepare([part for part in left if part.kind == kind], self.place.data_dir, self.progress)
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            remove_temporaries(self.folder)
            batches = [some for batch in self.batches if (some := tuple(part for part in batch if part in left))]
            shares = dict.fromkeys(batches, 0.0)  # that are done of each, where it says so
            total = len({part for batch in self.batches for part in batch})
            already = total - len(left)

            def report() -> None:
                done = sum(
                    max(share * len(batch), sum(part not in left for part in batch)) for batch, share in shares.items()
                )
                share = (already + done) / total if total else 0.0
                self.progress("sweep", int(_SHARES * share + _ROUNDING), _SHARES)

            def told(batch: Batch, message: float | Finished) -> None:
                if not isinstance(message, Finished):
                    if batch in shares:
                        shares[batch] = message
                elif message.part not in left:  # it was told before
                    return
                else:
                    finished(message.part, message)
                    del left[message.part]  # not before: what cannot be written is told again at the end of its batch
                report()

            def left_behind(batch: Batch) -> list[Batch]:
                return [(part,) for part in batch if part in left] if len(batch) > 1 else []

            report()
            jobs = self.jobs if on_ray else max(1, min(self.jobs or useful_jobs(self.batches), len(batches)))
            place = self.place if on_ray else replace(self.place, folder=self.folder)
            for batch, result in Engine(name="ray" if on_ray else "local", jobs=jobs).each(
                partial(partial, _attempt), place, batches, told=told, left_behind=left_behind, on_gpu=on_gpu
            ):
                lost = isinstance(result, Lost)
                for message in [Finished.failed(part, result.why) for part in batch] if lost else result:
                    told(batch, message)


@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """Outcomes by kind of work and scenario, and how many parts were found finished."""

    outcomes: dict[tuple[str, Scenario], Outcome]
    kept_batches: int

    def outcome(self, kind: str, scenario: Scenario) -> Outcome:
        """Return what the scenario gave, an error included."""
        return self.outcomes[kind, scenario]


def run_sweep(
    batches: Sequence[Batch],
    folder: Path,
    *,
    jobs: int = 1,
    engine: str = "local",
    data_dir: Path | None = None,
    checkpoint_seconds: float = 5.0,
    progress: Progress = silent,
) -> SweepResult:
    """Run all batches that the folder does not hold yet and return the outcomes of all.

    Every part is kept in the folder as soon as it is finished, so an interrupted sweep is resumed where it was. The
    number of jobs (batches at a time; 1: in this process; 0: as many as cores, memory or the cluster allow) and the
    engine ("ray", or this machine) do not change a result.
    """
    place = Place(data_dir=data_dir, checkpoint_seconds=checkpoint_seconds)
    batches = list(dict.fromkeys(batches))
    task = BatchedTask(batches=batches, place=place, folder=folder, engine=engine, jobs=jobs, progress=progress)
    parts = [part for batch in batches for part in batch]
    found, kept = Study(cells=parts, task=task).run()
    outcomes = {
        (part.kind.name, scenario): outcome
        for part, finished in found.items()
        for scenario, outcome in zip(part.scenarios, finished.outcomes, strict=True)
    }
    return SweepResult(outcomes=outcomes, kept_batches=kept)


CELLS: Final = "cells"
SIMULATION_NOTE: Final = (
    "simulation: noise and schedule follow from the seeds, so anyone can remove them; an epsilon describes the "
    "simulated system and protects nobody's data here"
)


def sweep(scenario: Scenario, grid: Mapping[str, Iterable[Any]], **settings: Any) -> Any:
    """Run a command on every combination of the grid's values with every seed; return a pandas DataFrame.

    The frame has one row per cell and seed, with every metric of the command and an ``error`` where the cell failed.
    The folder gets what ``airmix sweep`` writes. It is a simulation: no cell protects anybody's data. Scripts that use
    several processes need the usual ``if __name__ == "__main__":``.

    Args:
        scenario: what is swept.
        grid: values of each key, such as ``{"privacy.epsilon": [0.5, 1, 5]}``.
        settings: the keyword arguments that follow.
        seeds: how many, beginning with the scenario's.
        command: "run", "attack" or "audit".
        metrics: those in the table and (the first) in the picture; the frame has all.
        engine: "local" for processes of this machine, or "ray".
        jobs: cells at a time (0: as many as cores, memory or the cluster allow; 1: in this process).
        out: folder that keeps every finished cell (default: ``runs/sweep-NAME``); the same call resumes, and more
            values or seeds add to it.
        force: remove what another sweep left there.
        device: where to compute.
        data_dir: folder to look for MNIST in.
        progress: told how far all cells together are.
        attacks: names of attacks, for the command "attack"; all by default.
        audit: settings for the command "audit".
    """
    swept = sweep_grid(scenario, Grid.of(grid), **settings)
    write_sweep(swept)
    return swept.to_frame()


def sweep_grid(
    scenario: Scenario,
    grid: Grid,
    *,
    seeds: int = 1,
    command: str = "run",
    metrics: Sequence[str] = (),
    engine: str = "local",
    jobs: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    device: str = "cpu",
    data_dir: Path | None = None,
    progress: Progress = silent,
    attacks: Sequence[str] | None = None,
    audit: AuditSettings | None = None,
) -> Swept:
    """Run what ``sweep`` runs and return everything that it gave."""
    started, kind = time.perf_counter(), kind_of(command, attacks=attacks, audit=audit)
    engine = Engine.of(engine, jobs or None, default=0).name
    numbers = list(consecutive_seeds(scenario, seeds))
    grid.check_size(seeds)
    heads = kind.first_names()
    unknown = [name for name in metrics if not name.startswith(tuple(heads))]
    _check_names(unknown, command, set(kind.default_metrics) if heads else set())
    points = list(grid.points)
    found = _scenarios(scenario, points, data_dir)
    by_seed = [each.with_seed(seed) for seed in numbers for each in found if isinstance(each, Scenario)]
    folder = study_path(out, f"sweep-{scenario.name}")
    alone = cut_into_batches(by_seed, kind, device=device, jobs=0)
    identity = {**identity_of(scenario.with_seed(0)), "swept": [command, kind.asked]}
    run = partial(run_sweep, folder=folder / CELLS, engine=engine, data_dir=data_dir, progress=progress)
    with study_folder(folder, identity, stem="sweep", keeps=(CELLS,), force=force):
        already = 0
        if metrics:  # names are known once a cell is there; a wrong one is refused before the others are run
            first = run(alone[:1])
            already = first.kept_batches - 1
            _check_names(metrics, command, _names(first.outcomes.values()), kind.default_metrics)
        # On a cluster each cell is alone, where a node keeps nothing; else every process has some that share draws.
        batches = (
            alone
            if engine == "ray"
            else cut_into_batches(by_seed, kind, device=device, jobs=jobs or useful_jobs(alone))
        )
        result = run(batches, jobs=jobs)
    given = [word for name in metrics for word in ("--metric", name)]
    given += [] if attacks is None else ["--attacks", ",".join(attacks)]
    given += [] if audit is None else ["--trials", str(audit.trials)]
    rows = []
    for (point, cell), seed in product(zip(points, found, strict=True), numbers):
        outcome: Outcome = {"error": cell} if isinstance(cell, str) else result.outcome(command, cell.with_seed(seed))
        error = outcome.get("error", "")
        rows.append(SweptRow(point=point, seed=seed, metrics={} if error else outcome, error=error))
    _check_names(metrics, command, _names(row.metrics for row in rows))
    return Swept(
        scenario=scenario,
        grid=grid,
        command=command,
        seeds=numbers,
        rows=tuple(rows),
        metrics=tuple(dict.fromkeys(metrics)) or _default_metrics(kind, rows),
        given=tuple(given),
        notes=(SIMULATION_NOTE, kind.note) if kind.note else (SIMULATION_NOTE,),
        kept=max(0, result.kept_batches + already),
        out=folder,
        seconds=time.perf_counter() - started,
    )


def _names(found: Iterable[Outcome]) -> set[str]:
    """Return the names of all metrics that some cell has."""
    return {name for each in found if "error" not in each for name in each}


def _check_names(asked: Sequence[str], command: str, known: Collection[str], others: Sequence[str] = ()) -> None:
    """Refuse the name of a metric that none of the cells has, where names are known at all."""
    for name in asked:
        if known and name not in (*known, *others):
            some = sorted(known)
            near = did_you_mean(name, some) or f"; it has for example {', '.join(some[:_MOST_NAMED])}"
            raise ScenarioError(f"--metric {shown_name(name)}: airmix {command} has none of that name{near}")


def _scenarios(base: Scenario, points: Sequence[Point], data_dir: Path | None) -> list[Scenario | str]:
    """Return the scenario of each combination, settled with its own data, or why it is none."""
    found: list[Scenario | str] = []
    rows: dict[Workers, int] = {}  # counted once
    for point in points:
        try:
            scenario = scenario_at(base, point)
            if scenario.workers not in rows:
                rows[scenario.workers] = settle(scenario, data_dir=data_dir).workers.count
            found.append(scenario.settled(rows[scenario.workers]))
        except AirMixError as problem:
            found.append(one_line(str(problem)))
            if len(found) == len(points) and all(isinstance(each, str) for each in found):
                raise  # none of them is a scenario
    return found


def _default_metrics(kind: Kind, rows: Sequence[SweptRow]) -> tuple[str, ...]:
    """Return the metrics that the tables show unless asked for others, as far as some cell has them."""
    there = {name for row in rows for name, value in row.metrics.items() if value is not None}
    if all(row.metrics.get("adversary", "server") == "server" for row in rows) and kind.name == "run":
        there.discard("epsilon_server")  # it is the scenario's own
    return tuple(name for name in kind.default_metrics if name in there)
