"""``airmix deploy up``: a whole deployment on this machine, with a kill, a replay and a picture."""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from typer import Option

from airmixml.cli import options
from airmixml.cli.process import raise_when_interrupted
from airmixml.cli.terminal import command_seconds, print_error_line, show
from airmixml.errors import ScenarioError
from airmixml.output.tables import Table
from airmixml.scenario import Scenario
from airmixml.wording import duration

if TYPE_CHECKING:
    from airmixml.data import DataSet
    from airmixml.deploy.endpoint import Endpoint

PRESET: Final = "trustless-wine"
_PICTURE: Final = "deploy-lanes.png"


def set_up(
    scenario: Scenario,
    out: Path,
    workers: int,
    gateways: int = 0,
    port: int = 0,
    *,
    epsilon: float = 0.0,
    spare: int = 0,
    data_dir: Path | None = None,
    enrolled: Path | None = None,
) -> "tuple[Scenario, DataSet, Endpoint]":
    """Write the folders of a deployment; return what is deployed, its data, and the server's endpoint."""
    from airmixml.deploy.compiling import data_of, make_contract, planned_for
    from airmixml.deploy.credentials import check_gateways, check_new, create_deployment, free_ports

    check_new(out, workers, gateways)
    planned = planned_for(scenario, workers)
    check_gateways(workers, gateways, planned.privacy.colluders)
    dataset = data_of(planned, data_dir)
    raise_when_interrupted()
    server = create_deployment(
        out,
        lambda keys, server_key: make_contract(planned, dataset, keys, server_key, epsilon=epsilon, spare=spare),
        workers=workers,
        gateways=gateways,
        port=port or free_ports(1)[0],
        enrolled=enrolled,
    )
    if gateways and not planned.privacy.colluders:
        print_error_line(
            "airmix deploy: privacy.colluders = 0: all workers, and so all gateways, are taken as honest towards each "
            "other"
        )
    return planned, dataset, server


@options.with_groups
def up_command(
    chosen: options.Chosen,
    workers: Annotated[int, Option(help="Number of workers, a process each.")] = 16,
    out: Annotated[Path | None, Option(help="Folder to create [default: a name below runs/].")] = None,
    kill: Annotated[
        bool, Option("--kill/--no-kill", help="Kill a worker in a round, start it again, and replay an order to it.")
    ] = True,
    deadline: Annotated[float, Option(help="Seconds that the server waits for the next answer.")] = 3.0,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Run broker, server and workers of a scenario as processes on this machine, over mutual TLS.

    Without a scenario it takes the preset trustless-wine. The rows of its data set are dealt to the workers. One worker
    is killed and started again, and an old order is sent to it again, which its ledger refuses. Writes a picture, and a
    model that `airmix predict` reads; where it is interrupted, nothing is left.
    """
    import cryptography  # noqa: F401  # first: where it is missing, the extra of deployments is named

    from airmixml.deploy.endpoint import SERVER_NAME
    from airmixml.deploy.lanes import draw_lanes
    from airmixml.deploy.processes import find_mosquitto
    from airmixml.deploy.trial import ROWS, SENDS, Trial, deal_rows
    from airmixml.storage.run_folder import METRICS, RUNS_FOLDER

    find_mosquitto()
    if not deadline > 0.0:
        raise ScenarioError(f"--deadline = {deadline:g}: must be above 0 seconds")
    if chosen.file is None and chosen.preset is None:
        chosen = replace(chosen, preset=PRESET)
    scenario = chosen.settled(data_dir=data_dir)
    first = RUNS_FOLDER / f"deploy-{scenario.name}"
    others = (first.with_name(f"{first.name}-{number}") for number in itertools.count(2))
    folder = out or next(each for each in itertools.chain([first], others) if not each.exists())
    if out is None and folder != first:
        print_error_line(f"airmix: {folder}: a new folder, since {first} is there already")
    planned, dataset, server = set_up(scenario, folder, workers, data_dir=data_dir)

    def say(seconds: float, line: str) -> None:
        if SENDS not in line:
            print_error_line(f"airmix: {seconds:5.1f} s  {line}")

    try:
        rows = deal_rows(planned, dataset, folder, server, data_dir)
        more = () if data_dir is None else ("--data-dir", data_dir)
        trial = Trial(folder, say, deadline=deadline, more=more)
        killed = trial.run(kill=kill)
        found = json.loads((folder / SERVER_NAME / METRICS).read_text(encoding="utf-8"))
        title = f"{planned.name}: {workers} workers over mutual TLS; {found['promise']}"
        draw_lanes(trial.times, server.names, found["rounds"], title, folder / _PICTURE)
    except KeyboardInterrupt:  # the same command can be given again
        shutil.rmtree(folder, ignore_errors=True)
        raise
    events = [{"seconds": seconds, "who": who, "what": what} for (who, what), seconds in trial.times.items()]
    result = {**found, "folder": str(folder), "workers": workers, "killed": killed, "seconds": command_seconds()}
    result |= {"picture": str(folder / _PICTURE), "events": events}
    each_has = f"{min(rows)}" if min(rows) == max(rows) else f"{min(rows)} to {max(rows)}"
    scores = ["none" if each["accuracy"] is None else f"{100 * each['accuracy']:.1f} %" for each in found["rounds"]]
    table = Table(
        title=f"{workers} workers; rows of each: {each_has}",
        columns=("round", "workers in the sum", "accuracy after it"),
        rows=tuple(
            (str(each["round"]), str(len(each["workers"])), score)
            for each, score in zip(found["rounds"], scores, strict=True)
        ),
    )
    own = folder / SERVER_NAME
    show(
        as_json,
        result,
        table,
        *(f"{killed}: {what}" for who, what in trial.times if who == killed and SENDS not in what),
        f"no worker has spent more than {100 * found['budget_spent']:.1f} % of its budget; promised for all of it: "
        f"{found['promise']}",
        f"{duration(result['seconds'])}; picture in {result['picture']}; predict, here rows it learned from: "
        f"airmix predict {own} {next(folder.glob(f'devices/*/{ROWS}'))} --score",
    )
