"""The mixtures of a run: what a scenario's workers send, and what the server receives of it, block by block.

Memory does not grow with the slots. A payload is wrapped in all that changes single vectors. A report adds up, block by
block, what mixtures cost and gave: energy, power, SNR, privacy.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, Self

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.data import DataSet
from airmixml.devices import find_device, in_order, using_threads
from airmixml.errors import ScenarioError
from airmixml.radio.air import Reception, air_of
from airmixml.radio.draws import (
    AirSetting,
    SlotDraws,
    SlotTensors,
    draw_noise,
    draw_slots,
    in_blocks,
    suitable_block,
)
from airmixml.radio.slot_totals import DecibelHistogram
from airmixml.radio.tally import Tally
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Secret, Streams
from airmixml.workers import Holdings, Population, Signal, within_declared
from airmixml.workers.payloads import Rounded, Table
from airmixml.workers.signal import Payload, payload_of

_SHORT_RANGE: Final = 3.0
_RANGE_OF_TWO_BITS: Final = 10.0
_LONG_RANGE: Final = 20.0
_DITHER_CHAPTERS: Final = (1, 3)  # of the stream "encoder": of other payloads, and of gradients


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
        dither = _Dither(Streams(scenario.seed, secret), _DITHER_CHAPTERS[workers.sends == "gradients"], device)
        payload = Rounded(payload, _levels_end(signal, workers.bits_range), dither)
    if scenario.air.dac_bits and not scenario.privacy.noise_kind.brought:  # noise is on symbols before they are rounded
        from airmixml.radio.transmitters import through_converters

        payload = through_converters(scenario, payload)
    return Table(payload) if signal.kind.tabled else payload


class _Dither:
    """Numbers that symbols are rounded with: NumPy's where they are secret, or else torch's on the device."""

    def __init__(self, streams: Streams, chapter: int, device: torch.device) -> None:
        self._generator, self._device = streams.generator("encoder", chapter), device
        self._torch: torch.Generator | None = None
        if streams.secret is None:
            self._torch = torch.Generator(device=device).manual_seed(int(self._generator.integers(2**63 - 1)))

    def __call__(self, shape: tuple[int, ...]) -> Singles:
        if self._torch is None:
            return self._generator.random(shape, dtype=np.float32)
        drawn: Singles = torch.rand(shape, device=self._device, generator=self._torch).cpu().numpy()
        return drawn


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


def _levels_end(signal: Signal, bits_range: float) -> float:
    """Return the outermost level over the root mean square of a symbol: what is asked for, or what suits the bits.

    Products have long tails, which must not be cut off unless the levels would lie too far apart; docs/beyond.md has
    the accuracies that this was chosen by.
    """
    if bits_range:
        return bits_range
    if not signal.moments or signal.bits == 1:
        return _SHORT_RANGE
    return _RANGE_OF_TWO_BITS if signal.bits == 2 else _LONG_RANGE


@dataclass(frozen=True, kw_only=True)
class MixtureBlock:
    """What the edge server receives in consecutive slots, and what went into it; all tensors are on the device."""

    first_slot: int
    inputs: torch.Tensor  #: received mixtures y_I / b; slots x input symbols
    labels: torch.Tensor  #: received label mixtures y_L / b, their weight taken off; slots x label symbols
    clean_inputs: torch.Tensor  #: the same without noise, which no receiver ever sees
    clean_labels: torch.Tensor
    drawn: SlotTensors  #: schedule, channel, ratios and powers
    snr: torch.Tensor  #: beta |sum q i|^2 / (d_X sigma_n^2 / 2) of inputs, the same of labels; 2 x slots
    joules_per_watt: float  #: energy that a worker spends in a slot per watt of transmit power
    #: Variance of noise and distortion on a symbol: as the server measures it on an air that is not ideal, of noise and
    #: rounding of integers, or else of the powers; slots
    noise_variance: torch.Tensor
    divisor: torch.Tensor | None = None  #: mean gain that was divided by there, complex; slots x pieces, or x 1

    def head(self, slots: int) -> Self:
        """Return copies of the first slots in the machine's memory, so that the rest of the block can be freed."""
        few = slice(0, slots)
        return replace(
            self,
            **{name: getattr(self, name)[few].clone() for name in ("inputs", "labels", "clean_inputs", "clean_labels")},
            drawn=self.drawn.head(slots),
            snr=self.snr[:, few].cpu().clone(),
            noise_variance=self.noise_variance[few].cpu().clone(),
            divisor=None if self.divisor is None else self.divisor[few].cpu().clone(),
        )

    @cached_property
    def draws(self) -> SlotDraws:
        """Schedule, channel, ratios and powers as arrays."""
        return self.drawn.numpy()

    @property
    def slots(self) -> int:
        return len(self.drawn)

    @property
    def ratios(self) -> Doubles:
        """Mixing ratios q; slots x scheduled."""
        return self.draws.ratios


class AirReport(Tally):
    """Adds up the blocks of one transmission: their draws, and how well the mixtures were received."""

    def __init__(self, setting: AirSetting, dataset: DataSet, *, holding: Integers | None = None) -> None:
        averaged = None if dataset.private_mean is None else len(dataset.private_mean)
        super().__init__(setting, averaged=averaged, holding=holding)
        self.snr_db = DecibelHistogram()
        self.input_snr_db = DecibelHistogram()
        self.label_snr_db = DecibelHistogram()
        self._input_share = self.signal.input_symbols / self.signal.symbols
        self._sums = torch.zeros(2, dtype=torch.float64)  # of the noise variance, and of squared shares
        self._received_slots = 0  # without those of rounds

    @classmethod
    def of(cls, scenario: Scenario, dataset: DataSet, population: Population) -> Self:
        """Return the report of a scenario before its first slot."""
        return cls(AirSetting.of(scenario, dataset.input_dim, dataset.label_dim, population.distance_metres), dataset)

    def add(self, block: MixtureBlock) -> None:
        self.add_draws(block.drawn)
        self._received_slots += block.slots
        sums = [block.noise_variance.sum(), block.drawn.ratios.square().sum()]
        self._sums = self._sums.to(block.snr.device) + torch.stack(sums)
        self.input_snr_db.add(block.snr[0])
        self.label_snr_db.add(block.snr[1])
        share = self._input_share
        self.snr_db.add(share * block.snr[0] + (1.0 - share) * block.snr[1])

    @property
    def noise_variance(self) -> float:
        """Mean over the slots of the variance of the noise on an input symbol: sigma_n^2 / (2 beta), or as measured."""
        return float(self._sums[0]) / self._received_slots

    @property
    def variance_share(self) -> float:
        """How much of the variance of the N workers' samples the mixtures' own variance is; see ``Schedule``."""
        radio, square_share = self.scenario.radio, float(self._sums[1]) / self._received_slots
        share: float = radio.schedule_kind.varying_share(square_share, radio.scheduled, self.scenario.workers.count)
        return share

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "snr_db": self.snr_db.quantile_db(0.5),
            "snr_inputs_db": self.input_snr_db.quantile_db(0.5),
            "snr_labels_db": self.label_snr_db.quantile_db(0.5),
        }


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


def check_finite(scenario: Scenario, block: MixtureBlock) -> None:
    """Refuse noise that float32 cannot hold rather than train on infinities."""
    if torch.isfinite(block.inputs.sum() + block.labels.sum()):  # which is quick, and may overflow where no number does
        return
    if not (torch.isfinite(block.inputs).all() and torch.isfinite(block.labels).all()):
        raise ScenarioError(
            f"radio.noise_dbm = {scenario.radio.noise_dbm:g}: drowns the signal beyond what float32 can hold; lower "
            "the noise or the path loss, or raise the power"
        )


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
