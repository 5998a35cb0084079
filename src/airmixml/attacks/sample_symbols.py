"""What samples send: which numbers of a worker the server solves for, how a sample is read back, and inner products.

Samples are sent as v = (x, w l), so these are the numbers. Of moments v = (svec(x x^T), w x l^T) all products are
solved for where there are few, and the sample is the leading direction of x x^T; of many, the part that is linear in x.
The noise on each number is as strong as on a received symbol.

Half a million products are never formed to compare samples: v . v' = x . x' + w^2 l . l', or of moments
(x . x')^2 + w^2 (x . x') (l . l').
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.data import Centred, DataSet, LabelCode, OneHot
from airmixml.radio.draws import MixtureBlock
from airmixml.workers import Signal
from airmixml.workers.moments import pack_symmetric, unpack_symmetric

NUMBERS_AT_ONCE: Final = 1 << 24
_MOST_MOMENTS: Final = 4096
_SAMPLES_AT_ONCE: Final = 4096


def blocks_of(rows: int, numbers_each: int, numbers_at_once: int = NUMBERS_AT_ONCE) -> list[slice]:
    """Return the rows in blocks of at most so many numbers; where there are none, one block without rows."""
    at_once = max(1, numbers_at_once // max(1, numbers_each))
    return [slice(first, first + at_once) for first in range(0, max(1, rows), at_once)]


class Layout:
    """(x, w l) as samples are sent; moments have layouts of their own."""

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self._scale = np.repeat([1.0, signal.label_weight], [signal.features, signal.classes])

    def received(self, block: MixtureBlock) -> torch.Tensor:
        """Return the mixtures of the numbers; slots x numbers."""
        return torch.cat([block.inputs, self._signal.label_weight * block.labels], dim=1)

    def numbers_of(self, inputs: Singles, labels: Integers) -> Doubles:
        """Return the numbers of samples with these encoded inputs and classes; samples x numbers."""
        return np.asarray(np.concatenate([inputs, np.eye(self._signal.classes)[labels]], axis=1) * self._scale)

    def read(self, numbers: torch.Tensor) -> tuple[Singles, Singles]:
        """Return encoded inputs (samples x inputs) and shares of the classes (samples x classes)."""
        found = numbers.cpu().numpy()
        found /= self._scale.astype(np.float32)
        return found[:, : self._signal.features], found[:, self._signal.features :]


def layout_of(signal: Signal, dataset: DataSet, device: torch.device) -> Layout:
    """Return the layout for what the workers of a scenario send."""
    if not signal.moments:
        return Layout(signal)
    return Moments(signal) if signal.symbols <= _MOST_MOMENTS else LinearMoments(signal, dataset, device)


def numbers_in(signal: Signal) -> int:
    """Return how many numbers are solved for."""
    whole = signal.moments and signal.symbols <= _MOST_MOMENTS
    return signal.symbols if whole else signal.features + signal.classes


class Moments(Layout):
    """(svec(x x^T), w x l^T), all of it."""

    def numbers_of(self, inputs: Singles, labels: Integers) -> Doubles:
        samples = torch.from_numpy(inputs).double()
        code = Centred if self._signal.centred_labels else OneHot
        one_hot = torch.from_numpy(code(self._signal.classes).coded(labels).astype(np.float64))
        products = pack_symmetric(samples[:, :, None] * samples[:, None, :])
        with_labels = self._signal.label_weight * (samples[:, :, None] * one_hot[:, None, :]).flatten(1)
        return np.asarray(torch.cat([products, with_labels], dim=1).numpy())

    def read(self, numbers: torch.Tensor) -> tuple[Singles, Singles]:
        """Return the leading direction of x x^T, which way round the products with the label tell, and l along it."""
        parts = [self._read(numbers[some]) for some in blocks_of(len(numbers), 1, _SAMPLES_AT_ONCE)]
        inputs, labels = (torch.cat(each).cpu().numpy() for each in zip(*parts, strict=True))
        return inputs, labels

    def _read(self, numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        signal = self._signal
        squares, products = numbers[:, : signal.input_symbols], numbers[:, signal.input_symbols :]
        lengths, directions = torch.linalg.eigh(unpack_symmetric(squares, signal.features))
        inputs = lengths[:, -1:].clamp_min(0.0).sqrt() * directions[:, :, -1]
        with_labels = products.reshape(-1, signal.features, signal.classes) / signal.label_weight
        along = (with_labels.sum(dim=2) * inputs).sum(dim=1, keepdim=True)
        inputs = torch.where(along < 0.0, -inputs, inputs)
        energy = inputs.square().sum(dim=1, keepdim=True).clamp_min(1e-12)
        return inputs, torch.einsum("ndc,nd->nc", with_labels, inputs) / energy


class LinearMoments(Layout):
    """What moments hold of (x, l): the products x l^T add up to x over the classes, and lie along x in the right one.

    How far they reach along the public mean of each class tells l, about. The products of inputs with each other are
    left alone, and so is how the two kinds of numbers share their noise.
    """

    def __init__(self, signal: Signal, dataset: DataSet, device: torch.device) -> None:
        super().__init__(signal)
        labels, classes = dataset.test_labels, signal.classes
        sums = np.zeros((classes, signal.features))
        np.add.at(sums, labels, dataset.test_inputs)
        means = sums / np.maximum(np.bincount(labels, minlength=classes), 1)[:, None]
        lengths = np.maximum(np.linalg.norm(means, axis=1), 1e-9)
        self._towards = torch.from_numpy(means / lengths[:, None]).float().to(device)
        weight = signal.label_weight
        self._scale = np.concatenate([np.full(signal.features, weight / math.sqrt(classes)), weight * lengths])

    def received(self, block: MixtureBlock) -> torch.Tensor:
        signal = self._signal
        products = block.labels.reshape(-1, signal.features, signal.classes)
        inputs = products.sum(dim=2) * (signal.label_weight / math.sqrt(signal.classes))
        return torch.cat([inputs, signal.label_weight * torch.einsum("tdc,cd->tc", products, self._towards)], dim=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Samples of a signal, for products of what they are sent as."""

    signal: Signal
    inputs: torch.Tensor  # samples x features
    codes: torch.Tensor  # of their labels; samples x classes

    @classmethod
    def of(
        cls, signal: Signal, label_code: LabelCode, device: torch.device, inputs: Singles, labels: Integers
    ) -> "Samples":
        """Return samples on the device, from encoded inputs (samples x features) and classes."""
        codes = torch.from_numpy(label_code.coded(labels).astype(np.float32)).to(device)
        return cls(signal=signal, inputs=torch.from_numpy(inputs).to(device), codes=codes)

    def __len__(self) -> int:
        return len(self.inputs)

    def some(self, rows: slice) -> "Samples":
        return replace(self, inputs=self.inputs[rows], codes=self.codes[rows])

    def times(self, others: "Samples") -> torch.Tensor:
        """Return v . v'; samples x others."""
        return self._joined(self.inputs @ others.inputs.T, self.codes @ others.codes.T)

    @property
    def energy(self) -> torch.Tensor:
        """||v||^2; samples."""
        return self._joined(self.inputs.square().sum(dim=1), self.codes.square().sum(dim=1))

    def _joined(self, inputs: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        labels = self.signal.label_weight**2 * codes
        return inputs * (inputs + labels) if self.signal.moments else inputs + labels


class Symbols:
    """What was received, slots x symbols, taken apart; real or complex."""

    def __init__(self, symbols: torch.Tensor, signal: Signal) -> None:
        self._signal = signal
        first, rest = symbols[:, : signal.input_symbols], symbols[:, signal.input_symbols :]
        self._first = unpack_symmetric(first, signal.features) if signal.moments else first
        self._rest = rest.reshape(-1, signal.features, signal.classes) if signal.moments else rest

    def times(self, some: Samples, slots: slice = slice(None)) -> torch.Tensor:
        """Return v . y; samples x slots."""
        weight, found = self._signal.label_weight, []
        for first, rest in zip(self._first[slots], self._rest[slots], strict=True):
            if self._signal.moments:
                products = (times(some.inputs, first) * some.inputs).sum(dim=1)
                found.append(products + weight * (times(some.inputs, rest) * some.codes).sum(dim=1))
            else:
                found.append(times(some.inputs, first) + weight * times(some.codes, rest))
        return torch.stack(found, dim=1)


def times(real: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return a real matrix times one that may be complex."""
    if not other.is_complex():
        return real @ other
    return torch.complex(real @ other.real, real @ other.imag)
