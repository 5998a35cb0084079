"""``airmix data``: which data sets there are, and fetching the one that does not come with the package."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from airmixml.cli import options
from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.doors import DATASETS
from airmixml.errors import ScenarioError
from airmixml.wording import nearest, shown

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

    entries = [_describe(name) for name in DATASETS.names]
    if as_json:
        print_json({"data_sets": entries, "own_data": "path of a .csv or .npz file"})
        return
    table = Table("data set", "samples", "d_X", "d_Y", "bounds", "files", title="Data sets")
    for entry in entries:
        samples, own_test_samples = entry["train_samples"], entry["own_test_samples"]
        table.add_row(
            entry["name"],
            f"{samples} + {own_test_samples}" if own_test_samples else str(samples),
            str(entry["input_dim"]),
            str(entry["label_dim"]),
            _bounds(entry["input_lower"], entry["input_upper"]),
            _STATES_IN_WORDS[entry["state"]],
        )
    console.print(table)
    # Below the table, where a long path is not cut to the width of a column.
    console.print(f"Folder of MNIST: {escape(str(mnist_cache_folder()))}", soft_wrap=True)
    console.print("Your own data: set workers.dataset to the path of a .csv or .npz file and declare its bounds.")


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
    files = [
        {
            "name": entry.file.name,
            "path": str(entry.path),
            "bytes": len(entry.content),
            "source": entry.source,
        }
        for entry in obtained
    ]
    fetched = sum(entry.source != ALREADY_THERE for entry in obtained)
    if as_json:
        print_json({"data_set": MNIST.name, "folder": str(folder), "fetched_files": fetched, "files": files})
        return
    for file in files:
        console.print(f"{escape(str(file['path']))}: {escape(str(file['source']))}", soft_wrap=True)
    console.print("All checksums are right." + (" There was nothing to fetch." if fetched == 0 else ""))


def _bounds(lower: list[float], upper: list[float]) -> str:
    """Return the bounds of the first inputs, which are those of all where there is one."""
    said = [f"{low:g}..{high:g}" for low, high in zip(lower, upper, strict=True)]
    return ", ".join(said[:_MOST_BOUNDS]) + (", ..." if len(said) > _MOST_BOUNDS else "")


def _describe(name: str) -> dict[str, Any]:
    from airmixml.data.mnist import mnist_cache_folder, mnist_state

    known = DATASETS.load(name)
    described: dict[str, Any] = {
        "name": name,
        "about": known.about,
        "train_samples": known.train_samples,
        "own_test_samples": known.test_samples,
        "input_dim": known.input_dim,
        "label_dim": known.label_dim,
        "image_shape": list(known.image_shape) if known.image_shape else None,
        "input_lower": list(known.lower),
        "input_upper": list(known.upper),
        "folder": None,
        "state": "embedded" if name in DATASETS.own else "plugin",
    }
    if name == _FETCHED:
        described |= {"folder": str(mnist_cache_folder()), "state": mnist_state()}
    return described


def _check_fetchable(dataset: str) -> None:
    if dataset == _FETCHED:
        return
    if dataset in DATASETS:
        source = "scikit-learn" if dataset in DATASETS.own else "a package of its own"
        raise ScenarioError(f"{dataset}: comes with {source}, there is nothing to fetch; use it as it is")
    raise ScenarioError(
        f"{shown(dataset)}: no data set of that name; did you mean {nearest(dataset, DATASETS.names)}? Only "
        f"{_FETCHED} is fetched"
    )
