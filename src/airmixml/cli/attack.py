"""``airmix attack``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from airmixml.cli import options
from airmixml.cli.options import check_force, choices, choose_scenario
from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.doors import ATTACKS
from airmixml.scenario import Speed

_STYLES = {"hidden": "green", "leaks": "yellow", "exposed": "red"}


def attack_command(
    file: options.File = None,
    preset: options.Preset = None,
    assignments: options.Assignments = None,
    vary: Annotated[
        str | None,
        typer.Option(
            metavar="KEY=V1,V2,...",
            help="Attack the scenario at each of these values (for privacy.epsilon, max means maximum power).",
        ),
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Attack these presets or scenario files of the same data as well."),
    ] = None,
    attacks: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...", help=f"Attacks to run: {choices(ATTACKS)} [default: all that fit the scenario]."
        ),
    ] = None,
    seed: options.Seed = None,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    threads: options.Threads = 0,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Attack a run and show what each adversary recovers.

    The adversaries are the server, readers of the mixtures, and an eavesdropper. Finished attacks are kept: repeat the
    same command to resume.
    """
    scenario = choose_scenario(file, preset, assignments, seed)
    speed = Speed(device=device, threads=threads)
    check_force(force, out)
    from airmixml.attacks import attack, choose_parts, read_cases

    parts = choose_parts(attacks)
    cases = read_cases(scenario, vary, beside)
    with progress_bars() as progress:
        metrics = attack(cases, parts, out=out, force=force, speed=speed, data_dir=data_dir, progress=progress)
    if as_json:
        print_json(metrics)
        return
    _print(metrics)


def _print(metrics: dict[str, Any]) -> None:
    from airmixml.attacks.parts import LISTENERS
    from airmixml.attacks.tables import (
        LISTENER_COLUMNS,
        SERVER_COLUMNS,
        epsilon_text,
        listener_cells,
        server_cells,
    )

    cases = metrics["cases"]
    for case in cases:
        label = "" if len(cases) == 1 else f"{escape(case['label'])}: "
        grade, _, rest = case["verdict"].partition(":")
        console.print(f"{label}[bold {_STYLES[case['grade']]}]{grade}[/]:{escape(rest)}", soft_wrap=True)
    server = _table("the server: knows schedule and ratios", ("setting", "epsilon", "method", *SERVER_COLUMNS))
    for case in cases:
        for name, figures in ({} if case["server"] is None else case["server"]["methods"]).items():
            server.add_row(escape(case["label"]), epsilon_text(case["claimed"]["server"]), name, *server_cells(figures))
    listeners = _table("without a schedule", ("setting", "who", "epsilon", *LISTENER_COLUMNS))
    for case in cases:
        for name in LISTENERS:
            if case[name] is not None:
                listeners.add_row(
                    escape(case["label"]), name, epsilon_text(case["claimed"][name]), *listener_cells(case[name])
                )
    for table in (server, listeners):
        if table.row_count:
            console.print(table, soft_wrap=True)
    for case in cases:
        for name, why in case["left_out"].items():
            console.print(f"left out: {escape(case['label'])}, {name} ({escape(why)})", soft_wrap=True)
    folder = Path(metrics["run_dir"])
    console.print(
        f"{metrics['seconds']:.1f} s; everything in [bold]{escape(str(folder / 'attack.md'))}[/bold], picture in "
        f"{escape(str(folder / 'attack.png'))}",
        soft_wrap=True,
    )


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE, padding=(0, 1, 0, 0))
    for number, name in enumerate(columns):
        table.add_column(name, style="cyan" if number == 0 else None, justify="left" if number < 3 else "right")
    return table
