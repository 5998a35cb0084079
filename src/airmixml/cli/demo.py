"""``airmix demo``: the paper's Iris experiment beside a private one on the same data, at the same target."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Final

from typer import Option

from airmixml.cli import options
from airmixml.cli.finished import report_into
from airmixml.cli.terminal import progress_bars, show
from airmixml.errors import ScenarioError
from airmixml.output.tables import Table
from airmixml.runs.demo import Side, draw_demo, percent, run_both
from airmixml.wording import duration, epsilon_text, joules, plural

_PICTURE: Final = Path("runs") / "demo.png"
_FEWEST_SEEDS, _MOST_SEEDS = 2, 64  # a standard deviation needs two


def demo_command(
    seeds: Annotated[int, Option(help="Number of runs of each experiment, with seeds 0, 1, ...")] = 5,
    epochs: Annotated[int, Option(help="Training epochs of the paper's network (the paper: 500).")] = 50,
    as_json: options.AsJson = False,
) -> None:
    """Run the paper's Iris experiment beside a private one.

    Both use the same data and the same target (epsilon, delta). Prints one table and writes two run folders and the
    picture runs/demo.png.
    """
    if not _FEWEST_SEEDS <= seeds <= _MOST_SEEDS:
        raise ScenarioError(f"--seeds = {seeds}: must be at least {_FEWEST_SEEDS} and at most {_MOST_SEEDS}")
    started = time.perf_counter()
    reports: list[dict[str, str]] = []
    with progress_bars() as progress:
        sides = run_both(seeds, epochs, progress, report_into(reports, typed=False))
    draw_demo(sides, _PICTURE)
    told = {side.scenario.name: {**side.to_dict(), **each} for side, each in zip(sides, reports, strict=True)}
    drawn = f"picture: {_PICTURE} ({time.perf_counter() - started:.0f} s)"
    show(as_json, {**told, "picture": str(_PICTURE)}, _table(sides), drawn)


def _table(sides: tuple[Side, Side]) -> Table:
    """Return both experiments side by side."""
    paper, privacy = sides[0].scenario, sides[0].scenario.privacy
    target = f"target epsilon {privacy.epsilon:g}, delta {privacy.delta:g} ({privacy.adjacency})"
    title = f"Iris, {paper.workers.count:,} simulated workers, {target}"
    of_paper, of_private = (_cells(side, paper.learner.epochs) for side in sides)
    return Table(
        title=title,
        columns=("", *(side.scenario.name for side in sides)),
        rows=tuple((name, cell, of_private[name]) for name, cell in of_paper.items()),
        words=3,
        sections=tuple(number for number, name in enumerate(of_paper) if not name.startswith(" ")),
    )


def _cells(side: Side, epochs: int) -> dict[str, str]:
    """Return one column of the table; names that begin a section are not indented."""
    radio, metrics, own = side.scenario.radio, side.metrics, side.metrics["privacy"][0]
    moments = side.scenario.workers.sends == "moments"
    sums = f"one sum of {radio.scheduled:,} products" if moments else f"sums of {radio.scheduled:,} samples"
    return {
        "the server receives": sums,
        "  air time": f"{plural(radio.slots, 'slot')}, {duration(metrics['air_seconds'])}",
        "  energy": f"{joules(metrics['energy_joules'])} in total",
        f"accuracy, {len(side.final)} seeds": percent(side.final),
        f"  best epoch of {epochs}": percent(side.best) if side.best else "no epochs",
        "target holds against": f"{own['adversary']} (by {own['accountant']})",
        "  which knows": own["knows"],
        "smallest epsilon": "of a worker",
        **{
            f"  against {adversary}": _with_draw(metrics["privacy"], adversary, epsilon)
            for adversary, epsilon in side.smallest_epsilons.items()
        },
        "of a flower, against": f"held by up to {metrics['row_copies']:,} workers",
        **{
            f"  {adversary}": _with_draw(metrics["row_statements"], adversary, epsilon)
            for adversary, epsilon in side.flower_epsilons.items()
        },
        "run folder, seed 0": metrics["run_dir"],
    }


def _with_draw(statements: list[dict[str, Any]], adversary: str, epsilon: float) -> str:
    """Return that epsilon against the adversary, and what it was before the schedule was drawn, where that differs."""
    alike = (each for each in statements if (each["adversary"], each["epsilon"]) == (adversary, epsilon))
    before = next((each["before_the_draw"] for each in alike if each["before_the_draw"]), None)
    return epsilon_text(epsilon) + (f" as drawn, {epsilon_text(before)} before" if before else "")
