"""Measure what docs/beyond.md tells: the private presets on the test set, other choices on held-out training images.

    python benchmarks/measure_beyond.py --jobs 14 --device cuda --out benchmarks/results/beyond.json

    python benchmarks/measure_beyond.py --jobs 14 --parts "image targets,images,strokes" \\
        --out benchmarks/results/images.json

    python benchmarks/measure_beyond.py --jobs 8 --device cuda \\
        --parts "round targets,round trust targets,round choices" --out benchmarks/results/rounds.json

Rows of the parts "targets" and "image targets" are runs scored on the test set. All other parts compare choices; they
train on the first 50,000 training images and are scored on the last 10,000, so that no choice has seen the test set.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from airmixml import Scenario, Speed, __version__
from airmixml.data import DataSet
from airmixml.edge import learn
from airmixml.scenario import RunContext
from airmixml.streams import Streams
from airmixml.workers import load_dataset, worker_cost
from results_file import show_and_write

HELD_OUT = 10_000
PAPER = ("privacy.accountant=paper-loose", "privacy.delta=0.01", "radio.scheduled=64", "radio.schedule=fixed")
CELLS = ("workers.encoder=cells", "workers.centre=none")
CLOTHES = "workers.dataset=fashion-mnist"
RELEASE_1 = ("privacy.epsilon=1", "radio.scheduled=32")


@dataclass(frozen=True)
class Entry:
    """One run."""

    part: str
    name: str
    preset: str
    changes: tuple[str, ...]
    seed: int
    on_gpu: bool = False


def entries(seeds: int, parts: set[str]) -> list[Entry]:
    found: list[Entry] = []

    def add(part: str, name: str, preset: str, *changes: str, gpu: bool = False, runs: int = seeds) -> None:
        found.extend(Entry(part, name, preset, changes, seed, gpu) for seed in range(runs))

    for epsilon in ("10", "1", "0.5", "0.1"):
        add("targets", f"private-mnist, epsilon {epsilon}", "private-mnist", f"privacy.epsilon={epsilon}")
    add("targets", "private-mnist-release, epsilon 10", "private-mnist-release")
    add("targets", "private-mnist-release, epsilon 1", "private-mnist-release", *RELEASE_1)
    add("targets", "paper's accounting, epsilon 10, delta 0.01", "private-mnist-release", *PAPER)
    add("targets", "private-iris", "private-iris", runs=20)
    for epsilon in ("10", "1"):
        target = f"privacy.epsilon={epsilon}"

        def moments(part: str, name: str, *changes: str, target: str = target) -> None:
            add(part, name, "private-mnist", target, *changes)

        for name, *changes in (
            ("pixels, clipped", "workers.encoder=clip", "workers.features=0"),
            ("8x8 lowest frequencies", "workers.encoder=dct", "workers.features=64"),
            ("256 lowest frequencies", "workers.encoder=dct", "workers.features=256"),
            ("256 random projections", "workers.encoder=projection", "workers.features=256"),
            ("32 random filters", "workers.encoder=convolution", "workers.features=512"),
            ("64 random filters", "workers.encoder=convolution", "workers.features=1024"),
            ("edges, 128", "workers.features=0"),
            ("edges, mixed to 640", "workers.features=640"),
            ("edges, mixed to 1024", "workers.features=1024"),
            ("edges, mixed to 1536", "workers.features=1536"),
        ):
            moments("encoders", name, *changes)
        for centre in ("none", "own", "public", "private"):
            moments("centres", centre, f"workers.centre={centre}")
        for weight in ("0.1", "0.25", "0.5", "0.84", "1"):
            moments("label weights", weight, f"workers.label_weight={weight}")
        for name, *changes in (
            ("ridge, noise undone", "learner.model=ridge"),
            ("ridge, half the noise undone", "learner.shrinkage=0.5"),
            ("ridge, twice the noise undone", "learner.shrinkage=2"),
            ("lda, noise undone", "learner.model=lda"),
        ):
            moments("learners", name, *changes)
        for slots in ("1", "4", "16"):
            moments("slots", slots, f"radio.slots={slots}")
    for bits in range(9):
        add("bits", str(bits), "private-mnist", f"workers.bits={bits}", gpu=True)
        add("bits of samples", str(bits), "private-mnist-release", f"workers.bits={bits}", gpu=True, runs=1)
    for epsilon in ("10", "100"):
        for loss in ("cross-entropy", "squared", "brier"):
            changes = (f"privacy.epsilon={epsilon}", f"learner.loss={loss}")
            add("networks", f"paper's mixtures, {loss}, epsilon {epsilon}", "paper-mnist", *changes, gpu=True, runs=2)
    small = ("learner.model=mlp", "learner.hidden_units=[128]", "learner.epochs=10", "learner.batch_size=64")
    for loss in ("cross-entropy", "squared", "brier"):
        name = f"mixtures of edges, {loss}, epsilon 10"
        add("networks", name, "private-mnist-release", f"learner.loss={loss}", *small, gpu=True, runs=2)
    found += image_entries(seeds)
    found += round_entries(seeds)
    return [entry for entry in found if not parts or entry.part in parts]


def image_entries(seeds: int) -> list[Entry]:
    """Other images than strokes: Fashion-MNIST, and MNIST beside it; the design of ``private-mnist`` throughout."""
    choices = [(f"cells, {each}", CLOTHES, *CELLS, f"workers.features={each}") for each in (512, 1024, 1536, 2048)]
    choices += [("cells, 1024, private centre", CLOTHES, CELLS[0], "workers.centre=private")]
    choices += [("gradients, 1024", CLOTHES)]
    choices += [("pixels, clipped", CLOTHES, "workers.encoder=clip", "workers.features=0")]
    every = [("images", choice) for choice in choices]
    every += [("strokes", ("cells, 1024", *CELLS)), ("strokes", ("gradients, 1024",))]
    targets = [("cells", CLOTHES, *CELLS), ("gradients", CLOTHES)]
    return [
        Entry(part, name, "private-mnist", (f"privacy.epsilon={epsilon}", *changes), seed)
        for epsilon in (10, 1)
        for part, (name, *changes) in every
        for seed in range(seeds)
    ] + [
        Entry(
            "image targets",
            f"{name}, epsilon {epsilon}",
            "private-mnist",
            (*changes, f"privacy.epsilon={epsilon}"),
            seed,
        )
        for epsilon in (10, 3, 1, 0.5)
        for name, *changes in targets
        for seed in range(max(seeds, 5))
    ]


def round_entries(seeds: int) -> list[Entry]:
    """Moments, then rounds of gradients: targets on the test set with five seeds, choices on held-out images."""
    found: list[Entry] = []

    def add(part: str, name: str, preset: str, *changes: str, runs: int = seeds) -> None:
        found.extend(Entry(part, name, preset, changes, seed, True) for seed in range(runs))

    clothes, more = (CLOTHES, *CELLS), max(seeds, 5)
    for epsilon in ("10", "1", "0.3", "0.1"):
        target = f"privacy.epsilon={epsilon}"
        for name, *changes in (
            ("MNIST, 1024 features", "workers.features=1024"),
            ("MNIST, 512 features", "workers.features=512"),
            ("Fashion-MNIST, 1024 features", *clothes),
        ):
            add("round targets", name, "private-mnist-rounds", target, *changes, runs=more)
    add("round targets", "Fashion-MNIST, 4096 features", "private-mnist-rounds", *clothes, "workers.features=4096")
    for epsilon in ("10", "1"):
        target = f"privacy.epsilon={epsilon}"
        gains = "air.reciprocity_nmse_db=-40"  # a complex gain error of 1 %
        add("round trust targets", "no gain error", "trustless-mnist-rounds", target)
        add("round trust targets", "gain errors of 1 %", "trustless-mnist-rounds", target, gains)
        clear = ("air.preset=line-of-sight", "privacy.most_absent=0.06")
        add("round trust targets", "line-of-sight", "trustless-mnist-rounds", target, *clear, runs=1)
        for name, change in (
            *((f"{rounds} rounds", f"learner.rounds={rounds}") for rounds in (0, 4, 8, 20, 50)),
            *((f"share {share}", f"learner.rounds_share={share}") for share in (0.5, 0.8, 0.95)),
            *((f"clip {clip}", f"learner.gradient_clip={clip}") for clip in (0.1, 0.4)),
            *((f"temperature {factor}", f"learner.temperature={factor}") for factor in (2, 8)),
            *((f"all steps {steps}", f"learner.rounds_step={steps}") for steps in (57, 228)),
        ):
            add("round choices", name, "private-mnist-rounds", target, "workers.features=512", change)
    return found


def held_out(dataset: DataSet) -> DataSet:
    """Score on the last training samples instead of the test set."""
    return replace(
        dataset,
        train_inputs=dataset.train_inputs[:-HELD_OUT],
        train_labels=dataset.train_labels[:-HELD_OUT],
        test_inputs=dataset.train_inputs[-HELD_OUT:],
        test_labels=dataset.train_labels[-HELD_OUT:],
    )


def measure(entry: Entry, device: str, data_dir: Path | None) -> dict[str, Any]:
    scenario = Scenario.preset(entry.preset).with_overrides(*entry.changes).with_seed(entry.seed)
    started = time.perf_counter()
    where = device if entry.on_gpu else "cpu"
    dataset = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir, device=where)
    if not entry.part.endswith("targets"):
        dataset = held_out(dataset)
        share = dataset.train_samples / scenario.workers.count
        everybody = scenario.radio.scheduled == scenario.workers.count
        scheduled = dataset.train_samples if everybody else round(scenario.radio.scheduled * share)
        scenario = replace(
            scenario,
            workers=replace(scenario.workers, count=dataset.train_samples, train_samples=dataset.train_samples),
            radio=replace(scenario.radio, scheduled=scheduled),
        )
    speed = Speed(device=where, threads=1)
    learned = learn(scenario, dataset=dataset, context=RunContext(speed=speed))
    trained, report = learned.trained, learned.transmission.report
    stated = [report.privacy, report.privacy_against_server]
    stated += [each for each in report.statements if each.adjacency != scenario.privacy.adjacency]
    return {
        "accuracy": trained.history.final_accuracy,
        "privacy": [
            {name: getattr(each, name) for name in ("epsilon", "delta", "adversary", "accountant", "adjacency")}
            for each in stated
        ],
        "energy_joules": report.energy_joules,
        "air_seconds": report.air_seconds,
        "uplink_symbols": report.in_all(lambda each: each.symbols_on_air),
        "curve": trained.history.test_accuracy if scenario.learner.rounds else [],
        "worker_cost": worker_cost(scenario.workers, dataset.held_dim, report.signal).to_dict(),
        "seconds": time.perf_counter() - started,
    }


def rows_of(results: dict[Entry, dict[str, Any]], order: dict[Entry, int]) -> list[dict[str, Any]]:
    """Return one row per part, name and changes, the seeds together."""
    rows: dict[tuple[str, str, tuple[str, ...]], dict[str, Any]] = {}
    for entry, result in sorted(results.items(), key=lambda pair: order[pair[0]]):
        row = rows.setdefault(
            (entry.part, entry.name, entry.changes),
            {
                "part": entry.part,
                "name": entry.name,
                "command": " ".join(
                    ["airmix run", f"--preset {entry.preset}", *(f"--set {change}" for change in entry.changes)]
                ),
                "accuracies": [],
                **{key: value for key, value in result.items() if key != "accuracy"},
            },
        )
        row["accuracies"].append(result["accuracy"])
    for row in rows.values():
        row["mean"] = float(np.mean(row["accuracies"]))
        row["deviation"] = float(np.std(row["accuracies"], ddof=1)) if len(row["accuracies"]) > 1 else None
    return list(rows.values())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--parts", default="", help="parts to run, with commas between them; all if empty")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    chosen = entries(arguments.seeds, set(filter(None, arguments.parts.split(","))))
    arguments.order = {entry: place for place, entry in enumerate(chosen)}
    chosen.sort(key=lambda entry: not entry.on_gpu)  # the long ones first
    results: dict[Entry, dict[str, Any]] = {}
    failures: list[str] = []
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(measure, entry, arguments.device, arguments.data_dir): entry for entry in chosen}
        for done in as_completed(waiting):
            entry = waiting[done]
            try:
                results[entry] = done.result()
            except Exception as problem:  # one that cannot run must not lose the others
                failures.append(f"{entry.part}, {entry.name}, seed {entry.seed}: {problem}")
            if len(results) % 20 == 0:
                print(f"{len(results)} of {len(chosen)}", file=sys.stderr)
                write(arguments, results, failures)
    write(arguments, results, failures)


def write(arguments: argparse.Namespace, results: dict[Entry, dict[str, Any]], failures: list[str]) -> None:
    result = {
        "airmixml": __version__,
        "device": arguments.device,
        "rows": rows_of(results, arguments.order),
        "failures": failures,
    }
    show_and_write(result, arguments.out)


if __name__ == "__main__":
    main()
