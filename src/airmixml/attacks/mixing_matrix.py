"""Who went into which mixture with which share, as a sparse matrix that multiplies blocks of columns on any device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from airmixml.radio.draws import SlotDraws


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """A sparse matrix row by row, for ``embedding_bag``: threaded on a CPU, and the same call on a GPU.

    Attributes:
        columns: column of each entry; entries.
        values: the entries.
        starts: where each row begins; rows.
    """

    columns: torch.Tensor
    values: torch.Tensor
    starts: torch.Tensor

    @classmethod
    def of(cls, matrix: csr_array, device: torch.device) -> Self:
        return cls(
            columns=torch.from_numpy(matrix.indices.astype(np.int64)).to(device),
            values=torch.from_numpy(matrix.data.astype(np.float32)).to(device),
            starts=torch.from_numpy(matrix.indptr[:-1].astype(np.int64)).to(device),
        )

    def times(self, block: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(
            self.columns, block, self.starts, mode="sum", per_sample_weights=self.values
        )


class MixingMatrix:
    """A with A_ti = sqrt(w_t) q_ti: the shares of all workers, each slot weighted by how well it was heard.

    Attributes:
        weights: w_t, how much a slot counts; shape slots.
        heard: sum_t w_t q_ti^2 of each worker, the diagonal of A^T A; shape workers.
    """

    def __init__(self, shares: csr_array, weights: NDArray[np.float64], device: torch.device) -> None:
        self.slots, self.workers = map(int, shares.shape)
        self.weights = weights
        weighted = csr_array(shares.multiply(np.sqrt(weights)[:, None]))
        squares = weighted.copy()
        squares.data **= 2
        self.heard: NDArray[np.float64] = np.asarray(squares.sum(axis=0)).ravel()
        self._forward = _Rows.of(weighted, device)
        self._backward = _Rows.of(csr_array(weighted.T), device)

    @classmethod
    def of(
        cls, draws: Sequence[SlotDraws], workers: int, weights: NDArray[np.float64], device: torch.device
    ) -> MixingMatrix:
        """Return the matrix of consecutive draws; a seat that nobody took leaves no entry."""
        scheduled = np.concatenate([each.scheduled_workers for each in draws])
        ratios = np.concatenate([each.ratios for each in draws])
        slot, seat = np.nonzero(ratios)
        entries = (ratios[slot, seat], (slot, scheduled[slot, seat]))
        return cls(csr_array(coo_array(entries, shape=(len(ratios), workers))), weights, device)

    def mix(self, samples: torch.Tensor) -> torch.Tensor:
        """Return A X; slots x columns, for samples of shape workers x columns."""
        return self._forward.times(samples)

    def collect(self, mixtures: torch.Tensor) -> torch.Tensor:
        """Return A^T Y; workers x columns, for mixtures of shape slots x columns."""
        return self._backward.times(mixtures)
