"""``airmix run``."""

from typing import Annotated

import typer

from airmixml.cli import options
from airmixml.cli.options import check_force, choose_scenario
from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.scenario import Speed


def run_command(
    file: options.File = None,
    preset: options.Preset = None,
    assignments: options.Assignments = None,
    seed: options.Seed = None,
    seeds: options.Seeds = 1,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    block_slots: Annotated[int, typer.Option(help="Number of slots to simulate at a time.")] = 2048,
    threads: options.Threads = 0,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a scenario and write a run folder.

    Workers mix their samples over the air, the edge server trains on the mixtures, and the model is scored. Repeat the
    same command to resume an interrupted run.
    """
    scenario = choose_scenario(file, preset, assignments, seed)
    speed = Speed(device=device, block_slots=block_slots, threads=threads)
    check_force(force, out)
    from airmixml.runs import run  # after the checks: importing torch takes seconds

    with progress_bars() as progress:
        result = run(scenario, seeds=seeds, out=out, force=force, speed=speed, data_dir=data_dir, progress=progress)
    metrics = result.to_dict()
    if as_json:
        print_json(metrics)
        return
    from airmixml.cli.summary import run_table

    console.print(run_table(scenario, metrics))
