"""A comparison: methods run with several seeds on the same work, one row for each, and which is the best, in words.

What is finished is kept.
"""

import math
import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from airmixml.arrays import find_device, using_threads
from airmixml.compare.comparison_page import methods_table
from airmixml.compare.methods import LEVEL, Exposure, Method, Outcome, RightRows, Work
from airmixml.files import ResultStore, from_plain
from airmixml.messages import AirMixError, PluginError, ScenarioError, against, plural, sentence, shown
from airmixml.privacy import PrivacyStatement
from airmixml.radio import check_privacy_target
from airmixml.runs.run_page import no_better_than_guessing
from airmixml.scenario import Air, RunContext, Scenario, keys_in_force
from airmixml.scenario.consistency import require_classes
from airmixml.scenario.scenario import consecutive_seeds, identity_of
from airmixml.scenario.toml import finite
from airmixml.storage.folders import Study, study_folder, study_path
from airmixml.workers import settle
from airmixml.workers.population import held_by, row_name

_MOST_NAMED: Final = 3  # in a sentence
_TIED: Final = " are equal within chance"
_OF_AIR: Final = ("uplink_symbols", "uplink_unit", "downlink_bits", "slots_per_worker", "air_seconds", "bandwidth_hz")
_RESULTS: Final = "results"
_Cell = tuple[str, int]  # a method's name and a seed


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method over all seeds."""

    name: str
    about: str = ""  #: what it is
    air: Air = field(default_factory=Air)  #: what it is simulated on
    outcomes: tuple[Outcome, ...]  #: one for each seed

    @property
    def first(self) -> Outcome:
        """The first seed's outcome: symbols, air time and operations are the same for all of them."""
        return self.outcomes[0]

    @property
    def accuracies(self) -> list[float]:
        """Accuracy of each seed."""
        return [outcome.accuracy for outcome in self.outcomes]

    @property
    def accuracy(self) -> float:
        """Mean accuracy over the seeds."""
        return statistics.fmean(self.accuracies)

    @property
    def in_words(self) -> str:
        """Its name and accuracy."""
        return f"{self.name} ({100 * self.accuracy:.2f} %)"

    @cached_property
    def privacy(self) -> tuple[PrivacyStatement, ...]:
        """The worst seed's guarantee for the scenario's neighbours, then for the other kind."""
        by_kind = zip(*(outcome.privacy for outcome in self.outcomes), strict=False)
        return tuple(max(kind, key=lambda stated: stated.epsilon) for kind in by_kind)

    @property
    def exposure(self) -> Exposure:
        """The worst seed's epsilon against each adversary."""
        return Exposure.worst(outcome.exposure for outcome in self.outcomes)

    def epsilon_against(self, adversary: str) -> float:
        """Return the worst seed's epsilon against an adversary; infinite where none is promised, or it is unknown."""
        own, known = self.privacy[0], getattr(self.exposure, adversary, None)
        if known is None:
            return own.epsilon if own.adversary == adversary else math.inf
        return float(known)

    @property
    def tested(self) -> list[RightRows]:
        """Which test rows were right, for each seed."""
        return [each.tested for each in self.outcomes]

    @property
    def guess(self) -> float:
        """Mean accuracy of the best constant answer over the seeds."""
        return statistics.fmean(each.guess.count("1") / len(each.guess) for each in self.tested)

    @cached_property
    def no_better_than_guessing(self) -> bool:
        """Whether the accuracy is at most two standard errors above guessing."""
        beyond = difference([each.right for each in self.tested], [each.guess for each in self.tested])
        return no_better_than_guessing(beyond.mean, beyond.error)

    def beyond(self, other: "Row") -> bool:
        """Return whether it is more accurate than another beyond chance, on the same test rows."""
        both = list(zip(self.tested, other.tested, strict=False))  # one may have failed with a later seed
        return difference([one.right for one, _ in both], [another.right for _, another in both]).beyond_chance

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values for JSON, which has no infinity."""
        spent = [outcome.energy_joules for outcome in self.outcomes if outcome.energy_joules is not None]
        deviation = statistics.stdev(self.accuracies) if len(self.outcomes) > 1 else None
        return {
            "method": self.name,
            "about": self.about,
            "accuracy": {"mean": self.accuracy, "deviation": deviation, "by_seed": self.accuracies},
            "guess": self.guess,
            "no_better_than_guessing": self.no_better_than_guessing,
            "row_copies": self.first.row_copies,
            "trusted": self.first.trusted,
            "privacy": [{**each.to_dict(), "epsilon": finite(each.epsilon)} for each in self.privacy],
            "exposure": self.exposure.to_dict(),
            **{name: getattr(self.first, name) for name in _OF_AIR},
            "energy_joules": statistics.fmean(spent) if spent else None,
            "worker_multiply_accumulates": self.first.worker_multiply_accumulates,
            "seconds": statistics.fmean(outcome.seconds for outcome in self.outcomes),
        }


@dataclass(frozen=True, kw_only=True)
class Difference:
    """By how much the first is more accurate than the second."""

    mean: float
    error: float  # standard error, over test rows and seeds
    p_value: float  # two-sided

    @property
    def beyond_chance(self) -> bool:
        """Whether the first is more accurate than chance explains."""
        return self.mean > 0.0 and self.p_value < LEVEL


def difference(first: Sequence[str], second: Sequence[str]) -> Difference:
    """Return how two differ that got these test rows right with each seed.

    One seed is McNemar's exact test. Of several, the error is that over seeds and that over rows, each row with its
    mean over the seeds: that shrinks with more seeds only where they draw other test rows. Degrees of freedom by Welch
    and Satterthwaite.
    """
    from scipy.stats import binomtest, t  # here: it takes a while to import

    seeds, rows = len(first), max(map(len, first))
    table = np.full((seeds, rows), np.nan)  # seeds may have more or fewer rows
    for place, pair in enumerate(zip(first, second, strict=True)):
        one, other = (np.frombuffer(text.encode(), dtype=np.int8) for text in pair)
        table[place, : len(one)] = one - other
    by_seed, by_row = np.nanmean(table, axis=1), np.nanmean(table, axis=0)
    mean = float(by_seed.mean())
    of_rows, of_seeds = float(by_row.var()) / rows, float(by_seed.var(ddof=1)) / seeds if seeds > 1 else 0.0
    error = math.sqrt(of_rows + of_seeds)
    if seeds == 1:
        for_first, for_second = int((table > 0.0).sum()), int((table < 0.0).sum())
        p_value = float(binomtest(for_first, for_first + for_second).pvalue) if for_first + for_second else 1.0
    elif error == 0.0:
        p_value = 0.0 if mean else 1.0
    else:
        freedom = error**4 / (of_rows**2 / max(rows - 1, 1) + of_seeds**2 / (seeds - 1))
        p_value = 2.0 * float(t.sf(abs(mean) / error, freedom))
    return Difference(mean=mean, error=error, p_value=p_value)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One row per method."""

    scenario: Scenario  #: what is compared at
    rows: tuple[Row, ...]  #: what each of them gave
    left_out: dict[str, str] = field(default_factory=dict)  #: methods that were not run, and why
    seeds: list[int]  #: seeds of each row
    kept: int  #: results that were there already
    out: Path  #: folder with everything

    def _repr_html_(self) -> str:
        return methods_table(self.to_dict()).to_html()

    @cached_property
    def _within(self) -> dict[str, list[Row]]:
        """Rows that keep the target, by against whom in words; all rows where none keeps it."""
        privacy, within = self.scenario.privacy, dict[str, list[Row]]()
        for whom in dict.fromkeys((privacy.adversary, "everyone")):
            kept = [row for row in self.rows if row.epsilon_against(whom) <= privacy.epsilon * (1.0 + 1e-6)]
            if kept:
                within[f"{'' if within else 'within the target '}{against(whom)}"] = kept
        return within or {"none keeps the target; of all": [*self.rows]}

    @property
    def notes(self) -> list[str]:
        """What the epsilons are not, and which rows are on another air or no better than guessing."""
        workers, copies, notes = self.scenario.workers, max(row.first.row_copies for row in self.rows), list[str]()
        if copies > 1:
            of_row = f"{row_name(workers, copies)}, {held_by(workers, copies)},"
            notes.append(f"epsilon is a worker's; that of {of_row} is larger (airmix run states it)")
        if ideal := [row.name for row in self.rows if row.air.is_ideal and not self.scenario.air.is_ideal]:
            notes.append(f"on the ideal air: {', '.join(ideal)}")
        if poor := [row.name for row in self.rows if row.no_better_than_guessing]:
            notes.append(f"no better than guessing ({100 * self.rows[0].guess:.0f} %): {', '.join(poor)}")
        return notes

    @property
    def verdict(self) -> str:
        """Which rows within the target are the most accurate beyond chance, or equal within it, in one sentence."""
        told = [f"{where} {self._best(rows)}" for where, rows in self._within.items()]
        seeds, tested = len(self.seeds), len(self.rows[0].tested[0].right)
        rows = f"{plural(seeds, 'seed')}, {plural(tested, 'test row')}{' each' if seeds > 1 else ''}"
        tied = any(_TIED in each for each in told)
        more = f"; --seeds {max(10, 4 * seeds)} tells smaller differences" if tied else ""
        return f"{sentence('; '.join(told))[:-1]} ({rows}{more})."

    def _best(self, rows: Sequence[Row]) -> str:
        """Return which of the rows is the most accurate, or which of them are equal within chance."""
        first = max(rows, key=lambda row: row.accuracy)
        if len(rows) == 1:
            return f"{first.in_words} is the only one"
        equal = sorted((row for row in rows if not first.beyond(row)), key=lambda row: -row.accuracy)
        if len(equal) == 1:
            return f"{first.in_words} is the most accurate, beyond chance"
        named = [row.in_words for row in (equal if len(equal) <= _MOST_NAMED else equal[:1])]
        last = f"{len(equal) - 1} others" if len(equal) > _MOST_NAMED else named.pop()
        return f"{', '.join(named)} and {last}{_TIED}"

    def to_dict(self) -> dict[str, Any]:
        privacy = self.scenario.privacy
        return {
            "name": self.scenario.name,
            "air": keys_in_force(self.scenario.air),
            "mode": "simulation",
            "target": {name: getattr(privacy, name) for name in ("epsilon", "delta", "adversary", "adjacency")},
            "verdict": self.verdict,
            "seeds": self.seeds,
            "guess": self.rows[0].guess,
            "rows": [row.to_dict() for row in self.rows],
            "notes": self.notes,
            "left_out": self.left_out,
            "scenario": self.scenario.to_json(),
        }


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
        found, kept = Study(cells=cells, task=task).run()
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
        return self.store.load(_file(*cell), lambda plain, _: cast(Outcome, from_plain(Outcome, plain)))

    def save(self, cell: _Cell, outcome: Outcome) -> None:
        self.store.save(_file(*cell), outcome.to_dict())

    def run(self, unfinished: Iterable[_Cell], finished: Callable[[_Cell, Outcome], None]) -> None:
        left, loaded = list(unfinished), dict[int, Any]()
        for done, (name, seed) in enumerate(left, start=self.total - len(left)):
            self.context.progress("results", done, self.total)
            if name in self.failed:  # with one seed: it is not tried with the next
                continue
            if seed not in loaded:
                loaded = {seed: {}}  # the data of one seed at a time
            work = Work(scenario=self.scenario_of(name).with_seed(seed), context=self.context, _loaded=loaded[seed])
            try:
                started = time.perf_counter()
                with using_threads(self.context.speed.threads):
                    outcome = self.methods[name].run(work)
                if not isinstance(outcome, Outcome):  # of another package
                    raise PluginError(f"method {name}: gave {shown(outcome)}: must be an airmixml.compare.Outcome")
            except AirMixError as problem:
                if not self.may_fail:
                    raise
                self.failed[name] = str(problem)
            else:
                seconds = time.perf_counter() - started - work.loading_seconds
                finished((name, seed), replace(outcome, seconds=seconds, row_copies=work.row_copies))
        self.context.progress("results", self.total, self.total)


def _file(name: str, seed: int) -> str:
    return f"{re.sub(r'[^A-Za-z0-9.+-]', '_', name)}-seed{seed}.json"
