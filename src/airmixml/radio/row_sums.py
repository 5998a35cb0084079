"""Several rows on a worker as one vector of bounded norm: what makes the guarantee one for the worker with all rows."""

import math
from dataclasses import dataclass
from typing import Final, Self

import torch

from airmixml.scenario import Workers
from airmixml.workers import Holdings, Signal, declared_bounds
from airmixml.workers.payloads import NUMBERS_AT_ONCE

_SUM_MARGIN: Final = 1e-5  # what weights in float32 may be rounded up by, many times over
_SHORTEST: Final = 1e-60


@dataclass(frozen=True, kw_only=True, eq=False)
class RowSums:
    """How workers with several rows add up their products: with one weight for all rows of a worker.

    The sum is shortened to the norm that ``workers.rows_bound`` rows can have, then divided by their number: so it has
    no more than the norm that is declared for a single row, whatever rows a worker holds and however many.

    Attributes:
        index: rows of the pool of each holding; holdings x most rows.
        weights: what each is multiplied with, 0 where there is none; holdings x most rows.
    """

    index: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def of(
        cls, holdings: Holdings, inputs: torch.Tensor, labels: torch.Tensor, workers: Workers, signal: Signal
    ) -> Self:
        """Return the sums of holdings of rows with these inputs (rows x features) and labels (rows x outputs)."""
        index = torch.from_numpy(holdings.rows).to(inputs.device)
        present = torch.from_numpy(holdings.present).to(inputs.device)
        largest = (
            math.sqrt(signal.largest_squared_norm(declared_bounds(workers, inputs.shape[1])[0])) * workers.rows_bound
        )
        most = index.shape[1]
        at_once = max(1, NUMBERS_AT_ONCE // (most * (most + inputs.shape[1] + labels.shape[1])))
        parts = torch.split(index, at_once), torch.split(present, at_once)
        squares = [
            _squared_sum(inputs[rows].double() * there[..., None], labels[rows].double(), signal.label_weight)
            for rows, there in zip(*parts, strict=True)
        ]
        lengths = torch.cat(squares).clamp(min=_SHORTEST).sqrt()
        factors = (largest * (1.0 - _SUM_MARGIN) / lengths).clamp(max=1.0) / workers.rows_bound
        exact = present * factors[:, None]
        rounded = exact.float()
        # Rounded to the side that moves less.
        return cls(index=index, weights=torch.where(rounded > exact, rounded.nextafter(torch.zeros(())), rounded))


def _squared_sum(inputs: torch.Tensor, labels: torch.Tensor, label_weight: float) -> torch.Tensor:
    """Return ||sum_r (svec(x_r x_r^T), w x_r l_r^T)||^2 of each holding, without forming a product of two numbers.

    Two rows have the product (x . x')^2 + w^2 (x . x') (l . l'), so that their Gram matrices are all that is needed.
    Inputs are holdings x rows x features, 0 where there is no row; labels holdings x rows x outputs.
    """
    alike = inputs @ inputs.transpose(1, 2)
    with_labels = alike * (labels @ labels.transpose(1, 2))
    return (alike.square() + label_weight**2 * with_labels).sum(dim=(1, 2))
