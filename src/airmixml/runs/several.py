"""Several runs as one result: protected releases of the same data, and simulations with consecutive seeds."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, Final

from airmixml.privacy import PrivacyStatement, state_jointly
from airmixml.radio.mixing import TransmitPower
from airmixml.runs.results import Accuracy, Baselines, ProtectedResult, RunResult, SeedsResult, WorkerEnergy
from airmixml.scenario import Scenario

_WORST: Final = ("power_limited_slots", "clipped_values", "clipped_samples", "row_copies")
_MEANS: Final = ("energy_joules", "snr_db", "snr_inputs_db", "snr_labels_db")


def releases_together(runs: list[ProtectedResult], run_dir: str, *, gaussian: bool, killed: int = 0) -> ProtectedResult:
    """Return protected runs of the same data as one result, with what all of them reveal together.

    Those that were killed spent at most what a finished one does, whose statements hold for any schedule.
    """
    every = [*runs, *runs[:1] * killed]
    unscored: dict[str, Any] = {} if len(runs) == 1 else {"accuracy": None, "scores": {}, "baselines": None}
    return replace(
        runs[0],
        releases=len(runs),
        killed=killed,
        privacy=tuple(state_jointly(alike, gaussian=gaussian) for alike in _alike(every)),
        row_privacy=state_jointly([run.row_privacy for run in every], gaussian=gaussian),
        row_statements=tuple(state_jointly(alike, gaussian=gaussian) for alike in _of_rows(every)),
        seconds=sum(run.seconds for run in runs),
        run_dir=run_dir,
        **unscored,
    )


def seeds_together(scenario: Scenario, runs: list[RunResult], run_dir: str) -> SeedsResult:
    """Return the runs of a scenario with consecutive seeds as one result: means, and the worst of what has limits."""

    def over_seeds(reduce: Callable[[Iterator[Any]], Any], *names: str) -> dict[str, Any]:
        return {name.rpartition(".")[2]: reduce(map(attrgetter(name), runs)) for name in names}

    mean, deviation = statistics.fmean, statistics.stdev
    accuracy, scores = None, tuple(runs[0].scores)
    deviations = {name: deviation(run.scores[name] for run in runs) for name in scores}
    if scenario.workers.task == "classification":
        accuracy = Accuracy(**over_seeds(mean, "accuracy.final", "accuracy.best"))
        deviations = over_seeds(deviation, "accuracy.final", "accuracy.best")
    power = over_seeds(mean, "power_dbm.median") | over_seeds(max, "power_dbm.largest")
    energy = over_seeds(mean, "worker_energy_joules.mean", "worker_energy_joules.median")
    first = {each.name: getattr(runs[0], each.name) for each in fields(RunResult) if each.name != "resumed_from_epoch"}
    summarised = {
        "accuracy": accuracy,
        "scores": {name: mean(run.scores[name] for run in runs) for name in scores},
        "score_deviations": deviations,
        "worker_energy_joules": WorkerEnergy(**energy, **over_seeds(max, "worker_energy_joules.largest")),
        "power_dbm": TransmitPower(**power, limit=scenario.radio.max_power_dbm),
        "privacy": _worst(_alike(runs)),
        "ledger": max((each.ledger for each in runs), key=attrgetter("worst_epsilon")),
        "row_statements": _worst(_of_rows(runs)),
        "row_privacy": max(filter(None, map(attrgetter("row_privacy"), runs)), key=attrgetter("epsilon"), default=None),
        "seconds": sum(run.seconds for run in runs),
        "run_dir": run_dir,
        "runs": tuple(runs),
        "baselines": _mean_baselines([run.baselines for run in runs if run.baselines is not None]),
    }
    return SeedsResult(**first | over_seeds(mean, *_MEANS) | over_seeds(max, *_WORST) | summarised)


def _mean_baselines(each: list[Baselines]) -> Baselines | None:
    """Return the mean over seeds; seeds may share their test rows, so these errors do not shrink with more of them."""
    if not each:
        return None
    gains = [one.gain for one in each]
    over_rows = statistics.fmean(one.gain_error**2 for one in each)
    over_seeds = statistics.variance(gains) / len(gains)
    reached = [one.without_privacy for one in each if one.without_privacy is not None]
    return Baselines(
        guess=statistics.fmean(one.guess for one in each),
        without_privacy=statistics.fmean(reached) if reached else None,
        how=each[0].how,
        gain=statistics.fmean(gains),
        gain_error=math.sqrt(over_rows + over_seeds),
    )


def _alike(runs: Sequence[RunResult | ProtectedResult]) -> list[list[PrivacyStatement]]:
    """Return the runs' statements, those of one adversary, accountant and kind of neighbours together."""
    stated = defaultdict(list)
    for each in (statement for run in runs for statement in run.privacy):
        stated[each.adversary, each.accountant, each.adjacency].append(each)
    return list(stated.values())


def _of_rows(runs: Sequence[RunResult | ProtectedResult]) -> list[list[PrivacyStatement]]:
    """Return what the runs state of rows, by adversary; nothing of one that some run has nothing to state about."""
    stated = defaultdict(list)
    for each in (statement for run in runs for statement in run.row_statements):
        stated[each.adversary].append(each)
    return [alike for alike in stated.values() if len(alike) == len(runs)]


def _worst(statements: list[list[PrivacyStatement]]) -> tuple[PrivacyStatement, ...]:
    """Return the statement of the seed with the largest epsilon, of each of these."""
    return tuple(max(alike, key=attrgetter("epsilon")) for alike in statements)
