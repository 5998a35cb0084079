"""``airmix compare`` and ``airmix tolerances``."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Option

from airmixml.cli import options
from airmixml.cli.options import choices
from airmixml.cli.terminal import progress_bars, show_study
from airmixml.registries import METHODS
from airmixml.scenario import RunContext, Speed
from airmixml.scenario.rules import AUTO
from airmixml.scenario.toml import folder_stem
from airmixml.tolerances.tolerance import chosen_ladders
from airmixml.wording import plural

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
    chosen_ladders(only)
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
