"""The comparison as a picture: methods side by side, or one scenario along the values of a key."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from airmixml.compare.adversaries import HEARING
from airmixml.compare.comparison import Comparison, Row
from airmixml.data import known_dataset
from airmixml.output.figures import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    chance_line,
    finish_axis,
    new_figure,
    save_png_and_svg,
)
from airmixml.output.numbers import epsilon_text, joules, plural
from airmixml.wording import against

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ACCURACY_TICKS: Final = (0.0, 50.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9)
_SMALLEST_ERROR: Final = 0.05
_SMALLEST_EPSILON: Final = 1e-3
_ADVERSARY_MARKS: Final = ((GREEN, "o", 0.16), (PURPLE, "^", 0.0), (BLACK, "s", -0.16))  # in the order of HEARING
# About the size of the right axis and of what is written in it.
_WIDTH_POINTS, _HEIGHT_POINTS, _MARKER_POINTS, _LETTER_POINTS = 400.0, 300.0, 10.0, 5.4


def draw_comparison(comparison: Comparison, stem: Path) -> list[Path]:
    """Draw the picture of methods, or that of values, and return its files: PNG and SVG."""
    return save_png_and_svg(comparison_figure(comparison), stem)


def comparison_figure(comparison: Comparison) -> Figure:
    """Return the picture of methods, or that of values."""
    return _values(comparison) if comparison.varied else _methods(comparison)


def _methods(comparison: Comparison) -> Figure:
    scenario, privacy = comparison.scenario, comparison.scenario.privacy
    target = f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g} {against(privacy.adversary)} ({privacy.adjacency})"
    seeds = plural(len(comparison.seeds), "seed")
    title = f"{scenario.title}: {scenario.workers.count:,} workers, target {target}, {seeds}"
    said = any(row.exposure is not None for row in comparison.rows)
    figure = new_figure(16.5 if said else 13, 1.9 + 0.52 * max(len(comparison.rows), 5), title)
    left, *middle, right = figure.subplots(1, 3 if said else 2, width_ratios=(1.15, 0.62, 1.0) if said else (1.15, 1.0))
    _bars(left, comparison.rows)
    for axis in middle:
        _adversaries(axis, comparison.rows, privacy.epsilon)
        axis.set_ylim(left.get_ylim())
    guessing = _guessing_percent(comparison)
    if guessing is not None:
        left.axvline(
            guessing, color=BLACK, linestyle=":", linewidth=1.2, zorder=0.5, label=f"guessing {guessing:.0f} %"
        )
        left.legend(fontsize=8, loc="lower center", bbox_to_anchor=(guessing / 102.0, 1.0), frameon=False)
        left.set_title(left.get_title(), fontsize=11, pad=20)
    _costs(right, comparison.rows)
    return figure


def _guessing_percent(comparison: Comparison) -> float | None:
    """Return the accuracy of guessing one of equally many classes, where their number is known."""
    known = known_dataset(comparison.scenario.workers.dataset)
    return None if known is None else 100.0 / known.label_dim


def _colour(row: Row) -> str:
    if row.name == "airmix":
        return ORANGE
    return GREY if row.privacy[0].target_epsilon is None else BLUE


def _uses(row: Row) -> float:
    """Return the uplink symbols; 0 where no radio is used."""
    return float(row.first.uplink_symbols or 0)


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
    axis.set_yticks(places, [row.name for row in rows])
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
    """Draw errors, not accuracies, on a logarithmic scale: 98 and 99 % are as far apart as 50 and 75 %."""
    points = [row for row in rows if _uses(row)]
    errors = {row.name: max(100.0 * (1.0 - row.accuracy), _SMALLEST_ERROR) for row in rows}
    for row in points:
        axis.plot(_uses(row), errors[row.name], "o", color=_colour(row), markersize=9, zorder=3)
    low, high = min(errors.values()), max(errors.values())
    axis.set(xscale="log", yscale="log", ylim=(min(high * 1.8, 130.0), low / 1.8))
    ticks = [tick for tick in _ACCURACY_TICKS if low / 1.8 <= 100.0 - tick <= high * 1.8]
    axis.set_yticks([100.0 - tick for tick in ticks], [f"{tick:g}" for tick in ticks])
    axis.set_yticks([], minor=True)
    if points:
        uses = [_uses(row) for row in points]
        axis.set_xlim(min(uses) / 6.0, max(uses) * 6.0)
        _place_labels(axis, rows, errors)
    axis.set(xlabel="uplink symbols of the whole run, all workers (log)", ylabel="accuracy [%] (error: log)")
    finish_axis(axis, "What it costs on the air")


def _place_labels(axis: Axes, rows: Sequence[Row], errors: dict[str, float]) -> None:
    """Write names beside points and on lines, where nothing else is; all boxes in typographic points.

    A method without a radio has no place along the axis: it is a line.
    """
    (left, right), (bottom, top) = np.log10(axis.get_xlim()), np.log10(axis.get_ylim())
    heights = {name: _HEIGHT_POINTS * (np.log10(error) - bottom) / (top - bottom) for name, error in errors.items()}
    points, lines = [row for row in rows if _uses(row)], [row for row in rows if not _uses(row)]
    places = {row.name: _WIDTH_POINTS * (np.log10(_uses(row)) - left) / (right - left) for row in points}
    boxes = [(place, heights[name], _MARKER_POINTS, _MARKER_POINTS) for name, place in places.items()]
    boxes += [(_WIDTH_POINTS / 2.0, heights[row.name], _WIDTH_POINTS, 3.0) for row in lines]
    for row in (*points, *lines):
        y = heights[row.name]
        if row in points:
            text, x = f"{row.name}\n{joules(row.energy_joules or 0.0)}", places[row.name]
            width, height = _LETTER_POINTS * max(map(len, text.split("\n"))), 24.0
            beside = width / 2.0 + 9.0
            sides = ((0.0, 21.0), (0.0, -21.0), (-beside, 0.0), (beside, 0.0), (-beside, -16.0), (beside, -16.0))
            spots = [(x + right_by, y + up_by) for right_by, up_by in sides]
        else:
            axis.axhline(errors[row.name], color=_colour(row), linestyle="--", linewidth=1.2, zorder=1)
            text = f"{row.name}: no radio"
            width, height = _LETTER_POINTS * len(text), 9.0
            shares = (0.5, 0.65, 0.35, 0.85, 0.15)
            spots = [(share * _WIDTH_POINTS, y + up_by) for up_by in (8.0, -8.0) for share in shares]
        free = min(((*spot, width, height) for spot in spots), key=lambda box: _overlap(box, boxes))
        boxes.append(free)
        where = (free[0] / _WIDTH_POINTS, free[1] / _HEIGHT_POINTS)
        axis.annotate(text, where, xycoords="axes fraction", ha="center", va="center", fontsize=9, color=_colour(row))


def _overlap(box: tuple[float, ...], others: Sequence[tuple[float, ...]]) -> float:
    """Return the area that a box (middle and size) shares with others or has outside the axis."""
    x, y, width, height = box
    shared = sum(
        max(0.0, (width + w) / 2.0 - abs(x - left)) * max(0.0, (height + h) / 2.0 - abs(y - up))
        for left, up, w, h in others
    )
    outside = max(0.0, width / 2.0 - x, x + width / 2.0 - _WIDTH_POINTS)
    return shared + height * outside + width * max(0.0, height / 2.0 - y, y + height / 2.0 - _HEIGHT_POINTS)


def _values(comparison: Comparison) -> Figure:
    rows, key = comparison.rows, comparison.varied
    title = f"{comparison.scenario.title} along {key} ({plural(len(comparison.seeds), 'seed')})"
    figure = new_figure(8.5, 8.2, title)
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(1.4, 1.0, 1.0))
    places, (means, spread) = np.arange(len(rows)), _percent(rows)
    top.errorbar(places, means, yerr=spread, fmt="o-", color=ORANGE, capsize=3, linewidth=1.6)
    for place, mean, above in zip(places, means, spread, strict=True):
        top.annotate(
            f"{mean:.1f}", (place, mean + above), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=9
        )
    top.set_ylabel("accuracy [%]")
    top.margins(x=0.06, y=0.18)
    guessing = _guessing_percent(comparison)
    if guessing is not None and min(means) < 2.0 * guessing:  # else the line would flatten the curve
        chance_line(top, guessing)
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
