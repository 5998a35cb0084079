"""``airmix demo``: the paper's Iris experiment beside a private one on the same data, at the same target."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
from typer import Option

from airmixml.cli import options
from airmixml.cli.finished import finish_with_report, report_in
from airmixml.cli.terminal import progress_bars, show
from airmixml.errors import ScenarioError
from airmixml.output.figures import GREEN, ORANGE, chance_line, new_figure, save_figure
from airmixml.output.tables import Table
from airmixml.progress import Progress
from airmixml.runs.run_page import row_epsilons
from airmixml.scenario import Scenario
from airmixml.wording import duration, epsilon_text, joules, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PICTURE: Final = Path("runs") / "demo.png"
_COLOURS: Final = (ORANGE, GREEN)
_ADVERSARIES: Final = {
    "release": "readers of the mixtures,\nwho do not know the schedule",
    "server": "the server,\nwhich knows the schedule",
    "eavesdropper": "an eavesdropper\nbeside a worker",
}
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
    with progress_bars() as progress:
        sides = _run_both(seeds, epochs, progress)
    _draw(sides, _PICTURE)
    told = {side.scenario.name: {**side.to_dict(), **report_in(Path(side.metrics["run_dir"]))} for side in sides}
    drawn = f"picture: {_PICTURE} ({time.perf_counter() - started:.0f} s)"
    show(as_json, {**told, "picture": str(_PICTURE)}, _table(sides), drawn)


@dataclass(frozen=True, kw_only=True)
class _Side:
    """One of the two experiments.

    Attributes:
        scenario: what was run.
        metrics: those of the run folder, which holds the first seed.
        final: accuracy of each seed after the last epoch, as fractions.
        best: accuracy of the best epoch of each seed; empty where the learner has no epochs.
    """

    scenario: Scenario
    metrics: dict[str, Any]
    final: list[float]
    best: list[float]

    @property
    def smallest_epsilons(self) -> dict[str, float]:
        """For each adversary the smallest epsilon that any accountant certifies against it, for the worst worker."""
        stated = [each for each in self.metrics["privacy"] if each["adjacency"] == self.scenario.privacy.adjacency]
        return {
            adversary: min(float(each["epsilon"]) for each in stated if each["adversary"] == adversary)
            for adversary in _ADVERSARIES
        }

    @property
    def flower_epsilons(self) -> dict[str, float]:
        """For each adversary the smallest epsilon that is certified for a flower, which many workers hold."""
        found = row_epsilons(self.metrics)
        return {adversary: found[adversary] for adversary in _ADVERSARIES}

    def to_dict(self) -> dict[str, Any]:
        """Return the run's metrics, the accuracies of all seeds and the smallest epsilons, for JSON."""
        seeds = {"final_accuracies": self.final, "best_accuracies": self.best}
        epsilons = {"smallest_epsilons": self.smallest_epsilons, "flower_epsilons": self.flower_epsilons}
        return {**self.metrics, **seeds, **epsilons}


def _run_both(seeds: int, epochs: int, progress: Progress) -> tuple[_Side, _Side]:
    """Run the paper's Iris experiment and the private one at the same target; write a run folder for seed 0 of each."""
    paper = Scenario.preset("paper-iris").with_overrides(f"learner.epochs={epochs}")
    target = (f"privacy.{key}={getattr(paper.privacy, key)}" for key in ("epsilon", "delta", "adjacency"))
    private = Scenario.preset("private-iris").with_overrides(*target)
    from airmixml.edge import simulate, train, train_seeds
    from airmixml.runs import run

    metrics, private_metrics = (
        run(each, pictures=False, progress=progress, finish=finish_with_report).to_dict() for each in (paper, private)
    )
    histories = train_seeds([simulate(paper.with_seed(seed)) for seed in range(seeds)])
    final, best = ([getattr(each, name) for each in histories] for name in ("final_accuracy", "best_accuracy"))
    private_final = [train(simulate(private.with_seed(seed))).history.final_accuracy for seed in range(seeds)]
    return (
        _Side(scenario=paper, metrics=metrics, final=final, best=best),
        _Side(scenario=private, metrics=private_metrics, final=private_final, best=[]),
    )


def _percent(accuracies: list[float]) -> str:
    """Return mean and standard deviation of accuracies, given as fractions, in percent."""
    return f"{100 * statistics.fmean(accuracies):.1f} ± {100 * statistics.stdev(accuracies):.1f} %"


def _table(sides: tuple[_Side, _Side]) -> Table:
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


def _cells(side: _Side, epochs: int) -> dict[str, str]:
    """Return one column of the table; names that begin a section are not indented."""
    radio, metrics, own = side.scenario.radio, side.metrics, side.metrics["privacy"][0]
    moments = side.scenario.workers.sends == "moments"
    sums = f"one sum of {radio.scheduled:,} products" if moments else f"sums of {radio.scheduled:,} samples"
    return {
        "the server receives": sums,
        "  air time": f"{plural(radio.slots, 'slot')}, {duration(metrics['air_seconds'])}",
        "  energy": f"{joules(metrics['energy_joules'])} in total",
        f"accuracy, {len(side.final)} seeds": _percent(side.final),
        f"  best epoch of {epochs}": _percent(side.best) if side.best else "no epochs",
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


def _draw(sides: tuple[_Side, _Side], path: Path) -> None:
    """Draw how well it was learned, and who learns how much."""
    privacy, workers = sides[0].scenario.privacy, sides[0].scenario.workers
    title = f"Iris, {workers.count:,} workers: the paper's way and the private way, both for ε = {privacy.epsilon:g}"
    figure = new_figure(12, 4.2, f"{title}, δ = {privacy.delta:g} ({privacy.adjacency})", size=13)
    accuracy, epsilon = figure.subplots(1, 2)
    _draw_accuracy(accuracy, sides)
    _draw_epsilons(epsilon, sides)
    save_figure(figure, path)


def _draw_accuracy(axis: Axes, sides: tuple[_Side, _Side]) -> None:
    names = []
    for place, (side, colour) in enumerate(zip(sides, _COLOURS, strict=True)):
        values = 100 * np.asarray(side.final)
        axis.bar(place, values.mean(), color=colour, alpha=0.5, width=0.6)
        axis.errorbar(place, values.mean(), values.std(ddof=1), color="0.2", capsize=6)
        axis.plot(place + np.linspace(-0.12, 0.12, len(values)), values, ".", color="0.2")
        names.append(f"{side.scenario.name}\n{_percent(side.final)}")
    chance_line(axis, 100 / 3)
    axis.legend(fontsize=8, loc="upper left")
    axis.set(title=f"Accuracy on clean flowers, {len(sides[0].final)} seeds", ylabel="%", ylim=(0, 102))
    axis.set_xticks(range(len(sides)), names)


def _draw_epsilons(axis: Axes, sides: tuple[_Side, _Side]) -> None:
    """Draw the epsilons of a worker as bars, and above each that of a flower as a line."""
    for number, (side, colour) in enumerate(zip(sides, _COLOURS, strict=True)):
        places = np.arange(len(_ADVERSARIES)) + 0.38 * (number - 0.5)
        values, flowers = list(side.smallest_epsilons.values()), list(side.flower_epsilons.values())
        bars = axis.bar(places, values, width=0.36, color=colour, label=side.scenario.name)
        axis.bar_label(bars, [f"{value:.3g}" for value in values], fontsize=8)
        label = f"a flower, on up to {side.metrics['row_copies']} workers" if number else ""
        axis.hlines(flowers, places - 0.18, places + 0.18, color="0.2", linewidth=2, label=label)
        for place, value in zip(places, flowers, strict=True):
            axis.annotate(f"{value:.3g}", (place, value), (0, 2), textcoords="offset points", ha="center", fontsize=8)
    target = sides[0].scenario.privacy.epsilon
    axis.axhline(target, color="0.3", linestyle="--", linewidth=1, label=f"target {target:g}")
    axis.set(title="Who may learn how much: ε of the worst worker and flower", ylabel="ε (log scale)", yscale="log")
    axis.minorticks_off()  # dozens of them, which take a quarter of a second to draw
    axis.set_ylim(0.5, 1e3 * max(side.flower_epsilons["eavesdropper"] for side in sides))
    axis.set_xticks(range(len(_ADVERSARIES)), list(_ADVERSARIES.values()), fontsize=8)
    axis.legend(fontsize=8, loc="upper left", ncols=2)
