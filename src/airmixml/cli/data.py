"""``airmix data`` and ``airmix init``: which data sets there are, fetching one, and a first scenario for your own."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from airmixml.cli import options
from airmixml.cli.terminal import progress_bars, show
from airmixml.errors import PluginError, ScenarioError
from airmixml.output.tables import Table
from airmixml.registries import DATASETS
from airmixml.wording import did_you_mean, plural, shown

if TYPE_CHECKING:
    from airmixml.data.mnist import PublishedSet

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
