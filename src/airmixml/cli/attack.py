"""``airmix attack``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from airmixml.cli.run import choose_scenario
from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.doors import ATTACKS
from airmixml.errors import ScenarioError
from airmixml.scenario import Speed

if TYPE_CHECKING:
    from airmixml.attacks import AttackResult

_STYLES = {"hidden": "green", "not found": "yellow", "leaks": "dark_orange", "exposed": "red"}


def attack_command(
    file: Annotated[Path | None, typer.Argument(help="Scenario file (TOML).", show_default=False)] = None,
    preset: Annotated[str | None, typer.Option(help="Scenario that comes with the package.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key, such as mixing.power=max."),
    ] = None,
    vary: Annotated[
        str | None,
        typer.Option(
            metavar="KEY=V1,V2,...",
            help="Attack the scenario at these values, side by side (privacy.epsilon takes max for maximum power too).",
        ),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Other presets or scenario files of the same data, beside it."),
    ] = None,
    attacks: Annotated[
        str | None,
        typer.Option(
            help=f"Attacks with commas between them: {', '.join(ATTACKS.own)}, or of another package "
            "[default: all that fit].",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run that is attacked.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to make [default: a free name below runs/].")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the folder --out if it exists.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(help="CPU threads (0: as many as there are cores).")] = 0,
    data_dir: Annotated[Path | None, typer.Option(help="Folder that holds the four MNIST files.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """Attack a run: what the server, the release and an eavesdropper learn about the workers' samples.

    The grade is EXPOSED, LEAKS, NOT FOUND (our attacks found nobody, but the claimed epsilon is above 10 or missing) or
    HIDDEN. Finished attacks are kept: the same command resumes where it was interrupted.
    """
    scenario = choose_scenario(file, preset, assignments or [], seed)
    speed = Speed(device=device, threads=threads)
    if force and out is None:
        raise ScenarioError("--force: replaces the folder --out, so give that too")
    from airmixml.attacks import attack, choose_parts, read_cases

    parts = choose_parts(attacks)
    cases = read_cases(scenario, vary, beside)
    with progress_bars() as progress:
        result = attack(cases, parts, out=out, force=force, speed=speed, data_dir=data_dir, progress=progress)
    if as_json:
        print_json(result.to_dict())
        return
    _print(result)


def _print(result: AttackResult) -> None:
    from airmixml.attacks.tables import tables_of

    for case in result.cases:
        label = "" if len(result.cases) == 1 else f"{escape(case.label)}: "
        grade, _, rest = case.verdict.partition(":")
        console.print(f"{label}[bold {_STYLES[case.grade]}]{grade}[/]:{escape(rest)}", soft_wrap=True)
    for found in tables_of(result):
        table = Table(title=found.title, title_justify="left", title_style="bold", box=SIMPLE, padding=(0, 1, 0, 0))
        for number, name in enumerate(found.columns):
            table.add_column(name, style="cyan" if number == 0 else None, justify="left" if number < 3 else "right")
        for row in found.rows:
            table.add_row(*map(escape, row))
        console.print(table, soft_wrap=True)
    for case in result.cases:
        for name, why in case.left_out.items():
            console.print(f"left out: {escape(case.label)}, {name} ({escape(why)})", soft_wrap=True)
    console.print(
        f"{result.seconds:.1f} s; everything in [bold]{escape(str(result.run_dir / 'attack.md'))}[/bold], picture in "
        f"{escape(str(result.run_dir / 'attack.png'))}",
        soft_wrap=True,
    )
