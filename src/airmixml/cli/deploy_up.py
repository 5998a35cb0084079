"""``airmix deploy up``: a whole deployment on this machine, with a kill, a replay and a picture."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

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
    from airmixml.deploy.compiling import Owner
    from airmixml.deploy.contract import Contract
    from airmixml.deploy.endpoint import Endpoint
    from airmixml.deploy.trial import History

PRESET: Final = "trustless-wine"
_PICTURE: Final = "lanes.png"


def set_up(
    scenario: Scenario,
    out: Path,
    workers: int,
    gateways: int = 0,
    owner: "Owner | None" = None,
    port: int = 0,
    *,
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
        lambda keys, server_key: make_contract(planned, dataset, keys, server_key, owner),
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
    rounds: Annotated[
        int | None, Option(help="Rounds of gradients after the moments [default: the scenario's].", show_default=False)
    ] = None,
    out: Annotated[Path | None, Option(help="Folder to create [default: a name below runs/].")] = None,
    kill: Annotated[
        bool, Option("--kill/--no-kill", help="Kill one worker in the middle of a round, and start it again.")
    ] = True,
    deadline: Annotated[float, Option(help="Seconds that the server waits for the next answer.")] = 3.0,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Run broker, server and workers of a scenario as processes on this machine, over mutual TLS.

    Without a scenario it takes the preset trustless-wine. The rows of its data set are dealt to the workers. One worker
    is killed and started again, and an old order is sent to it again, which its ledger refuses. Writes a model that
    `airmix predict` reads, and a picture.
    """
    from airmixml.deploy.trial import Trial, admit_attacker, deal_rows  # first: it names the extra that may be missing

    # isort: split
    from airmixml.deploy.contract import Contract
    from airmixml.deploy.lanes import draw_lanes
    from airmixml.deploy.processes import find_mosquitto
    from airmixml.storage.run_folder import RUNS_FOLDER

    find_mosquitto()
    if not deadline > 0.0:
        raise ScenarioError(f"--deadline = {deadline:g}: must be above 0 seconds")
    if chosen.file is None and chosen.preset is None:
        chosen = replace(chosen, preset=PRESET)
    if rounds is not None:
        chosen = replace(chosen, assignments=[*(chosen.assignments or ()), f"learner.rounds={rounds}"])
    scenario = chosen.settled(data_dir=data_dir)
    first = RUNS_FOLDER / f"deploy-{scenario.name}"
    others = (first.with_name(f"{first.name}-{number}") for number in itertools.count(2))
    folder = out or next(each for each in itertools.chain([first], others) if not each.exists())
    if out is None and folder != first:
        print_error_line(f"airmix: {folder}: a new folder, since {first} is there already")
    planned, dataset, server = set_up(scenario, folder, workers, data_dir=data_dir)
    rows = deal_rows(planned, dataset, folder, server, data_dir)
    contract = Contract.load(folder / "contract.json")
    admit_attacker(folder, contract.run)
    more = () if data_dir is None else ("--data-dir", data_dir)
    trial = Trial(folder, deadline=deadline, kill=kill, more=more)
    history = trial.run(_Lines())
    draw_lanes(history, f"{planned.name}: {workers} workers over mutual TLS; {contract.promise}", folder / _PICTURE)
    result = _result(history, contract, folder, rows)
    show(as_json, result, *_told(result, history))


class _Lines:
    """Writes what happens, a line for each round, kill and refusal."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, history: "History") -> None:
        told = [
            (each["seconds"], f"round {each['round']}: begins") for each in history.phases if each["phase"] != "over"
        ]
        for lane in history.lanes.values():
            told += [(at, f"{lane.name}: killed") for at in lane.killed]
            told += [(first, f"{lane.name}: started again") for first, *_ in lane.alive[1:]]
            told += [(each["seconds"], f"{lane.name}: refuses: {each['reason']}") for each in lane.refusals]
        for at, line in sorted(told):
            if line not in self._said:
                self._said.add(line)
                print_error_line(f"airmix: {at:5.1f} s  {line}")


def _result(history: "History", contract: "Contract", folder: Path, rows: list[int]) -> dict[str, Any]:
    lanes = history.lanes.values()
    return {
        "folder": str(folder),
        "model": str(folder / "server"),
        "rows": str(next(folder.glob("*/*/rows.npz"))),  # of some worker
        "picture": str(folder / _PICTURE),
        "workers": history.workers,
        "rows_per_worker": [min(rows), max(rows)],
        "rounds": [{name: each[name] for name in ("round", "workers", "accuracy", "seconds")} for each in history.sums],
        "accuracy": history.sums[-1]["accuracy"] if history.sums else None,
        "budget": {"epsilon": contract.epsilon, "delta": contract.delta},
        "promise": contract.promise,
        "spent": max(lane.spent for lane in lanes),
        "killed": [{"worker": lane.name, "seconds": at} for lane in lanes for at in lane.killed],
        "replayed": [{"worker": name, "round": number, "seconds": at} for at, name, number in history.replayed],
        "refused": [
            {"worker": lane.name, "round": each["round"], "reason": each["reason"], "seconds": each["seconds"]}
            for lane in lanes
            for each in lane.refusals
        ],
        "failure": history.phases[-1].get("failure", "") if history.phases else "",
        "seconds": command_seconds(),
    }


def _told(result: dict[str, Any], history: "History") -> list[str | Table]:
    least, most = result["rows_per_worker"]
    scores = ["none" if each["accuracy"] is None else f"{100 * each['accuracy']:.1f} %" for each in result["rounds"]]
    table = Table(
        title=f"{result['workers']} workers with {least} to {most} rows each"
        if most > least
        else f"{result['workers']} workers with {'a row' if most == 1 else f'{most} rows'} each",
        columns=("round", "workers in the sum", "accuracy after it", "at"),
        rows=tuple(
            (str(each["round"]), str(len(each["workers"])), score, f"{each['seconds']:.1f} s")
            for each, score in zip(result["rounds"], scores, strict=True)
        ),
    )
    lines = [f"{each['worker']} was killed at {each['seconds']:.1f} s and started again" for each in result["killed"]]
    lines += [
        f"{each['worker']} refused the order of round {each['round']}, replayed at {at:.1f} s: {each['reason']}"
        for at, name, number in history.replayed
        for each in result["refused"]
        if (each["worker"], each["round"]) == (name, number)
    ]
    return [
        table,
        *lines,
        f"no worker has spent more than {100 * result['spent']:.1f} % of its budget; promised for all of it: "
        f"{result['promise']}",
        f"{duration(result['seconds'])}; picture in {result['picture']}; predict, here rows it learned from: "
        f"airmix predict {result['model']} {result['rows']} --score",
    ]
