"""``airmix attack``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from rich.box import SIMPLE
from rich.markup import escape
from typer import Option

from airmixml.cli import options
from airmixml.cli.finished import report_into
from airmixml.cli.options import choices
from airmixml.cli.terminal import console, print_json, print_line, print_report_place, progress_bars
from airmixml.output.tables import terminal_table
from airmixml.registries import ATTACKS
from airmixml.scenario import Speed
from airmixml.scenario.grid import only_varied
from airmixml.wording import NOTHING_PROMISED, simulated

if TYPE_CHECKING:
    from airmixml.attacks import AttackResult

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
    Repeat the same command to resume an interrupted attack; airmix report FOLDER --open shows a finished one again.
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
    reports: list[dict[str, str]] = []
    with progress_bars() as progress:
        where: dict[str, Any] = {"out": out, "force": force, "speed": speed, "data_dir": data_dir, "progress": progress}
        result = attack(cases, parts, engine=engine, jobs=jobs, finish=report_into(reports), **where)
    if as_json:
        print_json({**result.to_dict(), **reports[0]})
        return
    _print(result, reports[0])


def _print(result: AttackResult, report: dict[str, str]) -> None:
    """Print one screen; what there is beside stands in attack.md."""
    from airmixml.attacks.attack_report import summary_of

    single = len(result.cases) == 1
    for case in result.cases:
        label = "" if single else f"{case.label}: "
        print_line(f"{label}{case.verdict}", style=f"bold {_STYLES[case.grade]}")
        for line in case.details if single else ():
            print_line(f"- {line}")
    summary = summary_of(result)
    rows, elsewhere = [list(map(escape, row)) for row in summary.rows], "a wider terminal or the files named below"
    look: dict[str, Any] = {"box": SIMPLE, "padding": (0, 1, 0, 0)}
    heads = (name.replace(" allows", "\nallows").replace("beyond ", "beyond\n") for name in summary.columns)
    console.print(terminal_table(heads, rows, words=2 if single else 3, elsewhere=elsewhere, **look))
    for text in dict.fromkeys(case.attackers for case in result.cases):
        print_line(text)
    print_line(simulated(result.cases[0].scenario.seed))
    for case in result.cases:
        if case.left_out:
            why = "; ".join(f"{name} ({why})" for name, why in case.left_out.items())
            print_line(f"left out{'' if single else f' of {case.label}'}: {why}")
    print_report_place(result.run_dir, "attack", report)
