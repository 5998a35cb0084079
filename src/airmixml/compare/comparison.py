"""Run methods, or values of a key, with several seeds; keep what is finished; give one row each."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from airmixml.compare.folder import ComparisonFolder, enter_folder
from airmixml.compare.methods import METHODS
from airmixml.compare.ours import run_scenario
from airmixml.compare.values import shown_value
from airmixml.compare.work import Outcome, Work
from airmixml.devices import find_device, using_threads
from airmixml.errors import AirMixError, ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio import check_privacy_target
from airmixml.scenario import Scenario, Speed
from airmixml.storage.files import writing_to
from airmixml.storage.run_folder import identity_of


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One row per method, or per value of the varied key.

    Attributes:
        scenario: what is compared at.
        rows: plain values: accuracy, privacy, uplink, energy, computation, wall time.
        left_out: methods that were not run, and why.
        varied: the key whose values the rows are; empty where rows are methods.
        seeds: seeds of each row.
        kept: results that were there already.
        out: folder with everything.
    """

    scenario: Scenario
    rows: list[dict[str, Any]]
    left_out: dict[str, str]
    varied: str
    seeds: list[int]
    kept: int
    out: Path

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values for JSON."""
        privacy = self.scenario.privacy
        return {
            "name": self.scenario.name,
            "target": {
                "epsilon": privacy.epsilon,
                "delta": privacy.delta,
                "adversary": privacy.adversary,
                "adjacency": privacy.adjacency,
            },
            "varied": self.varied or None,
            "seeds": self.seeds,
            "rows": self.rows,
            "left_out": self.left_out,
            "scenario": self.scenario.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class _Means:
    speed: Speed
    data_dir: Path | None
    progress: Progress


def compare_methods(
    scenario: Scenario,
    methods: Iterable[str],
    *,
    left_out: dict[str, str] | None = None,
    may_fail: bool = True,
    seeds: int = 1,
    out: Path,
    force: bool = False,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Run the methods on the same work and return one row each.

    Args:
        scenario: data, workers, channel, privacy target, and the first of the methods.
        methods: names of them.
        left_out: why others are not run.
        may_fail: whether a method that cannot keep the target is left out rather than an error.
        seeds: how many, beginning with the scenario's.
        out: folder that keeps every finished result.
        force: remove the results of another comparison from it.
        speed: device and threads.
        data_dir: folder to look for MNIST in.
        progress: told how far each stage is.
    """
    check_privacy_target(scenario)
    jobs = {name: (scenario, METHODS[name].run) for name in methods}
    identity = {**identity_of(scenario.with_seed(0)), "compared": "methods"}
    means = _Means(speed=speed or Speed(), data_dir=data_dir, progress=progress)
    find_device(means.speed.device)
    failed: dict[str, str] | None = {} if may_fail else None
    numbers = _seeds(scenario, seeds)
    with writing_to(out), enter_folder(out, identity, force=force) as folder:
        results, kept = _run_all(jobs, numbers, folder, means, failed)
    rows = [{"method": name, "about": METHODS[name].about, **_row(found)} for name, found in results.items()]
    return Comparison(
        scenario=scenario,
        rows=rows,
        left_out={**(left_out or {}), **(failed or {})},
        varied="",
        seeds=numbers,
        kept=kept,
        out=out,
    )


def vary_key(
    scenario: Scenario,
    key: str,
    scenarios: dict[str, Scenario],
    *,
    seeds: int = 1,
    out: Path,
    force: bool = False,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> Comparison:
    """Run the scenario at each value of the key and return one row each; arguments as of ``compare_methods``."""
    for each in scenarios.values():
        check_privacy_target(each)
    jobs = {value: (each, _run_itself) for value, each in scenarios.items()}
    first = next(iter(scenarios.values()))
    identity = {**identity_of(first.with_seed(0)), "compared": key}
    table, _, entry = key.rpartition(".")
    identity["scenario"] = {**identity["scenario"], table: {**identity["scenario"][table], entry: None}}
    means = _Means(speed=speed or Speed(), data_dir=data_dir, progress=progress)
    find_device(means.speed.device)
    numbers = _seeds(scenario, seeds)
    with writing_to(out), enter_folder(out, identity, force=force) as folder:
        results, kept = _run_all(jobs, numbers, folder, means, None)
    rows = [{"value": value, "shown": shown_value(key, value), **_row(found)} for value, found in results.items()]
    return Comparison(scenario=scenario, rows=rows, left_out={}, varied=key, seeds=numbers, kept=kept, out=out)


def _run_itself(work: Work) -> Outcome:
    return run_scenario(work, work.scenario)


def _seeds(scenario: Scenario, seeds: int) -> list[int]:
    if seeds < 1:
        raise ScenarioError(f"seeds = {seeds}: must be at least 1")
    scenario.with_seed(scenario.seed + seeds - 1)  # refuses a last seed that is too large
    return [scenario.seed + number for number in range(seeds)]


def _run_all(
    jobs: Mapping[str, tuple[Scenario, Callable[[Work], Outcome]]],
    seeds: list[int],
    folder: ComparisonFolder,
    means: _Means,
    failed: dict[str, str] | None,
) -> tuple[dict[str, list[dict[str, Any]]], int]:
    """Run every job with every seed, seed by seed so that data are loaded once; return results and how many were kept.

    ``failed`` takes the jobs that the package refuses, with its line; without it the refusal is raised.
    """
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in jobs}
    kept = done = 0
    for seed in seeds:
        loaded: dict[Any, Any] = {}
        for name, (scenario, run) in jobs.items():
            means.progress("results", done, len(jobs) * len(seeds))
            done += 1
            known = folder.load(name, seed)
            if known is not None:
                results[name].append(known)
                kept += 1
                continue
            if failed and name in failed:
                continue
            work = Work(
                scenario=scenario.with_seed(seed),
                speed=means.speed,
                data_dir=means.data_dir,
                progress=means.progress,
                _loaded=loaded,
            )
            try:
                result = _timed(work, run)
            except AirMixError as problem:
                if failed is None:
                    raise
                failed[name] = str(problem)
                continue
            folder.save(name, seed, result)
            results[name].append(result)
    means.progress("results", done, len(jobs) * len(seeds))
    return {name: found for name, found in results.items() if found}, kept


def _timed(work: Work, run: Callable[[Work], Outcome]) -> dict[str, Any]:
    started = time.perf_counter()
    with using_threads(work.speed.threads):
        outcome = run(work)
    seconds = time.perf_counter() - started - work.loading_seconds()
    return replace(outcome, seconds=seconds).to_dict()


def _row(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over the seeds, the spread of the accuracy, and the worst guarantee of each kind."""
    accuracies = [result["accuracy"] for result in results]
    first = results[0]

    def mean(name: str) -> float | None:
        values = [result[name] for result in results]
        return None if values[0] is None else statistics.fmean(values)

    worst = [
        max((result["privacy"][kind] for result in results), key=lambda stated: float(stated["epsilon"]))
        for kind in range(min(len(result["privacy"]) for result in results))
    ]
    return {
        "accuracy": {
            "mean": statistics.fmean(accuracies),
            "deviation": statistics.stdev(accuracies) if len(accuracies) > 1 else None,
            "by_seed": accuracies,
        },
        "privacy": worst,
        "uplink_symbols": first["uplink_symbols"],
        "air_seconds": first["air_seconds"],
        "energy_joules": mean("energy_joules"),
        "worker_multiply_accumulates": first["worker_multiply_accumulates"],
        "seconds": mean("seconds"),
    }
