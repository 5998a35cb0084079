"""A sweep over a grid: every combination with every seed, in one table; what is finished is kept.

A sweep is a study, so it simulates: its noise follows from the seeds, and no cell protects anybody.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.engines import Engine
from airmixml.errors import AirMixError, ScenarioError
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario, Workers
from airmixml.scenario.grid import Grid, Point, scenario_at
from airmixml.storage.run_folder import identity_of
from airmixml.storage.study import consecutive_seeds, study_folder, study_path
from airmixml.sweeps.batched_task import run_sweep
from airmixml.sweeps.batches import Kind, Outcome, cut_into_batches, useful_jobs
from airmixml.sweeps.cells import kind_of
from airmixml.sweeps.sweep_page import Swept, SweptRow, write_sweep
from airmixml.wording import did_you_mean, one_line, shown_name
from airmixml.workers import settle

if TYPE_CHECKING:
    from airmixml.audit import AuditSettings

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
    unknown = [name for name in metrics if name.partition(".")[0] not in heads]
    _check_names(unknown, command, heads and heads.union(kind.default_metrics))
    points = list(grid.points)
    found, refused = _scenarios(scenario, points, data_dir)
    by_seed = [found[place].with_seed(seed) for seed in numbers for place in found]
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
    rows = []
    for place, point in enumerate(points):
        for seed in numbers:
            why = refused.get(place)
            outcome: Outcome = {"error": why} if why else result.outcome(command, found[place].with_seed(seed))
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
            near = did_you_mean(name, sorted(known))
            raise ScenarioError(f"--metric {shown_name(name)}: airmix {command} has none of that name{near}")


def _scenarios(
    base: Scenario, points: Sequence[Point], data_dir: Path | None
) -> tuple[dict[int, Scenario], dict[int, str]]:
    """Return the scenario of each combination by its place, settled with its own data, and why others are none."""
    found: dict[int, Scenario] = {}
    rows: dict[Workers, int] = {}  # counted once
    refused: dict[int, str] = {}
    for place, point in enumerate(points):
        try:
            scenario = scenario_at(base, point)
            if scenario.workers not in rows:
                rows[scenario.workers] = settle(scenario, data_dir=data_dir).workers.count
            found[place] = scenario.settled(rows[scenario.workers])
        except AirMixError as problem:
            if len(refused) == len(points) - 1:
                raise  # none of them is a scenario
            refused[place] = one_line(str(problem))
    return found, refused


def _default_metrics(kind: Kind, rows: Sequence[SweptRow]) -> tuple[str, ...]:
    """Return the metrics that the tables show unless asked for others, as far as some cell has them."""
    there = {name for row in rows for name, value in row.metrics.items() if value is not None}
    if all(row.metrics.get("adversary", "server") == "server" for row in rows) and kind.name == "run":
        there.discard("epsilon_server")  # it is the scenario's own
    return tuple(name for name in kind.default_metrics if name in there)
