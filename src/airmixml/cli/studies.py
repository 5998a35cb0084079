"""``airmix compare``, ``sweep``, ``tolerances`` and ``reproduce``: many runs that answer one question."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from airmixml.cli import options
from airmixml.cli.options import choices
from airmixml.cli.terminal import print_line, progress_bars, report_failures, show_study
from airmixml.engines import Engine
from airmixml.messages import ScenarioError, plural
from airmixml.registries import ATTACKS, METHODS
from airmixml.scenario import RunContext, Speed
from airmixml.scenario.grid import Grid
from airmixml.scenario.rules import AUTO
from airmixml.scenario.toml import folder_stem, value_text

if TYPE_CHECKING:
    from airmixml.sweeps.sweep_page import Swept

_SEEDS, _QUICK_SEEDS = 3, 1  # of tolerances


def compare_command(
    chosen: options.Chosen,
    methods: Annotated[
        str | None, Option(metavar="NAME,...", help=f"Methods to run: {choices(METHODS)} [default: all that can run].")
    ] = None,
    seed: options.Seed = None,
    seeds: options.Seeds = 1,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    threads: options.Threads = 0,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare a scenario with its alternatives.

    All use the same data, channel and privacy target. Finished results are kept: repeat the same command to resume;
    more seeds or methods add to it.
    """
    scenario = chosen.settled(seed, data_dir=data_dir)
    speed = Speed(device=device, threads=threads)
    started, name = time.perf_counter(), f"compare-{folder_stem(scenario.name, scenario.air)}"
    from airmixml.compare import choose_methods  # after the checks: importing torch takes seconds

    to_run, cannot_run = choose_methods(methods, scenario, speed)
    from airmixml.compare import compare_methods
    from airmixml.compare.comparison_page import comparison_page, write_comparison

    with progress_bars() as progress:
        comparison = compare_methods(
            scenario,
            to_run,
            left_out=cannot_run,
            may_fail=methods is None,
            seeds=seeds,
            out=out or Path("runs") / name,
            force=force,
            context=RunContext(speed=speed, data_dir=data_dir, progress=progress),
        )
    plain, scenario = comparison.to_dict(), comparison.scenario
    files, seconds = write_comparison(plain, scenario, comparison.out), time.perf_counter() - started
    kept = plural(comparison.kept, "result") if comparison.kept else ""
    show_study(as_json, plain, comparison_page(plain, scenario), files, seconds=seconds, kept=kept)


def tolerances_command(
    chosen: options.Chosen,
    *,
    drop: Annotated[float, Option(help="Points by which accuracy may fall.")] = 1.0,
    only: Annotated[
        str | None, Option(metavar="KEY,...", help="Keys of the table [air], such as absent,adc_bits [default: all].")
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="Try every second size, with one seed unless --seeds says more.")
    ] = False,
    seed: options.Seed = None,
    seeds: Annotated[
        int | None, Option(help="Number of runs of each size, with consecutive seeds [default: 3].")
    ] = None,
    where: options.Where,
    as_json: options.AsJson = False,
) -> None:
    """Find how bad each impairment of the air may get, alone, before accuracy falls.

    One table beside what each class of hardware has, and one picture. --air NAME gives the air on which one impairment
    at a time is changed. Finished runs are kept: repeat the same command to resume; more keys or seeds add to it.
    """
    settings = where.settings()
    options.check_force(where.force, where.out)
    scenario = chosen.settled(seed, data_dir=where.data_dir)
    if scenario.workers.centre_on_air and chosen.read().workers.centre == AUTO:  # what "auto" is on any other air
        scenario = replace(scenario, workers=replace(scenario.workers, centre="public"))
    seeds = seeds if seeds is not None else _QUICK_SEEDS if quick else _SEEDS
    from airmixml.tolerances.tolerance_page import tolerances_page, write_tolerances
    from airmixml.tolerances.tolerance_search import find_tolerances

    with progress_bars() as progress:
        found = find_tolerances(scenario, drop=drop, seeds=seeds, only=only, quick=quick, progress=progress, **settings)
    plain = found.plain
    kept = f"{plural(plain['kept'], 'run')} of {plain['runs']:,}" if plain["kept"] else ""
    page, files = tolerances_page(plain, scenario), write_tolerances(plain, scenario, found.out)
    show_study(as_json, plain, page, files, seconds=found.seconds, kept=kept)


def sweep_command(
    chosen: options.Chosen,
    *,
    grid: Annotated[
        list[str] | None,
        Option(metavar="KEY=V1,V2,...", help="Values of a key; repeat for all combinations. Lists in brackets."),
    ] = None,
    command: Annotated[str, Option(help="What to do with each cell: run, attack or audit.")] = "run",
    metric: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Metric to tabulate, such as accuracy.final; may be repeated; the first is drawn."),
    ] = None,
    seed: options.Seed = None,
    seeds: options.Seeds = 1,
    attacks: Annotated[
        str | None, Option(metavar="NAME,...", help=f"With --command attack: {choices(ATTACKS)} [default: all].")
    ] = None,
    trials: Annotated[int | None, Option(help="With --command audit: trials per adversary [default: 10000].")] = None,
    where: options.Where,
    as_json: options.AsJson = False,
) -> None:
    """Run, attack or audit a scenario at every combination of values.

    Each cell is run with every seed and gives what the command alone would give. Finished cells are kept: repeat the
    same command to resume; more values or seeds add to it. If one cell fails, the others still run. A sweep is a
    simulation: it protects nobody's data.
    """
    scenario = chosen.read(seed)  # what it leaves to its data each cell has its own of
    values, settings, audit = Grid.parse(grid or ()), where.settings(), None
    if trials is not None:
        if command != "audit":
            raise ScenarioError("--trials: belongs to --command audit; leave it out")
        from airmixml.audit import AuditSettings

        audit = AuditSettings(trials=trials)
    from airmixml.sweeps.grid_sweep import sweep_grid
    from airmixml.sweeps.sweep_page import sweep_page, write_sweep

    with progress_bars() as progress:
        swept = sweep_grid(
            scenario,
            values,
            seeds=seeds,
            command=command,
            metrics=metric or (),
            attacks=None if attacks is None else attacks.split(","),
            audit=audit,
            progress=progress,
            **settings,
        )
    plain, kept = swept.to_dict(), plural(swept.kept, "run") if swept.kept else ""
    page, files = sweep_page(plain, scenario), write_sweep(swept)
    show_study(as_json, {**plain, "kept": swept.kept}, page, files, seconds=swept.seconds, kept=kept)
    if swept.failures:
        after = "the other cells are kept; the same command tries those again that broke or were lost"
        report_failures(_failures(swept), "more reasons, see sweep.csv", after)


def _failures(swept: Swept) -> list[str]:
    """Return a line for each reason: the first run that failed for it, and how many more."""
    lines = []
    for why, rows in swept.failures.items():
        first = ", ".join(f"{key}={value_text(value)}" for key, value in rows[0].point.items())
        more = f" and {plural(len(rows) - 1, 'more run')}" if len(rows) > 1 else ""
        lines.append(f"{first}, seed {rows[0].seed}{more}: {why}")
    return lines


def reproduce_command(
    targets: Annotated[
        list[str] | None,
        Argument(help="table1, table2, fig2, fig3, fig4 or all [default with --quick: all].", show_default=False),
    ] = None,
    dataset: Annotated[str | None, Option(help="Reproduce only one half of the tables: iris or mnist.")] = None,
    seeds: Annotated[
        int | None, Option(help="Number of runs per cell, with seeds 0, 1, ... [default: 3; 4 with --quick].")
    ] = None,
    device: options.Device = "cpu",
    jobs: Annotated[
        int | None, Option(help="Number of processes [default: one per core; 1 with cuda; all of a Ray cluster].")
    ] = None,
    engine: options.Engine = "local",
    out: options.Out = None,
    quick: Annotated[
        bool, Option("--quick", help="Decide what two cores can in 30 seconds: much of Iris; the rest is named.")
    ] = False,
    as_printed: Annotated[
        bool, Option("--as-printed", help="Leave out the other readings of rows that look misprinted.")
    ] = False,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Reproduce the paper's tables and figures.

    Each value is compared with the printed one. Finished cells are kept: repeat the same command to resume.
    """
    if not targets and not quick:
        raise ScenarioError("give what to reproduce: table1, table2, fig2, fig3, fig4 or all")
    Engine.of(engine, jobs)
    from airmixml.reproduction import Request, reproduce
    from airmixml.reproduction.paper_cells import QUICK_SEEDS
    from airmixml.reproduction.reproduce import reproduction_page

    seeds = (QUICK_SEEDS if quick else 3) if seeds is None else seeds
    request = Request(
        targets=tuple(targets or ("all",)),
        dataset=dataset,
        seeds=seeds,
        quick=quick,
        as_printed=as_printed,
        device=device,
    )
    folder = out or Path("runs") / ("reproduce-quick" if quick else "reproduce")
    with progress_bars() as progress:
        reproduction = reproduce(request, folder, jobs=jobs or 0, engine=engine, data_dir=data_dir, progress=progress)
    kept = f"{reproduction.kept_batches} of {plural(reproduction.batches, 'batch', 'es')}"
    kept = kept if reproduction.kept_batches else ""
    plain = {**reproduction.plain, "failures": reproduction.failures}
    show_study(as_json, plain, reproduction_page(plain), reproduction.files, seconds=reproduction.seconds, kept=kept)
    if not as_json:
        print_line(f"pictures: {', '.join(str(path) for path in reproduction.files if path.suffix == '.png')}")
    if reproduction.failures:
        after = "the other cells are kept; the same command tries the failed ones again"
        report_failures(reproduction.failures, "more, see report.json", after)
