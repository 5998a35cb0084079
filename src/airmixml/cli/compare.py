"""``airmix compare``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Option

from airmixml.cli import options
from airmixml.cli.finished import show_study
from airmixml.cli.options import choices
from airmixml.cli.terminal import progress_bars
from airmixml.errors import ScenarioError
from airmixml.registries import METHODS
from airmixml.scenario import RunContext, Speed
from airmixml.scenario.toml import folder_stem
from airmixml.wording import plural


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
    if seeds < 1:
        raise ScenarioError(f"seeds = {seeds}: must be at least 1")
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
    plain, folder = comparison.to_dict(), comparison.out
    show_study(
        as_json,
        plain,
        comparison_page(plain, comparison.scenario),
        name="compare",
        out=folder,
        write=lambda: write_comparison(plain, comparison.scenario, folder),
        seconds=time.perf_counter() - started,
        kept=plural(comparison.kept, "result") if comparison.kept else "",
    )
