"""Write the tables and the picture of docs/air.md from benchmarks/results/air.json, and air_*.csv beside it.

python benchmarks/air_tables.py
"""

from __future__ import annotations

import json
import re
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from airmixml.messages import joules
from airmixml.output.figures import COLOURS, finish_axis, new_figure, save_figure
from doc_tables import csv_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "air.json"
DOCUMENT = ROOT / "docs" / "air.md"
ACCURACY, ALL_PRIVACY, FRAMES = (RESULTS.with_name(f"air_{name}.csv") for name in ("accuracy", "privacy", "frames"))
IMAGE = ROOT / "docs" / "images" / "air-frames.png"
AIRS = ("ideal", "lab", "line-of-sight", "campus", "low-cost")
HEADLINE = ("private-mnist", "private-mnist-rounds", "trustless-mnist", "trustless-mnist-digital")
SHOWN = "campus"  # of the privacy of each; the file has all
NOT_SHOWN = ("air", "over target", "symbols per slot")
EPSILONS = ("10", "1")
NAMES = {
    **{f"{preset} privacy.epsilon={each}": f"`{preset}`, epsilon {each}" for preset in HEADLINE for each in EPSILONS},
    "private-mnist-release ": "`private-mnist-release`, epsilon 10",
    "paper-mnist mixing.power=max": "`paper-mnist` at maximum power",
    "paper-iris ": "`paper-iris`, epsilon 5",
}
Row = dict[str, Any]


def table(head: list[str], lines: list[list[str]]) -> str:
    every = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in every) + "\n"


def percent(values: list[float]) -> str:
    spread = f" ± {100 * statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.2f}{spread}"


def by_cell(rows: list[Row], *parts: str) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of each scenario and air, by what was changed in it."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["part"] in parts:
            changes = (change for change in row["changes"] if not change.startswith("privacy.most_absent"))
            found[(f"{row['preset']} {' '.join(changes)}", row["air"])].append(row)
    return found


def airs_table(rows: list[Row]) -> str:
    """Return accuracies of the headline presets on every air; all presets go to a file, with their seeds."""
    cells, lines = by_cell(rows, "headline", "private-mnist-release", "paper-mnist", "iris"), []
    for key, name in NAMES.items():
        if not any((key, air) in cells for air in AIRS):
            continue
        line = [name]
        for air in AIRS:
            found = cells.get((key, air), [])
            line.append(percent([row["accuracy"] for row in found]) if found else "")
        seeds = max((len(cells.get((key, air), [])) for air in AIRS), default=0)
        lines.append([*line, str(seeds)])
    head = ["accuracy in %", *AIRS]
    ACCURACY.write_text(csv_text(([*head, "seeds"], lines)), encoding="utf-8")
    headline = {NAMES[f"{preset} privacy.epsilon={each}"] for preset in HEADLINE for each in EPSILONS}
    return table(head, [line[:-1] for line in lines if line[0] in headline])


def privacy_table(rows: list[Row]) -> str:
    """Return the largest epsilon of any worker and seed on every air, and what it costs; all scenarios go to a file."""
    cells, lines = by_cell(rows, "headline", "private-mnist-release", "iris"), []
    for key, name in NAMES.items():
        for air in AIRS:
            found = cells.get((key, air), [])
            if not found:
                continue
            first = found[0]
            lines.append(
                [
                    name,
                    air,
                    f"{max(row['epsilon'] for row in found):.4g}",
                    _of_target(found),
                    f"{first['symbols_per_slot']:,}",
                    f"{first['air_seconds']:.3g} s",
                    joules(statistics.mean(row["energy_joules"] for row in found)),
                    f"{statistics.mean(row['mean_power_dbm'] for row in found):.0f} dBm",
                ]
            )
    head = ["scenario", "air", "largest epsilon", "over target", "symbols per slot", "air time", "energy"]
    head.append("mean power while sending")
    ALL_PRIVACY.write_text(csv_text((head, lines)), encoding="utf-8")
    headline = {NAMES[f"{preset} privacy.epsilon=1"] for preset in HEADLINE}
    columns = [place for place, name in enumerate(head) if name not in NOT_SHOWN]
    shown = [line for line in lines if line[0] in headline and line[1] == SHOWN]
    return table([head[place] for place in columns], [[line[place] for place in columns] for line in shown])


def _of_target(found: list[Row]) -> str:
    """Return the least share of its target that a seed reaches."""
    shares = [row["epsilon"] / row["target_epsilon"] for row in found if row["target_epsilon"]]
    return f"{min(shares):.2f}" if shares else ""


def write_frames(rows: list[Row]) -> None:
    """Write accuracy against the number of features, with the fewest seeds of any cell of a line, and draw it."""
    lengths: dict[str, int] = {}
    accuracies: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["part"] not in ("frames", "drift"):
            continue
        changes = dict(change.split("=") for change in row["changes"])
        features = changes["workers.features"]
        air = "1 Hz, never resynchronised" if row["part"] == "drift" else row["air"]
        accuracies[(features, f"{air}, epsilon {changes['privacy.epsilon']}")].append(row["accuracy"])
        lengths[features] = min(row["symbols_per_slot"], lengths.get(features, row["symbols_per_slot"]))
    columns = [f"{air}, epsilon {epsilon}" for epsilon in ("10", "1") for air in ("ideal", "line-of-sight")]
    columns.append("1 Hz, never resynchronised, epsilon 10")
    lines = [
        [
            *(features, f"{lengths[features]:,}"),
            *(percent(accuracies[(features, column)]) for column in columns),
            str(min(len(accuracies[(features, column)]) for column in columns)),
        ]
        for features in sorted(lengths, key=int)
        if all(accuracies[(features, column)] for column in columns)
    ]
    _draw_frames(lengths, accuracies, columns)
    FRAMES.write_text(csv_text((["features", "symbols per slot", *columns, "seeds"], lines)), encoding="utf-8")


def _draw_frames(lengths: dict[str, int], accuracies: dict[tuple[str, str], list[float]], columns: list[str]) -> None:
    figure = new_figure(8, 4.6)
    axis = figure.subplots()
    for column, colour in zip(columns, COLOURS, strict=False):
        found = [(lengths[f], accuracies[(f, column)]) for f in lengths if accuracies[(f, column)]]
        points = [
            (symbols, 100 * statistics.mean(seeds), 100 * statistics.stdev(seeds) if len(seeds) > 1 else 0.0)
            for symbols, seeds in sorted(found)
        ]
        symbols, means, spreads = zip(*points, strict=True)
        line = "o-" if "ideal" in column else "s--"
        axis.errorbar(symbols, means, spreads, fmt=line, color=colour, label=column, capsize=3)
    axis.set(xscale="log", ylim=(95.0, 99.2), xlabel="symbols per slot", ylabel="accuracy (%)")
    finish_axis(axis, "MNIST against the server: accuracy and length of a slot", legend=8)
    save_figure(figure, IMAGE)


def main() -> None:
    rows = list(json.loads(RESULTS.read_text(encoding="utf-8"))["rows"].values())
    text = DOCUMENT.read_text(encoding="utf-8")
    write_frames(rows)
    for name, made in (("airs", airs_table(rows)), ("privacy", privacy_table(rows))):
        pattern = re.compile(rf"(<!-- table: {name} -->\n)(?:\|[^\n]*\n)*")
        assert pattern.search(text), name
        text = pattern.sub(lambda mark, made=made: mark[1] + made, text)
    DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
