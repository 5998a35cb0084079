"""Tolerances as a page and in files, made of what their JSON file holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.messages import NONE, plural, sentence, simulated
from airmixml.output.figures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    error_line,
    finish_axis,
    new_figure,
    shared_legend,
)
from airmixml.output.page import Folded, Page
from airmixml.output.tables import Table
from airmixml.scenario import Scenario
from airmixml.sweeps.sweep_page import BARE, write_study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Plain = dict[str, Any]
_COMPARED = {"accuracy.final": "accuracy", "scores.r2": "R^2", "scores.labels_right": "labels right"}
_VERDICTS: Final = {True: " ok", False: " too much", None: ""}


def tolerances_page(plain: Plain, scenario: Scenario) -> Page:
    """Return what a study of tolerances tells."""
    found, compared = plain["tolerances"], _COMPARED[plain["metric"]]
    only = ",".join(each["key"].removeprefix("air.") for each in found)
    seeds, options = plural(len(plain["seeds"]), "seed"), ["--quick"] if plain.get("quick") else []
    notes = [
        f"tolerated: {compared} falls by at most {points(plain['drop'])}, mean over {seeds}, compared seed by seed; "
        "more by up to one standard error is chance",
        "hardware without a verdict: between the two sizes, or judged only with its own resynchronisation (--air)",
    ]
    if not scenario.air.is_ideal:
        notes.append(f"on the base air it is {plain['base']['mean']:.2f} %")
    notes += [f"cannot be run: {each['key']} ({each['why_not']})" for each in found if each["why_not"]]
    hardware = tuple(f"{each['name']}: {each['hardware']}." for each in found)
    options += ["--drop", f"{plain['drop']:g}", "--only", only, "--seeds", str(len(plain["seeds"]))]
    return Page.of_result(
        kind="study of tolerances",
        title=f"How bad each impairment may get, alone: {scenario.title}",
        notices=(sentence(simulated(scenario.seed)),),
        results=((f"{compared} on the ideal air", f"{plain['ideal']['mean']:.2f} %"),),
        tables=(tolerances_table(plain), *map(sentence, notes), Folded(summary="What hardware has", parts=hardware)),
        command=("tolerances", *options),
    )


def tolerances_table(plain: Plain) -> Table:
    """Return one line for each impairment: what accuracy tolerates, and what each class of hardware has."""
    found = plain["tolerances"]
    return Table(
        title="Sizes that are tolerated, and what hardware has",
        columns=("impairment", "tolerated", "too much", *found[0]["delivered"]),
        rows=tuple(
            (
                f"{each['name']} [{each['unit']}]" if each["unit"] else each["name"],
                *_limits(each),
                *(
                    _size(has["size"]) + _VERDICTS[has["tolerated"]] * (has["size"] is not None)
                    for has in each["delivered"].values()
                ),
            )
            for each in found
        ),
        words=20,
        options=BARE,
    )


def _limits(each: Plain) -> tuple[str, str]:
    """Return what accuracy tolerates, and what is too much for it."""
    if each["why_not"] or each["refused"] is None:
        return "cannot be run" if each["why_not"] else "all", ""
    return _size(each["tolerated"]), _size(each["refused"])


def _size(size: float | None) -> str:
    """Return a size with few digits: 0.05, 240, 1e-07."""
    if size is None:
        return NONE
    return f"{size:.2g}" if 0.0 < abs(size) < 1e-3 else f"{size:g}"


def write_tolerances(plain: Plain, scenario: Scenario, out: Path) -> list[Path]:
    """Write the page as Markdown, the tried sizes as CSV, everything as JSON, and the picture; return the files."""
    ideal = plain["ideal"]["scores"]
    rows: list[tuple[Any, ...]] = [("", "", *pair, 0.0, "") for pair in zip(plain["seeds"], ideal, strict=True)]
    for key, tried in ((each["key"], tried) for each in plain["tolerances"] for tried in each["tried"]):
        rows += [(key, tried["size"], "", "", "", tried["error"])] if tried["error"] else []
        by_seed = zip(plain["seeds"], tried["scores"], ideal, strict=False)
        rows += [(key, tried["size"], seed, score, best - score, "") for seed, score, best in by_seed]
    table = Table(columns=("key", "size", "seed", "score", "fall", "error"), rows=rows)
    page, figure = tolerances_page(plain, scenario), tolerances_figure(plain, scenario)
    return write_study(out / "tolerances", page, plain, figure, csv=table.to_csv())


_CLASS_COLOURS: Final = (GREEN, PURPLE, ORANGE, BLACK)
_CLASS_STYLES: Final = ((0, (2, 1)), (0, (0.5, 0.5)), (0, (5, 1.5, 1, 1.5)), (0, (3, 3)))
_CLASS_WIDTHS: Final = (4.5, 3.2, 2.0, 1.1)  # so that those of equal sizes do not hide each other
_PANELS_PER_ROW: Final = 4
_BELOW: Final = 12.0  # drops below the tolerated score that a panel shows at most


def tolerances_figure(plain: Plain, scenario: Scenario) -> Figure | None:
    """Return the picture of what the JSON file holds; None where nothing could be run."""
    panels = [each for each in plain["tolerances"] if not each["why_not"]]
    if not panels:
        return None
    seeds = plural(len(plain["seeds"]), "seed")
    title = f"{scenario.title}: {plain['metric']} against the size of each impairment, alone ({seeds}; simulation)"
    title += f"\na size is tolerated where its bar reaches the line of {points(plain['drop'])} less"
    columns = min(_PANELS_PER_ROW, len(panels))
    lines = -(-len(panels) // columns)
    figure = new_figure(max(10.8, 3.6 * columns), 1.2 + 2.7 * lines, title)
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis, each in zip(axes, panels, strict=False):
        _draw_panel(axis, plain, each)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    shared_legend(figure)
    return figure


def _draw_panel(axis: Axes, plain: Plain, each: Plain) -> None:
    from airmixml.tolerances.tolerance_search import IMPAIRMENT_LADDERS  # here: it needs torch, which a page does not

    ideal, drop = plain["ideal"]["mean"], plain["drop"]
    ladder = next(one for one in IMPAIRMENT_LADDERS if f"air.{one.key}" == each["key"])
    tried = [one for one in each["tried"] if not one["error"]]
    places, scores, spread = ([one[key] for one in tried] for key in ("size", "score", "standard_error"))
    # The fall around the tolerated score, rather than all the way down, but for the best of what was tried.
    lowest = min(ideal - (1.0 + _BELOW) * drop, max(scores))
    ends = [score - error for score, error in zip(scores, spread, strict=True) if score >= lowest]
    bottom = min(max(min([*scores, ideal - 2.0 * drop]), lowest), *ends)
    top = max(ideal, *map(sum, zip(scores, spread, strict=True)))
    axis.set_ylim(bottom - 0.08 * (top - bottom), top + 0.08 * (top - bottom))
    axis.axhline(ideal, color=GREY, linewidth=1, zorder=1, label="ideal air")
    axis.axhline(ideal - drop, color=RED, linestyle="--", linewidth=1.2, zorder=1, label=f"{points(drop)} less")
    label = "measured (± standard error of the fall)"
    bars = [error if score > bottom else 0.0 for score, error in zip(scores, spread, strict=True)]
    error_line(axis, places, scores, bars, color=BLUE, marker="o", zorder=4, label=label)
    sizes = places[:]
    looks = zip(_CLASS_COLOURS, _CLASS_STYLES, _CLASS_WIDTHS, strict=True)
    for (air, found), (colour, style, width) in zip(each["delivered"].items(), looks, strict=True):
        if found["size"] is not None:
            axis.axvline(found["size"], color=colour, linestyle=style, linewidth=width, zorder=2, label=air)
            sizes += [found["size"]] if math.isfinite(found["size"]) and (found["size"] > 0.0 or not ladder.log) else []
    axis.set_xscale("log" if ladder.log else "linear")
    low, high = min(sizes), max(sizes)
    margin = 0.04 * (high - low) or 1.0
    low, high = (low / 1.5, high * 1.5) if ladder.log else (low - margin, high + margin)
    axis.set_xlim(*((high, low) if ladder.fewer_is_worse else (low, high)))
    axis.set_xlabel(ladder.unit or "number", fontsize=9)
    axis.set_ylabel("%", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.tick_params(which="minor", labelbottom=False)
    finish_axis(axis, ladder.name, size=10.5)


def points(drop: float) -> str:
    """Return "1 point", "2 points"."""
    return f"{drop:g} point{'' if drop == 1.0 else 's'}"
