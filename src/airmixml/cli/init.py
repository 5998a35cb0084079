"""``airmix init``."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from airmixml.cli import options
from airmixml.cli.terminal import show
from airmixml.errors import ScenarioError
from airmixml.output.numbers import plural
from airmixml.storage.files import write_text, writing_to


def init_command(
    data: Annotated[Path, Argument(help="Your own CSV or NPZ file.", show_default=False)],
    label: Annotated[
        str, Option(help="Column to learn [default: label, target, class or y, else the last column].")
    ] = "",
    column: Annotated[
        list[str] | None,
        Option(help="What you know of a column: 'NAME=LOWER,UPPER UNIT', such as 'age=0,120 years'; may be repeated."),
    ] = None,
    regression: Annotated[bool, Option("--regression", help="The column to learn holds numbers, not classes.")] = False,
    out: Annotated[Path | None, Option(help="Scenario file to write [default: the name of the data, .toml].")] = None,
    force: Annotated[bool, Option("--force", help="Replace the scenario file if it exists.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a first scenario for your own data, from the header of the file.

    It names the columns and what you have to declare. Of the rows only the classes are written into it: check them.
    """
    from airmixml.data.first_scenario import first_scenario, parse_declared  # needs NumPy

    declared = dict(parse_declared(each) for each in column or ())
    first = first_scenario(data, label=label, declared=declared, regression=regression)
    path = out or Path(f"{data.stem}.toml")
    if path.exists() and not force:
        raise ScenarioError(f"{path}: exists; give --out another name, or --force to replace it")
    with writing_to(path):
        write_text(path, first.text)
    open_bounds = f"declare the bounds of {plural(len(first.missing), 'column')} in it, then"
    show(
        as_json,
        {"scenario": str(path), "missing": list(first.missing)},
        f"{path}: {open_bounds if first.missing else 'complete; now'}",
        f"  airmix run {path}              simulates it",
        f"  airmix run {path} --private    protects real data",
    )
