"""``airmix presets`` and ``airmix show``."""

from typing import Annotated

import typer
from rich.table import Table

from airmixml.cli import options
from airmixml.cli.terminal import console, print_json
from airmixml.scenario import Scenario, preset_names, preset_summary


def presets_command(as_json: options.AsJson = False) -> None:
    """List the scenarios that come with the package."""
    if as_json:
        print_json({"presets": [{"name": name, "summary": preset_summary(name)} for name in preset_names()]})
        return
    table = Table("preset", "what it is")
    for name in preset_names():
        table.add_row(name, preset_summary(name))
    console.print(table)


def show_command(
    preset: Annotated[str, typer.Argument(help="Name of a preset.", show_default=False)],
    as_json: options.AsJson = False,
) -> None:
    """Print a preset as a scenario file that explains every key."""
    scenario = Scenario.preset(preset)
    if as_json:
        print_json(scenario.to_dict())
    else:
        typer.echo(scenario.to_toml(comments=True), nl=False)
