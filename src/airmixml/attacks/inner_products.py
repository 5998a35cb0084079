"""Inner products of what samples would send, with each other and with what was received, none of it formed.

A sample sends v = (x, w l), or of moments v = (svec(x x^T), w x l^T), half a million numbers. Products of two samples'
symbols are v . v' = x . x' + w^2 l . l', or (x . x')^2 + w^2 (x . x') (l . l').
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.data import LabelCode
from airmixml.radio.senders import unpack_symmetric
from airmixml.workers import Signal


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Inputs (samples x features) and the codes of their labels (samples x classes)."""

    inputs: torch.Tensor
    codes: torch.Tensor

    def __len__(self) -> int:
        return len(self.inputs)

    def some(self, rows: slice) -> "Samples":
        """Return some of them."""
        return Samples(inputs=self.inputs[rows], codes=self.codes[rows])


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


class InnerProducts:
    """Products of samples of a signal with each other."""

    def __init__(self, signal: Signal, label_code: LabelCode, device: torch.device) -> None:
        self._signal, self._label_code, self._device = signal, label_code, device

    def prepare(self, inputs: NDArray[np.float32], labels: NDArray[np.int64]) -> Samples:
        """Return samples on the device, from encoded inputs (samples x features) and classes."""
        codes = self._label_code.coded(labels).astype(np.float32)
        return Samples(inputs=torch.from_numpy(inputs).to(self._device), codes=torch.from_numpy(codes).to(self._device))

    def between(self, some: Samples, others: Samples) -> torch.Tensor:
        """Return v . v'; samples x others."""
        return self._joined(some.inputs @ others.inputs.T, some.codes @ others.codes.T)

    def energy(self, some: Samples) -> torch.Tensor:
        """Return ||v||^2; samples."""
        return self._joined(some.inputs.square().sum(dim=1), some.codes.square().sum(dim=1))

    def _joined(self, inputs: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        labels = self._signal.label_weight**2 * codes
        return inputs * (inputs + labels) if self._signal.moments else inputs + labels


def times(real: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return a real matrix times one that may be complex."""
    if not other.is_complex():
        return real @ other
    return torch.complex(real @ other.real, real @ other.imag)
