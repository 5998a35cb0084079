"""The comparison as a picture: accuracy of the methods, epsilon against each adversary, and costs, side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from airmixml.compare.methods import HEARING
from airmixml.output.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, finish_axis, new_figure
from airmixml.scenario import Scenario
from airmixml.wording import against, epsilon_text, joules, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACCURACY_TICKS: Final = (0.0, 50.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9)
_SMALLEST_ERROR: Final = 0.05
_SMALLEST_EPSILON: Final = 1e-3
_ADVERSARY_MARKS: Final = ((GREEN, "o", 0.16), (PURPLE, "^", 0.0), (BLACK, "s", -0.16))  # in the order of HEARING
_Rows = Sequence[dict[str, Any]]


def comparison_figure(plain: dict[str, Any], scenario: Scenario) -> Figure:
    """Return the picture of what the JSON file of a comparison holds."""
    rows, privacy = plain["rows"], scenario.privacy
    target = f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g} {against(privacy.adversary)} ({privacy.adjacency})"
    seeds = plural(len(plain["seeds"]), "seed")
    title = f"{scenario.title}: {scenario.workers.count:,} workers, target {target}, {seeds}"
    figure = new_figure(18.5, 1.9 + 0.52 * max(len(rows), 5), title)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.15, 0.62, 1.0))
    _bars(left, rows)
    _adversaries(middle, rows, privacy.epsilon)
    middle.set_ylim(left.get_ylim())
    if plain["guess"] is not None:
        guessing = 100.0 * plain["guess"]
        left.axvline(
            guessing, color=BLACK, linestyle=":", linewidth=1.2, zorder=0.5, label=f"guessing {guessing:.0f} %"
        )
        left.legend(fontsize=8, loc="lower center", bbox_to_anchor=(guessing / 102.0, 1.0), frameon=False)
        left.set_title(left.get_title(), fontsize=11, pad=20)
    _costs(right, rows)
    return figure


def _colour(row: dict[str, Any]) -> str:
    if row["method"] in ("airmix", "airmix-rounds"):
        return ORANGE
    return GREY if row["privacy"][0]["target_epsilon"] is None else BLUE


def _bars(axis: Axes, rows: _Rows) -> None:
    places = np.arange(len(rows))[::-1]
    means = [100.0 * row["accuracy"]["mean"] for row in rows]
    spread = [100.0 * (row["accuracy"]["deviation"] or 0.0) for row in rows]
    ends = {"ecolor": "0.15", "capsize": 3, "linewidth": 1.2}
    xerr = spread if any(spread) else None
    axis.barh(places, means, xerr=xerr, color=[_colour(row) for row in rows], height=0.66, error_kw=ends)
    for place, mean, above, row in zip(places, means, spread, rows, strict=True):
        privacy = row["privacy"][0]
        text = f"{mean:.2f} %    ε = {epsilon_text(privacy['epsilon'])} vs. {privacy['adversary']}"
        where, colour = (1.5, "white") if mean > 55.0 else (mean + above + 2.5, "0.15")
        axis.text(where, place, text, va="center", fontsize=9, color=colour)
    axis.set_yticks(places, [f"{row['method']}  {number}" for number, row in enumerate(rows, start=1)])
    axis.set(xlim=(0.0, 102.0), xlabel="accuracy on the clean test set [%]")
    finish_axis(axis, "Accuracy, and how much an adversary may learn about a worker")
    axis.grid(visible=False, axis="y")
    axis.set_axisbelow(True)


def _adversaries(axis: Axes, rows: _Rows, target: float) -> None:
    """Draw epsilon against each adversary beside the bars; what is infinite lies on a line of its own at the right."""
    known = [
        (place, name, math.inf if epsilon == "infinite" else max(epsilon, _SMALLEST_EPSILON))
        for place, row in zip(range(len(rows))[::-1], rows, strict=True)
        for name in HEARING
        if (epsilon := (row["exposure"] or {}).get(name)) is not None
    ]
    finite = [target, *(epsilon for _, _, epsilon in known if math.isfinite(epsilon))]
    low, high = min(finite) / 3.0, max(finite)
    infinite = high * (high / low) ** 0.15
    for name, (colour, marker, up) in zip(HEARING, _ADVERSARY_MARKS, strict=True):
        values = [min(epsilon, infinite) for _, whose, epsilon in known if whose == name]
        heights = [place + up for place, whose, _ in known if whose == name]
        axis.plot(values, heights, marker, color=colour, markersize=7, label=name, linestyle="none", zorder=3)
    axis.axvline(target, color=BLACK, linestyle=":", linewidth=1.2, zorder=0.5)
    axis.axvline(infinite, color=GREY, linewidth=1.0, zorder=0.5)
    decades = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    ticks = [10.0**power for power in decades][:: max(1, len(decades) // 4)]
    axis.set(xscale="log", xlim=(low, infinite * (high / low) ** 0.07))
    axis.set_xticks([*ticks, infinite], [*(f"$10^{{{math.log10(tick):.0f}}}$" for tick in ticks), "∞"])
    axis.set_xticks([], minor=True)
    axis.set_yticks(range(len(rows)), [])
    axis.set_xlabel("ε (log; dotted: the target)")
    axis.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, handletextpad=0.1)
    finish_axis(axis)
    axis.set_title("ε against each adversary", fontsize=11, pad=20)


def _costs(axis: Axes, rows: _Rows) -> None:
    """Draw errors, not accuracies, on a logarithmic scale: 98 and 99 % are as far apart as 50 and 75 %.

    The numbers are those of the rows; a method without a radio has no place along the axis: it is a line.
    """
    errors = [max(100.0 * (1.0 - row["accuracy"]["mean"]), _SMALLEST_ERROR) for row in rows]
    numbers: dict[tuple[float, float], list[str]] = {}
    for number, (row, error) in enumerate(zip(rows, errors, strict=True), start=1):
        name, colour, uses = f"{number}  {row['method']}", _colour(row), row["uplink_symbols"]
        if uses:
            label = f"{name}, {joules(row['energy_joules'] or 0.0)}"
            axis.plot(uses, error, "o", color=colour, markersize=13, zorder=3, label=label)
            numbers.setdefault((uses, error), []).append(str(number))
        else:
            axis.axhline(error, color=colour, linestyle="--", linewidth=1.2, zorder=1, label=f"{name}, no radio")
    for place, alike in numbers.items():
        axis.annotate(",".join(alike), place, ha="center", va="center", fontsize=8, color="white", zorder=4)
    low, high = min(errors), max(errors)
    axis.set(xscale="log", yscale="log", ylim=(min(high * 1.8, 130.0), low / 1.8))
    ticks = [tick for tick in _ACCURACY_TICKS if low / 1.8 <= 100.0 - tick <= high * 1.8]
    axis.set_yticks([100.0 - tick for tick in ticks], [f"{tick:g}" for tick in ticks])
    axis.set_yticks([], minor=True)
    if numbers:
        axis.set_xlim(min(numbers)[0] / 6.0, max(numbers)[0] * 6.0)
    unit = " or ".join(dict.fromkeys(row.get("uplink_unit", "symbols") for row in rows if row["uplink_symbols"]))
    axis.set(xlabel=f"uplink {unit} of the whole run, all workers (log)", ylabel="accuracy [%] (error: log)")
    axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), markerscale=0.5, frameon=False)
    finish_axis(axis, "What it costs on the air")
