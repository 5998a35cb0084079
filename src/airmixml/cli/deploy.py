"""``airmix deploy``, ``airmix server``, ``airmix worker`` and ``airmix gateway``."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from airmixml.cli import light, options
from airmixml.cli.deploy_up import set_up, up_command
from airmixml.cli.process import raise_when_interrupted
from airmixml.cli.terminal import print_error_line, show
from airmixml.errors import ScenarioError

app = options.command_group("Set up a scenario as a system of separate processes.")
app.command("up")(up_command)

Workers = Annotated[int, Option(help="Number of workers [default: the scenario's].", show_default=False)]
Gateways = Annotated[int, Option(help="Number of gateways that the workers are behind (0: each connects by itself).")]
EventsFile = Annotated[
    Path | None, Option(help="File to append what it does to, as lines of JSON.", show_default=False)
]


@dataclass(frozen=True)
class EndpointOptions:
    """What a worker and a gateway are told besides their name and their rows."""

    folder: Annotated[Path, Option(help="Folder that `airmix deploy init` wrote, or a copy of the endpoint's own.")] = (
        light.FOLDER
    )
    patience: Annotated[float, Option(help="Seconds after which a silent server is given up.")] = light.PATIENCE_SECONDS
    events: EventsFile = None
    show_values: Annotated[
        bool, Option("--show-values", help="Let error messages quote rows and values, for the owner alone.")
    ] = False


@app.command("init")
@options.with_groups
def init_command(
    chosen: options.Chosen,
    out: Annotated[Path, Option(help="Folder to create.")] = light.FOLDER,
    workers: Workers = 0,
    gateways: Gateways = 0,
    spare: Annotated[int, Option(help="Rounds that may be sent again after a failure; budgets must cover them.")] = 0,
    epsilon: Annotated[
        float, Option(help="Budget of each worker's own ledger [default: the scenario's epsilon].", show_default=False)
    ] = 0.0,
    enrolled: Annotated[
        Path | None,
        Option(help="Folder of public keys NAME.pub that devices made (`airmix deploy key`).", show_default=False),
    ] = None,
    port: Annotated[int, Option(help="Port of the broker on this machine (0: a free one).")] = 0,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Write contract, certificates, keys and broker configuration of a deployment.

    The folder of an endpoint holds all that its machine needs, but signing keys of devices that are enrolled: each has
    its own, from `airmix deploy key`. Keep ca/ca.key elsewhere: it makes certificates.
    """
    import cryptography  # noqa: F401  # first: where it is missing, the extra of deployments is named

    scenario = chosen.settled(data_dir=data_dir)
    from airmixml.deploy.compiling import Owner

    owner = Owner(epsilon=epsilon, spare=spare)
    *_, server = set_up(
        scenario, out, workers or scenario.workers.count, gateways, owner, port, data_dir=data_dir, enrolled=enrolled
    )
    kind = "gateway" if gateways else "worker"
    behind = f" behind {gateways} gateways" if gateways else ""
    show(
        as_json,
        {"folder": str(out), "workers": server.workers, "gateways": gateways, "port": server.port},
        f"{out}: {server.workers} workers{behind}; broker on {server.host}:{server.port}",
        f"  airmix server {out} --with-broker",
        *([f"  airmix air {out}"] if server.frames else []),
        f"  airmix {kind} --folder {out} --id {server.names[0]} --data FILE",
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


def server_command(
    place: Annotated[
        Path | None,
        Argument(
            metavar="SCENARIO|FOLDER",
            help="Folder that `airmix deploy init` wrote, or a scenario file to make one of.",
            show_default=False,
        ),
    ] = None,
    preset: options.Preset = None,
    out: Annotated[Path, Option(help="With a scenario: folder to create.")] = light.FOLDER,
    workers: Workers = 0,
    gateways: Gateways = 0,
    with_broker: Annotated[
        bool, Option("--with-broker", help="Start the broker (mosquitto) too, and end it with the server.")
    ] = False,
    deadline: Annotated[
        float, Option(help="Seconds to wait for the next answer before workers count as absent.")
    ] = 10.0,
    status: Annotated[
        bool, Option("--status", help="Serve a status page to this machine while the run goes on; prints its link.")
    ] = False,
    events: EventsFile = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Order rounds from workers, add up what they send, and learn from the sums.

    With a scenario it sets up the deployment first, as `airmix deploy init` does. Everything that it accepts is in its
    log (server/journal) before it goes on: repeat the command, with the folder, to resume.
    """
    if not deadline > 0.0:
        raise ScenarioError(f"--deadline = {deadline:g}: must be above 0 seconds")
    folder = out
    if place is not None and place.is_dir():
        if preset or workers or gateways:
            raise ScenarioError(f"--preset, --workers, --gateways: are decided already for {place}; leave them out")
        folder = place
    else:
        scenario = options.Chosen(place, preset).settled(data_dir=data_dir)
        set_up(scenario, out, workers or scenario.workers.count, gateways, data_dir=data_dir)
    from airmixml.deploy.compiling import data_of
    from airmixml.deploy.credentials import held_keys
    from airmixml.deploy.endpoint import SERVER_NAME, Endpoint, load_contract
    from airmixml.deploy.events import Events, Lines
    from airmixml.deploy.learning import Teacher
    from airmixml.deploy.processes import Broker
    from airmixml.deploy.server_process import Status, Timing, open_server, run_server
    from airmixml.errors import ProtocolError
    from airmixml.explore.server import serving_status
    from airmixml.runs.model_files import save_deployed

    def announce(link: str) -> None:
        print_error_line(f"airmix server: status page at {link} (works once; Enter prints another)")

    log, own = Lines(SERVER_NAME), folder / SERVER_NAME
    contract = load_contract(own)
    dataset = data_of(contract.plan, data_dir)
    teacher = Teacher(contract, dataset)
    if held := held_keys(folder):
        keys = f"keys of {held} workers" if held > 1 else "key of 1 worker"
        print_error_line(
            f"airmix server: WARNING: this machine holds the signing {keys}, below {folder}, so that it can play "
            f"{'them' if held > 1 else 'it'}: fit for a trial, not for protection; see `airmix deploy key`"
        )
    raise_when_interrupted()
    with Broker(folder) if with_broker else nullcontext():
        server = open_server(folder, log, teacher.tell)
        watch = Status(Endpoint.read(own), deadline, teacher.score, log, Events(events))
        with serving_status(watch.plain, None, announce) if status else nullcontext():
            run_server(folder, server, log, Timing(deadline=deadline), watch)
    if server.failure and not server.sums:
        raise ProtocolError(f"no round was completed: {server.failure}")
    spent, accuracy = contract.share(max(server.spent.values())), teacher.score(server.sums)
    result: dict[str, Any] = {
        "rounds": [{"round": each.number, "workers": list(each.present)} for each in server.sums],
        "budget_spent": spent,
        "budget": {"epsilon": contract.epsilon, "delta": contract.delta},
        "accuracy": accuracy,
        "failure": server.failure,
    }
    save_deployed(teacher.learned(server.sums).model, dataset, own, contract.plan, result)
    scored = "" if accuracy is None else f"; accuracy {100 * accuracy:.1f} % on the test rows"
    show(
        as_json,
        {"folder": str(folder), **result},
        *(f"round {each.number}: the sum of {len(each.present)} workers" for each in server.sums),
        f"{own / 'model.npz'}: learned from {len(server.sums)} rounds{scored}",
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
    light.run(data, name, **vars(given))


def gateway_command(
    data: Annotated[Path, Option(help="CSV or NPZ file with the rows of all its workers, in their order.")],
    name: Annotated[str, Option("--id", metavar="NAME", help="Name of the gateway, such as gateway-0.")],
    given: EndpointOptions,
) -> None:
    """Be many workers behind one connection, with messages in batches and one ledger.

    Each worker has keys of its own and signs what it sends; the gateway's machine is trusted with the data of all.
    """
    light.run(data, name, **vars(given))
