"""``airmix presets``, ``airs``, ``show`` and ``plugins``: what can be chosen by name, and who brings it."""

from importlib.metadata import entry_points
from typing import Annotated

import typer
from rich.text import Text

from airmixml.cli import options
from airmixml.cli.terminal import print_json, show
from airmixml.errors import AirMixError, ScenarioError
from airmixml.output.tables import Table
from airmixml.registries import REGISTRIES
from airmixml.registry import Registry
from airmixml.scenario import AIR_PRESETS, Scenario, air_summary, air_text, preset_names, preset_summary
from airmixml.scenario.air import air_tables
from airmixml.version import __version__
from airmixml.wording import reason, shown

_OURS = "airmixml"


def presets_command(as_json: options.AsJson = False) -> None:
    """List the scenarios that come with the package."""
    _list("preset", {name: preset_summary(name) for name in preset_names()}, as_json=as_json)


def airs_command(as_json: options.AsJson = False) -> None:
    """List the channel profiles that come with the package: what lies between workers and server."""
    _list("air", {name: air_summary(name) for name in AIR_PRESETS}, as_json=as_json)


def _list(thing: str, summaries: dict[str, str], *, as_json: bool) -> None:
    plain = {f"{thing}s": [{"name": name, "summary": summary} for name, summary in summaries.items()]}
    show(as_json, plain, Table(columns=(thing, "what it is"), rows=[*summaries.items()], words=2))


def show_command(
    preset: Annotated[str | None, typer.Argument(help="Name of a preset.", show_default=False)] = None,
    air: options.AirName = None,
    as_json: options.AsJson = False,
) -> None:
    """Print a preset as a scenario file that explains every key.

    With --air alone, print the file of that air: its keys, and where each number is from.
    """
    if preset is None and air is None:
        raise ScenarioError("give the name of a preset (`airmix presets`), --air NAME (`airmix airs`), or both")
    options.on_air(air, [])  # refuses one that is not known
    if preset is None:
        name = air or ""
        plain, text = {"name": name, "about": air_summary(name), "tables": air_tables(name)}, air_text(name)
    else:
        scenario = Scenario.preset(preset)
        scenario = scenario if air is None else scenario.on_air(air)
        plain, text = scenario.to_json(), scenario.to_toml(comments=True)
    if as_json:
        print_json(plain)
    else:
        typer.echo(text, nl=False)


def plugins_command(
    check: Annotated[
        bool, typer.Option("--check", help="Load each of them and report those that are broken (exit code 1).")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """List what can be chosen by name, and which package brings it.

    These are encoders, data sets, accountants, adversaries, learners, attacks, methods and impairments.
    """
    found = [each for registry in REGISTRIES for each in _installed(registry, check=check)]
    lines, broken = [], [each for each in found if each["problem"]]
    for registry in REGISTRIES:
        sound = [each for each in found if each["group"] == registry.group and not each["problem"]]
        names = ", ".join(each["name"] + (f" ({_source(each)})" if each["package"] != _OURS else "") for each in sound)
        lines.append((registry.kind, registry.group, names))
    columns = ("kind", "entry-point group", "names")
    table = Table(title="What can be chosen by name", columns=columns, rows=lines, words=3)
    problems = (f"{each['kind']} {each['name']} of {_source(each)}: {each['problem']}" for each in broken)
    none = "No other package adds to them; docs/extending.md shows how to write one."
    ours = all(each["package"] == _OURS for each in found)
    show(as_json, {"plugins": found}, table, *(Text(each, "bold red") for each in problems), *([none] if ours else []))
    if check and broken:
        raise typer.Exit(1)


def _source(plugin: dict[str, str]) -> str:
    return f"{plugin['package']} {plugin['version']}"


def _installed(registry: Registry, *, check: bool) -> list[dict[str, str]]:
    """Return what there is of a kind, and the problem of a name that cannot be used or, on ``check``, does not load."""
    own = {"kind": registry.kind, "group": registry.group}
    ours = {"package": _OURS, "version": __version__, "problem": ""}
    found = [{**own, "name": name, **ours} for name in registry.own]
    points = sorted(entry_points(group=registry.group), key=lambda point: (point.name, point.value))
    for point in points:
        problem = ""
        if point.name in registry.own:
            problem = f"the name is {_OURS}'s own; uninstall that package or rename its entry point"
        elif any(other.name == point.name and other.value != point.value for other in points):
            problem = "two packages bring this name; uninstall one of them"
        package, version = ("unknown", "") if point.dist is None else (point.dist.name, point.dist.version)
        found.append({**own, "name": point.name, "package": package, "version": version, "problem": problem})
    if check:
        found = [each if each["problem"] else {**each, "problem": _loading_problem(registry, each)} for each in found]
    return found


def _loading_problem(registry: Registry, plugin: dict[str, str]) -> str:
    try:
        registry.load(plugin["name"])
    except AirMixError as problem:
        name = f"{registry.kind} {shown(plugin['name'])} of {_source(plugin)}: "
        return str(problem).removeprefix(name)  # which stands before it in every list
    except Exception as problem:  # whatever happens when a module is imported
        return f"cannot be loaded ({type(problem).__name__}: {reason(problem)})"
    return ""
