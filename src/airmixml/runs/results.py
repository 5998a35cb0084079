"""What a run gave: of one seed, or of several as one result; the content of ``metrics.json``."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airmixml.files import Read, corrupt_file, from_plain, read_regular, to_plain
from airmixml.messages import RunFolderError, duration, plural
from airmixml.notebook import html_facts
from airmixml.privacy import PrivacyStatement
from airmixml.radio.mixing import TransmitPower
from airmixml.scenario import keys_in_force
from airmixml.scenario.scenario import PROTECTION
from airmixml.storage.folders import METRICS, PARTIAL, unfinished
from airmixml.version import __version__
from airmixml.workers import WorkerCost, worker_cost

if TYPE_CHECKING:
    from airmixml.edge import Learned

SIMULATION: Final = "simulation"
DEPLOYMENT: Final = "deployment"
MOST_CLASSES_LISTED: Final = 100


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """Fractions of the clean test set: after the last epoch, and of the best epoch, which is picked on that set."""

    final: float
    best: float
    best_epoch: int | None = None  # counted from 1; None of the mean over seeds

    def __post_init__(self) -> None:
        if not 0.0 <= self.final <= self.best <= 1.0:
            raise ValueError(f"accuracy = {self.final}, {self.best}: must be from 0 to 1, the best not below the final")


@dataclass(frozen=True, kw_only=True)
class WorkerEnergy:
    """What single workers radiate in the whole run, in joules."""

    mean: float
    median: float
    largest: float


@dataclass(frozen=True, kw_only=True)
class SlotsPerWorker:
    """How often workers took part."""

    least: int
    median: float
    most: int
    silent: int = 0


@dataclass(frozen=True, kw_only=True)
class LedgerSummary:
    """What the workers spent against the server."""

    worst_epsilon: float
    worst_worker: int
    worst_worker_slots: int
    median_epsilon: float
    mean_epsilon: float
    slots_per_worker: SlotsPerWorker


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """The data set, as the workers encode it."""

    name: str
    train_samples: int
    test_samples: int
    input_dim: int
    label_dim: int


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """What the score of the task (accuracy, R^2 or the share of labels right) stands beside, on the same test rows.

    ``guess`` is the best that one answer for all of them reaches: the most frequent class, the mean. What a linear
    learner reaches ``without_privacy`` is learnt on the same encoded rows without noise, or by a protected run on other
    public rows. Of several seeds it is the mean, without classes. Nothing is listed for over 100 classes.
    """

    guess: float
    without_privacy: float | None
    how: str  # which learner ``without_privacy`` is of, and which rows it saw
    gain: float  # the score less ``guess``
    gain_error: float  # its standard error over the test rows, and over seeds
    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()  # test rows by true class (rows) and predicted class (columns)


@dataclass(frozen=True, kw_only=True)
class _Result:
    """What every run gave, as its ``metrics.json`` has it.

    ``accuracy`` is that of a classification; other tasks have ``scores`` on the clean test set: of a regression ``r2``,
    ``rmse`` and ``mae`` in the target's own units, of several labels ``labels_right``, ``exact_match``, ``macro_f1``.
    ``unstated`` has, for adversaries against whom ``privacy`` states nothing, the reason. ``row_privacy`` says what the
    server learns of a row of data that up to ``row_copies`` workers hold; ``row_statements`` says the same of every
    adversary, that of the target first, and nothing is certified against one that is missing there. ``air`` has the
    name of the air's preset and each key that is not as on the ideal air. ``integers`` has step, bits and noise where
    workers send integers, ``rounds`` number, share and clip of rounds of gradients, and what each takes: uplink symbols
    and seconds, downlink bits, multiply-accumulates. ``link`` has what a digital link takes: bits, packets and lost
    vectors of a slot, a worker's time and the backhaul of all slots; ``symbols_per_slot`` are then the bits of a
    vector. ``baselines`` are what the score stands beside; cells of a sweep have none.
    """

    mode: str
    name: str
    seed: int
    task: str
    accuracy: Accuracy | None
    scores: dict[str, float]
    slots: int
    symbols_per_slot: int
    air_seconds: float
    privacy: tuple[PrivacyStatement, ...]
    unstated: dict[str, str]
    row_copies: int
    row_privacy: PrivacyStatement | None
    row_statements: tuple[PrivacyStatement, ...]
    worker_cost: WorkerCost
    dataset: DataSummary
    seconds: float
    device: str
    versions: dict[str, str]
    run_dir: str
    air: dict[str, int | float | str | list[str] | None]  # by key
    integers: dict[str, float] | None = None
    link: dict[str, float] | None = None
    rounds: dict[str, float] | None = None
    baselines: Baselines | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON."""
        return to_plain(self)

    def _repr_html_(self) -> str:
        runs = getattr(self, "runs", ())
        title = f"{self.name}, {plural(len(runs), 'seed') if runs else f'seed {self.seed}'}, {self.mode}"
        facts = {"privacy": str(self.privacy[0]), "on the air": duration(self.air_seconds), "run folder": self.run_dir}
        if self.accuracy is not None:
            facts = {"accuracy": f"{100 * self.accuracy.final:.1f} % on the clean test set", **facts}
        return html_facts(title, facts)


@dataclass(frozen=True, kw_only=True)
class _Simulated(_Result):
    """What simulations of one seed and of several have besides; SNR and power are those of the median slot.

    All of it is for studies: the noise follows from the seed, and some of it (SNR, clipped values) never saw noise.
    """

    energy_joules: float
    worker_energy_joules: WorkerEnergy
    power_dbm: TransmitPower
    power_limited_slots: int
    ledger: LedgerSummary
    snr_db: float
    snr_inputs_db: float
    snr_labels_db: float
    clipped_values: int
    clipped_samples: int


@dataclass(frozen=True, kw_only=True)
class RunResult(_Simulated):
    """What a run of one seed gave."""

    resumed_from_epoch: int


@dataclass(frozen=True, kw_only=True)
class SeedsResult(_Simulated):
    """Means over several seeds, the spread of accuracy and scores, the worst of what has limits, and each run."""

    runs: tuple[RunResult, ...]
    score_deviations: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class ProtectedResult(_Result):
    """What a protected run gave: nothing but what its privacy statements cover, and what was public before.

    ``releases`` models were trained, each on a transmission of its own, and ``killed`` ones were begun before;
    ``privacy``, ``row_privacy`` and ``row_statements`` hold for all of them together. There is an ``accuracy``, or
    there are ``scores``, only where the test rows were declared public. ``seconds`` are those of the training: how
    long rows take to read and to encode depends on them.
    """

    row_privacy: PrivacyStatement
    releases: int
    killed: int = 0
    public_test: bool


AnyResult = RunResult | SeedsResult | ProtectedResult


def load_result(folder: Path | str, read: Read = read_regular, *, whole: bool = True) -> AnyResult:
    """Return the result in a finished run folder; refuse one that is not finished, or that was changed.

    ``read`` reads a file. A folder that need not be ``whole`` is about to get its name.
    """
    folder = Path(folder)
    if whole and folder.absolute().name.endswith(PARTIAL):
        raise unfinished(folder)
    try:
        metrics = json.loads(read(folder / METRICS))
        keys = metrics if isinstance(metrics, dict) else {}
        if keys.get("mode") == DEPLOYMENT:
            raise DeployedError(f"{folder}: has the model of a deployment and no results of a run; use airmix predict")
        if "verdict" in keys:  # nothing is wrong with it: never advise to delete it
            why = "has the result of an attack, an audit or a plan, and no model; give a folder that airmix run made"
            raise RunFolderError(f"{folder}: {why}")
        several: Any = SeedsResult if "runs" in keys else RunResult
        kind = ProtectedResult if keys.get("mode") == PROTECTION else several
        result: AnyResult = from_plain(kind, metrics)
        if not result.privacy:
            raise ValueError("privacy must have at least one statement")
        return result
    except RunFolderError:
        raise
    except OSError as problem:
        why = f"not a run folder ({METRICS}: {problem.strerror}); give one that airmix run made"
        raise RunFolderError(f"{folder}: {why}") from None
    except (ValueError, RecursionError) as problem:
        raise corrupt_file(folder / METRICS, problem, delete=f"the folder {folder}") from None


class DeployedError(RunFolderError):
    """A folder is that of a server that was deployed: it has a model, and what a run measures it has not."""


def load_metrics(folder: Path | str) -> dict[str, Any]:
    """Return the metrics of a finished run folder as plain values; refuse one that is not finished, or was changed."""
    return load_result(folder).to_dict()


def result_of(learned: Learned, *, seconds: float, device: str, run_dir: str = "") -> RunResult:
    """Return the result of a simulated run: what was sent, what was learned from it, and how long both took."""
    dataset = learned.transmission.dataset
    metrics = {
        **metrics_of(learned, device=device, run_dir=run_dir),
        "clipped_values": dataset.clipped_values,
        "clipped_samples": dataset.clipped_samples,
        "seconds": seconds,
        "resumed_from_epoch": 0,
        "mode": SIMULATION,
    }
    result: RunResult = from_plain(RunResult, metrics)
    return result


def metrics_of(learned: Learned, *, device: str, run_dir: str) -> dict[str, Any]:
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
