"""``airmix demo``: the paper's Iris experiment beside a private one on the same data, at the same target."""

from __future__ import annotations

import multiprocessing
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.markup import escape
from rich.table import Table

from airmixml.cli import options
from airmixml.cli.terminal import console, print_json, progress_bars
from airmixml.errors import AirMixError, ScenarioError
from airmixml.scenario import Scenario, Speed
from airmixml.wording import duration, joules

if TYPE_CHECKING:
    from airmixml.radio import Mixtures

PICTURE: Final = Path("runs") / "demo.png"
_ADVERSARIES: Final = ("release", "server", "eavesdropper")
_FEWEST_SEEDS, _MOST_SEEDS = 2, 64  # a spread needs two; more would take minutes


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two experiments.

    Attributes:
        metrics: those of the run folder, which holds the first seed.
        final: accuracy of each seed after the last epoch, as fractions.
        best: accuracy of the best epoch of each seed; empty where the learner has no epochs.
        mixtures: what the server received with the first seed.
    """

    scenario: Scenario
    metrics: dict[str, Any]
    final: list[float]
    best: list[float]
    mixtures: Mixtures

    def epsilon(self, adversary: str) -> float:
        """Return the smallest epsilon that any accountant certifies against the adversary, for the worst worker."""
        adjacency = self.scenario.privacy.adjacency
        statements = [each for each in self.metrics["privacy"] if each["adjacency"] == adjacency]
        return min(float(each["epsilon"]) for each in statements if each["adversary"] == adversary)

    def to_dict(self) -> dict[str, Any]:
        """Return the run's metrics with the accuracies of all seeds, for JSON."""
        return {
            **self.metrics,
            "final_accuracies": self.final,
            "best_accuracies": self.best,
            "epsilon_against": {adversary: self.epsilon(adversary) for adversary in _ADVERSARIES},
        }


def demo_command(
    seeds: Annotated[int, typer.Option(help="Number of runs of each experiment, with seeds 0, 1, ...")] = 5,
    epochs: Annotated[int, typer.Option(help="Training epochs of the paper's network (500 in the preset).")] = 100,
    as_json: options.AsJson = False,
) -> None:
    """Run the paper's Iris experiment beside a private one.

    Both use the same data and the same target (epsilon, delta). Prints one table and writes two run folders and the
    picture runs/demo.png.
    """
    if not _FEWEST_SEEDS <= seeds <= _MOST_SEEDS:
        raise ScenarioError(f"--seeds = {seeds}: must be at least {_FEWEST_SEEDS} and at most {_MOST_SEEDS}")
    started = time.perf_counter()
    paper = Scenario.preset("paper-iris").with_overrides(f"learner.epochs={epochs}")
    target = (f"privacy.{key}={getattr(paper.privacy, key)}" for key in ("epsilon", "delta", "adjacency"))
    private = Scenario.preset("private-iris").with_overrides(*target)
    with _second_process(paper, private, seeds) as results:
        from airmixml import run, simulate
        from airmixml.cli.demo_picture import draw_demo

        with progress_bars() as progress:
            metrics = run(paper, progress=progress)
        half = _receive(results)
    sides = (
        Side(
            scenario=paper,
            metrics=metrics,
            final=[metrics["accuracy"]["final"], *half.paper_final],
            best=[metrics["accuracy"]["best"], *half.paper_best],
            mixtures=simulate(paper),
        ),
        Side(
            scenario=private,
            metrics=half.private_metrics,
            final=half.private_final,
            best=[],
            mixtures=simulate(private),
        ),
    )
    draw_demo(sides, PICTURE)
    if as_json:
        print_json({**{side.scenario.name: side.to_dict() for side in sides}, "picture": str(PICTURE)})
        return
    console.print(demo_table(sides))
    console.print(f"picture: {PICTURE} ({time.perf_counter() - started:.0f} s)", soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class _SecondHalf:
    """What the second process does: the paper's other seeds, and the whole private experiment."""

    paper_final: list[float]
    paper_best: list[float]
    private_final: list[float]
    private_metrics: dict[str, Any]


@contextmanager
def _second_process(paper: Scenario, private: Scenario, seeds: int) -> Iterator[Connection]:
    """Do half of the work in a second process: a step of a small network keeps one core busy, never two."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run_second_half, args=(paper, private, seeds, theirs), daemon=True)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the child inherits this; Ctrl-C is for the parent to answer
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)
    theirs.close()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def _run_second_half(paper: Scenario, private: Scenario, seeds: int, result: Connection) -> None:
    from airmixml import run, simulate, train
    from airmixml.edge import train_seeds

    try:
        histories = train_seeds([simulate(paper.with_seed(seed)) for seed in range(1, seeds)], speed=Speed(threads=1))
        learned = [train(simulate(private.with_seed(seed))).history for seed in range(seeds)]
        half = _SecondHalf(
            paper_final=[history.final_accuracy for history in histories],
            paper_best=[history.best_accuracy for history in histories],
            private_final=[history.final_accuracy for history in learned],
            private_metrics=run(private),
        )
    except AirMixError as problem:
        result.send(problem)
    else:
        result.send(half)


def _receive(results: Connection) -> _SecondHalf:
    try:
        received = results.recv()
    except EOFError:
        raise AirMixError("demo: the second process ended early; free some memory and try again") from None
    if isinstance(received, AirMixError):
        raise received
    assert isinstance(received, _SecondHalf)
    return received


def demo_table(sides: tuple[Side, Side]) -> Table:
    """Return both experiments side by side."""
    paper, privacy = sides[0].scenario, sides[0].scenario.privacy
    table = Table(
        title=f"Iris, {paper.workers.count:,} simulated workers, target epsilon {privacy.epsilon:g}, "
        f"delta {privacy.delta:g} ({privacy.adjacency})",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("", style="cyan", no_wrap=True)
    for side in sides:
        table.add_column(side.scenario.name, overflow="fold")
    names = (
        ("the server receives", "  air time", "  energy"),
        (f"accuracy, {len(sides[0].final)} seeds", f"  best epoch of {paper.learner.epochs}"),
        ("target holds against", "  which knows"),
        ("smallest epsilon", *(f"  against {adversary}" for adversary in _ADVERSARIES)),
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
        *(f"{side.epsilon(adversary):.4g}" for adversary in _ADVERSARIES),
        escape(metrics["run_dir"]),
    ]


def _percent(accuracies: list[float]) -> str:
    return f"{100 * statistics.fmean(accuracies):.1f} ± {100 * statistics.stdev(accuracies):.1f} %"
