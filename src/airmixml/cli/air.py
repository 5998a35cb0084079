"""``airmix air``."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Argument, Option, echo

from airmixml.cli import options
from airmixml.cli.terminal import command_seconds, progress_bars, show
from airmixml.errors import ProtocolError, ScenarioError
from airmixml.output.tables import Table
from airmixml.wording import plural

RUNTIMES: Final = ("adder", "gnuradio")
_LISTEN: Final = "tcp://127.0.0.1:0"


def air_command(
    file: Annotated[
        Path | None,
        Argument(
            help="Folder that `airmix deploy init` wrote, or contract (JSON), to serve; or scenario (TOML) to try out.",
            show_default=False,
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
    key: Annotated[Path | None, Option(help="Contract: file of the air's signing key, 64 hexadecimal digits.")] = None,
    sums: Annotated[str, Option(help="Contract: address at which the server listens for sums.")] = "",
    listen: Annotated[
        str, Option(help="Contract: address to listen at for frames; port 0 takes a free one.")
    ] = _LISTEN,
    inputs: Annotated[int, Option(help="gnuradio: most workers of a slot [default: all of the contract].")] = 0,
    noise_watts: Annotated[
        float | None,
        Option(help="Receiver noise per complex sample, in watts [default: the contract's].", show_default=False),
    ] = None,
    frequency_offset: Annotated[float, Option(help="gnuradio: offset of the carrier in cycles per sample.")] = 0.0,
    taps: Annotated[str, Option(help="gnuradio: channel of all workers, such as 1,0.1j.")] = "1",
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Emulate the air: add up complex baseband of workers over ZeroMQ, in NumPy or in GNU Radio.

    With a folder or a contract it serves a run until that is over. With a scenario it tries it out on public data:
    workers send their frames through an air in a process of its own, and the model is put beside that of a simulation.
    """
    if runtime not in RUNTIMES:
        raise ScenarioError(f"--runtime {runtime}: must be one of {', '.join(RUNTIMES)}")
    if noise_watts is not None and not (math.isfinite(noise_watts) and noise_watts >= 0.0):
        raise ScenarioError(f"--noise-watts {noise_watts:g}: must be 0 or more watts")
    channel = {"frequency_offset": frequency_offset, "taps": _taps(taps)}
    if runtime == "adder" and channel != {"frequency_offset": 0.0, "taps": (1.0,)}:
        raise ScenarioError("--frequency-offset, --taps: need --runtime gnuradio")
    if file is not None and file.is_dir():
        from airmixml.deploy.air_link import Addresses
        from airmixml.deploy.credentials import AIR_FOLDER
        from airmixml.deploy.endpoint import CONTRACT, SIGNING_KEYS, DeployError

        own = file / AIR_FOLDER
        if not own.is_dir():
            raise DeployError(f"{file}: is no deployment with an air; set one up with a scenario of analog frames")
        where = Addresses.read(own)
        file, key, sums, listen = own / CONTRACT, own / SIGNING_KEYS, where.sums, where.frames
    if file is not None and file.suffix == ".json":
        _serve(file, runtime, key, sums, listen, inputs, noise_watts, channel)
        return
    given: dict[str, Any] = {"runtime": runtime, "record": record, "replay": replay}
    if runtime == "gnuradio":
        given["channel"] = (f"--frequency-offset={frequency_offset!r}", f"--taps={taps}")
    _try_out(options.Chosen(file, preset, None, assignments), workers, seed, as_json, given)


def _taps(text: str) -> tuple[complex, ...]:
    try:
        return tuple(complex(each.replace(" ", "")) for each in text.split(","))
    except ValueError:
        raise ScenarioError(
            f"--taps {text}: must be complex numbers with commas between them, such as 1,0.1j"
        ) from None


def _serve(
    file: Path,
    runtime: str,
    key: Path | None,
    sums: str,
    listen: str,
    inputs: int,
    noise_watts: float | None,
    channel: dict[str, Any],
) -> None:
    from airmixml.deploy.air import Adder, EmulatedAir, Runtime, bind, connect, send, serve
    from airmixml.deploy.contract import Contract
    from airmixml.deploy.endpoint import read_file
    from airmixml.deploy.kinds import AnalogKind, loudest_samples
    from airmixml.deploy.transport import Lines

    contract = Contract.from_json(read_file(file), str(file))
    if contract.kinds and not contract.on_air:
        raise ProtocolError(f"{file}: is a contract of masked integers, which the server adds up; they need no air")
    if contract.kinds:
        from airmixml.deploy.analog import check_emulated

        check_emulated(contract.plan, protects=bool(contract.budget))
    if noise_watts is None:
        noise_watts = max((each.receiver_watts for each in contract.kinds if isinstance(each, AnalogKind)), default=0.0)
    if key is None or not sums:
        raise ProtocolError("--key and --sums: both are needed to serve a contract")
    digits = read_file(key).strip()
    if not re.fullmatch(rb"[0-9a-f]{64}", digits):
        raise ProtocolError(f"{key}: must hold one signing key of 64 hexadecimal digits")
    adds: Runtime
    if runtime == "adder":
        adds = Adder(noise_watts)
    else:
        from airmixml.deploy.gnuradio_air import GnuRadio

        adds = GnuRadio(inputs or len(contract.members), noise_watts=noise_watts, **channel)
    try:
        server_key, own_key = bytes.fromhex(contract.server_key), bytes.fromhex(digits.decode())
        loudest = loudest_samples(contract.kinds)
        air = EmulatedAir(contract.run, contract.directory, server_key, own_key, adds, contract.gains, loudest)
        frames, address = bind("PULL", listen)
        echo(f"listening at {address}")
        to_server = connect("PUSH", sums)
        if contract.on_air:
            send(to_server, air.hello())
        serve(air, frames, to_server, log=Lines("air"))
    finally:
        adds.close()


def _try_out(chosen: options.Chosen, workers: int, seed: int | None, as_json: bool, given: dict[str, Any]) -> None:
    scenario = chosen.read(seed)
    from airmixml.deploy.analog import NOBODY_PROTECTED, for_workers
    from airmixml.deploy.lab import try_out

    scenario = options.settle_scenario(for_workers(scenario, workers) if workers else scenario)
    with progress_bars() as progress:
        trial = try_out(scenario, progress=progress, **given)
    runtime = given["runtime"] if given["replay"] is None else f"{given['replay']}"
    rows = [("through the air", trial.trained), ("simulated", trial.simulated)]
    name = trial.trained.history.score_name.replace("_", " ")
    scores = {where: (each.history.test_accuracy or each.history.test_score or [math.nan])[-1] for where, each in rows}
    sent = f"{scenario.radio.scheduled:,} workers in {plural(scenario.slots_on_air, 'slot')} through {runtime}"
    table = Table(
        title=scenario.title,
        columns=("", name),
        rows=tuple((where, f"{100.0 * score:.1f} %") for where, score in scores.items()),
    )
    spent = {each: round(seconds, 3) for each, seconds in trial.seconds.items()}
    told = ", ".join(f"{each} {seconds:.2f} s" for each, seconds in spent.items())
    told = f"{sent}: {told}; {command_seconds():.1f} s in total"
    plain = {"runtime": runtime, "workers": scenario.radio.scheduled, "scores": scores, "seconds": spent}
    show(as_json, plain, table, told, NOBODY_PROTECTED)
