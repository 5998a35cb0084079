"""What the edge server holds after the last slot: every mixture, and who went into it with which share."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.attacks.least_squares import MixingMatrix
from airmixml.attacks.sample_symbols import Layout, layout_of, numbers_in
from airmixml.data import DataSet
from airmixml.devices import find_device, physical_memory_bytes
from airmixml.errors import ScenarioError
from airmixml.radio.draws import SlotDraws
from airmixml.radio.mixtures import MixtureBlock
from airmixml.radio.scheduling import seats_of
from airmixml.radio.transmission import Transmission, transmit_family
from airmixml.scenario import RunContext, Scenario
from airmixml.scenario.consistency import require_classes
from airmixml.streams import Streams
from airmixml.workers import Signal, encoded_dim, load_dataset

NUMBERS_KEPT: Final = 1 << 24
_COPIES: Final = 7  # of the table of all workers, from the first block solved for to the last picture compared
_BYTES_PER_SHARE: Final = 60
_SLOTS_BY_CLASS: Final = 2000
SEVERAL_ROWS: Final = "workers hold several rows each: what one sends is no sample"
"""Why most attacks do not fit such workers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerView:
    """All slots as the server sees them.

    Attributes:
        transmission: what was sent, with the data as they are sent and who holds which.
        layout: which numbers of a worker are looked at.
        received: mixtures of those numbers; slots x numbers, on the device.
        symbols: all symbols of the first slots, as sent; slots x symbols.
        released: mixtures of inputs in the open; slots x inputs, or of moments those of each class's workers in the
            same slots, slot after slot: (slots classes) x inputs.
        labels: mixtures of labels; slots x classes, none of moments, which send no label by itself.
        matrix: shares, each slot weighted by 1 / (noise variance).
        draws: schedule, ratios and powers, block by block. On an air that is not ideal ratios are those with which
            workers were really received: Re(q g / d), where the server divided by d, in the mean over the slot.
    """

    transmission: Transmission
    layout: Layout
    received: torch.Tensor
    symbols: torch.Tensor
    released: torch.Tensor
    labels: torch.Tensor
    matrix: MixingMatrix
    draws: list[SlotDraws]

    @property
    def scenario(self) -> Scenario:
        """What was run."""
        return self.transmission.scenario

    @property
    def signal(self) -> Signal:
        """What a worker sends."""
        return Signal.of(self.scenario.workers, self.dataset.input_dim, self.dataset.label_dim)

    @property
    def dataset(self) -> DataSet:
        """The data as they are sent."""
        return self.transmission.dataset

    def holders_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the first worker that holds each of these rows of the pool; shape rows."""
        order = np.argsort(self.held_index, kind="stable")
        return np.asarray(order[np.searchsorted(self.held_index, rows, sorter=order)])

    @property
    def held_index(self) -> NDArray[np.int64]:
        """Row of the training pool that each worker holds; shape workers."""
        return self.transmission.population.sample_index


def watch(scenario: Scenario, *, context: RunContext | None = None) -> ServerView:
    """Run all slots of the scenario in a context (device, threads, progress), and return what the server then holds."""
    context = context or RunContext()
    require_classes(scenario.workers, "an attack", single_rows=False)
    device, streams = find_device(context.speed.device), Streams(scenario.seed)
    dataset = load_dataset(scenario.workers, streams, data_dir=context.data_dir, progress=context.progress)
    # A constant is appended only once a private mean is known, so its place counts already here.
    held_dim = dataset.held_dim or dataset.input_dim
    signal = Signal.of(scenario.workers, encoded_dim(scenario.workers, held_dim), dataset.label_dim)
    _check_memory(scenario, signal, device)
    layouts: list[Layout] = []
    received: list[torch.Tensor] = []
    whole: list[torch.Tensor] = []
    kept = slots_kept(_SLOTS_BY_CLASS, signal.symbols)
    draws: list[SlotDraws] = []
    cleared: list[NDArray[np.float64]] = []
    measured: list[NDArray[np.float64]] = []

    def prepare(sent: DataSet) -> None:
        layouts.append(layout_of(signal, sent, device))

    def receive(_number: int, block: MixtureBlock) -> None:
        received.append(layouts[0].received(block))
        if signal.moments and block.first_slot < kept:
            symbols = torch.cat([block.inputs, signal.label_weight * block.labels], dim=1)
            whole.append(symbols[: kept - block.first_slot].float())
        draws.append(_as_heard(block))
        if block.divisor is not None:  # what the mean gain was divided out of, noise and all
            cleared.append(block.divisor.abs().square().mean(dim=1).cpu().numpy())
        if block.measured_noise is not None:
            measured.append(block.measured_noise.cpu().numpy())

    (transmission,) = transmit_family([scenario], receive, prepare=prepare, dataset=dataset, context=context)
    noise = scenario.privacy.noise_kind
    weights = np.concatenate([each.power_scale_watts for each in draws]) * 2.0 / noise.in_sum_watts(scenario)
    if cleared and not noise.brought:
        weights *= np.concatenate(cleared)
    elif measured:  # masks that errors of the gains leave are in it
        weights = 1.0 / np.concatenate(measured)
    weights[~np.isfinite(weights)] = 0.0  # a slot of a Poisson schedule in which nobody sent
    everything = torch.cat(received)
    labels = everything[:, signal.features :] / signal.label_weight
    symbols, released = everything, everything[:, : signal.features]
    if signal.moments:
        symbols = torch.cat(whole)
        with_labels = symbols[:, signal.input_symbols :] / signal.label_weight
        released = rows_of_classes(with_labels, signal.features, signal.classes)
    return ServerView(
        transmission=transmission,
        layout=layouts[0],
        received=everything,
        symbols=symbols,
        released=released,
        labels=labels[:, :0] if signal.moments else labels,
        matrix=MixingMatrix.of(draws, scenario.workers.count, weights, device),
        draws=draws,
    )


def _as_heard(block: MixtureBlock) -> SlotDraws:
    """Return the draws of a block, with the shares that workers have in what the server made of its reception."""
    gains, divisor = block.drawn.gains, block.divisor
    if gains is None or divisor is None:
        return block.draws
    frame, shares = gains.draws.frame, []
    lengths = torch.tensor(frame.lengths, dtype=torch.float64, device=divisor.device)
    part_of_slot = lengths / lengths.sum()
    for some in gains.parts:
        turned = (gains.of(some) / divisor[:, None, :]).real.expand(-1, -1, frame.pieces)
        shares.append(block.drawn.ratios[:, some] * (turned @ part_of_slot))
    return replace(block.draws, ratios=torch.cat(shares, dim=1).cpu().numpy())


def _check_memory(scenario: Scenario, signal: Signal, device: torch.device) -> None:
    """Refuse what does not fit rather than be killed half-way."""
    slots, workers, numbers = scenario.radio.slots, scenario.workers.count, numbers_in(signal)
    on_device = 4 * numbers * (2 * slots + _COPIES * workers) + _BYTES_PER_SHARE * slots * seats_of(scenario)
    needs = [(on_device, torch.cuda.mem_get_info(device)[0], str(device))] if device.type == "cuda" else []
    on_host = on_device if device.type == "cpu" else 4 * numbers * _COPIES * workers
    for needed, available, place in [*needs, (on_host, physical_memory_bytes(), "this machine")]:
        if needed > available:
            raise ScenarioError(
                f"radio.slots = {slots}: to attack all {workers} workers at once needs {needed / 1e9:.0f} GB of memory "
                f"and {place} has {available / 1e9:.0f} GB; attack a run of fewer slots or workers"
            )


def slots_kept(slots: int, symbols: int) -> int:
    """Return how many slots of so many symbols are looked at, since all are kept in memory; at least one."""
    return max(1, min(slots, NUMBERS_KEPT // symbols))


def rows_of_classes(labels: torch.Tensor, features: int, classes: int) -> torch.Tensor:
    """Return products with labels (slots x features classes) as mixtures of each class; (slots classes) x features."""
    return labels.reshape(-1, features, classes).transpose(1, 2).reshape(-1, features)
