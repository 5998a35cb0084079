"""``airmix deploy up``: a whole deployment on this machine, with a live table, a kill, a replay and a picture."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Option

from airmixml.cli import options
from airmixml.cli.interrupt import raise_when_interrupted
from airmixml.cli.terminal import command_seconds, print_error_line, show, stderr_console
from airmixml.errors import ScenarioError
from airmixml.output.tables import Table
from airmixml.wording import duration

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from airmixml.deploy.contract import Contract
    from airmixml.deploy.trial import History, Watch

PRESET: Final = "trustless-wine"
_PICTURE: Final = "lanes.png"
_SECONDS_BETWEEN_TABLES: Final = 0.2


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
    from airmixml.deploy.attacker import admit_attacker
    from airmixml.deploy.broker import find_mosquitto, free_port
    from airmixml.deploy.compiling import data_of, make_contract, planned_for
    from airmixml.deploy.contract import Contract
    from airmixml.deploy.credentials import check_new, create_deployment
    from airmixml.deploy.dealing import deal_rows
    from airmixml.deploy.lanes import draw_lanes
    from airmixml.deploy.trial import Trial

    find_mosquitto()
    if not deadline > 0.0:
        raise ScenarioError(f"--deadline = {deadline:g}: must be above 0 seconds")
    if chosen.file is None and chosen.preset is None:
        chosen = replace(chosen, preset=PRESET)
    if rounds is not None:
        chosen = replace(chosen, assignments=[*(chosen.assignments or ()), f"learner.rounds={rounds}"])
    scenario = chosen.settled(data_dir=data_dir)
    name = f"deploy-{scenario.name}"
    folder = out or _free_folder(name)
    check_new(folder, workers, 0)
    planned = planned_for(scenario, workers)
    dataset = data_of(planned, data_dir)
    if out is None and folder.name != name:
        print_error_line(f"airmix: {folder}: a new folder, since {folder.with_name(name)} is there already")
    raise_when_interrupted()
    server = create_deployment(
        folder,
        lambda keys, server_key: make_contract(planned, dataset, keys, server_key),
        workers=workers,
        port=free_port(),
    )
    rows = deal_rows(planned, dataset, folder, server, data_dir)
    contract = Contract.load(folder / "contract.json")
    admit_attacker(folder, contract.run)
    more = () if data_dir is None else ("--data-dir", data_dir)
    with _shown(contract, as_json=as_json) as watch:
        history = Trial(folder, deadline=deadline, kill=kill, more=more).run(watch)
    draw_lanes(history, f"{planned.name}: {workers} workers over mutual TLS; {contract.promise}", folder / _PICTURE)
    result = _result(history, contract, folder, rows)
    show(as_json, result, *_told(result, history))


def _free_folder(name: str) -> Path:
    from airmixml.storage.run_folder import RUNS_FOLDER

    names = (RUNS_FOLDER / (name if number == 1 else f"{name}-{number}") for number in itertools.count(1))
    return next(each for each in names if not each.exists())


@contextmanager
def _shown(contract: "Contract", *, as_json: bool) -> Iterator["Watch"]:
    """Yield what shows a table of workers while it changes; where there is no terminal, a line for each round."""
    if as_json or not stderr_console.is_terminal:
        yield _Lines()
        return
    from rich.live import Live

    with Live(console=stderr_console, auto_refresh=False, transient=True) as live:
        last = 0.0

        def watch(history: "History") -> None:
            nonlocal last
            if history.seconds - last > _SECONDS_BETWEEN_TABLES:
                last = history.seconds
                live.update(_live_table(history, contract, stderr_console.height), refresh=True)

        yield watch


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


def _live_table(history: "History", contract: "Contract", height: int) -> "RichTable":
    from rich.table import Table as RichTable

    number, phase = history.where
    alive = sum(lane.is_alive for lane in history.lanes.values())
    title = (
        f"{history.seconds:4.1f} s   round {number} of {len(contract.schedule)}: {phase}   {alive} of "
        f"{len(history.lanes)} workers alive"
    )
    table = RichTable(title=title, title_justify="left")
    for name, justify in (("worker", "left"), ("alive", "left"), ("round", "right"), ("sent last", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("spent", justify="right")
    lanes = list(history.lanes.values())
    shown = sorted(lanes, key=lambda lane: not (lane.killed or lane.refusals))[: max(4, height - 7)]
    for lane in lanes:
        if lane in shown:
            table.add_row(*_cells(lane))
    if len(shown) < len(lanes):
        table.caption = f"and {len(lanes) - len(shown)} more"
    return table


def _cells(lane: Any) -> tuple[str, ...]:
    last = lane.events[-1] if lane.events else {"event": "", "round": ""}
    state = "yes" if lane.is_alive else ("starting" if not lane.alive else "no")
    if lane.killed:
        state = "[red]killed[/red]" if not lane.is_alive else "[green]again[/green]"
    refused = " [yellow](refused a replay)[/yellow]" if lane.refusals else ""
    return lane.name, state + refused, str(last.get("round", "")), last["event"], f"{100 * lane.spent:.0f} %"


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
