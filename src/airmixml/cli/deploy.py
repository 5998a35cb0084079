"""``airmix deploy``, ``airmix server``, ``airmix worker`` and ``airmix gateway``."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from airmixml.cli import light, options
from airmixml.cli.interrupt import raise_when_interrupted
from airmixml.cli.terminal import print_line, show
from airmixml.errors import ScenarioError

app = options.command_group("Run a scenario as separate processes: credentials, a broker, workers and a server.")

Workers = Annotated[int, Option(help="Number of workers [default: the scenario's].", show_default=False)]
Gateways = Annotated[int, Option(help="Number of gateways that the workers are behind (0: each connects by itself).")]
Folder = Annotated[Path, Option(help="Folder that `airmix deploy init` wrote, or a copy of the endpoint's own.")]
Patience = Annotated[float, Option(help="Seconds after which a silent server is given up.")]


@app.command("init")
def init_command(
    chosen: options.Chosen,
    out: Annotated[Path, Option(help="Folder to create.")] = light.FOLDER,
    workers: Workers = 0,
    gateways: Gateways = 0,
    spare: Annotated[int, Option(help="Rounds that may be sent again after a failure; workers' budgets must cover them.")] = 0,
    epsilon: Annotated[float, Option(help="Budget of each worker's own ledger [default: the scenario's epsilon].", show_default=False)] = 0.0,
    port: Annotated[int, Option(help="Port of the broker on this machine (0: a free one).")] = 0,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the contract, certificates, keys and broker configuration of a deployment.

    The folder of an endpoint holds all that its machine needs. Keep ca/ca.key elsewhere: it makes certificates.
    """
    from airmixml.deploy.broker import free_port
    from airmixml.deploy.compiling import Owner, data_of, make_contract, planned_for
    from airmixml.deploy.credentials import check_new, create_deployment

    check_new(out)
    scenario = chosen.settled(data_dir=data_dir)
    planned = planned_for(scenario, workers or scenario.workers.count)
    dataset, owner = data_of(planned, data_dir), Owner(epsilon=epsilon, spare=spare)
    server = create_deployment(
        out,
        lambda keys, server_key: make_contract(planned, dataset, keys, server_key, owner).to_json(),
        workers=planned.workers.count,
        gateways=gateways,
        port=port or free_port(),
    )
    first = f"airmix {'gateway' if gateways else 'worker'} --folder {out} --id {server.names[0]} --data FILE"
    show(
        as_json,
        {"folder": str(out), "workers": server.workers, "gateways": gateways, "port": server.port},
        f"{out}: {server.workers} workers" + (f" behind {gateways} gateways" if gateways else ""),
        f"  airmix server {out} --with-broker",
        f"  {first}",
    )
