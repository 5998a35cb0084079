"""``airmix air``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from typer import Argument, Option, echo

from airmixml.cli import options
from airmixml.cli.terminal import command_seconds, progress_bars, show
from airmixml.errors import ScenarioError
from airmixml.output.tables import Table
from airmixml.wording import plural

if TYPE_CHECKING:
    from airmixml.deploy.air import MakeRuntime

RUNTIMES: Final = ("adder", "gnuradio")
_NOBODY_PROTECTED: Final = (
    "public data in a lab: nobody is protected; the hub of an emulated air hears every frame by itself"
)


def air_command(
    file: Annotated[
        Path | None,
        Argument(
            help="Folder that `airmix deploy init` wrote, to serve; or scenario (TOML) to try out.", show_default=False
        ),
    ] = None,
    preset: options.Preset = None,
    assignments: options.Assignments = None,
    runtime: Annotated[str, Option(help="What adds up frames: adder (NumPy) or gnuradio.")] = "adder",
    workers: Annotated[
        int, Option(help="Trial: number of workers, all of whom send in every slot (0: as the scenario says).")
    ] = 0,
    record: Annotated[Path | None, Option(help="Trial: SigMF recording to write received sums to.")] = None,
    replay: Annotated[Path | None, Option(help="Trial: SigMF recording to learn from, instead of an air.")] = None,
    frequency_offset: Annotated[float, Option(help="gnuradio: offset of the carrier in cycles per sample.")] = 0.0,
    taps: Annotated[str, Option(help="gnuradio: channel of all workers, such as 1,0.1j.")] = "1",
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Emulate the air: add up complex baseband of workers over ZeroMQ, in NumPy or in GNU Radio.

    With a folder it serves the workers of a deployment until their run is over. With a scenario it tries it out on
    public data, in one process: the model that is learned through the air is put beside that of a simulation.
    """
    make_runtime = _runtime(runtime, frequency_offset, taps)
    if record is not None and replay is not None:
        raise ScenarioError("--record, --replay: a replay has no air to record; keep one of them")
    if file is not None and file.is_dir():
        _serve(file, make_runtime)
        return
    scenario = options.Chosen(file, preset, None, assignments).read(seed)
    from airmixml.deploy.compiling import planned_for
    from airmixml.deploy.lab import try_out

    workers = workers or options.settle_scenario(scenario).workers.count
    scenario = planned_for(scenario, workers, public=True)
    with progress_bars() as progress:
        trial = try_out(scenario, make_runtime=make_runtime, record=record, replay=replay, progress=progress)
    rows = [("through the air", trial.trained), ("simulated", trial.simulated)]
    name = trial.trained.history.score_name.replace("_", " ")
    scores = {where: (each.history.test_accuracy or each.history.test_score or [math.nan])[-1] for where, each in rows}
    table = Table(
        title=scenario.title,
        columns=("", name),
        rows=tuple((where, f"{100.0 * score:.1f} %") for where, score in scores.items()),
    )
    spent = {each: round(seconds, 3) for each, seconds in trial.seconds.items()}
    told = ", ".join(f"{each} {seconds:.2f} s" for each, seconds in spent.items())
    runtime = runtime if replay is None else str(replay)
    sent = f"{scenario.radio.scheduled:,} workers in {plural(scenario.slots_on_air, 'slot')} through {runtime}"
    plain = {"runtime": runtime, "workers": scenario.radio.scheduled, "scores": scores, "seconds": spent}
    show(as_json, plain, table, f"{sent}: {told}; {command_seconds():.1f} s in total", _NOBODY_PROTECTED)


def _runtime(name: str, frequency_offset: float, taps: str) -> MakeRuntime:
    """Return what starts a runtime of that name, in which GNU Radio alone has a channel."""
    if name not in RUNTIMES:
        raise ScenarioError(f"--runtime {name}: must be one of {', '.join(RUNTIMES)}")
    if name == "adder" and (frequency_offset or taps != "1"):
        raise ScenarioError("--frequency-offset, --taps: need --runtime gnuradio")
    try:
        paths = tuple(complex(each.replace(" ", "")) for each in taps.split(","))
    except ValueError:
        raise ScenarioError(
            f"--taps {taps}: must be complex numbers with commas between them, such as 1,0.1j"
        ) from None
    if name == "adder":
        from airmixml.deploy.air import Adder

        return Adder
    from airmixml.deploy.gnuradio_air import GnuRadio

    return lambda inputs, watts: GnuRadio(inputs, noise_watts=watts, frequency_offset=frequency_offset, taps=paths)


def _serve(folder: Path, make_runtime: MakeRuntime) -> None:
    from airmixml.deploy.air import bind, connect, send, serve
    from airmixml.deploy.air_link import running_air
    from airmixml.deploy.endpoint import AIR_NAME, DeployError, Endpoint, load_contract, read_signing_keys
    from airmixml.deploy.events import Lines

    own = folder / AIR_NAME
    if not own.is_dir():
        raise DeployError(f"{folder}: is no deployment with an air; set one up with a scenario of analog frames")
    where, contract, (key,) = Endpoint.read(own), load_contract(own), read_signing_keys(own, 1)
    with running_air(contract, key, make_runtime) as air:
        frames, address = bind("PULL", where.frames)
        echo(f"listening at {address}")
        to_server = connect("PUSH", where.sums)
        send(to_server, air.hello())
        serve(air, frames, to_server, log=Lines("air"))
