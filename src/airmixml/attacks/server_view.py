"""What the edge server holds after the last slot: every mixture, and who went into it with which share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.attacks.mixing_matrix import MixingMatrix
from airmixml.devices import find_device, physical_memory_bytes
from airmixml.errors import ScenarioError
from airmixml.progress import Progress, silent
from airmixml.radio.draws import SlotDraws
from airmixml.radio.mixtures import Transmission, transmit_family
from airmixml.radio.scheduling import seats_of
from airmixml.radio.transmission import MixtureBlock
from airmixml.scenario import Scenario, Speed
from airmixml.streams import Streams
from airmixml.units import dbm_to_watts
from airmixml.workers import DataSet, Signal, load_dataset

__all__ = ["ServerView", "watch"]

_COPIES: Final = 4  # of the largest table, while a block of its columns is solved for
_BYTES_PER_SHARE: Final = 60
_SLOTS_BY_CLASS: Final = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerView:
    """All slots as the server sees them, brought to one scale.

    A worker's numbers are v = (x, l) times ``scale``, so that the receiver noise is equally strong on each of them.

    Attributes:
        transmission: what was sent, with the data as they are sent and who holds which.
        received: mixtures of v; slots x numbers, on the device.
        matrix: shares, each slot weighted by 1 / (noise variance).
        scale: shape numbers.
        draws: schedule, ratios and powers, block by block.
        by_class: of moments, the mixtures of the inputs of each class's workers in the first slots, slot after slot;
            (slots classes) x inputs.
    """

    transmission: Transmission
    received: torch.Tensor
    matrix: MixingMatrix
    scale: NDArray[np.float64]
    draws: list[SlotDraws]
    by_class: torch.Tensor | None = None

    @property
    def dataset(self) -> DataSet:
        """The data as they are sent."""
        return self.transmission.dataset

    @property
    def inputs(self) -> int:
        """How many of the numbers are the input's; the label's come after them."""
        return self.dataset.input_dim

    @property
    def held_index(self) -> NDArray[np.int64]:
        """Row of the training pool that each worker holds; shape workers."""
        return self.transmission.population.sample_index

    def numbers_of(self, inputs: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return v of samples with these encoded inputs and classes; samples x numbers."""
        one_hot = np.eye(self.dataset.label_dim)[labels]
        return np.asarray(np.concatenate([inputs, one_hot], axis=1) * self.scale)


def watch(
    scenario: Scenario,
    *,
    dataset: DataSet | None = None,
    speed: Speed | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> ServerView:
    """Run all slots of the scenario and return what the server then holds.

    Args:
        scenario: what to run.
        dataset: the data to use instead of the one that the scenario names.
        speed: device, block size and threads.
        data_dir: folder to look for MNIST in.
        progress: told how many slots are done.
    """
    speed = speed or Speed()
    device = find_device(speed.device)
    if dataset is None:
        dataset = load_dataset(scenario.workers, Streams(scenario.seed), data_dir=data_dir, progress=progress)
    signal = Signal.of(scenario.workers, dataset.input_dim, dataset.label_dim)
    _check_memory(scenario, dataset, device)
    linear: list[_LinearPart] = []
    received: list[torch.Tensor] = []
    draws: list[SlotDraws] = []
    by_class: list[torch.Tensor] = []

    def prepare(sent: DataSet) -> None:
        linear.append(_LinearPart(signal, sent, device))

    def receive(_number: int, block: MixtureBlock) -> None:
        received.append(linear[0].of(block))
        if signal.moments and block.first_slot < _SLOTS_BY_CLASS:
            products = block.labels.reshape(-1, signal.features, signal.classes).transpose(1, 2)
            by_class.append(products[: _SLOTS_BY_CLASS - block.first_slot].reshape(-1, signal.features))
        draws.append(block.draws.without_noise())

    (transmission,) = transmit_family(
        [scenario], receive, prepare=prepare, dataset=dataset, speed=speed, data_dir=data_dir, progress=progress
    )
    noise_watts = dbm_to_watts(scenario.radio.noise_dbm) / 2.0
    weights = np.concatenate([each.power_scale_watts for each in draws]) / noise_watts
    weights[~np.isfinite(weights)] = 0.0  # a slot of a Poisson schedule in which nobody sent
    return ServerView(
        transmission=transmission,
        received=torch.cat(received),
        matrix=MixingMatrix.of(draws, scenario.workers.count, weights, device),
        scale=linear[0].scale,
        draws=draws,
        by_class=torch.cat(by_class) if by_class else None,
    )


class _LinearPart:
    """The part of what is received that is linear in samples: all of (x, w l), or what moments hold of it.

    Of moments, the products x l^T of a worker add up to x over the classes. The class c of its label has the column x,
    whose projection on the public mean of that class is l_c, about; the quadratic part is left alone.
    """

    def __init__(self, signal: Signal, dataset: DataSet, device: torch.device) -> None:
        self._signal = signal
        weight, classes = signal.label_weight, signal.classes
        if not signal.moments:
            self.scale = np.repeat([1.0, weight], [signal.features, classes])
            return
        public, labels = dataset.test_inputs.astype(np.float64), dataset.test_labels
        counts = np.maximum(np.bincount(labels, minlength=classes), 1)
        sums = np.zeros((classes, signal.features))
        np.add.at(sums, labels, public)
        means = sums / counts[:, None]
        lengths = np.maximum(np.linalg.norm(means, axis=1), 1e-9)
        self._towards = torch.from_numpy(means / lengths[:, None]).float().to(device)
        self.scale = np.concatenate([np.full(signal.features, weight / np.sqrt(classes)), weight * lengths])

    def of(self, block: MixtureBlock) -> torch.Tensor:
        """Return the mixtures of v = scale (x, l); slots x numbers."""
        weight = self._signal.label_weight
        if not self._signal.moments:
            return torch.cat([block.inputs, weight * block.labels], dim=1)
        products = block.labels.reshape(-1, self._signal.features, self._signal.classes)
        inputs = products.sum(dim=2) * (weight / self._signal.classes**0.5)
        return torch.cat([inputs, weight * torch.einsum("tdc,cd->tc", products, self._towards)], dim=1)


def _check_memory(scenario: Scenario, dataset: DataSet, device: torch.device) -> None:
    """Refuse what does not fit rather than be killed half-way."""
    slots, workers = scenario.radio.slots, scenario.workers.count
    numbers = dataset.input_dim + dataset.label_dim
    needed = 4 * numbers * (2 * slots + _COPIES * workers) + _BYTES_PER_SHARE * slots * seats_of(scenario)
    available = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else physical_memory_bytes()
    if needed > available:
        raise ScenarioError(
            f"radio.slots = {slots}: to attack all {workers} workers at once needs {needed / 1e9:.0f} GB of memory and "
            f"{device} has {available / 1e9:.0f} GB; attack a run of fewer slots or workers"
        )
