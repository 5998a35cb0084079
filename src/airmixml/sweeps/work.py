"""The work of one batch: simulate its scenarios, train them as one stack, and say what each gave."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from airmixml.doors import DATASETS
from airmixml.errors import AirMixError
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams
from airmixml.sweeps.batches import Batch
from airmixml.wording import one_line

Result = TypeVar("Result")


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


SweepOutcome = Failed | Sent | Trained
"""What one scenario gave."""


def run_batch(
    batch: Batch,
    *,
    data_dir: Path | None = None,
    checkpoints: Path | None = None,
    checkpoint_seconds: float = 5.0,
    progress: Progress = silent,
) -> list[SweepOutcome]:
    """Return the outcome of each scenario of the batch, in order.

    A scenario that cannot be run gets an error as its outcome and leaves the others alone.

    Args:
        batch: what to run.
        data_dir: folder to look for MNIST in.
        checkpoints: folder to keep an interrupted training in.
        checkpoint_seconds: time between checkpoints.
        progress: told how far the batch is.
    """
    if batch.kind == "energy":
        return _energies(batch, progress)
    import torch

    from airmixml.edge import train_stack
    from airmixml.radio.mixtures import Mixtures, simulate_family
    from airmixml.runs.model_files import FileCheckpoint
    from airmixml.workers import load_dataset

    first = batch.scenarios[0]
    # One thread: more would not help small networks, and their number must not change what a batch gives.
    speed = Speed(device=batch.device, threads=1 if batch.device == "cpu" else 0)
    dataset = load_dataset(first.workers, Streams(first.seed), data_dir=data_dir)

    def simulate(family: list[Scenario]) -> list[Mixtures]:
        return simulate_family(family, dataset=dataset, speed=speed)

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
    from airmixml.data import KnownDataSet
    from airmixml.radio.rehearsal import rehearse_family
    from airmixml.radio.tally import Tally
    from airmixml.workers import encoded_dim

    known: KnownDataSet = DATASETS.load(batch.scenarios[0].workers.dataset)

    def rehearse(family: list[Scenario]) -> list[Tally]:
        return rehearse_family(family, encoded_dim(family[0].workers, known.input_dim), known.label_dim)

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
