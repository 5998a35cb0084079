"""Short names for the arrays that pass between the rooms; each docstring gives their shapes."""

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
