"""``airmix attack``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from airmixml.cli.run import choose_scenario
from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.errors import ScenarioError
from airmixml.scenario import Speed

_STYLES = {"hidden": "green", "leaks": "yellow", "exposed": "red"}


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
            help="least-squares, non-negative, prior (the server); release; eavesdropper; commas between them "
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
    """Attack a run: what the server, whoever gets the mixtures, and an eavesdropper learn of the workers' samples.

    Finished attacks are kept: the same command goes on where it was interrupted.
    """
    scenario = choose_scenario(file, preset, assignments or [], seed)
    speed = Speed(device=device, threads=threads)
    if force and out is None:
        raise ScenarioError("--force: replaces the folder --out, so give that too")
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
