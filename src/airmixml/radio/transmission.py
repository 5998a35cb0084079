"""A transmission: what a scenario's workers send, and what the server receives of it, block by block or gathered."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch

from airmixml.arrays import check_finite, find_device, in_order, physical_memory_bytes, using_threads
from airmixml.data import DataSet
from airmixml.messages import ScenarioError
from airmixml.radio.air import Reception, air_of
from airmixml.radio.centring import centre_privately
from airmixml.radio.draws import (
    AirSetting,
    MixtureBlock,
    SlotTensors,
    check_family,
    draw_noise,
    draw_slots,
    in_blocks,
    suitable_block,
)
from airmixml.radio.privacy_target import check_privacy_target, check_target_met
from airmixml.radio.tally import AirReport
from airmixml.registries import PAYLOADS
from airmixml.scenario import RunContext, Scenario, Speed
from airmixml.streams import Secret, Streams
from airmixml.workers import Holdings, Population, Signal, deploy, load_dataset, within_declared
from airmixml.workers.loading import too_many_numbers
from airmixml.workers.payloads import Broadcast, Dither, Rounded, Table, outermost_level
from airmixml.workers.population import check_workers_fit
from airmixml.workers.signal import Payload, payload_of

if TYPE_CHECKING:
    from torch.utils.data import TensorDataset

_DITHER_CHAPTERS: Final = (1, 3)  # of the stream "encoder": of other payloads, and of gradients
_EXAMPLE_SLOTS = 8
_DROWNING: Final = 1e70  # variance of noise whose values float32 can hardly hold


def make_sender(
    scenario: Scenario,
    dataset: DataSet,
    device: torch.device,
    *,
    secret: Secret | None = None,
    holdings: Holdings | None = None,
) -> Payload:
    """Return what the scenario's workers send of the samples of the pool, or of several rows each (``holdings``)."""
    workers, protects = scenario.workers, secret is not None
    signal = Signal.of(workers, dataset.input_dim, dataset.label_dim)
    _check_waveform(scenario, secret)
    if workers.several_rows and holdings is None:
        raise ScenarioError(
            "population: must say which rows each worker holds (Population.holdings), since the scenario's workers "
            "hold several; deploy it with the data"
        )
    inputs = within_declared(workers, dataset.train_inputs)
    labels = dataset.label_code.coded(dataset.train_labels).astype(np.float32)
    payload = payload_of(workers, inputs, labels, holdings, device=device, protects=protects)
    if signal.bits:
        dither = Dither(Streams(scenario.seed, secret), _DITHER_CHAPTERS[workers.sends == "gradients"], device)
        payload = Rounded(payload, outermost_level(signal, workers.bits_range), dither)
    if scenario.air.dac_bits and not scenario.privacy.noise_kind.brought:  # noise is on symbols before they are rounded
        from airmixml.radio.transmitters import through_converters

        payload = through_converters(scenario, payload)
    return Table(payload) if signal.kind.tabled else payload


def _check_waveform(scenario: Scenario, secret: Secret | None) -> None:
    """Refuse to protect data with errors that are modelled as noise, of a size that follows from the data."""
    air = scenario.air
    if secret is None or air.waveform == "single-carrier":
        return
    for name, off in (("peak_power_dbm", math.inf), ("amplifier_saturation_dbm", math.inf), ("dac_bits", 0)):
        value = getattr(air, name)
        if value != off:
            raise ScenarioError(
                f"air.{name} = {value:g}: is modelled as noise with air.waveform = ofdm, for simulations alone; to "
                f"protect data set it to {off:g}, or use single-carrier"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Air:
    """All that the slots of scenarios with equal draws need."""

    settings: Sequence[AirSetting]
    dataset: DataSet
    population: Population
    speed: Speed

    @property
    def slots(self) -> int:
        return self.settings[0].scenario.radio.slots

    @property
    def device(self) -> torch.device:
        return find_device(self.speed.device)

    @cached_property
    def holder(self) -> torch.Tensor:
        """The sample, or the rows, that each worker holds; shape workers."""
        return torch.from_numpy(self.population.sample_index).to(self.device)

    def new_reports(self) -> list[AirReport]:
        holding = self.population.sample_index
        return [AirReport(each, self.dataset, holding=holding) for each in self.settings]

    def new_payload(self) -> Payload:
        """Lay out what workers send."""
        first, holdings = self.settings[0], self.population.holdings
        return make_sender(first.scenario, self.dataset, self.device, secret=first.secret, holdings=holdings)

    def blocks(self, slots: range | None = None, sender: Payload | None = None) -> Iterator[list[MixtureBlock]]:
        """Run all slots, or those given, and yield a block of each scenario at a time.

        Everything is drawn and mixed once, then sent with each power: each scenario has the blocks that it would have
        alone. A ``sender`` stands for the scenarios' workers.
        """
        payload = sender or self.new_payload()
        block_slots = self.speed.block_slots or suitable_block(self.settings[0], self.device)
        blocks = in_blocks(range(self.slots) if slots is None else slots, block_slots)
        receive = partial(self.receive, payload)
        if self.device.type == "cpu" and payload.in_any_order:
            yield from in_order(receive, blocks, self.speed.threads)
            return
        for some in blocks:
            with using_threads(self.speed.threads):
                received = receive(some)
            yield received

    def receive(self, payload: Payload, slots: range) -> list[MixtureBlock]:
        """Run some slots; a block of each scenario."""
        first, device = self.settings[0], self.device
        draws, noise = draw_slots(first, slots, device), draw_noise(first, slots, device)
        arrival = air_of(first.scenario).arrive(first, payload, self.holder[draws.scheduled_workers], draws, slots)
        blocks = []
        for number, setting in enumerate(self.settings):
            powered = draws if number == 0 else draws.powered_as(setting)
            # The last to be received may take the place of the noise: fresh memory costs as much as the sum.
            takes_place = number == len(self.settings) - 1 and arrival.clean.dtype == noise.dtype
            reception = setting.noise.receive(setting, arrival, powered, noise, noise if takes_place else None)
            blocks.append(as_block(setting, reception, powered, slots.start))
        return blocks


class Round(NamedTuple):
    """What the server broadcast before a slot, and what it received: the mean clipped gradient in noise."""

    told: Broadcast
    gradient: torch.Tensor  # features x outputs
    deviation: float  # of the noise on each number


@dataclass(frozen=True, kw_only=True)
class Transmission:
    """What was sent over the air and what it cost."""

    scenario: Scenario
    dataset: DataSet  #: what the workers hold, as they send it
    population: Population  #: who holds which sample, and where
    report: AirReport  #: energy, power, SNR and privacy
    examples: MixtureBlock  #: the first few slots with all that went into them
    #: What noise and schedule were drawn from where data are protected, for the rounds that may follow.
    secret: Secret | None = field(default=None, repr=False, compare=False)
    #: What was broadcast and received in each round of gradients, once they are run.
    rounds: list[Round] = field(default_factory=list, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Mixtures(Transmission):
    """What the edge server holds after the last slot, and what it cost."""

    inputs: torch.Tensor  #: received mixtures; slots x input symbols
    labels: torch.Tensor  #: received label mixtures; slots x label symbols

    def __len__(self) -> int:
        return len(self.inputs)

    def as_dataset(self) -> "TensorDataset":
        """Return what was received, as pairs (input mixture, label mixture), for a training loop of your own.

        Labels are noisy shares, partly negative; it holds no sample of any worker.
        """
        from torch.utils.data import TensorDataset

        sends = self.scenario.workers.sends
        if PAYLOADS.load(sends).products:
            raise ScenarioError(
                f'workers.sends = "{sends}": must be "samples" for a training loop of your own, which needs pairs of '
                "an input and a label mixture; from moments a learner in closed form learns, such as ridge or lda"
            )
        return TensorDataset(self.inputs, self.labels)


def open_air(
    scenarios: Sequence[Scenario], dataset: DataSet | None, population: Population | None, context: RunContext
) -> Air:
    """Return all that the slots of scenarios with equal draws need; refuse what cannot be run."""
    first, progress = scenarios[0], context.progress
    find_device(context.speed.device)
    for scenario in scenarios:
        check_privacy_target(scenario)
        if context.secret is not None:
            scenario.privacy.noise_kind.check_secret(scenario, context.secret)
    check_family(scenarios)
    streams = Streams(first.seed, context.secret)
    if dataset is None:
        dataset = load_dataset(
            first.workers, streams, data_dir=context.data_dir, progress=progress, device=context.speed.device
        )
    count = first.workers.count
    check_workers_fit(count)
    if population is None:
        population = deploy(first.workers, dataset, streams)
    elif population.count != count:
        raise ScenarioError(f"workers.count = {count}: must be the population's {population.count}")
    if context.secret is not None:
        for scenario in scenarios:
            check_target_met(scenario, dataset.input_dim, dataset.label_dim, population.distance_metres)
    if first.workers.centre_on_air:
        dataset = centre_privately(scenarios, dataset, population, streams)
    distance_metres = population.distance_metres
    settings = [AirSetting.of(each, dataset.input_dim, dataset.label_dim, distance_metres) for each in scenarios]
    settings = [replace(each, secret=context.secret) for each in settings]
    return Air(settings=settings, dataset=dataset, population=population, speed=context.speed)


def run_here(air: Air, receive: Callable[[int, MixtureBlock], None], context: RunContext) -> list[Transmission]:
    """Run all slots, and hand each block to ``receive`` with the number of its scenario, in order."""
    reports, examples = air.new_reports(), list[MixtureBlock]()
    progress = context.progress
    progress("over the air", 0, air.slots)
    for blocks in air.blocks():
        # More blocks are being made on other threads meanwhile.
        with using_threads(1 if blocks[0].slots < air.slots else air.speed.threads):
            for number, (block, report) in enumerate(zip(blocks, reports, strict=True)):
                receive(number, block)
                report.add(block)
            examples = examples or [block.head(_EXAMPLE_SLOTS) for block in blocks]
        progress("over the air", blocks[0].first_slot + blocks[0].slots, air.slots)
    return sent_over(air, reports, examples)


def sent_over(air: Air, reports: Sequence[AirReport], examples: Sequence[MixtureBlock]) -> list[Transmission]:
    """Return what was sent, after the last slot."""
    if not reports[0].largest_power_watts:
        raise ScenarioError(air_of(reports[0].scenario).nobody_sent)
    reports[0].check_limit()
    return [
        Transmission(
            scenario=report.system.given,
            dataset=air.dataset,
            population=air.population,
            report=report,
            examples=example,
            secret=air.settings[0].secret,
        )
        for example, report in zip(examples, reports, strict=True)
    ]


def simulate_family(
    scenarios: Sequence[Scenario],
    *,
    dataset: DataSet | None = None,
    population: Population | None = None,
    context: RunContext | None = None,
) -> list[Mixtures]:
    """Simulate scenarios that differ only in power, privacy target and learner; all else is drawn once.

    Each gets the mixtures that it would get alone.
    """
    context = context or RunContext()
    air = open_air(scenarios, dataset, population, context)
    first, signal = scenarios[0], air.settings[0].signal
    _check_memory(first, signal, air.device, len(scenarios))
    widths = signal.input_symbols, signal.label_symbols
    kept = [[torch.empty((first.radio.slots, width), device=air.device) for width in widths] for _ in scenarios]

    def keep(number: int, block: MixtureBlock) -> None:
        here = slice(block.first_slot, block.first_slot + block.slots)
        for whole, part in zip(kept[number], (block.inputs, block.labels), strict=True):
            whole[here] = part

    sent = run_here(air, keep, context)
    return [
        Mixtures(**vars(each), inputs=inputs, labels=labels) for each, (inputs, labels) in zip(sent, kept, strict=True)
    ]


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


def simulate_blocks(
    scenario: Scenario,
    dataset: DataSet,
    population: Population,
    *,
    speed: Speed | None = None,
    sender: Payload | None = None,
) -> Iterator[MixtureBlock]:
    """Run all slots of Algorithm 1 and yield their mixtures, block by block.

    The same seed gives the same mixtures for any block size and number of threads; another device changes only how
    sums are rounded. A ``sender`` sends something else than the scenario's workers would.
    """
    setting = AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, population.distance_metres)
    air = Air(settings=[setting], dataset=dataset, population=population, speed=speed or Speed())
    return (blocks[0] for blocks in air.blocks(sender=sender))


def as_block(setting: AirSetting, reception: Reception, draws: SlotTensors, first_slot: int) -> MixtureBlock:
    """Return what was received, inputs and labels apart."""
    inputs, noise = setting.signal.input_symbols, setting.noise
    # Only with the noise on it may a sum be rounded to float32: see workers/signal.py.
    received, clean = reception.received.float(), reception.clean.float()
    parts, snr = (clean[:, :inputs], clean[:, inputs:]), reception.snr
    half_watts = noise.in_sum_watts(setting.scenario) / 2.0
    variance = half_watts / draws.power_scale_watts if reception.noise_variance is None else reception.noise_variance
    if snr is None:
        told = [part if part.shape[1] else clean for part in parts]  # gradients have no label of their own
        squares = [torch.linalg.vector_norm(part, dim=1).double().square() / part.shape[1] for part in told]
        snr = torch.stack(squares) * (draws.power_scale_watts / half_watts)
    if float(variance.max()) > _DROWNING:  # not a fault of ours: the user asks for it
        raise ScenarioError(
            f"radio.noise_dbm = {setting.scenario.radio.noise_dbm:g}: drowns the signal beyond what float32 can hold; "
            "lower the noise or the path loss, or raise the power"
        )
    check_finite("reception", received=received, noise_variance=variance, snr=snr)
    return MixtureBlock(
        first_slot=first_slot,
        inputs=received[:, :inputs],
        labels=received[:, inputs:] / setting.signal.label_weight,
        clean_inputs=parts[0],
        clean_labels=parts[1] / setting.signal.label_weight,
        drawn=draws,
        snr=snr,
        joules_per_watt=setting.joules_per_watt,
        noise_variance=variance,
        divisor=reception.divisor,
    )
