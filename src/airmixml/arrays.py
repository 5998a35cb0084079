"""Short names for the arrays that pass between the rooms; each docstring gives their shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch  # takes seconds to load

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]


def pick_columns(values: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Return some columns of slots x rows x columns; of two axes, since of three torch takes ten times as long."""
    return values.flatten(0, 1).index_select(1, columns).unflatten(0, values.shape[:2])
