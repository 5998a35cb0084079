"""The rows that each worker holds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class Holdings:
    """The rows of the pool that each worker holds, padded to the same number."""

    rows: Integers  #: holdings x most rows of one; 0 where there is none
    present: NDArray[np.bool_]  #: whether there is one; holdings x most rows of one

    @property
    def sizes(self) -> Integers:
        """How many rows each holding has; shape holdings."""
        return np.asarray(self.present.sum(axis=1))
