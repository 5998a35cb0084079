"""``airmix demo``: the paper's Iris experiment beside a private one on the same data, at the same target."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import numpy as np
from typer import Option

from airmixml.cli import options
from airmixml.cli.terminal import command_seconds, finish_with_report, progress_bars, report_in, show
from airmixml.files import writing_to
from airmixml.messages import RunFolderError, duration, joules, plural
from airmixml.output.figures import GREEN, ORANGE, chance_line, new_figure, save_figure
from airmixml.output.tables import Table
from airmixml.runs.run_page import drawn_and_before
from airmixml.scenario import Scenario
from airmixml.scenario.rules import Whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PICTURE: Final = Path("runs") / "demo.png"
_COLOURS: Final = (ORANGE, GREEN)
_ADVERSARIES: Final = {
    "release": "readers of the mixtures,\nwho do not know the schedule",
    "server": "the server,\nwhich knows the schedule",
    "eavesdropper": "an eavesdropper\nbeside a worker",
}


def demo_command(
    seeds: Annotated[int, Option(help="Number of runs of each experiment, with seeds 0, 1, ...")] = 5,
    epochs: Annotated[int, Option(help="Training epochs of the paper's network (the paper: 500).")] = 50,
    as_json: options.AsJson = False,
) -> None:
    """Run the paper's Iris experiment beside a private one.

    Both use the same data and the same target (epsilon, delta). Prints one table and writes two run folders and the
    picture runs/demo.png.
    """
    Whole(low=2, high=64).check("--seeds", seeds)  # a standard deviation needs two
    paper = Scenario.preset("paper-iris").with_overrides(f"learner.epochs={epochs}")
    target = (f"privacy.{key}={getattr(paper.privacy, key)}" for key in ("epsilon", "delta", "adjacency"))
    private = Scenario.preset("private-iris").with_overrides(*target)
    from airmixml.runs import run

    how: dict[str, Any] = {"seeds": seeds, "pictures": False, "finish": finish_with_report}
    try:
        with writing_to(_PICTURE), progress_bars() as progress:
            sides = tuple(
                _Side(scenario=each, metrics=run(each, progress=progress, **how).to_dict()) for each in (paper, private)
            )
            _draw(sides, _PICTURE)
    except RunFolderError as problem:
        raise RunFolderError(str(problem).replace("choose another --out", "change to another directory")) from problem
    told: dict[str, Any] = {"picture": str(_PICTURE)}
    for side in sides:
        smallest = {"smallest_epsilons": side.epsilons("privacy"), "flower_epsilons": side.epsilons("row_statements")}
        told[side.scenario.name] = {**side.metrics, **smallest, **report_in(Path(side.metrics["run_dir"]))}
    drawn = f"picture: {_PICTURE} ({command_seconds():.0f} s)"
    show(as_json, told, _table(sides), drawn)


@dataclass(frozen=True, kw_only=True)
class _Side:
    """One of the two experiments: its scenario, and the metrics of all its seeds."""

    scenario: Scenario
    metrics: dict[str, Any]

    @property
    def first(self) -> Any:
        """The metrics of seed 0, whose statements the table has."""
        return self.metrics["runs"][0]

    def accuracies(self, name: str) -> list[float]:
        """Return the final or the best accuracy of each seed, as fractions."""
        return [each["accuracy"][name] for each in self.metrics["runs"]]

    def smallest(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return for each adversary the statement of a kind with the smallest epsilon, for the worst worker or row."""
        stated = [each for each in self.first[kind] if each["adjacency"] == self.scenario.privacy.adjacency]
        return {
            name: min((each for each in stated if each["adversary"] == name), key=lambda each: float(each["epsilon"]))
            for name in _ADVERSARIES
        }

    def epsilons(self, kind: str) -> dict[str, float]:
        """Return the epsilons of ``smallest``."""
        return {name: each["epsilon"] for name, each in self.smallest(kind).items()}


def _percent(accuracies: list[float]) -> str:
    """Return mean and standard deviation of accuracies, given as fractions, in percent."""
    return f"{100 * statistics.fmean(accuracies):.1f} ± {100 * statistics.stdev(accuracies):.1f} %"


def _table(sides: Sequence[_Side]) -> Table:
    paper, privacy = sides[0].scenario, sides[0].scenario.privacy
    target = f"target epsilon {privacy.epsilon:g}, delta {privacy.delta:g} ({privacy.adjacency})"
    title = f"Iris, {paper.workers.count:,} simulated workers, {target}"
    of_paper, of_private = (_cells(side, paper.learner.epochs) for side in sides)
    return Table(
        title=title,
        columns=("", *(side.scenario.name for side in sides)),
        rows=tuple(zip(of_paper, of_paper.values(), of_private.values(), strict=True)),
        words=3,
        sections=tuple(number for number, name in enumerate(of_paper) if not name.startswith(" ")),
    )


def _cells(side: _Side, epochs: int) -> dict[str, str]:
    """Return one column of the table; names that begin a section are not indented."""
    radio, metrics, own = side.scenario.radio, side.first, side.first["privacy"][0]
    moments, closed_form = side.scenario.workers.sends == "moments", side.scenario.learner.closed_form
    sums = f"one sum of {radio.scheduled:,} products" if moments else f"sums of {radio.scheduled:,} samples"
    return {
        "the server receives": sums,
        "  air time": f"{plural(radio.slots, 'slot')}, {duration(metrics['air_seconds'])}",
        "  energy": f"{joules(metrics['energy_joules'])} in total",
        f"accuracy, {len(side.metrics['runs'])} seeds": _percent(side.accuracies("final")),
        f"  best epoch of {epochs}": "no epochs" if closed_form else _percent(side.accuracies("best")),
        "target holds against": f"{own['adversary']} (by {own['accountant']})",
        "  which knows": own["knows"],
        "smallest epsilon": "of a worker",
        **{f"  against {name}": drawn_and_before(each) for name, each in side.smallest("privacy").items()},
        "of a flower, against": f"held by up to {metrics['row_copies']:,} workers",
        **{f"  {name}": drawn_and_before(each) for name, each in side.smallest("row_statements").items()},
    }


def _draw(sides: Sequence[_Side], path: Path) -> None:
    """Draw how well it was learned, and who learns how much."""
    privacy, workers = sides[0].scenario.privacy, sides[0].scenario.workers
    title = f"Iris, {workers.count:,} workers: the paper's way and the private way, both for ε = {privacy.epsilon:g}"
    figure = new_figure(12, 4.2, f"{title}, δ = {privacy.delta:g} ({privacy.adjacency})", size=13)
    accuracy, epsilon = figure.subplots(1, 2)
    _draw_accuracy(accuracy, sides)
    _draw_epsilons(epsilon, sides)
    save_figure(figure, path)


def _draw_accuracy(axis: Axes, sides: Sequence[_Side]) -> None:
    names = []
    for place, (side, colour) in enumerate(zip(sides, _COLOURS, strict=True)):
        values = 100 * np.asarray(side.accuracies("final"))
        axis.bar(place, values.mean(), color=colour, alpha=0.5, width=0.6)
        axis.errorbar(place, values.mean(), values.std(ddof=1), color="0.2", capsize=6)
        axis.plot(place + np.linspace(-0.12, 0.12, len(values)), values, ".", color="0.2")
        names.append(f"{side.scenario.name}\n{_percent(side.accuracies('final'))}")
    chance_line(axis, 100 * sides[0].metrics["baselines"]["guess"])
    axis.legend(fontsize=8, loc="upper left")
    axis.set(title=f"Accuracy on clean flowers, {len(sides[0].metrics['runs'])} seeds", ylabel="%", ylim=(0, 102))
    axis.set_xticks(range(len(sides)), names)


def _draw_epsilons(axis: Axes, sides: Sequence[_Side]) -> None:
    """Draw the epsilons of a worker as bars, and above each that of a flower as a line."""
    for number, (side, colour) in enumerate(zip(sides, _COLOURS, strict=True)):
        places = np.arange(len(_ADVERSARIES)) + 0.38 * (number - 0.5)
        values, flowers = (list(side.epsilons(kind).values()) for kind in ("privacy", "row_statements"))
        bars = axis.bar(places, values, width=0.36, color=colour, label=side.scenario.name)
        axis.bar_label(bars, [f"{value:.3g}" for value in values], fontsize=8)
        label = f"a flower, on up to {side.first['row_copies']} workers" if number else ""
        axis.hlines(flowers, places - 0.18, places + 0.18, color="0.2", linewidth=2, label=label)
        for place, value in zip(places, flowers, strict=True):
            axis.annotate(f"{value:.3g}", (place, value), (0, 2), textcoords="offset points", ha="center", fontsize=8)
    target = sides[0].scenario.privacy.epsilon
    axis.axhline(target, color="0.3", linestyle="--", linewidth=1, label=f"target {target:g}")
    axis.set(title="Who may learn how much: ε of the worst worker and flower", ylabel="ε (log scale)", yscale="log")
    axis.minorticks_off()  # dozens of them, which take a quarter of a second to draw
    axis.set_ylim(0.5, 1e3 * max(side.epsilons("row_statements")["eavesdropper"] for side in sides))
    axis.set_xticks(range(len(_ADVERSARIES)), list(_ADVERSARIES.values()), fontsize=8)
    axis.legend(fontsize=8, loc="upper left", ncols=2)
