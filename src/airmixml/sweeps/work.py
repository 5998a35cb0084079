"""The work of one batch: simulate its scenarios, train them as one stack, and say what each gave."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from airmixml.doors import DATASETS
from airmixml.errors import AirMixError
from airmixml.progress import Progress, silent
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams
from airmixml.sweeps.batches import Batch
from airmixml.wording import one_line

Result = TypeVar("Result")
Outcome = dict[str, Any]
"""What one scenario gave, as plain values; ``{"error": ...}`` if it could not be run."""


def run_batch(
    batch: Batch,
    *,
    data_dir: Path | None = None,
    checkpoints: Path | None = None,
    progress: Progress = silent,
) -> list[Outcome]:
    """Return the outcome of each scenario of the batch, in order.

    A scenario that cannot be run gets an error as its outcome and leaves the others alone.

    Args:
        batch: what to run.
        data_dir: folder to look for MNIST in.
        checkpoints: folder to keep an interrupted training in.
        progress: told how far the batch is.
    """
    if batch.kind == "energy":
        return _energies(batch, progress)
    return _trainings(batch, data_dir, checkpoints, progress)


def _energies(batch: Batch, progress: Progress) -> list[Outcome]:
    from airmixml.data import KnownDataSet
    from airmixml.radio.rehearsal import rehearse_family
    from airmixml.radio.tally import Tally
    from airmixml.workers import encoded_dim

    known: KnownDataSet = DATASETS.load(batch.scenarios[0].workers.dataset)

    def rehearse(family: list[Scenario]) -> list[Tally]:
        return rehearse_family(family, encoded_dim(family[0].workers, known.input_dim), known.label_dim)

    tallies, outcomes = _family_by_family(batch, rehearse, lambda done: progress("energy", done, len(batch.scenarios)))
    for number, tally in tallies.items():
        outcomes[number] = {"energy_joules": tally.energy_joules, "power_limited_slots": tally.limited_slots}
    return outcomes


def _family_by_family(
    batch: Batch, run: Callable[[list[Scenario]], list[Result]], report: Callable[[int], None]
) -> tuple[dict[int, Result], list[Outcome]]:
    """Run scenarios that share their draws together; return results by number, and outcomes with the errors filled in.

    A family with a member that cannot be run is run one by one: the others lose nothing but time.
    """
    from airmixml.radio.draws import DrawsKey, draws_key

    families: dict[DrawsKey, list[int]] = {}
    for number, scenario in enumerate(batch.scenarios):
        families.setdefault(draws_key(scenario), []).append(number)
    results: dict[int, Result] = {}
    outcomes: list[Outcome] = [{} for _ in batch.scenarios]
    waiting = list(reversed(families.values()))
    while waiting:
        members = waiting.pop()
        try:
            results.update(zip(members, run([batch.scenarios[member] for member in members]), strict=True))
        except AirMixError as problem:
            if len(members) > 1:
                waiting += [[member] for member in members]
            else:
                outcomes[members[0]] = {"error": one_line(str(problem))}
        report(len(results))
    return results, outcomes


def _trainings(batch: Batch, data_dir: Path | None, checkpoints: Path | None, progress: Progress) -> list[Outcome]:
    import torch

    from airmixml.edge import train_stack
    from airmixml.radio.mixtures import Mixtures, simulate_family
    from airmixml.runs.checkpoint import FileCheckpoint
    from airmixml.workers import load_dataset

    first = batch.scenarios[0]
    # One thread: more would not help small networks, and their number must not change what a batch gives.
    speed = Speed(device=batch.device, threads=1 if batch.device == "cpu" else 0)
    dataset = load_dataset(first.workers, Streams(first.seed), data_dir=data_dir)

    def simulate(family: list[Scenario]) -> list[Mixtures]:
        return simulate_family(family, dataset=dataset, speed=speed)

    total = len(batch.scenarios)
    simulated, outcomes = _family_by_family(batch, simulate, lambda done: progress("over the air", done, total))
    if not simulated:
        return outcomes
    checkpoint = None
    if checkpoints is not None:
        made_with = f"{batch.digest} {batch.device} torch {torch.__version__}"
        checkpoint = FileCheckpoint(checkpoints, made_with=made_with)
    reports = {number: mixtures.report for number, mixtures in simulated.items()}
    inputs = torch.stack([mixtures.inputs for mixtures in simulated.values()])
    labels = torch.stack([mixtures.labels for mixtures in simulated.values()])
    simulated.clear()  # what is stacked need not be held twice
    histories = train_stack(
        first.learner,
        dataset,
        inputs,
        labels,
        seed=first.seed,
        speed=speed,
        progress=progress,
        checkpoint=checkpoint,
    )
    for (number, report), history in zip(reports.items(), histories, strict=True):
        if not all(map(math.isfinite, history.loss)):
            outcomes[number] = {"error": "training: the loss stopped being a number; the mixtures are too noisy"}
            continue
        outcomes[number] = {
            "accuracy": {
                "final": history.final_accuracy,
                "best": history.best_accuracy,
                "best_epoch": history.best_epoch,
            },
            "curve": history.test_accuracy,
            "energy_joules": report.energy_joules,
            "power_limited_slots": report.limited_slots,
            "snr_inputs_db": report.input_snr_db.quantile_db(0.5),
            "epsilon": report.privacy.epsilon,
            "epsilon_server": report.privacy_against_server.epsilon,
        }
    return outcomes
