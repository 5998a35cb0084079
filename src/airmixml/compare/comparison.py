"""Run methods, or values of a key, with several seeds; keep what is finished; give one row each."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from airmixml.compare.folder import ComparisonFolder, enter_folder
from airmixml.compare.methods import Method
from airmixml.compare.ours import run_scenario
from airmixml.compare.results import Comparison, Row
from airmixml.compare.work import Outcome, Work
from airmixml.devices import find_device, using_threads
from airmixml.errors import AirMixError, PluginError, ScenarioError
from airmixml.radio import check_privacy_target
from airmixml.scenario import RunContext, Scenario
from airmixml.scenario.varied import shown_value
from airmixml.storage.files import writing_to
from airmixml.storage.run_folder import identity_of
from airmixml.wording import shown

Job = tuple[Scenario, Callable[[Work], Outcome]]


def compare_methods(
    scenario: Scenario,
    methods: Mapping[str, Method],
    *,
    left_out: Mapping[str, str] | None = None,
    may_fail: bool = True,
    seeds: int = 1,
    out: Path,
    force: bool = False,
    context: RunContext | None = None,
) -> Comparison:
    """Run the methods on the same work and return one row each.

    Args:
        scenario: data, workers, channel, privacy target, and the first of the methods.
        methods: what to run, by name, as from ``choose_methods`` or ``load_methods``.
        left_out: why other methods are not run.
        may_fail: whether a method that cannot keep the target is left out rather than an error.
        seeds: how many, beginning with the scenario's.
        out: folder that keeps every finished result.
        force: remove the results of another comparison from it.
        context: device, threads, where MNIST is, and what is told of the progress.
    """
    identity = {**identity_of(scenario.with_seed(0)), "compared": "methods"}
    jobs = {name: (scenario, method.run) for name, method in methods.items()}
    failed: dict[str, str] | None = {} if may_fail else None
    numbers = _seeds(scenario, seeds)
    results, kept = _run_all(jobs, numbers, failed, identity, out, force, context or RunContext())
    return Comparison(
        scenario=scenario,
        rows=tuple(
            Row(name=name, label=name, about=methods[name].about, outcomes=tuple(found))
            for name, found in results.items()
        ),
        left_out={**(left_out or {}), **(failed or {})},
        varied="",
        seeds=numbers,
        kept=kept,
        out=out,
    )


def vary_key(
    scenario: Scenario,
    key: str,
    scenarios: Mapping[str, Scenario],
    *,
    seeds: int = 1,
    out: Path,
    force: bool = False,
    context: RunContext | None = None,
) -> Comparison:
    """Run the scenario at each value of the key and return one row each; arguments as of ``compare_methods``."""
    first = next(iter(scenarios.values()))
    identity = {**identity_of(first.with_seed(0)), "compared": key}
    table, _, entry = key.rpartition(".")
    identity["scenario"] = {**identity["scenario"], table: {**identity["scenario"][table], entry: None}}
    jobs: dict[str, Job] = {
        value: (each, lambda work: run_scenario(work, work.scenario)) for value, each in scenarios.items()
    }
    numbers = _seeds(scenario, seeds)
    results, kept = _run_all(jobs, numbers, None, identity, out, force, context or RunContext())
    rows = tuple(
        Row(name=value, label=shown_value(key, value), outcomes=tuple(found)) for value, found in results.items()
    )
    return Comparison(scenario=scenario, rows=rows, left_out={}, varied=key, seeds=numbers, kept=kept, out=out)


def _seeds(scenario: Scenario, seeds: int) -> list[int]:
    if seeds < 1:
        raise ScenarioError(f"seeds = {seeds}: must be at least 1")
    scenario.with_seed(scenario.seed + seeds - 1)  # refuses a last seed that is too large
    return [scenario.seed + number for number in range(seeds)]


def _run_all(
    jobs: Mapping[str, Job],
    seeds: list[int],
    failed: dict[str, str] | None,
    identity: dict[str, Any],
    out: Path,
    force: bool,
    context: RunContext,
) -> tuple[dict[str, list[Outcome]], int]:
    """Run every job with every seed, seed by seed so that data are loaded once; return results and how many were kept.

    ``failed`` takes the jobs that the package refuses, with its line; without it the refusal is raised.
    """
    for scenario in dict.fromkeys(scenario for scenario, _ in jobs.values()):
        check_privacy_target(scenario)
    find_device(context.speed.device)
    results: dict[str, list[Outcome]] = {name: [] for name in jobs}
    kept = done = 0
    with writing_to(out), enter_folder(out, identity, force=force) as folder:
        for seed in seeds:
            loaded: dict[Any, Any] = {}
            for name, (scenario, run) in jobs.items():
                context.progress("results", done, len(jobs) * len(seeds))
                done += 1
                outcome = _known(folder, name, seed)
                if outcome is not None:
                    kept += 1
                elif failed and name in failed:
                    continue
                else:
                    try:
                        outcome = _timed(
                            name, run, Work(scenario=scenario.with_seed(seed), context=context, _loaded=loaded)
                        )
                    except AirMixError as problem:
                        if failed is None:
                            raise
                        failed[name] = str(problem)
                        continue
                    folder.save(name, seed, outcome.to_dict())
                results[name].append(outcome)
        context.progress("results", done, len(jobs) * len(seeds))
    return {name: found for name, found in results.items() if found}, kept


def _known(folder: ComparisonFolder, name: str, seed: int) -> Outcome | None:
    """Return a finished result; None where there is none, or none that can be read."""
    plain = folder.load(name, seed)
    try:
        return None if plain is None else Outcome.from_dict(plain)
    except (KeyError, TypeError, ValueError):
        return None


def _timed(name: str, run: Callable[[Work], Outcome], work: Work) -> Outcome:
    started = time.perf_counter()
    with using_threads(work.context.speed.threads):
        outcome = run(work)
    if not isinstance(outcome, Outcome):  # of another package
        raise PluginError(f"method {name}: gave {shown(outcome)}: must be an airmixml.compare.Outcome")
    return replace(outcome, seconds=time.perf_counter() - started - work.loading_seconds)
