"""Measure what docs/air.md tells: the presets on every air, and how accuracy grows with the length of a slot.

    python benchmarks/measure_air.py --parts headline --jobs 12 --threads 1 --device cuda
    python benchmarks/measure_air.py --parts headline --presets private-mnist,trustless-mnist --airs campus
    python benchmarks/measure_air.py --parts iris --jobs 2

Every finished run is kept in benchmarks/results/air.json, so that the same command goes on where it was stopped. Runs
are made in ``--jobs`` processes, the longest of a seed first. ``--again`` makes the runs of these parts again. A run
that is refused is told and left out.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from airmixml import Scenario, Speed, __version__
from airmixml.arrays import watts_to_dbm
from airmixml.data import DataSet
from airmixml.edge import learn
from airmixml.radio.tally import Tally
from airmixml.scenario import AIR_PRESETS, RunContext, Workers, preset_names
from airmixml.streams import Streams
from airmixml.workers import load_dataset, settle

RESULTS = Path(__file__).parent / "results" / "air.json"
FEATURES = (128, 256, 512, 1024, 1536)
HEADLINE = ("private-mnist", "private-mnist-rounds", "trustless-mnist", "trustless-mnist-digital")
EPSILONS = ("10", "1")
SLOWEST_FIRST = ("low-cost", "campus", "line-of-sight", "lab", "ideal")


@dataclass(frozen=True)
class Entry:
    """One run."""

    part: str
    preset: str
    air: str
    changes: tuple[str, ...]
    seed: int

    @property
    def name(self) -> str:
        """What tells it from the others."""
        return json.dumps([self.part, self.preset, self.air, list(self.changes), self.seed])


def entries(parts: set[str], seeds: int) -> list[Entry]:
    """Return the runs of these parts, all with the first seed before any with the second."""
    found: list[Entry] = []

    def add(part: str, preset: str, air: str, *changes: str, runs: int = seeds) -> None:
        if part in parts:
            found.extend(Entry(part, preset, air, changes, seed) for seed in range(runs))

    for air in AIR_PRESETS:
        for preset in HEADLINE:
            for epsilon in EPSILONS:
                add("headline", preset, air, f"privacy.epsilon={epsilon}", *recovered(preset, air))
        add("private-mnist-release", "private-mnist-release", air)
        add("paper-mnist", "paper-mnist", air, "mixing.power=max")
        add("iris", "paper-iris", air, runs=20)
    for air in ("line-of-sight", "ideal"):
        for features in FEATURES:
            for epsilon in EPSILONS:
                changes = (f"privacy.epsilon={epsilon}", f"workers.features={features}")
                add("frames", "private-mnist", air, *changes)
    for features in FEATURES:  # one hertz, and no resynchronisation within a slot
        drifting = ("air.frequency_offset_hz=1", f"workers.features={features}")
        add("drift", "private-mnist", "ideal", "privacy.epsilon=10", *drifting)
    return sorted(found, key=lambda entry: (entry.seed, SLOWEST_FIRST.index(entry.air)))


def recovered(preset: str, air: str) -> tuple[str, ...]:
    """Return by how much masks must be recoverable on an air where workers are absent: five deviations and more."""
    if preset not in preset_names() or not Scenario.preset(preset).privacy.noise_kind.masked:
        return ()
    absent = Scenario().with_overrides("mixing.power=max").on_air(air).air.absent
    return (f"privacy.most_absent={absent + 0.01:g}",) if absent else ()


@cache
def loaded(workers: Workers, seed: int, device: str) -> DataSet:
    return load_dataset(workers, Streams(seed), device=device)


def mean_power_dbm(report: Tally) -> float:
    """Return the energy of a worker in its slots over the time that it sends: on a digital link, its own packets."""
    in_slots = report.energy_joules - report.system.acquisition_joules
    if report.system.link.on_air:
        slots = max(1.0, report.slots * report.scenario.sampling_rate)
        seconds = (report.air_seconds - report.system.acquisition_seconds) / report.slots * slots
        return float(watts_to_dbm(in_slots / report.scenario.workers.count / seconds))
    sent = report.in_all(lambda each: each.joules_per_watt) * report.ledger.participations.mean() / report.slots
    return float(watts_to_dbm(in_slots / report.scenario.workers.count / sent))


def measure(entry: Entry, device: str, threads: int) -> dict[str, Any]:
    """Return accuracy, privacy and cost of one run."""
    scenario = settle(Scenario.preset(entry.preset).on_air(entry.air).with_overrides(*entry.changes))
    scenario = scenario.with_seed(entry.seed)
    data = loaded(scenario.workers, entry.seed, device)
    started = time.perf_counter()
    learned = learn(scenario, dataset=data, context=RunContext(speed=Speed(device=device, threads=threads)))
    seconds, report = time.perf_counter() - started, learned.transmission.report
    spent = report.to_dict()
    return {
        **asdict(entry),
        "accuracy": learned.trained.history.final_accuracy,
        "target_epsilon": scenario.privacy.epsilon if scenario.mixing.power == "dp" else None,
        "epsilon": report.privacy.epsilon,
        "epsilon_server": report.privacy_against_server.epsilon,
        "worst_worker_epsilon": spent["ledger"]["worst_epsilon"],
        "symbols_per_slot": spent["symbols_per_slot"],
        "air_seconds": report.air_seconds,
        "acquisition_seconds": report.system.acquisition_seconds,
        "acquisition_joules": report.system.acquisition_joules,
        "energy_joules": report.energy_joules,
        "power_dbm": spent["power_dbm"],
        "mean_power_dbm": mean_power_dbm(report),
        "seconds": seconds,
        "airmixml": __version__,
    }


def main() -> None:
    measure_all(__doc__, "headline,frames,drift,private-mnist-release,paper-mnist,iris", entries, RESULTS)


def measure_all(about: str | None, parts: str, entries: Callable[[set[str], int], list[Entry]], results: Path) -> None:
    """Make the runs that the command line asks for and the results lack."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=parts)
    parser.add_argument("--presets", default="", help="those alone, separated by commas")
    parser.add_argument("--airs", default="", help="those alone, separated by commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--out", type=Path, default=results)
    asked = parser.parse_args()
    chosen = set(asked.parts.split(","))
    rows: dict[str, Any] = json.loads(asked.out.read_text())["rows"] if asked.out.exists() else {}
    if asked.again:
        rows = {name: row for name, row in rows.items() if row["part"] not in chosen}
    wanted = [
        entry
        for entry in entries(chosen, asked.seeds)
        if entry.preset in (asked.presets.split(",") if asked.presets else preset_names())
        and (not asked.airs or entry.air in asked.airs.split(","))
    ]
    missing = [entry for entry in wanted if entry.name not in rows]
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(asked.jobs, mp_context=spawning) as pool:
        running = {pool.submit(measure, entry, asked.device, asked.threads): entry for entry in missing}
        for done, future in enumerate(as_completed(running), 1):
            entry, problem = running[future], future.exception()
            if problem is not None:
                print(f"{done}/{len(missing)} {entry.name}: {problem}", flush=True)
                continue
            row = rows[entry.name] = future.result()
            print(
                f"{done}/{len(missing)} {entry.name}: {100 * row['accuracy']:.2f} %, {row['seconds']:.1f} s", flush=True
            )
            asked.out.write_text(json.dumps({"rows": dict(sorted(rows.items()))}, indent=1) + "\n")


if __name__ == "__main__":
    main()
