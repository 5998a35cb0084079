"""``airmix attack``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from rich.markup import escape
from rich.text import Text
from typer import Option

from airmixml.cli import options
from airmixml.cli.finished import make_or_find, show_made
from airmixml.cli.options import choices
from airmixml.output.tables import Table, wide_table
from airmixml.registries import ATTACKS
from airmixml.scenario import Speed
from airmixml.scenario.grid import only_varied
from airmixml.wording import NOTHING_PROMISED, simulated

_STYLES = {
    "hidden": "green",
    NOTHING_PROMISED: "yellow",
    "too few to tell": "bright_black",
    "leaks": "dark_orange",
    "exposed": "red",
}


def attack_command(
    file: options.File = None,
    preset: options.Preset = None,
    air: options.AirName = None,
    assignments: options.Assignments = None,
    bounds: options.Bounds = None,
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
    scenario = options.choose_scenario(
        file, preset, options.on_air(air, assignments), seed, bounds=bounds, data_dir=data_dir
    )
    speed = Speed(device=device, threads=threads)
    options.check_force(force, out)
    varied = only_varied(vary, "attack")
    from airmixml.attacks import attack, choose_parts, read_cases

    cases = read_cases(scenario, varied, beside)
    parts = choose_parts(attacks, (case.scenario for case in cases))
    where: dict[str, Any] = {"out": out, "force": force, "speed": speed, "data_dir": data_dir}
    made = make_or_find(attack, cases, parts, engine=engine, jobs=jobs, **where)
    show_made(as_json, made, _parts, "attack")


def _parts(metrics: dict[str, Any]) -> Iterator[str | Text | Table]:
    """Yield one screen of what ``metrics.json`` holds; what there is beside stands in attack.md."""
    from airmixml.attacks.attack_report import read_attack, summary_of

    cases, result = metrics["cases"], read_attack(metrics)
    single = len(cases) == 1
    for case in cases:
        label = "" if single else f"{case['label']}: "
        yield Text(f"{label}{case['verdict']}", style=f"bold {_STYLES[case['grade']]}")
        yield from (f"- {line}" for line in case["details"] if single)
    summary = summary_of(result)
    heads = (name.replace(" allows", "\nallows").replace("beyond ", "beyond\n") for name in summary.columns)
    yield wide_table(heads, [list(map(escape, row)) for row in summary.rows], words=2 if single else 3)
    yield from dict.fromkeys(case.attackers for case in result.cases)
    yield simulated(metrics["seed"])
    for case in cases:
        if case["left_out"]:
            of, why = "" if single else f" of {case['label']}", case["left_out"].items()
            yield f"left out{of}: " + "; ".join(f"{name} ({each})" for name, each in why)
