"""``airmix run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.errors import ScenarioError
from airmixml.scenario import Scenario, Speed


def choose_scenario(file: Path | None, preset: str | None, assignments: list[str], seed: int | None) -> Scenario:
    """Return the scenario that the arguments name, with the overrides applied."""
    if (file is None) == (preset is None):
        raise ScenarioError("give either a scenario file or --preset NAME (`airmix presets` lists them)")
    scenario = Scenario.load(file) if file is not None else Scenario.preset(preset or "")
    scenario = scenario.with_overrides(*assignments)
    return scenario if seed is None else scenario.with_seed(seed)


def run_command(
    file: Annotated[Path | None, typer.Argument(help="Scenario file (TOML).", show_default=False)] = None,
    preset: Annotated[str | None, typer.Option(help="Scenario that comes with the package.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key, such as radio.slots=500."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the (first) run.")] = None,
    seeds: Annotated[int, typer.Option(help="Number of runs with consecutive seeds.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Run folder to make [default: a free name below runs/].")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run folder --out if it exists.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    block_slots: Annotated[int, typer.Option(help="Slots simulated at a time.")] = 2048,
    threads: Annotated[int, typer.Option(help="CPU threads (0: as many as there are cores).")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="Folder that holds the four MNIST files.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """Run a scenario: mix over the air, train at the edge, score, and write a run folder.

    An interrupted run goes on where it stopped when the same command is given again.
    """
    scenario = choose_scenario(file, preset, assignments or [], seed)
    speed = Speed(device=device, block_slots=block_slots, threads=threads)
    if force and out is None:
        raise ScenarioError("--force: replaces the folder --out, so give that too")
    from airmixml.runs import run  # after the checks: importing torch takes seconds

    with progress_bars() as progress:
        result = run(scenario, seeds=seeds, out=out, force=force, speed=speed, data_dir=data_dir, progress=progress)
    metrics = result.to_dict()
    if as_json:
        print_json(metrics)
        return
    from airmixml.cli.summary import run_table

    console.print(run_table(scenario, metrics))
