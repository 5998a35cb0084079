"""``airmix compare``."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from airmixml.cli import options
from airmixml.cli.finished import show_study
from airmixml.cli.options import choices
from airmixml.cli.terminal import progress_bars
from airmixml.errors import ScenarioError
from airmixml.registries import METHODS
from airmixml.scenario import RunContext, Speed
from airmixml.scenario.grid import only_varied, read_values
from airmixml.scenario.toml import folder_stem
from airmixml.wording import plural

if TYPE_CHECKING:
    from airmixml.compare import Comparison


def compare_command(
    chosen: options.Chosen,
    methods: Annotated[
        str | None, Option(metavar="NAME,...", help=f"Methods to run: {choices(METHODS)} [default: all that can run].")
    ] = None,
    vary: Annotated[
        list[str] | None,
        Option(metavar="KEY=V1,V2,...", help="Instead of methods, run the scenario itself at these values of one key."),
    ] = None,
    seed: options.Seed = None,
    seeds: options.Seeds = 1,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    threads: options.Threads = 0,
    data_dir: options.DataDir = None,
    ledger: options.StudyLedger = None,
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
    varied = only_varied(vary)
    if methods is not None and varied is not None:
        raise ScenarioError("--methods and --vary: give one of them; --vary runs the scenario itself at several values")
    started, stem = time.perf_counter(), folder_stem(scenario.name, scenario.air)
    compare: Callable[..., Comparison]
    if varied is not None:
        key, scenarios = read_values(varied, scenario)
        from airmixml.compare import vary_key  # after the checks: importing torch takes seconds

        compare, name = partial(vary_key, scenario, key, scenarios), f"compare-{stem}-{key}"
    else:
        from airmixml.compare import choose_methods

        to_run, cannot_run = choose_methods(methods, scenario, speed)
        from airmixml.compare import compare_methods

        compare = partial(compare_methods, scenario, to_run, left_out=cannot_run, may_fail=methods is None)
        name = f"compare-{stem}"
    with progress_bars() as progress:
        context = RunContext(speed=speed, data_dir=data_dir, progress=progress)
        folder = out or Path("runs") / name
        comparison = compare(seeds=seeds, out=folder, force=force, ledger=ledger, context=context)
    from airmixml.compare.comparison_tables import brief_parts, write_comparison

    show_study(
        as_json,
        comparison.to_dict(),
        *brief_parts(comparison),
        name="compare",
        out=comparison.out,
        write=partial(write_comparison, comparison),
        seconds=time.perf_counter() - started,
        kept=plural(comparison.kept, "result") if comparison.kept else "",
        picture=False,
    )
