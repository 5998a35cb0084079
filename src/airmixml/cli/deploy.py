"""``airmix deploy``, and its parts: ``airmix server``, ``worker``, ``gateway`` and ``air``."""

import itertools
import json
import shutil
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Argument, Option, echo

from airmixml.cli import options
from airmixml.cli.main import FOLDER, PATIENCE_SECONDS, raise_when_interrupted, run_light
from airmixml.cli.terminal import command_seconds, print_error_line, show
from airmixml.messages import ScenarioError, duration, plural
from airmixml.output.tables import Table
from airmixml.scenario import Scenario
from airmixml.scenario.rules import Choice, Real

if TYPE_CHECKING:
    from airmixml.data import DataSet
    from airmixml.deploy.endpoint import Endpoint

_SECONDS: Final = Real(low=0, open_low=True)
PRESET: Final = "trustless-wine"
_PICTURE: Final = "deploy-lanes.png"

app = options.command_group("Set up a scenario as a system of separate processes.")


@dataclass(frozen=True)
class EndpointOptions:
    """What a worker and a gateway are told besides their name and their rows."""

    folder: Annotated[Path, Option(help="Folder that `airmix deploy init` wrote, or a copy of the endpoint's own.")] = (
        Path(FOLDER)
    )
    patience: Annotated[float, Option(help="Seconds after which a silent server is given up.")] = PATIENCE_SECONDS
    show_values: options.ShowValues = False


@dataclass(frozen=True)
class Parts:
    """The options that say which parts a deployment has, and what their budgets cover."""

    workers: Annotated[int, Option(help="Number of workers [default: the scenario's].", show_default=False)] = 0
    gateways: Annotated[
        int, Option(help="Number of gateways that the workers are behind (0: each connects by itself).")
    ] = 0
    spare: Annotated[int, Option(help="Rounds that may be sent again after a failure; budgets must cover them.")] = 0
    epsilon: Annotated[
        float, Option(help="Budget of each worker's own ledger [default: the scenario's epsilon].", show_default=False)
    ] = 0.0
    enrolled: Annotated[
        Path | None,
        Option(help="Folder of public keys NAME.pub that devices made (`airmix deploy key`).", show_default=False),
    ] = None
    port: Annotated[int, Option(help="Port of the broker on this machine (0: a free one).")] = 0


def set_up(scenario: Scenario, out: Path, data_dir: Path | None, parts: Parts) -> "tuple[Scenario, DataSet, Endpoint]":
    """Write the folders of a deployment; return what is deployed, its data, and the server's endpoint."""
    from airmixml.deploy.compiling import data_of, make_contract, planned_for
    from airmixml.deploy.credentials import check_gateways, check_new, create_deployment, free_ports

    counts = parts.workers, parts.gateways
    check_new(out, *counts)
    planned = planned_for(scenario, parts.workers)
    check_gateways(*counts, planned.privacy.colluders)
    dataset = data_of(planned, data_dir)
    raise_when_interrupted()
    agreed = partial(make_contract, planned, dataset, epsilon=parts.epsilon, spare=parts.spare)
    server = create_deployment(out, agreed, *counts, port=parts.port or free_ports(1)[0], enrolled=parts.enrolled)
    if parts.gateways and not planned.privacy.colluders:
        print_error_line(
            "airmix deploy: privacy.colluders = 0: all workers, and so all gateways, are taken as honest towards each "
            "other"
        )
    return planned, dataset, server


def _rehearse(planned: Scenario, dataset: "DataSet", folder: Path, server: "Endpoint") -> list[float]:
    """Say what so few workers can learn, before anything is started; return the accuracies of rehearsals."""
    from airmixml.data.dataset import known_dataset
    from airmixml.deploy.endpoint import SERVER_NAME, find_folder, load_contract
    from airmixml.deploy.expectations import told_beforehand
    from airmixml.deploy.rehearsal import rehearse, told_of
    from airmixml.deploy.trial import ROWS

    contract = load_contract(folder / SERVER_NAME)
    print_error_line(f"airmix: {told_beforehand(contract)}")
    if not known_dataset(planned.workers.dataset):
        print_error_line("airmix: not rehearsed: that would tell more of your own rows than epsilon covers")
        return []
    found = rehearse(contract, dataset, [find_folder(folder, each) / ROWS for each in server.names])
    if found:
        print_error_line(f"airmix: {told_of(found)}")
    return found


@app.command("up")
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
    is killed and started again, and an old order is sent to it again, which its ledger refuses. Any process that you
    kill is started again too. Writes a picture, and a model that `airmix predict` reads; where it is interrupted,
    nothing is left.
    """
    import cryptography  # noqa: F401  # first: where it is missing, the extra of deployments is named

    from airmixml.deploy.credentials import check_new
    from airmixml.deploy.endpoint import SERVER_NAME
    from airmixml.deploy.processes import find_mosquitto
    from airmixml.deploy.supervision import RESTARTED
    from airmixml.deploy.trial import ROWS, SENDS, Trial, deal_rows, draw_lanes
    from airmixml.storage.folders import METRICS, RUNS_FOLDER

    _SECONDS.check("--deadline", deadline)
    if chosen.file is None and chosen.preset is None:
        chosen = replace(chosen, preset=PRESET)
    scenario = chosen.settled(data_dir=data_dir)
    first = RUNS_FOLDER / f"deploy-{scenario.name}"
    others = (first.with_name(f"{first.name}-{number}") for number in itertools.count(2))
    folder = out or next(each for each in itertools.chain([first], others) if not each.exists())
    if out is None and folder != first:
        print_error_line(f"airmix: {folder}: a new folder, since {first} is there already")
    check_new(folder, workers, 0)
    find_mosquitto()
    planned, dataset, server = set_up(scenario, folder, data_dir, Parts(workers=workers))

    def say(seconds: float, line: str) -> None:
        if SENDS not in line:
            print_error_line(f"airmix: {seconds:5.1f} s  {line}")

    try:
        rows = deal_rows(planned, dataset, folder, server, data_dir)
        rehearsed = _rehearse(planned, dataset, folder, server)
        more = () if data_dir is None else ("--data-dir", data_dir)
        trial = Trial(folder, say, deadline=deadline, more=more)
        killed = trial.run(kill=kill)
        found = json.loads((folder / SERVER_NAME / METRICS).read_text(encoding="utf-8"))
        title = f"{planned.name}: {workers} workers over mutual TLS; {found['promise']}"
        draw_lanes(trial.events, server.names, found["rounds"], title, folder / _PICTURE)
    except KeyboardInterrupt:  # the same command can be given again
        shutil.rmtree(folder, ignore_errors=True)
        raise
    events = [each._asdict() for each in trial.events]
    ended = {each.who for each in trial.events if each.what == RESTARTED}
    result = {**found, "folder": str(folder), "workers": workers, "killed": killed, "seconds": command_seconds()}
    result |= {"picture": str(folder / _PICTURE), "events": events, "rehearsed": rehearsed}
    each_has = f"{min(rows)}" if min(rows) == max(rows) else f"{min(rows)} to {max(rows)}"
    lines = []
    for each in found["rounds"]:
        score = "none" if each["accuracy"] is None else f"{100 * each['accuracy']:.1f} %"
        lines.append((str(each["round"]), str(len(each["workers"])), score))
    columns = ("round", "workers in the sum", "accuracy after it")
    table = Table(title=f"{workers} workers; rows of each: {each_has}", columns=columns, rows=lines)
    own = folder / SERVER_NAME
    show(
        as_json,
        result,
        table,
        *(f"{each.who}: {each.what}" for each in trial.events if each.who in ended and SENDS not in each.what),
        *found["warnings"],
        *([f"the run ended early: {found['failure']}"] if found["failure"] else []),
        f"no worker has spent more than {100 * found['budget_spent']:.1f} % of its budget; promised for all of it: "
        f"{found['promise']}",
        f"{duration(result['seconds'])}; picture in {result['picture']}; predict, here rows it learned from: "
        f"airmix predict {own} {next(folder.glob(f'devices/*/{ROWS}'))} --score",
    )


@app.command("init")
@options.with_groups
def init_command(
    chosen: options.Chosen,
    *,
    out: Annotated[Path, Option(help="Folder to create.")] = Path(FOLDER),
    parts: Parts,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Write contract, certificates, keys and broker configuration of a deployment.

    The folder of an endpoint holds all that its machine needs, but signing keys of devices that are enrolled: each has
    its own, from `airmix deploy key`. Keep ca/ca.key elsewhere: it makes certificates.
    """
    import cryptography  # noqa: F401  # first: where it is missing, the extra of deployments is named

    from airmixml.deploy.endpoint import SERVER_NAME, find_folder, load_contract
    from airmixml.deploy.expectations import noise_beside_mean, told_beforehand

    scenario = chosen.settled(data_dir=data_dir)
    *_, server = set_up(scenario, out, data_dir, replace(parts, workers=parts.workers or scenario.workers.count))
    kind, name = "gateway" if server.gateways else "worker", server.names[0]
    behind = f" behind {server.gateways} gateways" if server.gateways else ""
    contract = load_contract(out / SERVER_NAME)
    told = {"folder": str(out), "workers": server.workers, "gateways": server.gateways, "port": server.port}
    show(
        as_json,
        {**told, "noise_beside_mean": noise_beside_mean(contract)},
        f"{out}: {server.workers} workers{behind}; broker on {server.host}:{server.port}",
        told_beforehand(contract),
        f"  airmix server {out} --with-broker",
        *([f"  airmix air {out}"] if server.frames else []),
        f"  airmix {kind} --folder {find_folder(out, name)} --id {name} --data FILE",
    )


@app.command("key")
def key_command(
    names: Annotated[
        list[str], Option("--id", metavar="NAME", help="Name of the worker, such as worker-0; may be repeated.")
    ],
    out: Annotated[Path, Option(help="Folder to write to.")],
    as_json: options.AsJson = False,
) -> None:
    """Make the signing key of a worker on its own device, so that no other machine ever holds it.

    NAME.pub is for `airmix deploy init --enrolled`. NAME.key stays here, beside the folder that the device is given.
    """
    from airmixml.deploy.credentials import PUBLIC_KEY, create_keys
    from airmixml.deploy.endpoint import OWN_KEY

    create_keys(out, names)
    show(
        as_json,
        {"folder": str(out), "workers": names},
        *(f"{out / name}{PUBLIC_KEY}: give it to the owner; {name}{OWN_KEY} stays on this device" for name in names),
    )


@app.command("renew")
def renew_command(
    folder: Annotated[Path, Argument(help="Folder that `airmix deploy init` wrote, with ca/ca.key.")] = Path(FOLDER),
    names: Annotated[
        list[str] | None,
        Option("--id", metavar="NAME", help="Endpoint [default: all whose folders are here].", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make new certificates before the old ones expire: the same authority, keys, contract and ledgers.

    Copy tls.crt and ca.crt of an endpoint to its machine (and tls.key, where its folder had been moved away). Old and
    new certificates understand each other until the old ones expire. Start the broker again to use its own.
    """
    from airmixml.deploy.renewal import renew

    ends = {name: f"{end:%Y-%m-%d}" for name, end in renew(folder, names or ()).items()}
    show(as_json, {"folder": str(folder), "ends": ends}, *(f"{name}: expires on {day}" for name, day in ends.items()))


@app.command("revoke")
def revoke_command(
    folder: Annotated[Path, Argument(help="Folder that `airmix deploy init` wrote.", show_default=False)],
    names: Annotated[
        list[str], Option("--id", metavar="NAME", help="Worker, gateway, server or air whose keys are revoked.")
    ],
    as_json: options.AsJson = False,
) -> None:
    """Revoke keys: servers and workers that have the new contract refuse their holders. Budgets and ledgers go on.

    Copy the contract that is written here to the endpoints on other machines, and start all endpoints again.
    """
    from airmixml.deploy.renewal import revoke

    found = revoke(folder, names)
    show(
        as_json,
        {"folder": str(folder), "revoked": found.revoked},
        f"{plural(len(found.revoked), 'key')} revoked; copy {folder / 'contract.json'} to all endpoints, and start "
        "them again",
    )


def server_command(
    folder: Annotated[Path, Argument(help="Folder that `airmix deploy init` wrote.", show_default=False)],
    with_broker: Annotated[
        bool, Option("--with-broker", help="Start the broker (mosquitto) too, and end it with the server.")
    ] = False,
    deadline: Annotated[
        float, Option(help="Seconds to wait for the next answer before workers count as absent.")
    ] = 10.0,
    status: Annotated[
        bool, Option("--status", help="Serve a status page to this machine while the run goes on; prints its link.")
    ] = False,
    status_port: Annotated[
        int,
        Option(
            help="Port of this machine for /healthz and /metrics, without a worker's name (0: none).", min=0, max=65535
        ),
    ] = 0,
    record: Annotated[
        Path | None, Option(help="Analog frames: SigMF recording to write received sums to.", show_default=False)
    ] = None,
    replay: Annotated[
        Path | None,
        Option(help="Analog frames: SigMF recording to learn from, instead of workers.", show_default=False),
    ] = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Order rounds from workers, add up what they send, and learn from the sums.

    Everything that it accepts is in its log (server/journal) before it goes on: repeat the command to resume.
    """
    _SECONDS.check("--deadline", deadline)
    from airmixml.deploy.compiling import data_of
    from airmixml.deploy.credentials import held_keys
    from airmixml.deploy.endpoint import SERVER_NAME, Endpoint, Lines, load_contract
    from airmixml.deploy.expectations import warnings_of
    from airmixml.deploy.metrics import serving_metrics
    from airmixml.deploy.processes import Broker
    from airmixml.deploy.server_process import Status, Teacher, open_server, run_server
    from airmixml.deploy.sigmf_files import read_recording, replayed, write_recording
    from airmixml.explore.server import serving_status
    from airmixml.messages import ProtocolError
    from airmixml.runs.model_files import save_deployed

    def announce(link: str) -> None:
        print_error_line(f"airmix server: status page at {link} (works once; Enter prints another)")

    log, own = Lines(SERVER_NAME), folder / SERVER_NAME
    contract = load_contract(own)
    if (record or replay) and not contract.on_air:
        raise ScenarioError("--record, --replay: this deployment has no analog frames; leave them out")
    dataset = data_of(contract.plan, data_dir)
    teacher, failure, spent, watch = Teacher(contract, dataset), "", 0.0, None
    raise_when_interrupted()
    with ExitStack() as pages:
        if replay is not None:
            sums = replayed(contract, read_recording(replay))
            scores = [teacher.score(sums[: count + 1]) for count in range(len(sums))]
        else:
            if held := held_keys(folder):
                print_error_line(
                    f"airmix server: WARNING: this machine holds the signing keys of {plural(held, 'worker')}, below "
                    f"{folder}, so that it can play them: fit for a trial, not for protection; see `airmix deploy key`"
                )
            with Broker(folder) if with_broker else nullcontext() as broker:
                server = open_server(folder, log, teacher.tell)
                watch = Status(Endpoint.read(own), deadline, teacher.score, log)
                if status_port:
                    pages.enter_context(serving_metrics(watch, status_port))
                with serving_status(lambda: watch.plain, announce) if status else nullcontext():
                    run_server(folder, server, log, deadline, watch if broker is None else broker.kept(watch, log))
            sums, scores, failure = server.sums, watch.scores, server.failure
            spent = contract.share(max(server.spent.values()))
        if failure and not sums:
            raise ProtocolError(f"no round was completed: {failure}")
        if record is not None:
            heard = [each.on_air for each in sums if each.on_air is not None]
            write_recording(record, heard, f"{contract.plan.title}: sums of an emulated air")
        result: dict[str, Any] = {
            "rounds": [
                {"round": each.number, "workers": list(each.present), "accuracy": score}
                for each, score in zip(sums, scores, strict=True)
            ],
            "budget_spent": spent,
            "budget": {"epsilon": contract.epsilon, "delta": contract.delta},
            "promise": contract.promise,
            "accuracy": scores[-1],
            "failure": failure,
            "warnings": warnings_of(contract, sums),
        }
        save_deployed(teacher.learned(sums).model, dataset, own, contract.plan, result)
        if watch is not None:
            watch.released = True
    scored = "" if scores[-1] is None else f"; accuracy {100 * scores[-1]:.1f} % on the test rows"
    show(
        as_json,
        {"folder": str(folder), **result},
        *(f"round {each.number}: the sum of {len(each.present)} workers" for each in sums),
        *result["warnings"],
        f"{own / 'model.npz'}: learned from {len(sums)} rounds{scored}",
        f"no worker has spent more than {100 * spent:.0f} % of its budget; promised for all of it: {contract.promise}",
    )


def worker_command(
    data: Annotated[Path, Option(help="CSV or NPZ file of the worker's own rows.")],
    name: Annotated[str, Option("--id", metavar="NAME", help="Name of the worker, such as worker-0.")],
    given: EndpointOptions,
) -> None:
    """Be a worker: answer the server's orders, within a budget that this worker keeps itself.

    What it has spent is in its ledger, in the endpoint's folder: without that file it would not know what it has sent.
    """
    run_light(data, name, **vars(given))


def gateway_command(
    data: Annotated[Path, Option(help="CSV or NPZ file with the rows of all its workers, in their order.")],
    name: Annotated[str, Option("--id", metavar="NAME", help="Name of the gateway, such as gateway-0.")],
    given: EndpointOptions,
) -> None:
    """Be many workers behind one connection, with messages in batches and one ledger.

    Each worker has keys of its own and signs what it sends; the gateway's machine is trusted with the data of all.
    """
    run_light(data, name, **vars(given))


def air_command(
    folder: Annotated[Path, Argument(help="Folder that `airmix deploy init` wrote.", show_default=False)],
    runtime: Annotated[str, Option(help="What adds up frames: adder (NumPy) or gnuradio.")] = "adder",
) -> None:
    """Emulate the air of a deployment: add up complex baseband of its workers over ZeroMQ, until their run is over."""
    from airmixml.deploy.air_link import Adder, MakeRuntime, run_air
    from airmixml.deploy.processes import GnuRadio

    runtimes: dict[str, MakeRuntime] = {"adder": Adder, "gnuradio": GnuRadio}
    run_air(folder, runtimes[Choice(tuple(runtimes)).check("--runtime", runtime)], echo)
