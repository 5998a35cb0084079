"""``airmix run``."""

import os
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from airmixml.cli import options
from airmixml.cli.terminal import make_or_find, show_made
from airmixml.runs.run_page import run_page
from airmixml.scenario import Scenario, Speed
from airmixml.storage.run_folder import SCENARIO

_CHECKPOINT_SECONDS = 5.0
_CHECKPOINT_VARIABLE = "AIRMIX_CHECKPOINT_SECONDS"


def run_command(
    chosen: options.Chosen,
    seed: options.Seed = None,
    seeds: options.Seeds = 1,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    block_slots: Annotated[int, Option(help="Number of slots to simulate at a time (0: what suits the device).")] = 0,
    threads: options.Threads = 0,
    data_dir: options.DataDir = None,
    private: Annotated[
        bool, Option("--private", help="Protect real data: secret noise, and nothing written that it does not cover.")
    ] = False,
    public_test: Annotated[
        bool, Option("--public-test", help="With --private: the test rows are public, so state the accuracy.")
    ] = False,
    show_values: options.ShowValues = False,
    ledger: Annotated[
        Path | None,
        Option(help="Ledger of budgets (`airmix ledger create`): refuse what would pass one, before anything is sent."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a scenario and write a run folder.

    Workers mix their samples over the air, the edge server trains on the mixtures, and the model is scored. Repeat the
    same command to resume an interrupted run, or to see a finished one again. Without --private it is a simulation: its
    noise follows from the seed.
    """
    scenario = chosen.read(seed)
    speed = Speed(device=device, block_slots=block_slots, threads=threads)
    options.check_force(force, out)
    from airmixml.runs import run  # after the checks: importing torch takes seconds

    where: dict[str, Any] = {"out": out, "force": force, "speed": speed, "data_dir": data_dir}
    where |= {"ledger": ledger, "checkpoint_seconds": _checkpoint_seconds()}
    mode: dict[str, Any] = {"private": private, "public_test": public_test, "show_values": show_values}
    metrics = make_or_find(run, scenario, seeds=seeds, **mode, **where)
    folder = Path(metrics["run_dir"])
    page = run_page(metrics, Scenario.load(folder / SCENARIO))  # with what the run settled
    show_made(as_json, metrics, page, folder, picture="figures/*.png")


def _checkpoint_seconds() -> float:
    """Return the time between checkpoints; the environment variable AIRMIX_CHECKPOINT_SECONDS sets another one."""
    try:
        return max(0.0, float(os.environ[_CHECKPOINT_VARIABLE]))
    except (KeyError, ValueError):
        return _CHECKPOINT_SECONDS
