"""A sweep over a grid: every combination with every seed, in one table; what is finished is kept.

A sweep is a study, so it simulates: its noise follows from the seeds, and no cell protects anybody.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from airmixml.engines.processes import end_if_started_by_script
from airmixml.errors import AirMixError, RunFolderError, ScenarioError
from airmixml.output.numbers import plural
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario, Workers
from airmixml.scenario.grid import Grid, Point, scenario_at, value_text
from airmixml.storage.files import writing_to
from airmixml.storage.run_folder import PARTIAL, RUNS_FOLDER, hold_folder, identity_of
from airmixml.sweeps.batches import Failed, Measured, SweepOutcome
from airmixml.sweeps.cells import cut_into_cells
from airmixml.sweeps.metrics import DEFAULT_METRICS, check_metrics
from airmixml.sweeps.sweep import BatchStore, run_sweep, useful_jobs
from airmixml.sweeps.swept import FILES, Command, Swept, SweptRow
from airmixml.sweeps.tables import write_sweep
from airmixml.wording import did_you_mean, one_line, shown
from airmixml.workers import settle

if TYPE_CHECKING:
    from airmixml.audit import AuditSettings
    from airmixml.runs.spending import Spending

COMMANDS: Final[tuple[str, ...]] = get_args(Command)
ENGINES: Final = ("processes", "ray")
CELLS: Final = "cells"
SIMULATION_NOTE: Final = (
    "simulation: noise and schedule follow from the seeds, so anyone can remove them; an epsilon describes the "
    "simulated system and protects nobody's data here"
)


def sweep(
    scenario: Scenario,
    grid: Mapping[str, Iterable[Any]],
    *,
    seeds: int = 1,
    command: Command = "run",
    metrics: Sequence[str] = (),
    engine: str = "processes",
    jobs: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    device: str = "cpu",
    data_dir: Path | None = None,
    attacks: Sequence[str] | None = None,
    audit: AuditSettings | None = None,
    ledger: Path | str | None = None,
    progress: Progress = silent,
) -> Any:
    """Run a command on every combination of the grid's values with every seed; return a pandas DataFrame.

    The frame has one row per cell and seed, with every metric of the command and an ``error`` where the cell failed.
    The folder gets what ``airmix sweep`` writes. It is a simulation: no cell protects anybody's data. Scripts that use
    several processes need the usual ``if __name__ == "__main__":``.

    Args:
        scenario: what is swept.
        grid: values of each key, such as ``{"privacy.epsilon": [0.5, 1, 5]}``.
        seeds: how many, beginning with the scenario's.
        command: "run", "attack" or "audit".
        metrics: those in the table and (the first) in the picture; the frame has all.
        engine: "processes" of this machine, or "ray".
        jobs: cells at a time (0: as many as cores, memory or the cluster allow; 1: in this process).
        out: folder that keeps every finished cell (default: ``runs/sweep-NAME``); the same call resumes, and more
            values or seeds add to it.
        force: remove what another sweep left there.
        device: where to compute.
        data_dir: folder to look for MNIST in.
        attacks: names of attacks, for the command "attack"; all by default.
        audit: settings for the command "audit".
        ledger: file of budgets for simulations, for the command "run": cells that together would pass a worker's are
            refused before any of them is sent, and what they spend is kept there.
        progress: told how far all cells together are.
    """
    swept = sweep_grid(
        scenario,
        Grid.of(grid),
        seeds=seeds,
        command=command,
        metrics=metrics,
        engine=engine,
        jobs=jobs,
        out=out,
        force=force,
        device=device,
        data_dir=data_dir,
        attacks=attacks,
        audit=audit,
        ledger=ledger,
        progress=progress,
    )
    write_sweep(swept)
    return swept.to_frame()


def sweep_grid(
    scenario: Scenario,
    grid: Grid,
    *,
    seeds: int = 1,
    command: Command = "run",
    metrics: Sequence[str] = (),
    engine: str = "processes",
    jobs: int = 0,
    out: Path | str | None = None,
    force: bool = False,
    device: str = "cpu",
    data_dir: Path | None = None,
    attacks: Sequence[str] | None = None,
    audit: AuditSettings | None = None,
    ledger: Path | str | None = None,
    progress: Progress = silent,
    announce: Callable[[str], None] = lambda _line: None,
) -> Swept:
    """Run what ``sweep`` runs and return everything that it gave; ``announce`` gets one line before it begins."""
    started = time.perf_counter()
    _check(scenario, grid, seeds, command, engine, jobs)
    check_metrics(metrics, command)
    if ledger is not None and command != "run":
        raise ScenarioError(f"--ledger: belongs to --command run: an {command} releases nothing; leave it out")
    asked = _asked(command, attacks, audit)
    numbers = [scenario.seed + number for number in range(seeds)]
    points = list(grid.points)
    found, refused = _scenarios(scenario, points, data_dir)
    by_seed = [found[place].with_seed(seed) for seed in numbers for place in found]
    folder = RUNS_FOLDER / f"sweep-{scenario.name}" if out is None else Path(out)
    if folder.name.endswith(PARTIAL):
        raise RunFolderError(f"{folder}: belongs to an interrupted run; choose an --out that does not end in {PARTIAL}")
    alone = cut_into_cells(by_seed, command, device=device, asked=asked, jobs=0)
    if engine == "ray":
        batches = alone  # a node keeps nothing before it is finished
    else:
        batches = cut_into_cells(by_seed, command, device=device, asked=asked, jobs=jobs or useful_jobs(alone))
    size = f"{plural(len(points), 'cell')} x {plural(seeds, 'seed')} = {plural(len(points) * seeds, 'run')}"
    begun = False

    def tell(stage: str, done: int, total: int) -> None:
        nonlocal begun
        if stage == "sweep" and not begun:  # nothing was refused
            begun = True
            announce(size)
        progress(stage, done, total)

    identity = {**identity_of(scenario.with_seed(0)), "swept": [command, asked]}
    own = (CELLS, *FILES)
    spending = None if ledger is None else _plan_spending(points, found, numbers, ledger, data_dir, progress)
    with writing_to(folder), hold_folder(folder, identity, holds="a sweep", force=force, own=own):
        if spending is not None:
            store = BatchStore(folder / CELLS)
            spending.reserve_unfinished({part.scenarios[0]: store.load(part) is not None for part in alone})
        result = run_sweep(
            batches,
            folder / CELLS,
            jobs=jobs,
            engine="ray" if engine == "ray" else "local",
            data_dir=data_dir,
            progress=tell,
            kept=lambda part: None if spending is None else spending.settle_in_full(part.scenarios[0]),
        )
    rows = tuple(
        SweptRow(point=point, seed=seed, metrics={}, error=refused[place])
        if place in refused
        else _row(point, seed, result.outcome(command, found[place].with_seed(seed)))
        for place, point in enumerate(points)
        for seed in numbers
    )
    chosen = tuple(dict.fromkeys(metrics)) or _default_metrics(command, rows)
    return Swept(
        scenario=scenario,
        grid=grid,
        command=command,
        seeds=numbers,
        rows=rows,
        metrics=chosen,
        notes=_notes(scenario, grid, command, list(found.values())),
        kept=result.kept_batches,
        out=folder,
        seconds=time.perf_counter() - started,
    )


def _check(scenario: Scenario, grid: Grid, seeds: int, command: str, engine: str, jobs: int) -> None:
    """Refuse in one line what makes no sweep."""
    check_command(command)
    check_engine(engine, jobs)
    if seeds < 1:
        raise ScenarioError(f"seeds = {seeds}: must be at least 1")
    grid.check_size(seeds)
    scenario.with_seed(scenario.seed + seeds - 1)  # refuses a last seed that is too large


def check_engine(engine: str, jobs: int) -> None:
    """Refuse an engine that does not exist, a number of jobs that is none, and a script that would start itself."""
    _check_word("engine", engine, ENGINES)
    if not (isinstance(jobs, int) and 0 <= jobs <= 4096):
        raise ScenarioError(f"--jobs = {jobs}: must be at least 1 and at most 4096 (0: as many as there are cores)")
    if engine != "ray" and jobs != 1:
        end_if_started_by_script()


def check_command(name: str) -> Command:
    """Return the name of a command that can be swept; refuse any other."""
    _check_word("command", name, COMMANDS)
    return cast(Command, name)


def _check_word(option: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ScenarioError(
            f"--{option} = {shown(value)}: must be one of {', '.join(allowed)}{did_you_mean(str(value), allowed)}"
        )


def _asked(command: str, attacks: Sequence[str] | None, audit: AuditSettings | None) -> str:
    """Return the options of the command as JSON; refuse those of another command."""
    if attacks is not None and command != "attack":
        raise ScenarioError(f"--attacks: belongs to --command attack, not to {command}; leave it out")
    if audit is not None and command != "audit":
        raise ScenarioError(f"audit settings: belong to --command audit, not to {command}; leave them out")
    if command == "attack":
        from airmixml.attacks import choose_parts

        return json.dumps({"attacks": choose_parts(None if attacks is None else ",".join(attacks))})
    if command == "audit":
        from airmixml.audit import AuditSettings as Settings

        settings = audit or Settings()
        return json.dumps({**vars(settings), "fault": settings.fault.name}, sort_keys=True)
    return ""


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


def _plan_spending(
    points: Sequence[Point],
    found: Mapping[int, Scenario],
    seeds: Sequence[int],
    ledger: Path | str,
    data_dir: Path | None,
    progress: Progress,
) -> Spending:
    """Return what all cells spend with all seeds; refuse them if that of one cannot be counted."""
    from airmixml.runs.spending import plan_spending  # here: it needs torch

    runs: dict[Scenario, str] = {}
    for place, scenario in found.items():
        cell = ", ".join(f"{key}={value_text(value)}" for key, value in points[place].items())
        for seed in seeds:
            seeded = scenario.with_seed(seed)
            runs.setdefault(seeded, f"airmix sweep {scenario.name}, {cell}, seed {seed}")
    return plan_spending(runs, ledger, study=True, data_dir=data_dir, progress=progress)


def _row(point: Point, seed: int, outcome: SweepOutcome) -> SweptRow:
    if isinstance(outcome, Measured):
        return SweptRow(point=point, seed=seed, metrics=outcome.metrics)
    error = outcome.error if isinstance(outcome, Failed) else "no metrics"
    return SweptRow(point=point, seed=seed, metrics={}, error=error)


def _default_metrics(command: str, rows: Sequence[SweptRow]) -> tuple[str, ...]:
    """Return the metrics that the tables show unless asked for others, as far as some cell has them."""
    there = {name for row in rows for name, value in row.metrics.items() if value is not None}
    if all(row.metrics.get("adversary", "server") == "server" for row in rows) and command == "run":
        there.discard("epsilon_server")  # it is the scenario's own
    return tuple(name for name in DEFAULT_METRICS[command] if name in there)


def _notes(base: Scenario, grid: Grid, command: str, scenarios: Sequence[Scenario]) -> tuple[str, ...]:
    """Return what a reader of the table must know."""
    notes = [SIMULATION_NOTE]
    targets = [key for key in grid.keys if key in ("privacy.epsilon", "privacy.delta", "privacy.accountant")]
    if targets and all(each.mixing.power != "dp" for each in scenarios):
        notes.append(
            f'mixing.power = "{base.mixing.power}": {targets[0]} decides no power here; add --set mixing.power=dp'
        )
    if command == "audit":
        notes.append("the confidence holds for each cell; among many cells some may be refuted by chance")
    return tuple(notes)
