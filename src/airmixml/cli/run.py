"""``airmix run``, and the table at the end of it."""

import os
from itertools import accumulate
from typing import Annotated, Any

from rich.markup import escape
from typer import Option

from airmixml.cli import options
from airmixml.cli.finished import Made, make_or_find
from airmixml.cli.terminal import command_seconds, show
from airmixml.errors import hides_values
from airmixml.output.tables import Table
from airmixml.runs.run_rows import run_rows, run_title
from airmixml.scenario import Scenario, Speed
from airmixml.wording import duration

_CHECKPOINT_SECONDS = 5.0
_CHECKPOINT_VARIABLE = "AIRMIX_CHECKPOINT_SECONDS"


@hides_values
def run_command(
    chosen: options.Chosen,
    seed: options.Seed = None,
    seeds: options.Seeds = 1,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    block_slots: Annotated[int, Option(help="Number of slots to simulate at a time (0: what suits the device).")] = 0,
    threads: options.Threads = 0,
    engine: options.Engine = "local",
    jobs: options.Jobs = None,
    data_dir: options.DataDir = None,
    private: Annotated[
        bool, Option("--private", help="Protect real data: secret noise, and nothing written that it does not cover.")
    ] = False,
    public_test: Annotated[
        bool, Option("--public-test", help="With --private: the test rows are public, so state the accuracy.")
    ] = False,
    show_values: Annotated[
        bool,
        Option("--show-values", help="With --private: let error messages quote rows and values, for the owner alone."),
    ] = False,
    ledger: options.Ledger = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a scenario and write a run folder.

    Workers mix their samples over the air, the edge server trains on the mixtures, and the model is scored. Repeat the
    same command to resume an interrupted run, or to see a finished one again. Without --private it is a simulation: its
    noise follows from the seed.
    """
    tested = public_test or not private
    scenario = chosen.read(seed)
    if private:
        from airmixml.workers.loading import check_protectable  # here: it needs NumPy

        check_protectable(scenario.workers)
    scenario = options.settle_scenario(scenario, data_dir=data_dir, test_rows=tested)
    speed = Speed(device=device, block_slots=block_slots, threads=threads)
    options.check_force(force, out)
    from airmixml.runs import run  # after the checks: importing torch takes seconds

    where: dict[str, Any] = {"out": out, "force": force, "speed": speed, "data_dir": data_dir}
    where |= {"engine": engine, "jobs": jobs, "ledger": ledger, "checkpoint_seconds": _checkpoint_seconds()}
    mode: dict[str, Any] = {"private": private, "public_test": public_test, "show_values": show_values}
    made = make_or_find(run, scenario, seeds=seeds, **mode, **where)
    show(as_json, {**made.metrics, **made.report}, _run_table(scenario, made))


def _checkpoint_seconds() -> float:
    """Return the time between checkpoints; the environment variable AIRMIX_CHECKPOINT_SECONDS sets another one."""
    try:
        return max(0.0, float(os.environ[_CHECKPOINT_VARIABLE]))
    except (KeyError, ValueError):
        return _CHECKPOINT_SECONDS


def _run_table(scenario: Scenario, made: Made) -> Table:
    """Return the accuracy, privacy and cost of a run as a table of two columns, and where its report is."""
    metrics = made.metrics
    rows = run_rows(scenario, metrics).values()
    took = "{}" if made.before else f"{duration(command_seconds())}, {{}} of it for the run"
    timed = [[(name, took.format(text) if name == "time" else text) for name, text in part] for part in rows]
    parts = [*timed, [(name, escape(path)) for name, path in made.report.items()]]
    return Table(
        title=escape(run_title(scenario, metrics)),
        columns=("", ""),
        rows=tuple(row for part in parts for row in part),
        words=2,
        sections=tuple(accumulate(map(len, parts))),
    )
