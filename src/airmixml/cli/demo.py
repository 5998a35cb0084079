"""``airmix demo``: the paper's Iris experiment beside a private one on the same data, at the same target."""

import statistics
import time
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.markup import escape
from rich.table import Table

from airmixml.cli import options
from airmixml.cli.demo_runs import ADVERSARIES, Side, run_both
from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.errors import ScenarioError
from airmixml.output.numbers import duration, joules

_PICTURE: Final = Path("runs") / "demo.png"
_FEWEST_SEEDS, _MOST_SEEDS = 2, 64  # a standard deviation needs two


def demo_command(
    seeds: Annotated[int, typer.Option(help="Number of runs of each experiment, with seeds 0, 1, ...")] = 5,
    epochs: Annotated[int, typer.Option(help="Training epochs of the paper's network (the paper: 500).")] = 50,
    as_json: options.AsJson = False,
) -> None:
    """Run the paper's Iris experiment beside a private one.

    Both use the same data and the same target (epsilon, delta). Prints one table and writes two run folders and the
    picture runs/demo.png.
    """
    if not _FEWEST_SEEDS <= seeds <= _MOST_SEEDS:
        raise ScenarioError(f"--seeds = {seeds}: must be at least {_FEWEST_SEEDS} and at most {_MOST_SEEDS}")
    started = time.perf_counter()
    with progress_bars() as progress:
        sides = run_both(seeds, epochs, progress)
    from airmixml.cli.demo_picture import draw_demo

    draw_demo(sides, _PICTURE)
    if as_json:
        print_json({**{side.scenario.name: side.to_dict() for side in sides}, "picture": str(_PICTURE)})
        return
    console.print(demo_table(sides))
    console.print(f"picture: {_PICTURE} ({time.perf_counter() - started:.0f} s)")


def demo_table(sides: tuple[Side, Side]) -> Table:
    """Return both experiments side by side."""
    paper, privacy = sides[0].scenario, sides[0].scenario.privacy
    target = f"target epsilon {privacy.epsilon:g}, delta {privacy.delta:g} ({privacy.adjacency})"
    title = f"Iris, {paper.workers.count:,} simulated workers, {target}"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("", style="cyan", no_wrap=True)
    for side in sides:
        table.add_column(side.scenario.name, overflow="fold")
    names = (
        ("the server receives", "  air time", "  energy"),
        (f"accuracy, {len(sides[0].final)} seeds", f"  best epoch of {paper.learner.epochs}"),
        ("target holds against", "  which knows"),
        ("smallest epsilon", *(f"  against {adversary}" for adversary in ADVERSARIES)),
        ("run folder, seed 0",),
    )
    cells = zip(*map(_cells, sides), strict=True)
    for section in names:
        for name in section:
            table.add_row(name, *next(cells))
        table.add_section()
    return table


def _cells(side: Side) -> list[str]:
    """Return one column of the table."""
    radio, metrics, own = side.scenario.radio, side.metrics, side.metrics["privacy"][0]
    moments = side.scenario.workers.sends == "moments"
    return [
        f"one sum of {radio.scheduled:,} products" if moments else f"sums of {radio.scheduled:,} samples",
        f"{radio.slots:,} slot{'s' if radio.slots > 1 else ''}, {duration(metrics['air_seconds'])}",
        f"{joules(metrics['energy_joules'])} in total",
        f"[bold]{_percent(side.final)}[/bold]",
        _percent(side.best) if side.best else "no epochs",
        f"[bold]{own['adversary']}[/bold] (by {own['accountant']})",
        escape(own["knows"]),
        "",
        *(f"{side.epsilon(adversary):.4g}" for adversary in ADVERSARIES),
        escape(metrics["run_dir"]),
    ]


def _percent(accuracies: list[float]) -> str:
    return f"{100 * statistics.fmean(accuracies):.1f} ± {100 * statistics.stdev(accuracies):.1f} %"
