"""The comparison as a picture: methods side by side, or one scenario along the values of a key."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from airmixml.compare.comparison import Comparison, Row
from airmixml.compare.methods import HEARING
from airmixml.output.figures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    chance_line,
    error_line,
    finish_axis,
    new_figure,
)
from airmixml.wording import against, epsilon_text, joules, plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACCURACY_TICKS: Final = (0.0, 50.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9)
_SMALLEST_ERROR: Final = 0.05
_SMALLEST_EPSILON: Final = 1e-3
_ADVERSARY_MARKS: Final = ((GREEN, "o", 0.16), (PURPLE, "^", 0.0), (BLACK, "s", -0.16))  # in the order of HEARING


def comparison_figure(comparison: Comparison) -> Figure:
    """Return the picture of methods, or that of values."""
    return _values(comparison) if comparison.varied else _methods(comparison)


def _methods(comparison: Comparison) -> Figure:
    scenario, privacy = comparison.scenario, comparison.scenario.privacy
    target = f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g} {against(privacy.adversary)} ({privacy.adjacency})"
    seeds = plural(len(comparison.seeds), "seed")
    title = f"{scenario.title}: {scenario.workers.count:,} workers, target {target}, {seeds}"
    said = any(row.exposure is not None for row in comparison.rows)
    figure = new_figure(18.5 if said else 15, 1.9 + 0.52 * max(len(comparison.rows), 5), title)
    left, *middle, right = figure.subplots(1, 3 if said else 2, width_ratios=(1.15, 0.62, 1.0) if said else (1.15, 1.0))
    _bars(left, comparison.rows)
    for axis in middle:
        _adversaries(axis, comparison.rows, privacy.epsilon)
        axis.set_ylim(left.get_ylim())
    if comparison.guess is not None:
        guessing = 100.0 * comparison.guess
        left.axvline(
            guessing, color=BLACK, linestyle=":", linewidth=1.2, zorder=0.5, label=f"guessing {guessing:.0f} %"
        )
        left.legend(fontsize=8, loc="lower center", bbox_to_anchor=(guessing / 102.0, 1.0), frameon=False)
        left.set_title(left.get_title(), fontsize=11, pad=20)
    _costs(right, comparison.rows)
    return figure


def _colour(row: Row) -> str:
    if row.name in ("airmix", "airmix-rounds"):
        return ORANGE
    return GREY if row.privacy[0].target_epsilon is None else BLUE


def _uses(row: Row) -> float:
    """Return the uplink symbols; 0 where no radio is used."""
    return float(row.first.uplink_symbols or 0)


def _units(rows: Sequence[Row]) -> str:
    """Return what the rows' uplink is counted in."""
    return " or ".join(dict.fromkeys(row.first.uplink_unit for row in rows if _uses(row))) or "symbols"


def _percent(rows: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Return mean and deviation of each row's accuracy, in per cent."""
    return [100.0 * row.accuracy for row in rows], [100.0 * (row.deviation or 0.0) for row in rows]


def _bars(axis: Axes, rows: Sequence[Row]) -> None:
    places, (means, spread) = np.arange(len(rows))[::-1], _percent(rows)
    colours, ends = [_colour(row) for row in rows], {"ecolor": "0.15", "capsize": 3, "linewidth": 1.2}
    several = any(row.deviation is not None for row in rows)
    axis.barh(places, means, xerr=spread if several else None, color=colours, height=0.66, error_kw=ends)
    for place, mean, above, row in zip(places, means, spread, rows, strict=True):
        privacy = row.privacy[0]
        text = f"{mean:.2f} %    ε = {epsilon_text(privacy.epsilon)} vs. {privacy.adversary}"
        where, colour = (1.5, "white") if mean > 55.0 else (mean + above + 2.5, "0.15")
        axis.text(where, place, text, va="center", fontsize=9, color=colour)
    axis.set_yticks(places, [f"{row.name}  {number}" for number, row in enumerate(rows, start=1)])
    axis.set(xlim=(0.0, 102.0), xlabel="accuracy on the clean test set [%]")
    finish_axis(axis, "Accuracy, and how much an adversary may learn about a worker")
    axis.grid(visible=False, axis="y")
    axis.set_axisbelow(True)


def _adversaries(axis: Axes, rows: Sequence[Row], target: float) -> None:
    """Draw epsilon against each adversary beside the bars; what is infinite lies on a line of its own at the right."""
    known = [
        (place, name, epsilon)
        for place, row in zip(range(len(rows))[::-1], rows, strict=True)
        for name in HEARING
        if row.exposure is not None and (epsilon := getattr(row.exposure, name)) is not None
    ]
    finite = [max(epsilon, _SMALLEST_EPSILON) for _, _, epsilon in known if math.isfinite(epsilon)] or [target]
    low, high = min(*finite, target) / 3.0, max(*finite, target)
    infinite = high * (high / low) ** 0.15
    for name, (colour, marker, up) in zip(HEARING, _ADVERSARY_MARKS, strict=True):
        own = [(place, epsilon) for place, whose, epsilon in known if whose == name]
        values = [max(epsilon, _SMALLEST_EPSILON) if math.isfinite(epsilon) else infinite for _, epsilon in own]
        heights = [place + up for place, _ in own]
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


def _costs(axis: Axes, rows: Sequence[Row]) -> None:
    """Draw errors, not accuracies, on a logarithmic scale: 98 and 99 % are as far apart as 50 and 75 %.

    The numbers are those of the rows; a method without a radio has no place along the axis: it is a line.
    """
    errors = {row.name: max(100.0 * (1.0 - row.accuracy), _SMALLEST_ERROR) for row in rows}
    uses = [_uses(row) for row in rows if _uses(row)]
    numbers: dict[tuple[float, float], list[str]] = {}
    for number, row in enumerate(rows, start=1):
        colour, error = _colour(row), errors[row.name]
        if _uses(row):
            label = f"{number}  {row.name}, {joules(row.energy_joules or 0.0)}"
            axis.plot(_uses(row), error, "o", color=colour, markersize=13, zorder=3, label=label)
            numbers.setdefault((_uses(row), error), []).append(str(number))
        else:
            label = f"{number}  {row.name}, no radio"
            axis.axhline(error, color=colour, linestyle="--", linewidth=1.2, zorder=1, label=label)
    for place, alike in numbers.items():
        axis.annotate(",".join(alike), place, ha="center", va="center", fontsize=8, color="white", zorder=4)
    low, high = min(errors.values()), max(errors.values())
    axis.set(xscale="log", yscale="log", ylim=(min(high * 1.8, 130.0), low / 1.8))
    ticks = [tick for tick in _ACCURACY_TICKS if low / 1.8 <= 100.0 - tick <= high * 1.8]
    axis.set_yticks([100.0 - tick for tick in ticks], [f"{tick:g}" for tick in ticks])
    axis.set_yticks([], minor=True)
    if uses:
        axis.set_xlim(min(uses) / 6.0, max(uses) * 6.0)
    axis.set(xlabel=f"uplink {_units(rows)} of the whole run, all workers (log)", ylabel="accuracy [%] (error: log)")
    axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), markerscale=0.5, frameon=False)
    finish_axis(axis, "What it costs on the air")


def _values(comparison: Comparison) -> Figure:
    rows, key = comparison.rows, comparison.varied
    title = f"{comparison.scenario.title} along {key} ({plural(len(comparison.seeds), 'seed')})"
    figure = new_figure(8.5, 8.2, title)
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(1.4, 1.0, 1.0))
    places, (means, spread) = np.arange(len(rows)), _percent(rows)
    error_line(top, list(map(float, places)), means, spread, color=ORANGE, marker="o")
    for place, mean, above in zip(places, means, spread, strict=True):
        top.annotate(
            f"{mean:.1f}", (place, mean + above), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=9
        )
    top.set_ylabel("accuracy [%]")
    top.margins(x=0.06, y=0.18)
    if comparison.guess is not None and min(means) < 200.0 * comparison.guess:  # else the line would flatten the curve
        chance_line(top, 100.0 * comparison.guess)
        top.legend(fontsize=8.5)
    for number, (note, style) in enumerate((("", "s-"), (" (not the target)", "d--"))):
        known = [
            (place, row.privacy[number]) for place, row in zip(places, rows, strict=True) if len(row.privacy) > number
        ]
        if known:
            label = f"vs. {known[0][1].adversary}, {known[0][1].adjacency}{note}"
            values = [max(each.epsilon, 1e-6) for _, each in known]
            middle.plot([place for place, _ in known], values, style, color=PURPLE, label=label, linewidth=1.4)
    middle.set(ylabel="ε achieved", yscale="log")
    middle.legend(fontsize=8.5)
    bottom.plot(places, [row.energy_joules or 0.0 for row in rows], "^-", color=GREEN, linewidth=1.4)
    bottom.set(ylabel="energy, all workers", yscale="log", xlabel=key)
    bottom.set_xticks(places, [row.label for row in rows])
    _plain_ticks(middle, lambda value: f"{value:g}")
    _plain_ticks(bottom, joules)
    for axis in (top, middle, bottom):
        finish_axis(axis)
    return figure


def _plain_ticks(axis: Axes, text: Callable[[float], str]) -> None:
    """Give a logarithmic axis at least a factor of five and ticks at 1, 2, 5, 10, ..., without powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=np.float64) for line in axis.lines])
    low, high = float(drawn.min()), float(drawn.max())
    room = 1.4 * max(1.0, math.sqrt(5.0 * low / high))
    axis.set_ylim(low / room, high * room)
    axis.yaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 1e3 else (1.0, 2.0, 5.0)))
    axis.yaxis.set_major_formatter(lambda value, _place: text(value))
    axis.yaxis.set_minor_formatter(NullFormatter())
