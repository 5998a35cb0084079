"""``airmix compare``."""

from __future__ import annotations

import time
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from airmixml.cli import options
from airmixml.cli.options import choices, choose_scenario
from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.doors import METHODS
from airmixml.errors import ScenarioError
from airmixml.scenario import Speed
from airmixml.wording import joules

if TYPE_CHECKING:
    from airmixml.compare import Comparison

_COSTS = ("symbols", "air time", "energy", "MACs", "wall time")
_WIDE_ENOUGH = 110
_LEFT_OUT_IF_NARROW = ("air time", "MACs", "wall time")


def compare_command(
    file: options.File = None,
    preset: options.Preset = None,
    assignments: options.Assignments = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help=f"Methods to run: {choices(METHODS)} [default: all that can run]."),
    ] = None,
    vary: Annotated[
        str | None,
        typer.Option(metavar="KEY=V1,V2,...", help="Instead of methods, run the scenario itself at these values."),
    ] = None,
    seed: options.Seed = None,
    seeds: options.Seeds = 1,
    out: options.Out = None,
    force: options.Force = False,
    device: options.Device = "cpu",
    threads: options.Threads = 0,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare a scenario with its alternatives.

    All use the same data, channel and privacy target. Finished results are kept: repeat the same command to resume;
    more seeds or methods add to it.
    """
    scenario = choose_scenario(file, preset, assignments, seed)
    speed = Speed(device=device, threads=threads)
    if seeds < 1:
        raise ScenarioError(f"seeds = {seeds}: must be at least 1")
    if methods is not None and vary is not None:
        raise ScenarioError("--methods and --vary: give one of them; --vary runs the scenario itself at several values")
    started = time.perf_counter()
    from airmixml.compare import choose_methods, read_values

    if vary is not None:
        key, scenarios = read_values(vary, scenario)
        from airmixml.compare import vary_key  # after the checks: importing torch takes seconds

        folder = out or Path("runs") / f"compare-{scenario.name}-{key}"
        with progress_bars() as progress:
            comparison = vary_key(
                scenario,
                key,
                scenarios,
                seeds=seeds,
                out=folder,
                force=force,
                speed=speed,
                data_dir=data_dir,
                progress=progress,
            )
    else:
        chosen, left_out = choose_methods(methods, scenario, speed)
        from airmixml.compare import compare_methods

        folder = out or Path("runs") / f"compare-{scenario.name}"
        with progress_bars() as progress:
            comparison = compare_methods(
                scenario,
                chosen,
                left_out=left_out,
                may_fail=methods is None,
                seeds=seeds,
                out=folder,
                force=force,
                speed=speed,
                data_dir=data_dir,
                progress=progress,
            )
    from airmixml.compare.writing import write_comparison

    files = write_comparison(comparison)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(
            {**comparison.to_dict(), "out": str(folder), "files": [str(path) for path in files], "seconds": seconds}
        )
        return
    _print(comparison, seconds)


def _print(comparison: Comparison, seconds: float) -> None:
    privacy = comparison.scenario.privacy
    seeds = "1 seed" if len(comparison.seeds) == 1 else f"{len(comparison.seeds)} seeds"
    table = Table(
        title=f"{escape(comparison.scenario.name)}: target epsilon {privacy.epsilon:g}, delta {privacy.delta:g} "
        f"against the {privacy.adversary}, {privacy.adjacency}; {seeds}",
        title_justify="left",
        title_style="bold",
        box=SIMPLE,  # ten columns: every bar saved helps
        padding=(0, 1, 0, 0),
    )
    other = "replace-one" if privacy.adjacency == "remove-one" else "remove-one"
    table.add_column(comparison.varied or "method", style="cyan", no_wrap=True)
    names = ("accuracy [%]", "epsilon", "against", other, *_COSTS)
    shown = [console.width >= _WIDE_ENOUGH or name not in _LEFT_OUT_IF_NARROW for name in names]
    for name in compress(names, shown):
        table.add_column(escape(name), justify="right", no_wrap=True)
    for row in comparison.rows:
        first, *cells = map(escape, _cells(row))
        table.add_row(first, *compress(cells, shown))
    console.print(table, soft_wrap=True)
    if not all(shown):
        console.print(f"on a wider terminal, and in the files: {', '.join(_LEFT_OUT_IF_NARROW)}")
    if comparison.left_out:
        reasons = "; ".join(f"{name} ({why})" for name, why in comparison.left_out.items())
        console.print(f"left out: {escape(reasons)}", soft_wrap=True)
    kept = f" ({comparison.kept} results were there already)" if comparison.kept else ""
    console.print(
        f"{seconds:.1f} s{kept}; everything in [bold]{escape(str(comparison.out / 'compare.md'))}[/bold], picture in "
        f"{escape(str(comparison.out / 'compare.png'))}",
        soft_wrap=True,
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return short texts: the table is to fit a terminal; the files have all digits."""
    from airmixml.compare.tables import NONE, accuracy_text, epsilon_text, short_count

    privacy, uplink, air, energy = (row[name] for name in ("privacy", "uplink_symbols", "air_seconds", "energy_joules"))
    return (
        row.get("method") or row["shown"],
        accuracy_text(row).removesuffix(" %"),
        epsilon_text(privacy[0]),
        privacy[0]["adversary"],
        epsilon_text(privacy[1]) if len(privacy) > 1 else NONE,
        NONE if uplink is None else short_count(uplink),
        NONE if air is None else f"{air:.3g} s",
        NONE if energy is None else joules(energy),
        short_count(row["worker_multiply_accumulates"]),
        f"{row['seconds']:.1f} s",
    )
