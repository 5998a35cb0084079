"""All slots of a run: its blocks handed on as they come, or all mixtures gathered for training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from airmixml.data import DataSet
from airmixml.devices import find_device, physical_memory_bytes
from airmixml.errors import ScenarioError
from airmixml.notebook import html_facts
from airmixml.output.numbers import plural
from airmixml.progress import Progress, silent
from airmixml.radio.centring import centre_privately
from airmixml.radio.draws import AirSetting, check_family
from airmixml.radio.privacy_target import check_privacy_target
from airmixml.radio.scheduling import NOBODY_SENT
from airmixml.radio.transmission import AirReport, MixtureBlock, simulate_family_blocks
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.streams import Secret, Streams
from airmixml.workers import Population, Signal, deploy, load_dataset, settle
from airmixml.workers.memory import too_many_numbers

_EXAMPLE_SLOTS = 8
_BYTES_PER_WORKER = 64


@dataclass(frozen=True, kw_only=True)
class Transmission:
    """What was sent over the air and what it cost.

    Attributes:
        dataset: what the workers hold, as they send it.
        population: who holds which sample, and where.
        report: energy, power, SNR and privacy of the transmission.
        examples: the first few slots with all that went into them.
    """

    scenario: Scenario
    dataset: DataSet
    population: Population
    report: AirReport
    examples: MixtureBlock


@dataclass(frozen=True, kw_only=True)
class Mixtures(Transmission):
    """What the edge server holds after the last slot, and what it cost.

    Attributes:
        inputs: received mixtures; slots x input symbols.
        labels: received label mixtures; slots x label symbols.
    """

    inputs: torch.Tensor
    labels: torch.Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def _repr_html_(self) -> str:
        slots, inputs, labels = len(self), self.inputs.shape[1], self.labels.shape[1]
        size = f"{plural(slots, 'slot')} x ({inputs:,} input + {labels:,} label symbols) on {self.inputs.device}"
        about = {"data": f"{self.dataset.name}, {', '.join(self.dataset.class_names[:10])}", "received": size}
        return html_facts(
            f"Mixtures of {self.scenario.name}, seed {self.scenario.seed}", {**about, **self.report.facts()}
        )


def simulate(
    scenario: Scenario,
    *,
    dataset: DataSet | None = None,
    population: Population | None = None,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
    secret: Secret | None = None,
) -> Mixtures:
    """Run the mixup part of Algorithm 1: deploy the workers, run all slots, gather the mixtures.

    Args:
        scenario: what to run.
        dataset: the data to use instead of the one that the scenario names.
        population: who holds which sample of ``dataset`` where, instead of a random deployment.
        speed: device, block size and threads; they do not change the result.
        data_dir: folder to look for MNIST in.
        progress: told how many slots are done.
        secret: what noise and schedule are drawn from where real data are protected, instead of the scenario's seed.
    """
    context = RunContext(speed=speed or Speed(), data_dir=data_dir, progress=progress, secret=secret)
    if dataset is None:
        scenario = settle(scenario, data_dir=data_dir, progress=progress)
    else:
        scenario = scenario.settled(dataset.train_samples, dataset.held_dim)
    return simulate_family([scenario], dataset=dataset, population=population, context=context)[0]


def simulate_family(
    scenarios: Sequence[Scenario],
    *,
    dataset: DataSet | None = None,
    population: Population | None = None,
    context: RunContext | None = None,
) -> list[Mixtures]:
    """Simulate scenarios that differ only in power, privacy target and learner; all else is drawn once.

    Each gets the mixtures that ``simulate`` would give it alone. ``dataset`` and ``population`` are as there; device,
    block size, threads, data folder and progress are in ``context``.
    """
    context, slots = context or RunContext(), scenarios[0].radio.slots
    device = find_device(context.speed.device)
    received: list[list[torch.Tensor]] = []  # inputs and labels of each scenario

    def prepare(sent: DataSet) -> None:
        signal = Signal.of(scenarios[0].workers, sent.input_dim, sent.label_dim)
        _check_memory(scenarios[0], signal, device, len(scenarios))
        widths = (signal.input_symbols, signal.label_symbols)
        received.extend([torch.empty((slots, width), device=device) for width in widths] for _ in scenarios)

    def keep(number: int, block: MixtureBlock) -> None:
        here = slice(block.first_slot, block.first_slot + block.slots)
        inputs, labels = received[number]
        inputs[here], labels[here] = block.inputs, block.labels

    transmissions = transmit_family(
        scenarios, keep, prepare=prepare, dataset=dataset, population=population, context=context
    )
    return [
        Mixtures(**vars(transmission), inputs=inputs, labels=labels)
        for transmission, (inputs, labels) in zip(transmissions, received, strict=True)
    ]


def transmit_family(
    scenarios: Sequence[Scenario],
    receive: Callable[[int, MixtureBlock], None],
    *,
    prepare: Callable[[DataSet], None] = lambda _: None,
    dataset: DataSet | None = None,
    population: Population | None = None,
    context: RunContext,
) -> list[Transmission]:
    """Run all slots of scenarios that share their draws and hand each block to ``receive``; nothing else is kept.

    ``receive`` gets the number of the scenario and a block of its slots, in order; ``prepare`` the data as they are
    sent, before the first slot. The other arguments are those of ``simulate_family``.
    """
    first, speed, progress = scenarios[0], context.speed, context.progress
    find_device(speed.device)
    for scenario in scenarios:
        check_privacy_target(scenario)
    check_family(scenarios)
    streams = Streams(first.seed, context.secret)
    if dataset is None:
        dataset = load_dataset(first.workers, streams, data_dir=context.data_dir, progress=progress)
    _check_worker_memory(first)
    if population is None:
        population = deploy(first.workers, dataset, streams)
    elif population.count != first.workers.count:
        raise ScenarioError(f"workers.count = {first.workers.count}: must be the population's {population.count}")
    dataset = centre_privately(scenarios, dataset, population, streams)
    prepare(dataset)
    distance_metres = population.distance_metres
    settings = [AirSetting.of(each, dataset.input_dim, dataset.label_dim, distance_metres) for each in scenarios]
    settings = [replace(each, secret=context.secret) for each in settings]
    reports = [
        AirReport(each.scenario, dataset, distance_metres=distance_metres, received_watts=each.private_received_watts)
        for each in settings
    ]
    examples: list[MixtureBlock] = []
    slots = first.radio.slots
    progress("over the air", 0, slots)
    for blocks in simulate_family_blocks(settings, dataset, population, speed=speed):
        for number, (block, scenario, report) in enumerate(zip(blocks, scenarios, reports, strict=True)):
            receive(number, block)
            report.add(block)
            _check_finite(scenario, block)
        examples = examples or [block.head(_EXAMPLE_SLOTS) for block in blocks]
        progress("over the air", blocks[0].first_slot + blocks[0].slots, slots)
    if not reports[0].largest_power_watts:
        raise ScenarioError(NOBODY_SENT)
    return [
        Transmission(scenario=scenario, dataset=dataset, population=population, report=report, examples=example)
        for scenario, example, report in zip(scenarios, examples, reports, strict=True)
    ]


def _check_finite(scenario: Scenario, block: MixtureBlock) -> None:
    """Refuse noise that float32 cannot hold rather than train on infinities."""
    if not torch.isfinite(block.inputs.sum() + block.labels.sum()) and not (
        torch.isfinite(block.inputs).all() and torch.isfinite(block.labels).all()
    ):
        raise ScenarioError(
            f"radio.noise_dbm = {scenario.radio.noise_dbm:g}: drowns the signal beyond what float32 can hold; lower "
            "the noise or the path loss, or raise the power"
        )


def _check_worker_memory(scenario: Scenario) -> None:
    """Refuse more workers than fit rather than be killed half-way."""
    physical = physical_memory_bytes()
    if scenario.workers.count * _BYTES_PER_WORKER > physical:
        raise ScenarioError(
            f"workers.count = {scenario.workers.count}: needs more memory than the {physical / 1e9:.0f} GB of this "
            "machine; deploy fewer workers"
        )


def _check_memory(scenario: Scenario, signal: Signal, device: torch.device, members: int) -> None:
    """Refuse more mixtures than fit rather than be killed half-way."""
    # Twice: training shuffles a copy.
    needed = 2 * 4 * members * scenario.radio.slots * signal.symbols
    available = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else physical_memory_bytes()
    if needed / scenario.radio.slots > available:  # not even one slot fits
        raise too_many_numbers(scenario.workers, signal, needed, available)
    if needed > available:
        raise ScenarioError(
            f"radio.slots = {scenario.radio.slots}: the mixtures need {needed / 1e9:.0f} GB of memory and {device} has "
            f"{available / 1e9:.0f} GB; run fewer slots, or consume airmixml.simulate_blocks as a stream"
        )
