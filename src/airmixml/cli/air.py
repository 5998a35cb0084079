"""``airmix air``."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, echo

from airmixml.errors import ScenarioError


def air_command(
    folder: Annotated[Path, Argument(help="Folder that `airmix deploy init` wrote.", show_default=False)],
    runtime: Annotated[str, Option(help="What adds up frames: adder (NumPy) or gnuradio.")] = "adder",
) -> None:
    """Emulate the air of a deployment: add up complex baseband of its workers over ZeroMQ, until their run is over."""
    from airmixml.deploy.air import Adder, MakeRuntime
    from airmixml.deploy.air_link import run_air
    from airmixml.deploy.gnuradio_air import GnuRadio

    runtimes: dict[str, MakeRuntime] = {"adder": Adder, "gnuradio": GnuRadio}
    if runtime not in runtimes:
        raise ScenarioError(f"--runtime {runtime}: must be one of {', '.join(runtimes)}")
    run_air(folder, runtimes[runtime], echo)
