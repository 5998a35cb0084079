"""Batches, which a sweep is cut into: scenarios of one seed that are simulated together and trained as one stack.

The cells of a grid come in batches too, but each of them is what a command gives alone, and is kept by itself.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from airmixml.data import KnownDataSet, known_dataset
from airmixml.doors import DATASETS
from airmixml.errors import AirMixError, ScenarioError
from airmixml.progress import Progress, silent
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.streams import Streams
from airmixml.version import __version__
from airmixml.wording import one_line
from airmixml.workers import encoded_dim

Result = TypeVar("Result")
Metric = float | int | bool | str | None
Kind = Literal["training", "energy", "run", "attack", "audit"]
"""Whether a network is trained on the mixtures as one of a stack, or only the energy of sending them is added up; or
the command that a cell of a grid is the outcome of."""
CELL_KINDS: Final = ("run", "attack", "audit")

# Mixtures are held twice while they are stacked: as simulated and in the stack.
_COPIES: Final = 2
_BYTES_AT_ONCE: Final = {"cpu": 1_500_000_000, "cuda": 26_000_000_000}
_MOST_AT_ONCE: Final = 64


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Scenarios that are run together: one data set, one seed, one learner.

    What a batch gives depends on nothing but the batch and the kind of device: not on the number of jobs, the engine,
    or which other batches there are. So it is what a sweep keeps; of cells of a grid it keeps each.

    Attributes:
        kind: what is done with the scenarios.
        scenarios: those of one seed, data set and learner; cells of a grid may have several learners.
        device: where networks are trained.
        asked: options of the command, as JSON.
        data: digest of the user's data file.
    """

    kind: Kind
    scenarios: tuple[Scenario, ...]
    device: str = "cpu"
    asked: str = ""
    data: str = ""

    @cached_property
    def digest(self) -> str:
        """Name of the batch: equal for equal work."""
        content: dict[str, Any] = {
            "kind": self.kind,
            "scenarios": [scenario.to_json() for scenario in self.scenarios],
            "device": self.device.partition(":")[0],
            "airmixml": __version__,
        }
        if self.kind in CELL_KINDS:
            content |= {"asked": self.asked, "data": self.data}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]

    @cached_property
    def parts(self) -> tuple[Batch, ...]:
        """What is kept by itself: the whole batch, or each cell of a grid."""
        if self.kind not in CELL_KINDS or len(self.scenarios) == 1:
            return (self,)
        return tuple(replace(self, scenarios=(scenario,)) for scenario in self.scenarios)

    def without(self, finished: Container[Batch]) -> Batch | None:
        """Return the batch without its finished parts; None where nothing is left."""
        left = [part for part in self.parts if part not in finished]
        if len(left) == len(self.parts):
            return self
        return replace(self, scenarios=tuple(part.scenarios[0] for part in left)) if left else None

    @property
    def work(self) -> int:
        """How long it takes, roughly, in units that only compare batches."""
        if self.kind in CELL_KINDS:
            return len(self.scenarios)
        first = self.scenarios[0]
        known: KnownDataSet = DATASETS.load(first.workers.dataset)
        per_slot = first.radio.scheduled if self.kind == "energy" else first.learner.epochs * known.input_dim
        return len(self.scenarios) * first.radio.slots * per_slot

    @property
    def bytes_needed(self) -> int:
        """Memory that its mixtures take, roughly; little where none are kept."""
        first = self.scenarios[0]
        kept = self.kind == "training" or (self.kind == "run" and not first.learner.closed_form)
        if not kept or known_dataset(first.workers.dataset) is None:
            return 0
        return len(self.scenarios) * mixture_bytes(first)

    @property
    def seed(self) -> int:
        """The seed of all its scenarios."""
        return self.scenarios[0].seed

    @property
    def on_gpu(self) -> bool:
        """Whether it is computed on a GPU."""
        return self.device.startswith("cuda")


def cut_into_batches(scenarios: Sequence[Scenario], kind: Kind, *, device: str = "cpu") -> list[Batch]:
    """Cut scenarios into batches that fit into memory, each of one seed, data set and learner; equal ones run once."""
    groups: dict[object, list[Scenario]] = {}
    for scenario in dict.fromkeys(scenarios):
        _check(scenario, kind)
        groups.setdefault((scenario.seed, scenario.workers, scenario.learner), []).append(scenario)
    batches = []
    for alike in groups.values():
        whole = Batch(kind=kind, scenarios=tuple(alike), device=device if kind == "training" else "cpu")
        size = most_at_once(alike[0], whole.device) if kind == "training" else len(alike)
        parts = (whole.scenarios[start : start + size] for start in range(0, len(alike), size))
        batches += [replace(whole, scenarios=part) for part in parts]
    return batches


def _check(scenario: Scenario, kind: Kind) -> None:
    """Refuse what is not of a known size, and for training what is not a network on the data as they were loaded."""
    if known_dataset(scenario.workers.dataset) is None:
        raise ScenarioError(
            f"workers.dataset = {scenario.workers.dataset!r}: a sweep needs one of {', '.join(DATASETS.names)}"
        )
    if kind == "energy":
        return
    if scenario.learner.closed_form:
        raise ScenarioError(
            f"learner.model = {scenario.learner.model!r}: a sweep trains networks; run each scenario by itself"
        )
    if scenario.workers.centre_on_air:
        raise ScenarioError(
            f'workers.centre = "{scenario.workers.centre}": each target has data of its own; run each scenario by '
            "itself"
        )


def most_at_once(scenario: Scenario, device: str) -> int:
    """Return how many scenarios of that size have room for their mixtures."""
    room = _BYTES_AT_ONCE["cuda" if device.startswith("cuda") else "cpu"]
    return max(1, min(_MOST_AT_ONCE, room // mixture_bytes(scenario)))


def mixture_bytes(scenario: Scenario) -> int:
    """Return the memory that the mixtures of a scenario take, whose data set is known by name."""
    return 4 * _COPIES * scenario.radio.slots * sum(_dimensions(scenario))


def _dimensions(scenario: Scenario) -> tuple[int, int]:
    """Return d_X as it leaves the encoder, and d_Y."""
    known: KnownDataSet = DATASETS.load(scenario.workers.dataset)
    return encoded_dim(scenario.workers, known.input_dim), known.label_dim


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Why a scenario could not be run, in one line."""

    error: str


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What sending a scenario's mixtures took: energy of all workers, and slots that the power limit weakened."""

    energy_joules: float
    power_limited_slots: int

    def __post_init__(self) -> None:
        if not (self.energy_joules >= 0.0 and self.power_limited_slots >= 0):
            raise ValueError(f"energy_joules = {self.energy_joules} in {self.power_limited_slots} limited slots")


@dataclass(frozen=True, kw_only=True)
class Trained(Sent):
    """What sending took, and the network that was trained on what was received.

    Attributes:
        curve: accuracy on the clean test set after each epoch.
        snr_inputs_db: received signal-to-noise ratio of the inputs in the median slot.
        epsilon: of the scenario's own statement.
        epsilon_server: of the worst worker, against the server.
    """

    curve: tuple[float, ...]
    snr_inputs_db: float
    epsilon: float
    epsilon_server: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.curve or not all(0.0 <= accuracy <= 1.0 for accuracy in self.curve):
            raise ValueError("curve must be accuracies from 0 to 1")

    @property
    def final_accuracy(self) -> float:
        """Accuracy after the last epoch: the figure to trust."""
        return self.curve[-1]

    @property
    def best_accuracy(self) -> float:
        """Accuracy of the best epoch. It is picked on the test set, so it flatters."""
        return max(self.curve)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a command gave for a cell of a grid: metrics by name, numbers and words; None where there is none."""

    metrics: dict[str, Metric]

    def __post_init__(self) -> None:
        for name, value in self.metrics.items():
            if not isinstance(value, int | float | str | None) or value != value:  # noqa: PLR0124  (NaN)
                raise ValueError(f"{name} = {value!r}: must be a number, a word or nothing")

    @classmethod
    def read(cls, plain: Any) -> Measured:
        """Return what ``to_plain`` was called on; a ValueError says what is odd about it."""
        if not isinstance(plain, dict) or set(plain) != {"metrics"} or not isinstance(plain["metrics"], dict):
            raise ValueError("it must be metrics by name")
        return cls(metrics=plain["metrics"])


SweepOutcome = Failed | Sent | Trained | Measured
"""What one scenario gave."""


def beginnings_name(batch: Batch) -> str:
    """Return the name of the folder for the beginnings of a batch."""
    return f"{batch.digest}.partial"


def run_batch(
    batch: Batch,
    *,
    data_dir: Path | None = None,
    checkpoints: Path | None = None,
    checkpoint_seconds: float = 5.0,
    progress: Progress = silent,
) -> list[SweepOutcome]:
    """Return the outcome of each scenario of the batch, in order.

    A scenario that cannot be run gets an error as its outcome and leaves the others alone. MNIST is looked for in
    ``data_dir``. An interrupted training is kept in the folder ``checkpoints``, at most once in ``checkpoint_seconds``.
    ``progress`` is told of slots and epochs.
    """
    if batch.kind == "energy":
        return _energies(batch, progress)
    import torch

    from airmixml.edge import train_stack
    from airmixml.radio.transmission import simulate_family
    from airmixml.runs.model_files import FileCheckpoint
    from airmixml.workers import load_dataset

    first = batch.scenarios[0]
    # One thread: more would not help small networks, and their number must not change what a batch gives.
    speed = Speed(device=batch.device, threads=1 if batch.device == "cpu" else 0)
    dataset = load_dataset(first.workers, Streams(first.seed), data_dir=data_dir, device=speed.device)
    simulate = partial(simulate_family, dataset=dataset, context=RunContext(speed=speed))
    simulated, outcomes = _family_by_family(batch, simulate, "over the air", progress)
    if not simulated:
        return outcomes
    checkpoint = None
    if checkpoints is not None:
        made_with = f"{batch.digest} {batch.device} torch {torch.__version__}"
        checkpoint = FileCheckpoint(checkpoints, made_with=made_with, every_seconds=checkpoint_seconds)
    reports = {number: mixtures.report for number, mixtures in simulated.items()}
    inputs = torch.stack([mixtures.inputs for mixtures in simulated.values()])
    labels = torch.stack([mixtures.labels for mixtures in simulated.values()])
    simulated.clear()  # what is stacked need not be held twice
    histories = train_stack(
        first.learner, dataset, inputs, labels, seed=first.seed, speed=speed, progress=progress, checkpoint=checkpoint
    )
    for (number, report), history in zip(reports.items(), histories, strict=True):
        if not all(map(math.isfinite, history.loss)):
            outcomes[number] = Failed(error="training: the loss stopped being a number; the mixtures are too noisy")
            continue
        outcomes[number] = Trained(
            curve=tuple(history.test_accuracy),
            energy_joules=report.energy_joules,
            power_limited_slots=report.limited_slots,
            snr_inputs_db=report.input_snr_db.quantile_db(0.5),
            epsilon=report.privacy.epsilon,
            epsilon_server=report.privacy_against_server.epsilon,
        )
    return outcomes


def _energies(batch: Batch, progress: Progress) -> list[SweepOutcome]:
    from airmixml.radio.rehearsal import rehearse_family

    input_dim, label_dim = _dimensions(batch.scenarios[0])
    rehearse = partial(rehearse_family, input_dim=input_dim, label_dim=label_dim)
    tallies, outcomes = _family_by_family(batch, rehearse, "energy", progress)
    for number, tally in tallies.items():
        outcomes[number] = Sent(energy_joules=tally.energy_joules, power_limited_slots=tally.limited_slots)
    return outcomes


def _family_by_family(
    batch: Batch, run: Callable[[list[Scenario]], list[Result]], stage: str, progress: Progress
) -> tuple[dict[int, Result], list[SweepOutcome]]:
    """Run scenarios that share their draws together; return results by number, and outcomes with the errors filled in.

    A family with a member that cannot be run is run one by one: the others lose nothing but time.
    """
    from airmixml.radio.draws import DrawsKey, draws_key

    families: dict[DrawsKey, list[int]] = {}
    for number, scenario in enumerate(batch.scenarios):
        families.setdefault(draws_key(scenario), []).append(number)
    results: dict[int, Result] = {}
    outcomes: list[SweepOutcome] = [Failed(error="") for _ in batch.scenarios]
    waiting = list(reversed(families.values()))
    while waiting:
        members = waiting.pop()
        try:
            results.update(zip(members, run([batch.scenarios[member] for member in members]), strict=True))
        except AirMixError as problem:
            if len(members) > 1:
                waiting += [[member] for member in members]
            else:
                outcomes[members[0]] = Failed(error=one_line(str(problem)))
        progress(stage, len(results), len(batch.scenarios))
    return results, outcomes
