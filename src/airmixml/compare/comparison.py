"""Run methods, or values of a key, with several seeds; keep what is finished; give one row for each of them."""

import math
import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self, cast

from airmixml.compare.chance import RightRows, difference
from airmixml.compare.methods import Exposure, Method, Outcome, Work
from airmixml.compare.ours import OwnScenario
from airmixml.devices import find_device, using_threads
from airmixml.errors import AirMixError, LedgerError, PluginError, ScenarioError
from airmixml.notebook import html_table
from airmixml.privacy import PrivacyStatement
from airmixml.radio import check_privacy_target
from airmixml.runs.run_page import no_better_than_guessing
from airmixml.runs.spending import CellBudget, Spending, joined, plan_spending
from airmixml.scenario import Air, RunContext, Scenario, keys_in_force
from airmixml.scenario.consistency import require_classes
from airmixml.scenario.grid import shown_value
from airmixml.storage.files import ResultStore, from_plain
from airmixml.storage.run_folder import REPORT, identity_of
from airmixml.storage.study import Study, consecutive_seeds, study_folder, study_path
from airmixml.wording import NO_PROTECTION_ABOVE_EPSILON, NONE, against, epsilon_text, joules, plural, sentence, shown
from airmixml.workers import settle
from airmixml.workers.population import held_by, row_name

_RESULTS: Final = "results"
_MOST_NAMED: Final = 3  # in a sentence
_SAME: Final = 9  # digits to which means over seeds are the same accuracy
_WHO: Final = {  # other names of adversaries are plain
    "everyone": "hears each worker alone",
    "anybody": "hears each worker alone",  # in older results
    "model": "sees the model alone",
    "release": "gets all mixtures",
}
_TIED: Final = " are equal within chance"
_OWN: Final = frozenset(
    {_RESULTS, REPORT, *(f"compare.{suffix}" for suffix in ("md", "csv", "tex", "json", "png", "svg"))}
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method, or one value of the varied key, over all seeds."""

    name: str  #: of the method, or the value as it was given
    label: str  #: what tables and pictures call it
    about: str | None = None  #: what the method is; None for a value
    air: Air = field(default_factory=Air)  #: what it is simulated on
    outcomes: tuple[Outcome, ...]  #: one for each seed

    @property
    def accuracies(self) -> list[float]:
        """Accuracy of each seed."""
        return [outcome.accuracy for outcome in self.outcomes]

    @property
    def accuracy(self) -> float:
        """Mean accuracy over the seeds."""
        return statistics.fmean(self.accuracies)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the accuracy over the seeds; None for one seed."""
        return statistics.stdev(self.accuracies) if len(self.outcomes) > 1 else None

    @cached_property
    def privacy(self) -> tuple[PrivacyStatement, ...]:
        """The worst seed's guarantee for the scenario's neighbours, then for the other kind."""
        by_kind = zip(*(outcome.privacy for outcome in self.outcomes), strict=False)
        return tuple(max(kind, key=lambda stated: stated.epsilon) for kind in by_kind)

    @property
    def exposure(self) -> Exposure | None:
        """The worst seed's epsilon against each adversary; None where the method does not say."""
        said = [outcome.exposure for outcome in self.outcomes if outcome.exposure is not None]
        return Exposure.worst(said) if said else None

    @property
    def row_epsilon(self) -> float | None:
        """The worst seed's epsilon of a row of the data; None where that is a worker's, or the method does not say."""
        return max((each.row_epsilon for each in self.outcomes if each.row_epsilon is not None), default=None)

    @property
    def row_copies(self) -> int:
        """On how many workers a row of the data lies at most; 0 where the method does not say."""
        return max(each.row_copies for each in self.outcomes)

    @cached_property
    def tested(self) -> list[RightRows] | None:
        """Which test rows were right, for each seed; None where a seed does not say."""
        known = [each.tested for each in self.outcomes if each.tested is not None]
        return known if len(known) == len(self.outcomes) else None

    @cached_property
    def guess(self) -> float | None:
        """Mean accuracy of the best constant answer over the seeds; None where it is not known."""
        if self.tested is None:
            return None
        return statistics.fmean(each.guess.count("1") / len(each.guess) for each in self.tested)

    @cached_property
    def no_better_than_guessing(self) -> bool | None:
        """Whether the accuracy is at most two standard errors above guessing; None where that is not known."""
        if self.tested is None:
            return None
        beyond = difference([each.right for each in self.tested], [each.guess for each in self.tested])
        return no_better_than_guessing(beyond.mean, beyond.error)

    def beyond(self, other: "Row") -> bool | None:
        """Return whether it is more accurate than another beyond chance; None without test rows in common."""
        if self.tested is None or other.tested is None:
            return None
        both = list(zip(self.tested, other.tested, strict=False))  # one may have failed with a later seed
        if any(one.guess != another.guess for one, another in both):
            return None
        return difference([one.right for one, _ in both], [another.right for _, another in both]).beyond_chance

    @property
    def in_words(self) -> str:
        """Its label and accuracy."""
        return f"{self.label} ({100 * self.accuracy:.2f} %)"

    def epsilon_against(self, adversary: str) -> float:
        """Return the worst seed's epsilon against an adversary; infinite where none is promised, or it is unknown."""
        own, known = self.privacy[0], getattr(self.exposure, adversary, None)
        if known is None:
            return own.epsilon if own.adversary == adversary else math.inf
        return float(known)

    @property
    def first(self) -> Outcome:
        """The first seed's outcome: symbols, air time and operations are the same for all of them."""
        return self.outcomes[0]

    @property
    def energy_joules(self) -> float | None:
        """Mean energy over the seeds."""
        spent = [outcome.energy_joules for outcome in self.outcomes if outcome.energy_joules is not None]
        return statistics.fmean(spent) if spent else None

    @property
    def seconds(self) -> float:
        """Mean wall time over the seeds."""
        return statistics.fmean(outcome.seconds for outcome in self.outcomes)

    @property
    def costs(self) -> dict[str, float | str | None]:
        """What a run takes."""
        of_air = ("uplink_symbols", "uplink_unit", "downlink_bits", "slots_per_worker", "air_seconds", "bandwidth_hz")
        return {
            **{name: getattr(self.first, name) for name in of_air},
            "energy_joules": self.energy_joules,
            "worker_multiply_accumulates": self.first.worker_multiply_accumulates,
            "seconds": self.seconds,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain values for JSON."""
        value = {"value": self.name, "shown": self.label}
        return {
            **(value if self.about is None else {"method": self.name, "about": self.about}),
            "accuracy": {"mean": self.accuracy, "deviation": self.deviation, "by_seed": self.accuracies},
            "guess": self.guess,
            "no_better_than_guessing": self.no_better_than_guessing,
            "row": {"copies": self.row_copies, "epsilon": _plain_epsilon(self.row_epsilon)},
            "note": self.first.note,
            "trusted": self.first.trusted,
            "privacy": [_finite(statement.to_dict()) for statement in self.privacy],
            "exposure": None if self.exposure is None else self.exposure.to_dict(),
            **self.costs,
        }


def _plain_epsilon(epsilon: float | None) -> float | str | None:
    """Return an epsilon for JSON, which has no infinity."""
    return "infinite" if epsilon == math.inf else epsilon


def _finite(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a statement for JSON, which has no infinity: no epsilon holds where it is None."""
    return {**plain, "epsilon": plain["epsilon"] if math.isfinite(plain["epsilon"]) else None}


def _equals(rows: Sequence[Row]) -> list[Row]:
    """Return the most accurate row and those that it does not beat beyond chance, best first.

    Rows of one accuracy, which nothing tells apart, stay together: all are equal to it where one of them is.
    """
    best = max(rows, key=lambda row: row.accuracy)
    near = {round(row.accuracy, _SAME) for row in rows if not best.beyond(row)}
    return sorted((row for row in rows if round(row.accuracy, _SAME) in near), key=lambda row: -row.accuracy)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One row per method, or per value of the varied key."""

    scenario: Scenario  #: what is compared at
    rows: tuple[Row, ...]  #: what each of them gave
    left_out: dict[str, str] = field(default_factory=dict)  #: methods that were not run, and why
    varied: str = ""  #: the key whose values the rows are; empty where rows are methods
    seeds: list[int]  #: seeds of each row
    kept: int  #: results that were there already
    out: Path  #: folder with everything

    def _repr_html_(self) -> str:
        rows = [
            (
                row.label,
                f"{100 * row.accuracy:.1f}" + ("" if row.deviation is None else f" ± {100 * row.deviation:.1f}") + " %",
                f"{epsilon_text(row.privacy[0].epsilon)} ({row.privacy[0].adversary})",
                NONE if row.energy_joules is None else joules(row.energy_joules),
            )
            for row in self.rows
        ]
        columns = (self.varied or "method", "accuracy", "epsilon", "energy")
        return html_table(f"{self.scenario.title}, {plural(len(self.seeds), 'seed')}, simulation", columns, rows)

    @cached_property
    def _within(self) -> dict[str, list[Row]]:
        """Rows that keep the target, by against whom in words: first the scenario's adversary, whose rows have ranks.

        All rows where none keeps it, or they are values of a key.
        """
        privacy, within = self.scenario.privacy, dict[str, list[Row]]()
        for whom in () if self.varied else dict.fromkeys((privacy.adversary, "everyone")):
            kept = [row for row in self.rows if row.epsilon_against(whom) <= privacy.epsilon * (1.0 + 1e-6)]
            if kept:
                within[f"{'' if within else 'within the target '}{against(whom)}"] = kept
        every = f"of the values of {self.varied}" if self.varied else "none keeps the target; of all"
        return within or {every: [*self.rows]}

    @cached_property
    def ranks(self) -> tuple[int | None, ...] | None:
        """Ranks of the rows that the verdict begins with, None for others; None where chance was not tested.

        The most accurate and its equals have rank 1, and so on with the rest of them.
        """
        if any(one.beyond(other) is None for one in self.rows for other in self.rows if other is not one):
            return None
        rank, left = dict[str, int](), next(iter(self._within.values()))
        while left:
            rank |= dict.fromkeys((row.name for row in _equals(left)), 1 + len(rank))
            left = [row for row in left if row.name not in rank]
        return tuple(rank.get(row.name) for row in self.rows)

    @property
    def ranked(self) -> list[tuple[Row, int | None]]:
        """Rows and their ranks."""
        return list(zip(self.rows, self.ranks or (None,) * len(self.rows), strict=True))

    @property
    def row_name(self) -> str:
        """What tables call a row of the data, or a person, that has an epsilon of its own; empty where none has."""
        copies = max((row.row_copies for row in self.rows if row.row_epsilon is not None), default=0)
        return row_name(self.scenario.workers, copies).removesuffix(" of the data") if copies else ""

    @property
    def notes(self) -> list[str]:
        """What columns and names mean, and which rows are no better than guessing."""
        workers, copies = self.scenario.workers, max(row.row_copies for row in self.rows)
        among = "within the target, " if next(iter(self._within)).startswith("within") else ""
        notes = [] if self.ranks is None else [f"rank: {among}ties within chance"]
        against = dict.fromkeys(row.privacy[0].adversary for row in self.rows)
        notes += [f"{name}: {_WHO[name]}" for name in against if name in _WHO]
        if self.row_name:
            weak = any((row.row_epsilon or 0.0) > NO_PROTECTION_ABOVE_EPSILON for row in self.rows)
            large = f" (above {NO_PROTECTION_ABOVE_EPSILON:g}: no protection)" if weak else ""
            notes.append(f"epsilon of {row_name(workers, copies)}: {held_by(workers, copies)}{large}")
        if ideal := [row.label for row in self.rows if row.air.is_ideal and not self.scenario.air.is_ideal]:
            notes.append(f"on the ideal air: {', '.join(ideal)}")
        if poor := [row.label for row in self.rows if row.no_better_than_guessing]:
            notes.append(f"no better than guessing ({100 * (self.guess or 0.0):.0f} %): {', '.join(poor)}")
        return notes

    @cached_property
    def guess(self) -> float | None:
        """Accuracy of guessing, where the first row knows it."""
        return self.rows[0].guess

    @property
    def verdict(self) -> str:
        """Which rows within the target are the most accurate beyond chance, or equal within it, in one sentence."""
        within = self._within
        told = [f"{where} {self._best(rows)}" for where, rows in within.items()]
        if len(told) > 1 and all(each.endswith(_TIED) for each in told):
            told[1:] = [each.removesuffix(_TIED) for each in told[1:]]
        first, best = (max(rows, key=lambda row: row.accuracy) for rows in (next(iter(within.values())), self.rows))
        if best.beyond(first):
            told.append(f"without regard to it {best.in_words} is more accurate")
        return f"{sentence('; '.join(told))[:-1]} ({self._how_told(any(_TIED in each for each in told))})."

    def _best(self, rows: Sequence[Row]) -> str:
        """Return which of the rows is the most accurate, or which of them are equal within chance."""
        first = max(rows, key=lambda row: row.accuracy)
        if len(rows) == 1:
            return f"{first.in_words} is the only one"
        if self.ranks is None:
            return f"{first.in_words} is highest"
        equal = _equals(rows)
        if len(equal) == 1:
            return f"{first.in_words} is the most accurate, beyond chance"
        named = [row.in_words for row in (equal if len(equal) <= _MOST_NAMED else equal[:1])]
        last = f"{len(equal) - 1} others" if len(equal) > _MOST_NAMED else named.pop()
        return f"{', '.join(named)} and {last}{_TIED}"

    def _how_told(self, tied: bool) -> str:
        """Return what the sentence rests on."""
        seeds, tested = len(self.seeds), self.rows[0].tested
        if self.ranks is None or tested is None:
            return (
                f"{plural(seeds, 'seed')}; not tested against chance: results without test rows in common; to run "
                f"older ones again delete {self.out / _RESULTS}"
            )
        rows = f"{plural(seeds, 'seed')}, {plural(len(tested[0].right), 'test row')}{' each' if seeds > 1 else ''}"
        return f"{rows}; --seeds {max(10, 4 * seeds)} tells smaller differences" if tied else rows

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values for JSON."""
        privacy = self.scenario.privacy
        return {
            "name": self.scenario.name,
            "air": keys_in_force(self.scenario.air),
            "mode": "simulation",
            "target": {name: getattr(privacy, name) for name in ("epsilon", "delta", "adversary", "adjacency")},
            "verdict": self.verdict,
            "varied": self.varied or None,
            "seeds": self.seeds,
            "guess": self.guess,
            "rows": [{**row.to_dict(), "rank": rank} for row, rank in self.ranked],
            "notes": self.notes,
            "left_out": self.left_out,
            "scenario": self.scenario.to_json(),
        }


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What one row runs with every seed, and what the row is called."""

    method: Method
    scenario: Scenario
    label: str
    about: str | None = None

    @classmethod
    def of(cls, name: str, method: Method, scenario: Scenario) -> Self:
        """Return a row of a method; one that no air is simulated for has the ideal one."""
        simulated = getattr(method, "on_air", False)  # another package may have none
        air = scenario.air if simulated else Air()
        about_in = getattr(method, "about_in", None)  # only a scenario of this package depends on what is compared
        about = method.about if about_in is None else about_in(scenario)
        return cls(method=method, scenario=replace(scenario, air=air), label=name, about=about)

    def own(self, seed: int) -> Scenario | None:
        """Return the scenario of this package that it runs, which a ledger counts; None where it runs none."""
        found = getattr(self.method, "own_scenario", None)  # another package may have none
        return None if found is None else found(self.scenario.with_seed(seed))


def compare_methods(
    scenario: Scenario,
    methods: Mapping[str, Method],
    *,
    left_out: Mapping[str, str] | None = None,
    may_fail: bool = True,
    seeds: int = 1,
    out: Path,
    force: bool = False,
    ledger: Path | str | None = None,
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
        ledger: file of budgets for simulations: runs of this package's scenarios that together would pass a worker's
            are refused before any of them is sent, and what they spend is kept there. Baselines are not counted.
        context: device, threads, where MNIST is, and what is told of the progress.
    """
    scenario = _settled(scenario, context)
    jobs = {name: _Job.of(name, method, scenario) for name, method in methods.items()}
    identity = {**identity_of(scenario.with_seed(0)), "compared": "methods"}
    failed: dict[str, str] | None = {} if may_fail else None
    found = _run_all(scenario, jobs, identity, failed, seeds, out, force, ledger, context or RunContext())
    return replace(found, left_out={**(left_out or {}), **(failed or {})})


def vary_key(
    scenario: Scenario,
    key: str,
    scenarios: Mapping[str, Scenario],
    *,
    seeds: int = 1,
    out: Path,
    force: bool = False,
    ledger: Path | str | None = None,
    context: RunContext | None = None,
) -> Comparison:
    """Run the scenario at each value of the key and return one row each; arguments as of ``compare_methods``."""
    scenario = _settled(scenario, context)
    settled = {value: _settled(each, context) for value, each in scenarios.items()}
    as_it_is = OwnScenario(key)
    jobs = {
        value: _Job(method=as_it_is, scenario=each, label=shown_value(key, value)) for value, each in settled.items()
    }
    identity = {**identity_of(next(iter(settled.values())).with_seed(0)), "compared": key}
    table, _, entry = key.rpartition(".")
    identity["scenario"] = {**identity["scenario"], table: {**identity["scenario"][table], entry: None}}
    found = _run_all(scenario, jobs, identity, None, seeds, out, force, ledger, context or RunContext())
    return replace(found, varied=key)


def _settled(scenario: Scenario, context: RunContext | None) -> Scenario:
    context = context or RunContext()
    return settle(scenario, data_dir=context.data_dir, progress=context.progress)


def _run_all(
    scenario: Scenario,
    jobs: Mapping[str, _Job],
    identity: dict[str, Any],
    failed: dict[str, str] | None,
    seeds: int,
    out: Path,
    force: bool,
    ledger: Path | str | None,
    context: RunContext,
) -> Comparison:
    """Run every job with every seed, seed by seed so that data are loaded once.

    ``failed`` takes the jobs that the package refuses, with its line; without it the refusal is raised.
    """
    numbers = list(consecutive_seeds(scenario, seeds))
    for each in dict.fromkeys(job.scenario for job in jobs.values()):
        require_classes(each.workers, "a comparison")
        check_privacy_target(each)
    find_device(context.speed.device)
    folder, cells = study_path(out, ""), [(name, seed) for seed in numbers for name in jobs]
    budget = None if ledger is None else _budget(jobs, numbers, failed, ledger, context)
    with study_folder(folder, identity, holds="a comparison", own=_OWN, force=force):
        found, kept = Study(
            cells=cells,
            task=_MethodTask(jobs, ResultStore(folder / _RESULTS), failed, context, len(cells)),
            reducer=lambda found, kept: (found, kept),
            budget=budget,
        ).run()
    if failed and not found:
        raise ScenarioError(next(iter(failed.values())))
    outcomes = {name: tuple(found[name, seed] for seed in numbers if (name, seed) in found) for name in jobs}
    rows = (
        Row(name=name, label=jobs[name].label, about=jobs[name].about, air=jobs[name].scenario.air, outcomes=gave)
        for name, gave in outcomes.items()
        if gave
    )
    return Comparison(scenario=scenario, rows=tuple(rows), seeds=numbers, kept=kept, out=folder)


@dataclass
class _MethodTask:
    """Runs methods by name and seed, one after the other, and keeps what each gave in a file."""

    jobs: Mapping[str, _Job]
    store: ResultStore
    failed: dict[str, str] | None
    context: RunContext
    total: int

    def load(self, cell: tuple[str, int]) -> Outcome | None:
        """Return what an earlier process kept."""
        return self.store.load(_file(*cell), lambda plain, _: cast(Outcome, from_plain(Outcome, plain)))

    def save(self, cell: tuple[str, int], outcome: Outcome) -> bool:
        """Keep what a method gave."""
        self.store.save(_file(*cell), outcome.to_dict())
        return True

    def run(self, unfinished: Iterable[tuple[str, int]], finished: Callable[[tuple[str, int], Outcome], None]) -> None:
        """Run what is left; a method that is refused with one seed is not tried with the next."""
        left, loaded = list(unfinished), dict[int, Any]()
        for done, (name, seed) in enumerate(left, start=self.total - len(left)):
            self.context.progress("results", done, self.total)
            if self.failed and name in self.failed:
                continue
            if seed not in loaded:
                loaded = {seed: {}}  # the data of one seed at a time
            work = Work(scenario=self.jobs[name].scenario.with_seed(seed), context=self.context, _loaded=loaded[seed])
            try:
                outcome = _timed(name, self.jobs[name].method, work)
            except AirMixError as problem:
                if self.failed is None:
                    raise
                self.failed[name] = str(problem)
                continue
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
    return replace(outcome, seconds=time.perf_counter() - started - work.loading_seconds)


def _budget(
    jobs: Mapping[str, _Job],
    seeds: Sequence[int],
    failed: dict[str, str] | None,
    ledger: Path | str,
    context: RunContext,
) -> CellBudget:
    """Plan what the rows spend that run a scenario of this package; ``failed`` takes those that cannot be counted."""
    parts: list[Spending] = []
    scenarios: dict[tuple[str, int], Scenario] = {}
    for name, job in jobs.items():
        try:
            own = {(name, seed): each for seed in seeds if (each := job.own(seed)) is not None}
            if own:
                about = {each: f"airmix compare {each.name}, {name}, seed {seed}" for (_, seed), each in own.items()}
                parts.append(
                    plan_spending(about, ledger, study=True, data_dir=context.data_dir, progress=context.progress)
                )
        except LedgerError:
            raise
        except AirMixError as problem:
            if failed is None:
                raise
            failed[name] = str(problem)
        else:
            scenarios |= own
    if not parts:
        raise ScenarioError(
            "--ledger: counts runs of airmix and its variants, and none of these methods is one; leave it out"
        )
    return CellBudget(joined(parts), scenarios)
