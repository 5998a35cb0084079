"""A sweep as a page, as a picture with error bars and in files, made of what its JSON file holds.

In the picture one key is a line. Two are a line for each value of the second, or of the first where that has fewer. Of
more keys the others stay at their first value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.output.commands import seeds_option, values_option
from airmixml.output.figures import COLOURS, error_line, finish_axis, new_figure
from airmixml.output.page import Page
from airmixml.output.tables import Table, rows_csv
from airmixml.scenario import Scenario
from airmixml.scenario.toml import value_text
from airmixml.sweeps.study_files import BARE, write_study
from airmixml.sweeps.swept import Swept, metric_text, unit_of
from airmixml.wording import plural, sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_ROWS: Final = 500  # of a page that opens quickly
_MOST_LINES: Final = 6
# Largest over smallest from which the axis of a key, or of the metric, is logarithmic.
_DECADE: Final = 10.0
_DECADES: Final = 100.0
_MARKERS: Final = "osD^vP"
_ASIDE: Final = 0.08  # between the lines at one word

Plain = dict[str, Any]
Means = dict[tuple[Any, ...], tuple[float, float]]  # mean and deviation by the values of the keys


def sweep_page(plain: Plain, scenario: Scenario) -> Page:
    """Return what a sweep tells."""
    cells, grid, seeds = plain["cells"], plain["grid"], plural(len(plain["seeds"]), "seed")
    failed = f"; {plural(sum(plain['failures'].values()), 'run')} failed" if plain["failures"] else ""
    words = [word for key, values in grid.items() for word in values_option("--grid", key, values)]
    command = () if plain["command"] == "run" else ("--command", plain["command"])
    more = f"{plural(len(cells) - _MOST_ROWS, 'more row')} in sweep.csv" if len(cells) > _MOST_ROWS else ""
    return Page.of_result(
        kind="sweep",
        title=f"{scenario.title}: {', '.join(grid)}",
        verdict=f"{plural(len(cells), 'cell')} of airmix {plain['command']}, {seeds} each{failed}.",
        notices=tuple(map(sentence, plain["notes"])),
        results=tuple((name, _range(cells, name)) for name in plain["metrics"]),
        tables=(sweep_table(plain, cells[:_MOST_ROWS]), *map(sentence, filter(None, (more, picture_note(plain))))),
        command=("sweep", *words, *command, *seeds_option(len(plain["seeds"]))),
    )


def sweep_table(plain: Plain, cells: list[Plain]) -> Table:
    """Return one line per cell: its values, mean and deviation of each chosen metric, and why seeds failed."""
    seeds, metrics, failed = len(plain["seeds"]), plain["metrics"], bool(plain["failures"])
    rows = []
    for cell in cells:
        errors = list(cell["errors"].values())
        some = f" ({seeds - len(errors)} of {seeds})" if errors else ""
        texts = [metric_text(cell["metrics"].get(name, {}), name) + some for name in metrics]
        why = "; ".join(f"{plural(errors.count(each), 'seed')}: {each}" for each in dict.fromkeys(errors))
        values = map(value_text, cell["values"].values())
        rows.append((*values, *(["failed"] * len(metrics) if len(errors) == seeds else texts), *[why] * failed))
    keys = list(plain["grid"])
    short = [key.rpartition(".")[2] for key in keys]  # which leave the metrics more room
    return Table(
        title="Mean ± standard deviation" if seeds > 1 else "One seed",
        columns=(*(short if len(set(short)) == len(keys) > 2 else keys), *metrics, *["failed"] * failed),
        rows=tuple(rows),
        words=len(keys),
        options=BARE,
    )


def _range(cells: list[Plain], name: str) -> str:
    """Return the smallest and the largest mean of a metric over all cells; words as they are."""
    found = [cell["metrics"][name] for cell in cells if name in cell["metrics"]]
    numbers = sorted((each for each in found if each.get("mean") is not None), key=lambda each: float(each["mean"]))
    ends = [numbers[0], numbers[-1]] if numbers else found
    return " to ".join(dict.fromkeys(metric_text({**each, "deviation": None}, name) for each in ends))


def write_sweep(swept: Swept) -> list[Path]:
    """Write CSV, Markdown, LaTeX, JSON and the picture; return the files."""
    plain = swept.to_dict()
    return write_study(
        swept.out / "sweep",
        sweep_page(plain, swept.scenario),
        plain,
        sweep_figure(plain, swept.scenario.title),
        csv=rows_csv(swept.long_rows()),
        tex=sweep_table(plain, plain["cells"]).to_latex(),
    )


def picture_note(plain: Plain) -> str:
    """Return what the picture leaves out, in one line; empty where it shows everything."""
    grid, left_out = plain["grid"], []
    if len(grid) > 2:
        fixed = ", ".join(f"{key} = {value_text(values[0])}" for key, values in list(grid.items())[2:])
        left_out.append(f"the picture shows the first two keys at {fixed}")
    if len(grid) > 1 and (count := min(map(len, list(grid.values())[:2]))) > _MOST_LINES:
        left_out.append(f"the picture shows the first {_MOST_LINES} of {count} values of {list(grid)[1]}")
    return "; ".join(left_out)


def drawn_metric(plain: Plain) -> str:
    """Return the first of the tables' metrics that is a number in some cell; empty where none is."""
    numbers = {name for cell in plain["cells"] for name, found in cell["metrics"].items() if "mean" in found}
    return next((name for name in plain["metrics"] if name in numbers), "")


def sweep_figure(plain: Plain, title: str) -> Figure | None:
    """Return the picture as a Matplotlib figure, ``title`` above it; None where there is no number to draw."""
    metric, grid = drawn_metric(plain), plain["grid"]
    keys, seeds = list(grid)[:2], len(plain["seeds"])
    means: Means = {
        tuple(cell["values"][key] for key in keys): (found["mean"], found["deviation"] or 0.0)
        for cell in plain["cells"]
        if all(cell["values"][key] == values[0] for key, values in grid.items() if key not in keys)
        and (found := cell["metrics"].get(metric, {})).get("mean") is not None
    }
    if not means:
        return None
    spread = ", ± standard deviation" if seeds > 1 else ""
    figure = new_figure(6.4, 4.2, f"{title}: {metric}, {plural(seeds, 'seed')}{spread}; simulation", 10.5)
    axis = figure.subplots()
    unit, size = unit_of(metric, max(abs(mean) for mean, _ in means.values()))
    wide = max(mean for mean, _ in means.values()) >= _DECADES * min(mean for mean, _ in means.values())
    positive = min(mean - deviation for mean, deviation in means.values()) > 0.0
    log = unit not in ("%", "dB", "dBm") and positive and wide
    here = {point: (mean / size, deviation / size if seeds > 1 else None) for point, (mean, deviation) in means.items()}
    _draw_lines(axis, {key: grid[key] for key in keys}, here)
    axis.set(ylabel=f"{metric} [{unit}]" if unit else metric, yscale="log" if log else "linear")
    finish_axis(axis)
    return figure


def _draw_lines(axis: Axes, grid: dict[str, list[Any]], means: dict[tuple[Any, ...], tuple[float, Any]]) -> None:
    """Draw a line, or one for each value of the second key."""
    along, across = [*grid, ""][:2]
    swapped = bool(across) and len(grid[across]) > _MOST_LINES and len(grid[across]) > len(grid[along])
    if swapped:  # the key with few values gives the lines
        along, across = across, along
    values, lines = grid[along], grid[across][:_MOST_LINES] if across else [None]
    places, logarithmic, words = _places(values)
    for number, value in enumerate(lines):
        aside = _ASIDE * (number - (len(lines) - 1) / 2) if words else 0.0  # else bars would hide each other
        points = [(each,) if not across else (value, each) if swapped else (each, value) for each in values]
        there = [(place + aside, *means[point]) for place, point in zip(places, points, strict=True) if point in means]
        at, mean, spread = map(list, zip(*there, strict=True)) if there else ([], [], [])
        error_line(
            axis,
            at,
            mean,
            None if None in spread else spread,
            color=COLOURS[number % len(COLOURS)],
            marker=_MARKERS[number % len(_MARKERS)],
            linestyle="none" if words else "-",  # nothing lies between two words
            label=value_text(value) if across else None,
        )
    axis.set_xlabel(along)
    axis.margins(x=0.08, y=0.12)
    if logarithmic:
        axis.set_xscale("log")
    if len(places) <= 12:
        texts = list(map(value_text, values))
        axis.set_xticks(places, texts, rotation=30 if max(map(len, texts)) > 6 else 0)
        axis.set_xticks([], minor=True)
    if across and means:
        axis.legend(fontsize=8, title=across, title_fontsize=8)


def _places(values: Sequence[Any]) -> tuple[list[float], bool, bool]:
    """Return where values stand on their axis, whether it is logarithmic, and whether they stand side by side."""
    if any(isinstance(value, str) or not math.isfinite(value) for value in values):
        return [float(place) for place in range(len(values))], False, True
    numbers = [float(value) for value in values]
    return numbers, min(numbers) > 0.0 and max(numbers) / min(numbers) >= _DECADE, False
