"""Measure what detection by energy costs: devices that cannot align phases, beside those that can.

    python benchmarks/measure_energy_detection.py --out benchmarks/results/energy_detection.json \
        --figure docs/images/air-energy.png

The learner is ridge, so that a run takes seconds, but for paper-iris and the part "network", which train the presets'
own networks. ``--parts`` measures some parts and keeps the other rows of the file; without a name it only draws it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airmixml import Scenario, __version__, settle
from airmixml.data import DataSet
from airmixml.edge import learn
from airmixml.output.figures import BLUE, GREY, ORANGE, chance_line, finish_axis, new_figure, save_figure
from airmixml.streams import Streams
from airmixml.workers import load_dataset

DETECTIONS = ("coherent", "energy")
RIDGE, LOUD = "learner.model=ridge", "mixing.power=max"
EQUAL = "mixing.policy=equalmix"
FEWER = ("workers.train_samples=10000", "workers.count=10000", "radio.scheduled=10000")
# Part, preset, key that is varied, its values, other changes, seeds.
PARTS: list[tuple[str, str, str, list[Any], tuple[str, ...], int]] = [
    ("workers", "digits", "radio.scheduled", [1, 2, 4, 8, 16, 32, 64], (RIDGE, LOUD, EQUAL), 3),
    ("slots", "private-mnist", "radio.slots", [1, 4, 16, 64], (LOUD, *FEWER, "workers.features=128"), 1),
    ("samples", "digits", "radio.slots", [500, 5000, 50000], (RIDGE, LOUD, EQUAL, "radio.scheduled=16"), 3),
    ("power", "digits", "radio.max_power_dbm", [-60, -50, -40, -30, -20, 0, 23], (RIDGE, LOUD, EQUAL), 3),
    ("iris", "paper-iris", "radio.scheduled", [1, 2, 4, 8, 16], (LOUD,), 3),
    ("mnist", "paper-mnist", "radio.scheduled", [4, 16, 64], (RIDGE, LOUD, "radio.slots=8000"), 1),
    ("network", "digits", "radio.scheduled", [4, 16], (LOUD, EQUAL), 1),
    ("private", "private-mnist", "privacy.epsilon", [10, 1e3, 1e5, 1e7], ("workers.features=256",), 1),
    ("private-slots", "private-mnist", "radio.slots", [1, 4, 16], (*FEWER, "workers.features=128"), 1),
    ("preset", "private-mnist", "privacy.epsilon", [10], (), 1),
]
TITLES = {
    "workers": ("digits, 5,000 slots, full power", "workers per slot"),
    "slots": ("moments of 10,000 images, full power", "slots"),
    "power": ("digits, 4 workers per slot", "largest transmit power in dBm"),
    "iris": ("paper-iris, full power", "workers per slot"),
    "mnist": ("paper-mnist, 8,000 slots, full power", "workers per slot"),
    "private": ("private-mnist, 256 features, one slot", "epsilon against the server"),
}
GUESSING = {"iris": 100.0 / 3.0}


def measured(part: str, loaded: dict[str, DataSet]) -> Iterator[dict[str, Any]]:
    """Run one part: a row for each value of its key and each detection."""
    for name, preset, key, values, changes, seeds in PARTS:
        if name != part:
            continue
        for value in values:
            for detection in DETECTIONS:
                asked = (*changes, f"{key}={value}", f"air.detection={detection}")
                scenario = settle(Scenario.preset(preset).with_overrides(*asked))
                started, runs = time.perf_counter(), []
                for seed in range(seeds):
                    single = scenario.with_seed(seed)
                    data = f"{preset} {scenario.workers} {seed}"
                    if data not in loaded:
                        loaded.clear()
                        loaded[data] = load_dataset(single.workers, Streams(seed))
                    runs.append(learn(single, dataset=loaded[data]))
                report = runs[0].transmission.report
                row = {
                    "part": name,
                    "preset": preset,
                    "changes": list(asked),
                    "key": key,
                    "value": value,
                    "detection": detection,
                    "accuracy": [run.trained.history.final_accuracy for run in runs],
                    "epsilon_server": report.privacy_against_server.epsilon,
                    "sensitivity": report.sensitivity.squared_move(scenario.privacy.adjacency, "none"),
                    "snr_inputs_db": report.input_snr_db.quantile_db(0.5),
                    "symbols_per_slot": report.symbols_per_slot,
                    "energy_joules": report.energy_joules,
                    "seconds": round(time.perf_counter() - started, 1),
                }
                print(json.dumps(row), flush=True)
                yield row


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw a panel for each part that has a title."""
    figure = new_figure(12.5, 7.0, "Signals that add up in phase, and energies of signals with random phases")
    axes = figure.subplots(2, 3)
    for axis, (part, (title, label)) in zip(axes.flat, TITLES.items(), strict=True):
        for detection, colour in zip(DETECTIONS, (BLUE, ORANGE), strict=True):
            found = [row for row in rows if row["part"] == part and row["detection"] == detection]
            values = [row["value"] for row in found]
            means = [100.0 * statistics.fmean(row["accuracy"]) for row in found]
            spread = [100.0 * statistics.pstdev(row["accuracy"]) for row in found]
            axis.errorbar(values, means, spread, marker="o", capsize=3, color=colour, label=detection)
        for detection, colour in zip(DETECTIONS, (BLUE, ORANGE), strict=True):
            networks = [row for row in rows if (row["part"], row["detection"]) == ("network", detection)]
            if part == "workers" and networks:
                scores = [100.0 * row["accuracy"][0] for row in networks]
                places = [row["value"] for row in networks]
                axis.plot(places, scores, "x:", color=colour, label=f"{detection}, with a CNN")
        if part == "private":
            scores = [
                100.0 * row["accuracy"][0] for row in rows if (row["part"], row["detection"]) == ("preset", "energy")
            ]
            axis.plot([10.0] * len(scores), scores, "x", color=GREY, label="energy, 1,024 features")
        chance_line(axis, GUESSING.get(part, 10.0))
        if part != "power":
            axis.set_xscale("log", base=10 if part == "private" else 2)
        if part in ("workers", "slots", "iris", "mnist"):
            axis.xaxis.set_major_formatter("{x:.0f}")
        axis.set_ylim(0.0, 102.0)
        axis.set_xlabel(label)
        axis.set_ylabel("accuracy in %")
        finish_axis(
            axis, title, legend=8.0, loc="lower right" if part in ("slots", "power", "private") else "lower left"
        )
    save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="*", default=[part for part, *_ in PARTS], help="what to measure")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/energy_detection.json"))
    parser.add_argument("--figure", type=Path, help="figure to draw of all rows in the file")
    arguments = parser.parse_args()
    rows = json.loads(arguments.out.read_text(encoding="utf-8"))["rows"] if arguments.out.exists() else []
    loaded: dict[str, DataSet] = {}
    for part in arguments.parts:
        rows = [row for row in rows if row["part"] != part] + list(measured(part, loaded))
        result = {"airmixml": __version__, "rows": rows}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if arguments.figure:
        draw(rows, arguments.figure)


if __name__ == "__main__":
    main()
