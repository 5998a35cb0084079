"""Workers that send gradients: the server broadcasts a linear model, each worker sends the gradient of its own loss.

With the scores s = W^T x + b the gradient of a row's loss with respect to W is x e^T, e the error of what the model
predicts (``Broadcast.errors``). A worker shortens it to the norm C that the server broadcasts with the model, and sends
it in units of C, as large as a vector of moments can be, whatever the clip:

    v = S / C * g * min(1, C / ||g||),    S^2 = ||x||^4 + w^2 ||x||^2 at most.

A worker with several rows shortens the gradient of each, then their sum to what ``rows_bound`` rows can have, and
divides it by them. Symbols of one output are sent one after the other: the noise of neighbouring symbols may be alike
or opposite on a real air, and that of different classes, whose differences matter, should not be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from airmixml.arrays import Doubles, Integers, torch
from airmixml.messages import ScenarioError
from airmixml.workers.encoder import HARD_OPERATION
from airmixml.workers.moments import Grid, Moments, Products
from airmixml.workers.payloads import Broadcast
from airmixml.workers.signal import Part, Signal, Vectors

BITS_PER_NUMBER: Final = 32
"""Of what is broadcast, in single precision."""

_MARGIN: Final = 1e-6  # what float32 may add to a norm, many times over
_SHORTEST: Final = 1e-30


def gradient_unit(largest_norm: float, clip: float) -> float:
    """Return S / C, what gradients clipped to C are multiplied with before they are sent."""
    return largest_norm * (1.0 - _MARGIN) / clip


@dataclass(kw_only=True, eq=False)
class Gradients(Products):
    """Each worker sends the clipped gradient of its own loss under the model that was broadcast last."""

    about = "the clipped gradient of its loss under the model that the server broadcast"
    told: Broadcast | None = None

    @staticmethod
    def layout(signal: Signal) -> tuple[int, int]:
        return signal.features * signal.classes, 0

    @staticmethod
    def largest_squared_norm(signal: Signal, squared_norm: float) -> float:
        return Moments.largest_squared_norm(signal, squared_norm)

    @staticmethod
    def largest_squared_distance(signal: Signal, squared_norm: float, squared_distance: float) -> float:
        """Return 4 S^2: gradients of two rows may point to opposite sides."""
        return 4.0 * Gradients.largest_squared_norm(signal, squared_norm)

    @staticmethod
    def operations(signal: Signal) -> int:
        return 2 * signal.symbols + (HARD_OPERATION + 2) * signal.classes

    @staticmethod
    def downlink_bits(signal: Signal) -> int:
        return BITS_PER_NUMBER * (signal.symbols + signal.classes + 1)

    def broadcast(self, told: Broadcast) -> None:
        self.told = told
        vars(self).pop("_shares", None)

    @cached_property
    def one_hot(self) -> Doubles:
        """What errors are taken from: labels as they are, or classes as one-hot vectors; samples x outputs."""
        labels = self.labels.astype(np.float64)
        if not self.signal.centred_labels:
            return labels
        classes = self.signal.classes
        known = np.any(labels != 0.0, axis=1, keepdims=True)
        return np.asarray(np.rint(labels * math.sqrt(1.0 - 1.0 / classes) + 1.0 / classes) * known)

    @property
    def unit(self) -> float:
        return gradient_unit(self.largest_norm, self._told.clip)

    @property
    def _told(self) -> Broadcast:
        if self.told is None:
            raise ScenarioError(
                'workers.sends = "gradients": no model was broadcast; a run of rounds does it (learner.rounds)'
            )
        return self.told

    @cached_property
    def grid(self) -> Grid:
        output, number = np.indices((self.signal.classes, self.signal.features)).reshape(2, -1)
        return Grid(output, number, np.ones(len(output)))

    @cached_property
    def _shares(self) -> tuple[Doubles, Doubles]:
        """Errors of each row of the pool, rows x outputs, and what each holding multiplies its rows with; pool."""
        told = self._told
        errors = told.errors(self.inputs, self.one_hot)
        alone = np.sqrt(np.einsum("ij,ij->i", self.inputs, self.inputs, dtype=np.float64) * (errors**2).sum(axis=1))
        if self.rows is None:
            lengths = alone
        else:  # a row has its part of the sum, and no more
            errors *= np.minimum(1.0, told.clip / np.maximum(alone, _SHORTEST))[:, None]
            lengths = np.sqrt(self.squared_sums(self.inputs, errors))
        most = self.rows_bound * told.clip
        return errors, self.unit / self.rows_bound * np.minimum(1.0, most / np.maximum(lengths, _SHORTEST))

    def factors(self, rows: Integers) -> tuple[Vectors, Vectors]:
        return self._shares[0][rows], self.inputs[rows]

    @property
    def row_weights(self) -> Doubles:
        shares = self._shares[1][:, None]
        return shares if self.present is None else shares * self.present

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(self.signal.symbols, self.largest_norm, self.signal.symbols),)

    @cached_property
    def largest_symbols(self) -> torch.Tensor:
        """S, a bound on every symbol; pool."""
        return self.squared_lengths.sqrt()

    @property
    def in_any_order(self) -> bool:
        """Never: what a round sends follows from the model of the last."""
        return False
