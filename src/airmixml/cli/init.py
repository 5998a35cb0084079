"""``airmix init``."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from airmixml.cli import options
from airmixml.cli.terminal import show
from airmixml.errors import ScenarioError
from airmixml.storage.files import write_text, writing_to
from airmixml.wording import plural


def init_command(
    data: Annotated[Path, Argument(help="Your own CSV or NPZ file.", show_default=False)],
    label: Annotated[
        str, Option(help="Column to learn [default: label, target, class or y, else the last column].")
    ] = "",
    labels: Annotated[str, Option(help="Several columns to learn, such as A,B (multi-label or regression).")] = "",
    task: Annotated[str, Option(help="What to learn: classification, regression or multi-label.")] = "",
    person: Annotated[str, Option(help="Column that says who a row is of; epsilon is then per person.")] = "",
    column: Annotated[
        list[str] | None,
        Option(
            help="What you know of a column: 'NAME=LOWER,UPPER UNIT', such as 'age=0,120 years', or its categories, "
            "'NAME=A|B'; may be repeated."
        ),
    ] = None,
    regression: Annotated[bool, Option("--regression", help="Short for --task regression.")] = False,
    out: Annotated[Path | None, Option(help="Scenario file to write [default: the name of the data, .toml].")] = None,
    force: Annotated[bool, Option("--force", help="Replace the scenario file if it exists.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a first scenario for your own data.

    It names the columns and what you have to declare. Of the values only classes and categories are in it: check them.
    """
    from airmixml.data.first_scenario import Asked, first_scenario, parse_declared  # needs NumPy
    from airmixml.scenario import Workers
    from airmixml.scenario.toml import rule_of

    if label and labels:
        raise ScenarioError("--label and --labels: give one of the two")
    several = tuple(name.strip() for name in labels.split(",") if name.strip())
    wanted = "regression" if regression else task or ("multi-label" if len(several) > 1 else Workers.task)
    asked = Asked(
        labels=several or ((label,) if label else ()),
        task=rule_of("workers.task").check("--task", wanted),
        person=person,
        declared=dict(parse_declared(each) for each in column or ()),
    )
    first = first_scenario(data, asked)
    path = out or Path(f"{data.stem}.toml")
    if path.exists() and not force:
        raise ScenarioError(f"{path}: exists; give --out another name, or --force to replace it")
    with writing_to(path):
        write_text(path, first.text)
    open_bounds = f"declare the bounds of {plural(len(first.missing), 'column')} in it, then"
    show(
        as_json,
        {"scenario": str(path), "missing": list(first.missing), "notes": list(first.notes)},
        *(f"{data}: {note}" for note in first.notes),
        f"{path}: {open_bounds if first.missing else 'complete; now'}",
        f"  airmix run {path}              simulates it",
        f"  airmix run {path} --private    protects real data",
    )
