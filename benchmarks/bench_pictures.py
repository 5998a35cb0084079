"""The pictures of docs/performance.md: how much faster than what, and how time and memory grow."""

from __future__ import annotations

from pathlib import Path

from airmixml.output.figures import COLOURS, GREY, finish_axis, new_figure, save_figure
from bench_tables import GPU, MACHINES, Results, Row, rows_by_name


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw what the results hold, and return the files."""
    drawn = []
    for name, machines in (("cpu", [each for each in MACHINES if each != GPU]), ("h200", [GPU])):
        there = [machine for machine in machines if machine in results]
        if there:
            drawn.append(draw_ratios(results, there, folder / f"performance-{name}.png"))
    there = [machine for machine in MACHINES if _grown(results.get(machine, {}).get("rows", ()))]
    if there:
        drawn.append(draw_growth(results, there, folder / "performance-growth.png"))
    return drawn


def draw_ratios(results: Results, machines: list[str], path: Path) -> Path:
    """Draw how many times faster each piece of work is than what it is compared with, and the targets."""
    named = [rows_by_name(results[machine]) for machine in machines]
    ratios = [{name: row for name, row in each.items() if row.get("ratio")} for each in named]
    names = list(dict.fromkeys(name for each in ratios for name in each))
    figure = new_figure(9.5, 1.2 + 0.42 * len(names))
    axis = figure.add_subplot()
    width = 0.8 / len(machines)
    for number, (machine, found) in enumerate(zip(machines, ratios, strict=True)):
        places = [
            place + (number - (len(machines) - 1) / 2) * width for place, name in enumerate(names) if name in found
        ]
        values = [found[name]["ratio"] for name in names if name in found]
        axis.barh(places, values, height=0.9 * width, color=COLOURS[number], label=machine)
    for place, name in enumerate(names):
        target = next((each[name].get("target", {}) for each in ratios if name in each), {})
        least = target.get("faster") or (1 / target["within"] if "within" in target else None)
        if least:
            label = "target" if place == 0 else None
            axis.plot([least, least], [place - 0.45, place + 0.45], color="black", linewidth=1.5, label=label)
    axis.axvline(1.0, color=GREY, linestyle="--", linewidth=1)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda value, _place: f"{value:g}")
    axis.set_yticks(range(len(names)), [f"{work}\n{against}".replace("`", "") for work, against in names], fontsize=7)
    axis.invert_yaxis()
    axis.set_xlabel("times faster than the baseline, in one run")
    finish_axis(axis, legend=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    save_figure(figure, path)
    return path


def draw_growth(results: Results, machines: list[str], path: Path) -> Path:
    """Draw time and memory against each size, both axes logarithmic, with the fitted exponents."""
    by_machine = {machine: _grown(results[machine]["rows"]) for machine in machines}
    names = list(dict.fromkeys(name for found in by_machine.values() for name in found))
    figure = new_figure(3.0 * len(names), 5.4)
    axes = figure.subplots(2, len(names), squeeze=False, sharey="row")
    for column, name in enumerate(names):
        for line, (what, exponent, unit) in enumerate(
            (("seconds", "seconds_exponent", "s"), ("megabytes", "memory_exponent", "MB"))
        ):
            axis = axes[line][column]
            for number, (machine, found) in enumerate(by_machine.items()):
                points, fitted = found[name]["points"], found[name][exponent]
                label = f"{machine}: exponent {fitted:.2f}"
                axis.plot(points["sizes"], points[what], marker="o", color=COLOURS[number], label=label)
            axis.set_xscale("log")
            axis.set_yscale("log")
            sizes = next(iter(by_machine.values()))[name]["points"]["sizes"]
            axis.set_xticks(sizes, [_short(size) for size in sizes], minor=False)
            axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
            axis.set_ylabel(unit if column == 0 else "")
            finish_axis(axis, name if line == 0 else "", size=10, legend=7)
    save_figure(figure, path)
    return path


def _short(size: int) -> str:
    """Return 10,000 as 10k and 1,000,000 as 1M."""
    for factor, letter in ((10**6, "M"), (10**3, "k")):
        if size >= factor:
            return f"{size / factor:g}{letter}"
    return f"{size}"


def _grown(rows: list[Row]) -> dict[str, Row]:
    return {row["work"]: row for row in rows if "points" in row}
