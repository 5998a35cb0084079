"""``airmix data``: which data sets there are, and fetching the one that does not come with the package."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from airmixml.cli import options
from airmixml.cli.terminal import console, print_json, print_line, progress_bars
from airmixml.doors import DATASETS
from airmixml.errors import PluginError, ScenarioError
from airmixml.output.tables import terminal_table
from airmixml.wording import did_you_mean, shown

app = typer.Typer(help="List the data sets; fetch MNIST.")

_FETCHED = "mnist"
_MOST_BOUNDS = 8
_STATES_IN_WORDS = {
    "embedded": "come with scikit-learn",
    "plugin": "come with their own package",
    "ready": "there",
    "missing": "not yet there: airmix data fetch mnist",
    "broken": "broken: airmix data fetch mnist mends them",
}


@app.callback(invoke_without_command=True)
def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_data(as_json: options.AsJson = False) -> None:
    """List the data sets known by name: size, bounds, and whether the files are there."""
    from airmixml.data.mnist import mnist_cache_folder

    entries = []
    for name in DATASETS.names:
        with suppress(PluginError):  # which `airmix plugins --check` reports
            entries.append(_describe(name))
    if as_json:
        print_json({"data_sets": entries, "own_data": "path of a .csv or .npz file"})
        return
    columns = ("data set", "samples", "d_X", "d_Y", "bounds", "files")
    console.print(terminal_table(columns, map(_cells, entries), title="Data sets", words=len(columns)))
    # Below the table, where a long path is not cut to the width of a column.
    print_line(f"Folder of MNIST: {mnist_cache_folder()}")
    console.print("Your own data: set workers.dataset to the path of a .csv or .npz file and declare its bounds.")


def _cells(entry: dict[str, Any]) -> list[str]:
    samples, own_test_samples = entry["train_samples"], entry["own_test_samples"]
    bounds = [f"{low:g}..{high:g}" for low, high in zip(entry["input_lower"], entry["input_upper"], strict=True)]
    return [
        entry["name"],
        f"{samples} + {own_test_samples}" if own_test_samples else f"{samples}",
        f"{entry['input_dim']}",
        f"{entry['label_dim']}",
        ", ".join(bounds[:_MOST_BOUNDS]) + (", ..." if len(bounds) > _MOST_BOUNDS else ""),
        _STATES_IN_WORDS[entry["state"]],
    ]


@app.command("fetch")
def fetch_data(
    dataset: Annotated[str, typer.Argument(help="Data set to fetch: mnist.")],
    data_dir: Annotated[Path | None, typer.Option(help="Folder for the files [default: the cache].")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Fetch a data set, so that later runs need no network; files that are already there are only checked."""
    from airmixml.data.mnist import ALREADY_THERE, MNIST, fetch_mnist, mnist_cache_folder

    _check_fetchable(dataset)
    folder = mnist_cache_folder() if data_dir is None else data_dir
    with progress_bars() as progress:
        # A broken file in the cache is ours to replace; one in a folder of the user's is not.
        obtained = fetch_mnist(folder, replace_broken=data_dir is None, progress=progress)
    fetched = sum(entry.source != ALREADY_THERE for entry in obtained)
    if as_json:
        files = [
            {"name": entry.file.name, "path": str(entry.path), "bytes": len(entry.content), "source": entry.source}
            for entry in obtained
        ]
        print_json({"data_set": MNIST.name, "folder": str(folder), "fetched_files": fetched, "files": files})
        return
    for entry in obtained:
        print_line(f"{entry.path}: {entry.source}")
    console.print("All checksums are right." + (" There was nothing to fetch." if fetched == 0 else ""))


def _describe(name: str) -> dict[str, Any]:
    from airmixml.data.mnist import mnist_cache_folder, mnist_state

    known, state = DATASETS.load(name), "embedded" if name in DATASETS.own else "plugin"
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
        "folder": str(mnist_cache_folder()) if name == _FETCHED else None,
        "state": mnist_state() if name == _FETCHED else state,
    }


def _check_fetchable(dataset: str) -> None:
    if dataset == _FETCHED:
        return
    if dataset in DATASETS:
        source = "scikit-learn" if dataset in DATASETS.own else "a package of its own"
        raise ScenarioError(f"{dataset}: comes with {source}, there is nothing to fetch; use it as it is")
    raise ScenarioError(
        f"{shown(dataset)}: no data set of that name{did_you_mean(dataset, DATASETS.names) or ';'} Only {_FETCHED} is "
        "fetched"
    )
