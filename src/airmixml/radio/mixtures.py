"""All mixtures of a run, gathered for training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from airmixml.devices import find_device, physical_memory_bytes
from airmixml.errors import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio.design import check_privacy_target
from airmixml.radio.report import AirReport
from airmixml.radio.transmission import MixtureBlock, simulate_blocks
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams
from airmixml.workers import DataSet, Population, deploy, load_dataset

__all__ = ["Mixtures", "simulate"]

_EXAMPLE_SLOTS = 8
_BYTES_PER_WORKER = 64


@dataclass(frozen=True, kw_only=True)
class Mixtures:
    """What the edge server holds after the last slot, and what it cost.

    Attributes:
        inputs: received mixtures; slots x input_dim.
        labels: received label mixtures; slots x label_dim.
        report: energy, power, SNR and privacy of the transmission.
        examples: the first few slots with all that went into them.
    """

    scenario: Scenario
    dataset: DataSet
    population: Population
    inputs: torch.Tensor
    labels: torch.Tensor
    report: AirReport
    examples: MixtureBlock

    def __len__(self) -> int:
        return len(self.inputs)


def simulate(
    scenario: Scenario,
    *,
    dataset: DataSet | None = None,
    population: Population | None = None,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> Mixtures:
    """Run the mixup part of Algorithm 1: deploy the workers, run all slots, gather the mixtures.

    Args:
        scenario: what to run.
        dataset: the data to use instead of the one that the scenario names.
        population: who holds which sample of ``dataset`` where, instead of a random deployment.
        speed: device, block size and threads; they do not change the result.
        data_dir: folder to look for MNIST in.
        progress: told how many slots are done.
    """
    speed = speed or Speed()
    device = find_device(speed.device)
    check_privacy_target(scenario)
    streams = Streams(scenario.seed)
    if dataset is None:
        dataset = load_dataset(scenario.workers, streams, data_dir=data_dir, progress=progress)
    slots = scenario.radio.slots
    _check_memory(scenario, dataset, device)
    if population is None:
        population = deploy(scenario.workers, dataset.train_samples, streams)
    elif population.count != scenario.workers.count:
        raise ScenarioError(f"workers.count = {scenario.workers.count}: must be the population's {population.count}")
    inputs = torch.empty((slots, dataset.input_dim), device=device)
    labels = torch.empty((slots, dataset.label_dim), device=device)
    report = AirReport(scenario, dataset, distance_metres=population.distance_metres)
    examples: MixtureBlock | None = None
    progress("over the air", 0, slots)
    for block in simulate_blocks(scenario, dataset, population, speed=speed):
        here = slice(block.first_slot, block.first_slot + block.slots)
        inputs[here], labels[here] = block.inputs, block.labels
        report.add(block)
        _check_finite(scenario, block)
        if examples is None:
            examples = block.head(_EXAMPLE_SLOTS)
        progress("over the air", here.stop, slots)
    assert examples is not None
    return Mixtures(
        scenario=scenario,
        dataset=dataset,
        population=population,
        inputs=inputs,
        labels=labels,
        report=report,
        examples=examples,
    )


def _check_finite(scenario: Scenario, block: MixtureBlock) -> None:
    """Refuse noise that float32 cannot hold rather than train on infinities."""
    if not (torch.isfinite(block.inputs).all() and torch.isfinite(block.labels).all()):
        raise ScenarioError(
            f"radio.noise_dbm = {scenario.radio.noise_dbm:g}: drowns the signal beyond what float32 can hold; lower "
            "the noise or the path loss, or raise the power"
        )


def _check_memory(scenario: Scenario, dataset: DataSet, device: torch.device) -> None:
    """Refuse what cannot fit rather than be killed half-way."""
    physical = physical_memory_bytes()
    if scenario.workers.count * _BYTES_PER_WORKER > physical:
        raise ScenarioError(
            f"workers.count = {scenario.workers.count}: needs more memory than the {physical / 1e9:.0f} GB of this "
            "machine; deploy fewer workers"
        )
    # Twice: training shuffles a copy.
    needed = 2 * 4 * scenario.radio.slots * (dataset.input_dim + dataset.label_dim)
    available = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else physical
    if needed > available:
        raise ScenarioError(
            f"radio.slots = {scenario.radio.slots}: the mixtures need {needed / 1e9:.0f} GB of memory and {device} has "
            f"{available / 1e9:.0f} GB; run fewer slots, or consume airmixml.simulate_blocks as a stream"
        )
