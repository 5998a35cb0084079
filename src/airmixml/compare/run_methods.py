"""Run methods with several seeds on the same work; keep what is finished; give one row for each of them."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from airmixml.compare.comparison import Comparison, Row
from airmixml.compare.methods import Method, Outcome, Work
from airmixml.devices import find_device, using_threads
from airmixml.errors import AirMixError, PluginError, ScenarioError
from airmixml.files import ResultStore, from_plain
from airmixml.radio import check_privacy_target
from airmixml.scenario import Air, RunContext, Scenario
from airmixml.scenario.consistency import require_classes
from airmixml.storage.run_folder import identity_of
from airmixml.storage.study import Study, consecutive_seeds, study_folder, study_path
from airmixml.wording import shown
from airmixml.workers import settle

_RESULTS: Final = "results"
_Cell = tuple[str, int]  # a method's name and a seed


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
        out: folder that keeps every finished result; the same command resumes.
        force: remove the results of another comparison from it.
        context: device, threads, where MNIST is, and what is told of the progress.
    """
    context = context or RunContext()
    scenario = settle(scenario, data_dir=context.data_dir, progress=context.progress)
    numbers, folder = list(consecutive_seeds(scenario, seeds)), study_path(out, "")
    require_classes(scenario.workers, "a comparison")
    cells = [(name, seed) for seed in numbers for name in methods]  # seed by seed, so that data are loaded once
    task = _MethodTask(scenario, methods, ResultStore(folder / _RESULTS), may_fail, context, len(cells))
    for each in dict.fromkeys(map(task.scenario_of, methods)):
        check_privacy_target(each)
    find_device(context.speed.device)
    identity = {**identity_of(scenario.with_seed(0)), "compared": "methods"}
    with study_folder(folder, identity, stem="compare", keeps=(_RESULTS,), force=force):
        found, kept = Study(cells=cells, task=task, reducer=lambda found, kept: (found, kept)).run()
    if task.failed and not found:
        raise ScenarioError(next(iter(task.failed.values())))
    rows = (
        Row(
            name=name,
            about=method.about,
            air=task.scenario_of(name).air,
            outcomes=tuple(found[name, seed] for seed in numbers if (name, seed) in found),
        )
        for name, method in methods.items()
        if any((name, seed) in found for seed in numbers)
    )
    why = {**(left_out or {}), **task.failed}
    return Comparison(scenario=scenario, rows=tuple(rows), left_out=why, seeds=numbers, kept=kept, out=folder)


@dataclass
class _MethodTask:
    """Runs methods by name and seed, one after the other, and keeps what each gave in a file."""

    scenario: Scenario
    methods: Mapping[str, Method]
    store: ResultStore
    may_fail: bool
    context: RunContext
    total: int
    failed: dict[str, str] = field(default_factory=dict)  # methods that are refused, with the line that says why

    def scenario_of(self, name: str) -> Scenario:
        """Return what a method runs; one that no air is simulated for has the ideal one."""
        return self.scenario if self.methods[name].on_air else replace(self.scenario, air=Air())

    def load(self, cell: _Cell) -> Outcome | None:
        """Return what an earlier process kept."""
        return self.store.load(_file(*cell), lambda plain, _: cast(Outcome, from_plain(Outcome, plain)))

    def save(self, cell: _Cell, outcome: Outcome) -> bool:
        """Keep what a method gave."""
        self.store.save(_file(*cell), outcome.to_dict())
        return True

    def run(self, unfinished: Iterable[_Cell], finished: Callable[[_Cell, Outcome], None]) -> None:
        """Run what is left; a method that is refused with one seed is not tried with the next."""
        left, loaded = list(unfinished), dict[int, Any]()
        for done, (name, seed) in enumerate(left, start=self.total - len(left)):
            self.context.progress("results", done, self.total)
            if name in self.failed:
                continue
            if seed not in loaded:
                loaded = {seed: {}}  # the data of one seed at a time
            work = Work(scenario=self.scenario_of(name).with_seed(seed), context=self.context, _loaded=loaded[seed])
            try:
                outcome = _timed(name, self.methods[name], work)
            except AirMixError as problem:
                if not self.may_fail:
                    raise
                self.failed[name] = str(problem)
            else:
                finished((name, seed), outcome)
        self.context.progress("results", self.total, self.total)


def _file(name: str, seed: int) -> str:
    return f"{re.sub(r'[^A-Za-z0-9.+-]', '_', name)}-seed{seed}.json"


def _timed(name: str, method: Method, work: Work) -> Outcome:
    started = time.perf_counter()
    with using_threads(work.context.speed.threads):
        outcome = method.run(work)
    if not isinstance(outcome, Outcome):  # of another package
        raise PluginError(f"method {name}: gave {shown(outcome)}: must be an airmixml.compare.Outcome")
    seconds = time.perf_counter() - started - work.loading_seconds
    return replace(outcome, seconds=seconds, row_copies=work.row_copies)
