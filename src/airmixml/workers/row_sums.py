"""What a scenario's workers send of rows that they hold, in NumPy: what a device forms, and a simulation adds up."""

import math
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles, Integers, Singles
from airmixml.scenario import Workers
from airmixml.workers.moments import MomentsOfRows
from airmixml.workers.payloads import NUMBERS_AT_ONCE, Payload
from airmixml.workers.signal import Signal, declared_bounds

_SUM_MARGIN: Final = 1e-5  # what weights in float32 may be rounded up by, many times over
_SHORTEST: Final = 1e-60


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """The rows of the pool that each worker holds, padded to the same number."""

    rows: Integers  #: holdings x most rows of one; 0 where there is none
    present: NDArray[np.bool_]  #: whether there is one; holdings x most rows of one

    @property
    def sizes(self) -> Integers:
        """How many rows each holding has; shape holdings."""
        return np.asarray(self.present.sum(axis=1))


def payload_of(
    workers: Workers, inputs: Singles, labels: Singles, holdings: Holdings | None = None, **how: Any
) -> Payload:
    """Return what workers send of encoded inputs (rows x features) and coded labels (rows x outputs).

    Each holds one of the rows, or several (``holdings``); ``how`` is passed on to the payload.
    """
    signal = Signal.of(workers, inputs.shape[1], labels.shape[1])
    norm = math.sqrt(declared_bounds(workers, inputs.shape[1])[0])
    given: dict[str, Any] = {"signal": signal, "norm": norm, "inputs": inputs, "labels": labels, **how}
    payload: Payload
    if holdings is None:
        payload = signal.kind(**given)
    elif signal.moments:
        sums = RowSums.of(holdings, inputs, labels, workers, signal)
        payload = MomentsOfRows(**given, rows=sums.index, row_weights=sums.weights)
    else:
        present = holdings.present.astype(np.float32)
        payload = signal.kind(**given, rows=holdings.rows, present=present, rows_bound=workers.rows_bound)
    return payload


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSums:
    """How workers with several rows add up their products: with one weight for all rows of a worker.

    The sum is shortened to the norm that ``workers.rows_bound`` rows can have, then divided by their number: so it has
    no more than the norm that is declared for a single row, whatever rows a worker holds and however many.
    """

    index: Integers  # rows of the pool of each holding; holdings x most rows
    weights: Singles  # what each is multiplied with, 0 where there is none; holdings x most rows

    @classmethod
    def of(cls, holdings: Holdings, inputs: Singles, labels: Singles, workers: Workers, signal: Signal) -> Self:
        """Return the sums of holdings of rows with these inputs (rows x features) and labels (rows x outputs)."""
        index, present = holdings.rows, holdings.present
        largest = (
            math.sqrt(signal.largest_squared_norm(declared_bounds(workers, inputs.shape[1])[0])) * workers.rows_bound
        )
        most = index.shape[1]
        at_once = max(1, NUMBERS_AT_ONCE // (most * (most + inputs.shape[1] + labels.shape[1])))
        squares = [
            _squared_sum(
                inputs[index[here]].astype(np.float64) * present[here, :, None],
                labels[index[here]].astype(np.float64),
                signal.label_weight,
            )
            for here in (slice(first, first + at_once) for first in range(0, len(index), at_once))
        ]
        lengths = np.sqrt(np.maximum(np.concatenate(squares), _SHORTEST))
        factors = np.minimum(largest * (1.0 - _SUM_MARGIN) / lengths, 1.0) / workers.rows_bound
        exact = present * factors[:, None]
        rounded = exact.astype(np.float32)
        # Rounded to the side that moves less.
        return cls(index=index, weights=np.where(rounded > exact, np.nextafter(rounded, np.float32(0.0)), rounded))


def _squared_sum(inputs: Doubles, labels: NDArray[np.float64], label_weight: float) -> Doubles:
    """Return ||sum_r (svec(x_r x_r^T), w x_r l_r^T)||^2 of each holding, without forming a product of two numbers.

    Two rows have the product (x . x')^2 + w^2 (x . x') (l . l'), so that their Gram matrices are all that is needed.
    Inputs are holdings x rows x features, 0 where there is no row; labels holdings x rows x outputs.
    """
    alike = inputs @ inputs.transpose(0, 2, 1)
    with_labels = alike * (labels @ labels.transpose(0, 2, 1))
    return np.asarray((alike**2 + label_weight**2 * with_labels).sum(axis=(1, 2)))
