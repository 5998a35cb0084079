"""``airmix presets``, ``airs``, ``show``, ``plugins`` and ``data``: what there is by name; ``init``: your own data."""

from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text
from typer import Argument, Exit, Option, echo

from airmixml.cli import options
from airmixml.cli.terminal import print_json, progress_bars, show
from airmixml.messages import AirMixError, PluginError, ScenarioError, did_you_mean, plural, reason, shown
from airmixml.output.tables import Table
from airmixml.registries import DATASETS, REGISTRIES
from airmixml.registry import Registry
from airmixml.scenario import AIR_PRESETS, Scenario, air_summary, air_text, preset_names, preset_summary
from airmixml.scenario.air import air_tables
from airmixml.version import __version__

if TYPE_CHECKING:
    from airmixml.data.mnist import PublishedSet

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
    preset: Annotated[str | None, Argument(help="Name of a preset.", show_default=False)] = None,
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
        echo(text, nl=False)


def plugins_command(
    check: Annotated[
        bool, Option("--check", help="Load each of them and report those that are broken (exit code 1).")
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
        raise Exit(1)


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


app = options.command_group("List the data sets; fetch one.")

_MOST_BOUNDS = 8
_STATES_IN_WORDS = {
    "embedded": "come with scikit-learn",
    "plugin": "come with their own package",
    "ready": "there",
    "missing": "not yet there: airmix data fetch {name}",
    "broken": "broken: airmix data fetch {name} mends them",
}


@app.command("list")
def list_data(as_json: options.AsJson = False) -> None:
    """List the data sets known by name: size, bounds, and whether the files are there."""
    entries = []
    for name in DATASETS.names:
        with suppress(PluginError):  # which `airmix plugins --check` reports
            entries.append(_describe(name))
    columns = ("data set", "samples", "d_X", "d_Y", "bounds", "files")
    show(
        as_json,
        {"data_sets": entries, "own_data": "path of a .csv or .npz file"},
        Table(title="Data sets", columns=columns, rows=[*map(_cells, entries)], words=len(columns)),
        # Below the table, where a long path is not cut to the width of a column.
        *(f"Folder of {entry['name']}: {entry['folder']}" for entry in entries if entry["folder"]),
        "Your own data: set workers.dataset to the path of a .csv or .npz file and declare its bounds.",
    )


def _cells(entry: dict[str, Any]) -> list[str]:
    samples, own_test_samples = entry["train_samples"], entry["own_test_samples"]
    bounds = [f"{low:g}..{high:g}" for low, high in zip(entry["input_lower"], entry["input_upper"], strict=True)]
    return [
        entry["name"],
        f"{samples} + {own_test_samples}" if own_test_samples else f"{samples}",
        f"{entry['input_dim']}",
        f"{entry['label_dim']}",
        ", ".join(bounds[:_MOST_BOUNDS]) + (", ..." if len(bounds) > _MOST_BOUNDS else ""),
        _STATES_IN_WORDS[entry["state"]].format(name=entry["name"]),
    ]


@app.command("fetch")
def fetch_data(
    dataset: Annotated[str, Argument(help="Data set to fetch: mnist or fashion-mnist.")],
    data_dir: Annotated[Path | None, Option(help="Folder for the files [default: the cache].")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Fetch a data set, so that later runs need no network; files that are already there are only checked."""
    from airmixml.data.mnist import ALREADY_THERE

    if dataset not in DATASETS:
        fetched = " and ".join(name for name in DATASETS.own if _published(name))
        near = did_you_mean(dataset, DATASETS.names) or ";"
        raise ScenarioError(f"{shown(dataset)}: no data set of that name{near} only {fetched} are fetched")
    published = _published(dataset)
    if published is None:
        source = "scikit-learn" if dataset in DATASETS.own else "a package of its own"
        raise ScenarioError(f"{dataset}: comes with {source}, there is nothing to fetch; use it as it is")
    folder = published.folder if data_dir is None else data_dir
    with progress_bars() as progress:
        # A broken file in the cache is ours to replace; one in a folder of the user's is not.
        obtained = published.fetch(folder, replace_broken=data_dir is None, progress=progress)
    new = sum(entry.source != ALREADY_THERE for entry in obtained)
    files = [
        {"name": entry.file.name, "path": str(entry.path), "bytes": len(entry.content), "source": entry.source}
        for entry in obtained
    ]
    show(
        as_json,
        {"data_set": published.name, "folder": str(folder), "fetched_files": new, "files": files},
        *(f"{entry.path}: {entry.source}" for entry in obtained),
        "All checksums are right." + (" There was nothing to fetch." if new == 0 else ""),
    )


def _describe(name: str) -> dict[str, Any]:
    known, state = DATASETS.load(name), "embedded" if name in DATASETS.own else "plugin"
    published = _published(name)
    return {
        "name": name,
        "about": known.about,
        "train_samples": known.train_samples,
        "own_test_samples": known.test_samples,
        "input_dim": known.input_dim,
        "label_dim": known.label_dim,
        "image_shape": list(known.image_shape) if known.image_shape else None,
        "input_lower": list(known.lower),
        "input_upper": list(known.upper),
        "folder": str(published.folder) if published else None,
        "state": published.state if published else state,
    }


def _published(name: str) -> "PublishedSet | None":
    """Return the files of a data set that is fetched; another package's may declare nothing about them."""
    return getattr(DATASETS.load(name), "published", None)


def init_command(
    data: Annotated[Path, Argument(help="Your own CSV file.", show_default=False)],
    label: Annotated[
        str, Option(help="Column to learn [default: label, target, class or y, else the last column].")
    ] = "",
    labels: Annotated[str, Option(help="Several columns to learn, such as A,B (multi-label or regression).")] = "",
    task: Annotated[str, Option(help="What to learn: classification, regression or multi-label.")] = "",
    person: Annotated[str, Option(help="Column that says who a row is of; epsilon is then per person.")] = "",
    column: Annotated[
        list[str] | None,
        Option(
            help="What you know of a column: NAME=LOWER,UPPER, such as age=0,120, or its categories, 'NAME=A|B'; may "
            "be repeated."
        ),
    ] = None,
    out: Annotated[Path | None, Option(help="Scenario file to write [default: the name of the data, .toml].")] = None,
    force: Annotated[bool, Option("--force", help="Replace the scenario file if it exists.")] = False,
    show_values: options.ShowValues = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a first scenario for your own data.

    It names the columns and what you have to declare. Of the values only classes and categories are in it: check them.
    """
    from airmixml.data.first_scenario import first_scenario, parse_declared  # needs NumPy
    from airmixml.files import write_text, writing_to
    from airmixml.scenario import Workers
    from airmixml.scenario.toml import rule_of

    if label and labels:
        raise ScenarioError("--label and --labels: give one of the two")
    several = tuple(name.strip() for name in labels.split(",") if name.strip())
    wanted = task or ("multi-label" if len(several) > 1 else Workers.task)
    first = first_scenario(
        data,
        labels=several or ((label,) if label else ()),
        task=rule_of("workers.task").check("--task", wanted),
        person=person,
        declared=[parse_declared(each) for each in column or ()],
        show_values=show_values,
    )
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
