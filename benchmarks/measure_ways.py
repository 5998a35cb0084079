"""Measure three ways to send on one air: without masks, with masks, and as integers over digital links.

    python benchmarks/measure_ways.py --device cuda
    python benchmarks/measure_ways.py --data digits
    python benchmarks/measure_ways.py --data digits --docs

Gains err by g in phase. The law is 1 + sqrt(N) g times the noise (``airmixml.radio.masking``): its line is measured
with exact gains, at the epsilon at which masked workers have that much noise. Finished runs are kept in
runs/measure-ways, so that the same command goes on where it was stopped. Results are in benchmarks/results/ways_*.json,
accuracies in ways_*.csv beside them, the pictures in docs/images and the tables of costs in docs/comparison.md;
``--docs`` makes them of what is measured.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from airmixml import Scenario, Speed
from airmixml.compare import Comparison, compare_methods, load_methods
from airmixml.messages import joules, plural
from airmixml.output.figures import BLACK, BLUE, GREEN, ORANGE, error_line, finish_axis, new_figure, save_figure
from airmixml.privacy import gaussian_epsilon
from airmixml.privacy.gaussian import gaussian_mu
from airmixml.radio.masking import times_the_noise
from airmixml.scenario import RunContext
from doc_tables import Table, csv_text, with_tables

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "comparison.md"
RESULTS, IMAGES = ROOT / "benchmarks" / "results", ROOT / "docs" / "images"
WORK = Path("runs") / "measure-ways"
WAYS = {
    "unmasked": ("analog without masks, against the server", GREEN, "s"),
    "masked": ("analog with masks, against everyone", ORANGE, "o"),
    "digital": ("integers over digital links, against everyone", BLUE, "D"),
}
SETTINGS = {
    "mnist": ("trustless-mnist", 1.0, (0.0, 0.001, 0.004, 0.02, 0.1, 0.3), ("link.access_points=300",), 1),
    "digits": ("trustless-digits", 10.0, (0.0, 0.01, 0.03, 0.1, 0.3), ("link.access_points=6",), 3),
}

Plain = dict[str, Any]


def results_file(data: str) -> Path:
    return RESULTS / f"ways_{data}.json"


def gain_error(error: float) -> tuple[str, ...]:
    """Return the key that makes gains err by that much in phase: half of a complex error's power is."""
    return (f"air.reciprocity_nmse_db={20.0 * math.log10(math.sqrt(2.0) * error):.6g}",) if error else ()


def accuracy_of(found: Comparison, name: str) -> Plain:
    (row,) = (each for each in found.rows if each.name == name)
    return dict(row.to_dict()["accuracy"])


def measure(data: str, seeds: int, context: RunContext) -> Plain:
    """Run all ways at all gain errors, and masked workers with exact gains in as much noise as the law says."""
    preset, epsilon, errors, links, _ = SETTINGS[data]
    scenario = Scenario.preset(preset).with_overrides(f"privacy.epsilon={epsilon:g}", *links)
    workers, delta = scenario.radio.scheduled, scenario.privacy.delta

    def compare(name: str, at: Scenario, *methods: str) -> Comparison:
        return compare_methods(
            at, load_methods(*methods), may_fail=False, seeds=seeds, out=WORK / data / name, context=context
        )

    points, law = [], []
    for error in errors:
        # What no gain error touches is run at both ends.
        ways = [name for name in WAYS if name != "digital" or error in (errors[0], errors[-1])]
        found = compare(f"error-{error:g}", scenario.with_overrides(*gain_error(error)), *ways)
        points.append({"gain_error": error, "rows": [row.to_dict() for row in found.rows]})
        times = times_the_noise(workers, error)
        weaker = gaussian_epsilon(gaussian_mu(epsilon, delta) / times, delta)
        if error and weaker > 0.0:
            found = compare(f"law-{error:g}", scenario.with_overrides(f"privacy.epsilon={weaker:.12g}"), "masked")
            law.append(
                {"gain_error": error, "times": times, "epsilon": weaker, "accuracy": accuracy_of(found, "masked")}
            )
    return {"preset": preset, "epsilon": epsilon, "delta": delta, "workers": workers, "points": points, "law": law}


def draw(results: Plain, path: Path) -> None:
    """Draw accuracy against the gain error, and what the law says of masked workers."""
    errors = [point["gain_error"] for point in results["points"]]
    left = min(each for each in errors if each) / 3.0  # where exact gains are drawn
    places = [each or left for each in errors]
    about = f"{results['preset']}: {results['workers']:,} workers, epsilon {results['epsilon']:g}"
    seeds = plural(len(results["points"][0]["rows"][0]["accuracy"]["by_seed"]), "seed")
    figure = new_figure(9, 5.4, f"{about}, {seeds}")
    axis = figure.subplots()
    for name, (label, colour, marker) in WAYS.items():
        found = [
            (place, 100 * row["accuracy"]["mean"], 100 * (row["accuracy"]["deviation"] or 0.0))
            for place, point in zip(places, results["points"], strict=True)
            for row in point["rows"]
            if row["method"] == name
        ]
        line = "-" if name == "digital" else "none"
        error_line(axis, *zip(*found, strict=True), label=label, color=colour, marker=marker, linestyle=line)
    exact = next(row for row in results["points"][0]["rows"] if row["method"] == "masked")
    line = [100 * exact["accuracy"]["mean"], *(100 * each["accuracy"]["mean"] for each in results["law"])]
    label = "exact gains in 1 + sqrt(N) g times the noise"
    axis.plot([left, *(each["gain_error"] for each in results["law"])], line, color=BLACK, linestyle="--", label=label)
    axis.set(xscale="log", xlabel="gain error g in phase (leftmost: exact gains)", ylabel="accuracy [%]")
    axis.legend(loc="lower left", fontsize=9)
    finish_axis(axis, "Where over-the-air sums pay, and where digital links do")
    save_figure(figure, path)


def tables(results: Plain) -> dict[str, Table]:
    """Return accuracy at every gain error, for a file, and what each way takes, for the page."""

    def percent(accuracy: Plain) -> str:
        spread = "" if accuracy["deviation"] is None else f" ± {100 * accuracy['deviation']:.1f}"
        return f"{100 * accuracy['mean']:.1f}{spread}"

    by_law = {each["gain_error"]: percent(each["accuracy"]) for each in results["law"]}
    lines = []
    for point in results["points"]:
        error, found = point["gain_error"], {row["method"]: percent(row["accuracy"]) for row in point["rows"]}
        times = times_the_noise(results["workers"], error)
        law = by_law.get(error, found["masked"])
        lines.append([f"{100 * error:g} %", f"{times:.3g}", *(found.get(name, "") for name in WAYS), law])
    head = ["gain error g", "times the noise", *(f"`{name}`" for name in WAYS), "exact gains in that noise"]
    costs = []
    for row in results["points"][-1]["rows"]:
        spent = joules(row["energy_joules"] / results["workers"])
        spectrum = f"{row['bandwidth_hz'] / 1e6:.3g} MHz"
        cells = [row["privacy"][0]["adversary"], f"{row['air_seconds']:.2g} s", spent, spectrum]
        costs.append([f"`{row['method']}`", *cells])
    about = ["way", "target against", "air time", "energy per worker", "spectrum"]
    data = results["preset"].rpartition("-")[2]
    plain = [name.replace("`", "") for name in head]
    return {f"ways_{data}": (plain, lines), f"costs of {data}": (about, costs)}


def page_with(results: Plain) -> str:
    """Return the page with the costs of these results."""
    costs = {name: each for name, each in tables(results).items() if name.startswith("costs")}
    return with_tables(DOCUMENT.read_text(encoding="utf-8"), costs)


def accuracies(results: Plain) -> str:
    """Return the file of accuracies."""
    (table,) = (each for name, each in tables(results).items() if name.startswith("ways"))
    return csv_text(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=SETTINGS, default="mnist")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=0, help="0 takes 1 for MNIST and 3 for digits")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--docs", action="store_true", help="write tables and picture of what is measured")
    given = parser.parse_args()
    path = results_file(given.data)
    if not given.docs:
        context = RunContext(speed=Speed(device=given.device, threads=given.threads), data_dir=given.data_dir)
        found = measure(given.data, given.seeds or SETTINGS[given.data][-1], context)
        path.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    results = json.loads(path.read_text(encoding="utf-8"))
    draw(results, IMAGES / f"ways-{given.data}.png")
    path.with_suffix(".csv").write_text(accuracies(results), encoding="utf-8")
    DOCUMENT.write_text(page_with(results), encoding="utf-8")


if __name__ == "__main__":
    main()
