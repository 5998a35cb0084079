"""Workers that send gradients: the server broadcasts a linear model, each worker sends the gradient of its own loss.

With the scores s = W^T x + b the gradient of a row's loss with respect to W is x e^T, e the error of what the model
predicts (``Broadcast.errors``): softmax(s) - l for classes, the logistic function of s less 0 or 1 for each of several
labels, s - l for targets. A worker shortens the gradient to the norm C that the server broadcasts with the model, and
sends it in units of C, as large as a vector of moments can be:

    v = S / C * g * min(1, C / ||g||),    S^2 = ||x||^4 + w^2 ||x||^2 at most.

So a slot of gradients moves by as much as a slot of moments when a worker falls silent, whatever the clip. A worker
with several rows shortens the gradient of each, so that a row has no more than its part, then their sum to what
``rows_bound`` rows can have, and divides it by them.
Symbols of one output are sent one after the other: the noise of neighbouring symbols may be alike or opposite on a real
air, and that of different classes, whose differences matter, should not be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.errors import ScenarioError
from airmixml.workers.broadcasts import Broadcast
from airmixml.workers.encoder import HARD_OPERATION
from airmixml.workers.moments import Moments
from airmixml.workers.payloads import NUMBERS_AT_ONCE, Part, Places, PoolPayload, Vectors
from airmixml.workers.private_sums import BLOCK, rounding_backoff
from airmixml.workers.signal import Signal

if TYPE_CHECKING:
    import torch

BITS_PER_NUMBER: Final = 32
"""Of what is broadcast, in single precision."""

_MARGIN: Final = 1e-6  # what float32 may add to a norm, many times over
_SHORTEST: Final = 1e-30


def gradient_unit(largest_norm: float, clip: float) -> float:
    """Return S / C, what gradients clipped to C are multiplied with before they are sent."""
    return largest_norm * (1.0 - _MARGIN) / clip


@dataclass(kw_only=True, eq=False)
class Gradients(PoolPayload):
    """Each worker sends the clipped gradient of its own loss under the model that was broadcast last."""

    about = "the clipped gradient of its loss under the model that the server broadcast"
    tabled = False
    #: rows of the pool that each holding has, holdings x most rows; None: a worker holds one row of the pool
    rows: Integers | None = None
    present: Singles | None = None  #: which of them there are; holdings x most rows
    rows_bound: float = 1.0  #: rows whose gradients a sum may be as long as
    told: Broadcast | None = None

    @staticmethod
    def layout(signal: Signal) -> tuple[int, int]:
        """Return one symbol per output and feature; none carries a label alone."""
        return signal.features * signal.classes, 0

    @staticmethod
    def largest_squared_norm(signal: Signal, squared_norm: float) -> float:
        """Return S^2, the bound for moments."""
        return Moments.largest_squared_norm(signal, squared_norm)

    @staticmethod
    def largest_squared_distance(signal: Signal, squared_norm: float, squared_distance: float) -> float:
        """Return 4 S^2: gradients of two rows may point to opposite sides."""
        return 4.0 * Gradients.largest_squared_norm(signal, squared_norm)

    @staticmethod
    def operations(signal: Signal) -> int:
        """Return those of scores and gradient, of softmax, and of the norm from those of input and error."""
        return 2 * signal.symbols + (HARD_OPERATION + 2) * signal.classes

    @staticmethod
    def downlink_bits(signal: Signal) -> int:
        """Return those of a model and a clip in single precision."""
        return BITS_PER_NUMBER * (signal.symbols + signal.classes + 1)

    def broadcast(self, told: Broadcast) -> None:
        """Take the model and the clip of the next round; what was computed of the last is forgotten."""
        self.told = told
        vars(self).pop("_shares", None)

    @cached_property
    def pool_size(self) -> int:
        """Samples of the pool, or holdings of several rows."""
        return len(self.inputs if self.rows is None else self.rows)

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
        """S / C: what a gradient is multiplied with before it is sent."""
        return gradient_unit(self.largest_norm, self._told.clip)

    @property
    def _told(self) -> Broadcast:
        if self.told is None:
            raise ScenarioError(
                'workers.sends = "gradients": no model was broadcast; a run of rounds does it (learner.rounds)'
            )
        return self.told

    @cached_property
    def _shares(self) -> tuple[Doubles, Doubles]:
        """Errors of each row of the pool, rows x outputs, and what each holding multiplies its rows with; pool."""
        told = self._told
        errors = told.errors(self.inputs, self.one_hot)
        if self.rows is not None:  # a row has its part of the sum, and no more
            alone = np.sqrt(self._squared_norms * (errors**2).sum(axis=1))
            errors *= np.minimum(1.0, told.clip / np.maximum(alone, _SHORTEST))[:, None]
        lengths, most = self._lengths(errors), self.rows_bound * told.clip
        return errors, self.unit / self.rows_bound * np.minimum(1.0, most / np.maximum(lengths, _SHORTEST))

    def _lengths(self, errors: Doubles) -> Doubles:
        """Return ||sum_r x_r e_r^T|| of each holding, without forming it: from products of rows; pool."""
        if self.rows is None:
            return np.asarray(np.sqrt(self._squared_norms * (errors**2).sum(axis=1)))
        assert self.present is not None
        most, found = self.rows.shape[1], []
        at_once = max(1, NUMBERS_AT_ONCE // (most * (most + self.inputs.shape[1])))
        for first in range(0, len(self.rows), at_once):
            rows = self.rows[first : first + at_once]
            inputs = self.inputs[rows].astype(np.float64) * self.present[first : first + at_once, :, None]
            alike = (inputs @ inputs.transpose(0, 2, 1)) * (errors[rows] @ errors[rows].transpose(0, 2, 1))
            found.append(alike.sum(axis=(1, 2)))
        return np.asarray(np.sqrt(np.maximum(np.concatenate(found), 0.0)))

    @cached_property
    def _squared_norms(self) -> Doubles:
        return np.asarray(np.einsum("ij,ij->i", self.inputs, self.inputs, dtype=np.float64))

    def _held(self, index: Integers) -> tuple[Integers, Doubles]:
        """Return the rows of workers with these holdings, and what each row is multiplied with; workers x rows."""
        shares = self._shares[1][index][:, None]
        if self.rows is None:
            return index[:, None], shares
        assert self.present is not None
        return self.rows[index], shares * self.present[index]

    def vectors(self, index: Integers) -> Vectors:
        """Return S / C times the clipped gradient of each worker; workers x symbols, float64."""
        rows, shares = self._held(index)
        weighted = self._shares[0][rows] * shares[..., None]
        formed = weighted.transpose(0, 2, 1) @ self.inputs[rows].astype(np.float64)
        return np.asarray(formed.reshape(len(index), -1))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """All symbols are rounded alike."""
        return (Part(self.signal.symbols, self.largest_norm, self.signal.symbols),)

    @cached_property
    def squared_lengths(self) -> torch.Tensor:
        """S^2, what is declared; pool."""
        import torch

        return torch.full((self.pool_size,), self.largest_norm**2, dtype=torch.float64, device=self.device)

    @cached_property
    def largest_symbols(self) -> torch.Tensor:
        """S, a bound on every symbol; pool."""
        return self.squared_lengths.sqrt()

    def weighted_sum(self, index: torch.Tensor, weights: torch.Tensor, places: Places | None = None) -> torch.Tensor:
        """Return sum_i w_i v_i by matrix products of inputs and errors, in float64; slots x symbols.

        Symbols of an output are sent one after the other, so a piece of the slot has some outputs' products alone.
        """
        import torch

        weights, lengths = self._in_pieces(weights, places)
        backoff = rounding_backoff(self.workers_in_slot(index, places) * self._most_rows)
        total = torch.zeros((len(weights), self.signal.symbols), dtype=torch.float64, device=self.device)
        errors = torch.from_numpy(self._shares[0]).to(self.device)
        at_once = max(1, BLOCK // self._most_rows)
        slots_at_once = max(
            1, NUMBERS_AT_ONCE // (self._most_rows * min(index.shape[1], at_once) * self.signal.features)
        )
        for slots in (slice(first, first + slots_at_once) for first in range(0, len(weights), slots_at_once)):
            for some in (slice(first, first + at_once) for first in range(0, index.shape[1], at_once)):
                chosen = index[slots, some]
                rows, shares = (
                    torch.from_numpy(part).to(self.device).reshape(*chosen.shape, -1)
                    for part in self._held(chosen.flatten().cpu().numpy())
                )
                inputs = self._pool_inputs[rows.flatten(1)].double()
                scaled = (backoff * weights[slots, some].double())[:, :, None, :] * shares[..., None]
                self._add(total[slots], inputs, errors[rows.flatten(1)], scaled.flatten(1, 2), lengths)
        return total

    def _add(
        self, total: torch.Tensor, inputs: torch.Tensor, errors: torch.Tensor, weights: torch.Tensor, lengths: list[int]
    ) -> None:
        """Add sum_i w_ip e_i x_i^T, piece by piece; slots x rows x features, x outputs and x pieces."""
        size, first = self.signal.features, 0
        for piece, length in enumerate(lengths):
            last = first + length
            outputs = slice(first // size, -(-last // size))
            products = (errors[..., outputs] * weights[..., piece, None]).mT @ inputs
            skipped = first - outputs.start * size
            total[:, first:last] += products.flatten(1)[:, skipped : skipped + length]
            first = last

    @property
    def _most_rows(self) -> int:
        return 1 if self.rows is None else int(self.rows.shape[1])

    @cached_property
    def _pool_inputs(self) -> torch.Tensor:
        import torch

        return torch.from_numpy(self.inputs).to(self.device)

    @property
    def in_any_order(self) -> bool:
        """Never: what a round sends follows from the model of the last."""
        return False
