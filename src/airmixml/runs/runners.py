"""One seed of a run: a simulation for studies, or real data in protection, with nothing written that was not hidden."""

from __future__ import annotations

import math
import platform
import statistics
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib.metadata import version
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import torch

from airmixml.data import DataSet, warn_of_clipping
from airmixml.edge import Learned, learn
from airmixml.errors import LeftoverWarning
from airmixml.output.tables import rows_csv
from airmixml.privacy import PrivacyStatement, state_jointly
from airmixml.radio.draws import AirSetting
from airmixml.radio.power import TransmitPower
from airmixml.radio.power_calibration import composes_exactly
from airmixml.radio.tally import placed_distances
from airmixml.runs.baselines import baselines_of
from airmixml.runs.model_files import FileCheckpoint, save_model
from airmixml.runs.results import (
    SIMULATION,
    Accuracy,
    Baselines,
    ProtectedResult,
    RunResult,
    SeedsResult,
    WorkerEnergy,
)
from airmixml.scenario import RunContext, Scenario, keys_in_force
from airmixml.storage.files import ResultStore, write_arrays, write_text
from airmixml.storage.run_folder import PROTECTION, RunFolder, identity_of
from airmixml.streams import Secret, Streams
from airmixml.version import __version__
from airmixml.workers import load_dataset, worker_cost

if TYPE_CHECKING:
    from airmixml.runs.spending import Spending

KEPT_ROUNDS: Final = "shards"  # the folder that finished rounds are kept in until the run is whole


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Runs single seeds of a simulation; the arguments are those of ``run``."""

    context: RunContext
    pictures: bool
    checkpoint_seconds: float = 5.0
    spending: Spending | None = None

    def identity_of(self, scenario: Scenario) -> dict[str, Any]:
        """Return what must be equal for the run to be resumed."""
        return identity_of(scenario)

    def run_one(self, scenario: Scenario, folder: RunFolder, whole: RunFolder) -> Any:
        """Run one seed inside its folder, which may be that of all seeds, and return its result."""
        started, device = time.perf_counter(), self.context.speed.device
        dataset = self._load(scenario)
        held_dim = dataset.held_dim or dataset.input_dim
        warn_of_clipping(dataset.clipped_values, held_dim * (dataset.train_samples + len(dataset.test_labels)))
        made_with = f"{device} torch {torch.__version__}"
        checkpoint = FileCheckpoint(folder.work, made_with=made_with, every_seconds=self.checkpoint_seconds)
        kept = ResultStore(folder.work / KEPT_ROUNDS, made_with)
        learned = learn(scenario, dataset=dataset, context=self.context, checkpoint=checkpoint, kept=kept)
        seconds = time.perf_counter() - started
        self._keep(learned, folder)
        report = learned.transmission.report
        ledger, epsilons = report.ledger, report.worker_epsilons()
        spent = {"participations": ledger.participations, "received_watts": ledger.received_watts, "epsilon": epsilons}
        write_arrays(folder.work / "ledger.npz", spent)
        if self.pictures:
            from airmixml.runs.pictures import draw_run

            draw_run(learned.transmission, learned.trained.history, folder.work / "figures")
        result = result_of(learned, seconds=seconds, device=device, run_dir=_run_dir(folder, whole))
        resumed = checkpoint.resumed_epoch
        return replace(result, resumed_from_epoch=resumed, baselines=baselines_of(learned, protected=False))

    def summarise(self, scenario: Scenario, runs: list[Any], whole: RunFolder) -> Any:
        """Return means over the seeds, or the only one."""
        return runs[0] if len(runs) == 1 else _summarised_seeds(scenario, runs, str(whole.final))

    def _load(self, scenario: Scenario, *, test_rows: bool = True) -> DataSet:
        return load_dataset(
            scenario.workers,
            Streams(scenario.seed),
            data_dir=self.context.data_dir,
            progress=self.context.progress,
            test_rows=test_rows,
            device=self.context.speed.device,
            raw=None if self.spending is None else self.spending.raw,
        )

    def _keep(self, learned: Learned, folder: RunFolder) -> None:
        """Settle what was spent, and write the curve, where there is one, and the model."""
        sent = learned.transmission
        if self.spending is not None:
            self.spending.settle(sent)
        if curve := learned.trained.history.rows():
            write_text(folder.work / "learning_curve.csv", rows_csv(curve))
        save_model(learned.trained.model, sent.dataset, folder.work, sent.scenario)


@dataclass(frozen=True, kw_only=True)
class ProtectedRunner(Runner):
    """Runs single seeds in protection, each with a secret of its own."""

    public_test: bool

    def identity_of(self, scenario: Scenario) -> dict[str, Any]:
        """Return what names the run in its folder; of the data, nothing."""
        return {**identity_of(scenario, protected=True), "public_test": self.public_test}

    def run_one(self, scenario: Scenario, folder: RunFolder, whole: RunFolder) -> ProtectedResult:
        """Run one seed inside its folder and return its result.

        No checkpoint is kept: nothing tells whether another process would go on with the same data. Before anything is
        drawn the attempt is on the disk.
        """
        privacy = {name: getattr(scenario.privacy, name) for name in ("epsilon", "delta", "adversary", "adjacency")}
        claim = partial(whole.note_attempt, {"seed": scenario.seed, "privacy": privacy})
        dataset = self._load(scenario, test_rows=self.public_test)
        # What the air refuses, it refuses before there is an attempt.
        AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, placed_distances(scenario))
        pool, tested = dataset.public_counts
        if not self.public_test:
            dataset = replace(dataset, test_inputs=dataset.test_inputs[:0], test_labels=dataset.test_labels[:0])
        learned = learn(scenario, dataset=dataset, context=replace(self.context, secret=Secret(claim)))
        learned.transmission.report.before_the_draw = True
        self._keep(learned, folder)
        metrics = {
            **_metrics(learned, device=self.context.speed.device, run_dir=_run_dir(folder, whole)),
            "mode": PROTECTION,
            "public_test": self.public_test,
            "releases": 1,
            "seconds": learned.training_seconds,  # how long rows take to read and to encode depends on them
        }
        metrics["dataset"] |= {"train_samples": pool, "test_samples": tested}
        covered = {each.name for each in fields(ProtectedResult)}  # all that the statements cover, and what is public
        result = ProtectedResult.from_dict({name: metrics[name] for name in covered & metrics.keys()})
        result = replace(result, baselines=baselines_of(learned, protected=True))
        self._draw(result, folder)
        return result

    def summarise(self, scenario: Scenario, runs: list[ProtectedResult], whole: RunFolder) -> ProtectedResult:
        """Return what all releases together reveal, those that were killed included."""
        killed = len(whole.attempts) - len(runs)
        if len(runs) + killed == 1:
            return runs[0]
        gaussian = not scenario.workers.centre_on_air or composes_exactly(scenario)
        result = _summarised_releases(runs, str(whole.final), gaussian=gaussian, killed=killed)
        self._draw(result, whole)
        return result

    def _draw(self, result: ProtectedResult, folder: RunFolder) -> None:
        if self.pictures:
            from airmixml.runs.pictures import draw_statements

            draw_statements(result.privacy, folder.work / "figures" / "privacy.png")


def warn_of_killed(whole: RunFolder) -> None:
    """Say so where protected releases were begun in a folder and killed."""
    if killed := len(whole.attempts):
        begun = "an earlier release was begun" if killed == 1 else f"{killed:,} earlier releases were begun"
        warnings.warn(
            f"{whole.work}: {begun} here and did not finish; what may have been sent counts, so the statements of "
            "this run are about all of them together",
            LeftoverWarning,
            stacklevel=2,
        )


def _run_dir(folder: RunFolder, whole: RunFolder) -> str:
    return str(whole.final if folder is whole else whole.final / folder.final.name)


def result_of(learned: Learned, *, seconds: float, device: str, run_dir: str = "") -> RunResult:
    """Return the result of a simulated run: what was sent, what was learned from it, and how long both took."""
    dataset = learned.transmission.dataset
    metrics = {
        **_metrics(learned, device=device, run_dir=run_dir),
        "clipped_values": dataset.clipped_values,
        "clipped_samples": dataset.clipped_samples,
        "seconds": seconds,
        "resumed_from_epoch": 0,
        "mode": SIMULATION,
    }
    return RunResult.from_dict(metrics)


def _metrics(learned: Learned, *, device: str, run_dir: str) -> dict[str, Any]:
    """Return what was sent, what was learned from it, and by what."""
    sent, history = learned.transmission, learned.trained.history
    scenario, dataset, report = sent.scenario, sent.dataset, sent.report
    accuracy = None
    if history.test_accuracy:
        best = {"best": history.best_accuracy, "best_epoch": history.best_epoch}
        accuracy = {"final": history.final_accuracy, **best}
    return {
        **report.to_dict(),
        "name": scenario.name,
        "seed": scenario.seed,
        "air": keys_in_force(scenario.air),
        "task": dataset.task,
        "accuracy": accuracy,
        "scores": history.scores,
        "worker_cost": worker_cost(scenario.workers, dataset.held_dim or dataset.input_dim, report.signal).to_dict(),
        "row_copies": report.row_copies,
        "row_privacy": report.privacy_of_a_row(report.row_copies).to_dict(),
        "row_statements": [statement.to_dict() for statement in report.privacy_of_rows()],
        "dataset": {
            **{name: getattr(dataset, name) for name in ("name", "input_dim", "label_dim", "train_samples")},
            "test_samples": len(dataset.test_labels),
        },
        "device": device,
        "versions": {
            "airmixml": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")},
            "platform": f"{sys.platform} {platform.machine()}",
        },
        "run_dir": run_dir,
    }


def _summarised_releases(
    runs: list[ProtectedResult], run_dir: str, *, gaussian: bool, killed: int = 0
) -> ProtectedResult:
    """Return protected runs of the same data as one result, with what all of them reveal together.

    Those that were killed spent at most what a finished one does, whose statements hold for any schedule.
    """
    every = [*runs, *runs[:1] * killed]
    return replace(
        runs[0],
        releases=len(runs),
        killed=killed,
        privacy=tuple(state_jointly(alike, gaussian=gaussian) for alike in _alike(every)),
        row_privacy=state_jointly([run.row_privacy for run in every], gaussian=gaussian),
        row_statements=tuple(state_jointly(alike, gaussian=gaussian) for alike in _of_rows(every)),
        accuracy=runs[0].accuracy if len(runs) == 1 else None,
        scores=runs[0].scores if len(runs) == 1 else {},
        baselines=runs[0].baselines if len(runs) == 1 else None,
        seconds=sum(run.seconds for run in runs),
        run_dir=run_dir,
    )


_WORST: Final = ("power_limited_slots", "clipped_values", "clipped_samples", "row_copies")
_MEANS: Final = ("energy_joules", "snr_db", "snr_inputs_db", "snr_labels_db")


def _summarised_seeds(scenario: Scenario, runs: list[RunResult], run_dir: str) -> SeedsResult:
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
