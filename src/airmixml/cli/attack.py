"""``airmix attack``."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Option

from airmixml.cli import options
from airmixml.cli.finished import make_or_find, show_made
from airmixml.cli.options import choices
from airmixml.registries import ATTACKS
from airmixml.scenario import Speed
from airmixml.scenario.grid import only_varied


def attack_command(
    chosen: options.Chosen,
    vary: Annotated[
        list[str] | None,
        Option(
            metavar="KEY=V1,V2,...",
            help="Attack the scenario at each of these values (for privacy.epsilon, max means maximum power).",
        ),
    ] = None,
    beside: Annotated[
        str | None, Option(metavar="NAME,...", help="Attack these presets or scenario files of the same data as well.")
    ] = None,
    attacks: Annotated[
        str | None,
        Option(
            metavar="NAME,...",
            help=f"Attacks to run: {choices(ATTACKS)} [default: all that fit the scenario; "
            "everyone only where workers bring noise].",
        ),
    ] = None,
    seed: options.Seed = None,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    threads: options.Threads = 0,
    engine: options.Engine = "local",
    jobs: options.Jobs = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Attack a run and show what each adversary recovers.

    The adversaries are the server, the release, an eavesdropper and everyone; informed ones know all other samples.
    The first line says what is promised, whether an attack broke it, and who found something. EXPOSED: half of what
    guessing leaves open, or half of the workers looked for; LEAKS: 5 % of it, or any worker. The table has the
    strongest figure of each adversary beside guessing and what its epsilon allows; attack.md and the report have all.
    Repeat the same command to resume an interrupted attack, or to see a finished one again.
    """
    scenario = chosen.settled(seed, data_dir=data_dir)
    speed = Speed(device=device, threads=threads)
    options.check_force(force, out)
    varied = only_varied(vary)
    from airmixml.attacks import attack, choose_parts, read_cases
    from airmixml.attacks.attack_page import attack_page

    cases = read_cases(scenario, varied, beside)
    parts = choose_parts(attacks, (case.scenario for case in cases))
    where: dict[str, Any] = {"out": out, "force": force, "speed": speed, "data_dir": data_dir}
    made = make_or_find(attack, cases, parts, engine=engine, jobs=jobs, **where)
    show_made(as_json, made, attack_page(made.metrics, cases[0].scenario), "attack")
