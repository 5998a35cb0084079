"""How far one worker can move what is sent: squared norms, for each kind of neighbours."""

import math
from dataclasses import dataclass
from typing import Self

from airmixml.errors import PrivacyError


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Bounds on what a worker sends, before its share and power are applied.

    Attributes:
        removal: bound on ||x||^2, the move when a worker falls silent.
        replacement: bound on ||x - x'||^2, the move when another sample takes the place of the worker's own.
    """

    removal: float
    replacement: float

    def __post_init__(self) -> None:
        if not (0.0 < self.removal < math.inf and 0.0 < self.replacement < math.inf):
            raise PrivacyError(f"sensitivity {self.removal:g}, {self.replacement:g}: must be finite and above 0")

    def squared_move(self, adjacency: str, sampling: str) -> float:
        """Return how far apart, squared, the mixtures of neighbours are where all channels are inverted.

        A removed worker falls silent, unless others are drawn without replacement: then somebody else takes its seat.
        """
        if sampling == "without-replacement":
            return max(self.removal, self.replacement) if adjacency == "remove-one" else self.replacement
        if sampling == "poisson" and adjacency == "replace-one":
            return max(self.removal, self.replacement)  # without the worker nobody is in its seat
        return self.removal if adjacency == "remove-one" else self.replacement

    @property
    def largest_move(self) -> float:
        """How far apart, squared, two workers' signals can be at a receiver that sees them with other phases."""
        return max(4.0 * self.removal, self.replacement)

    @classmethod
    def paper(cls, input_dim: int, label_dim: int) -> Self:
        """d_X + d_Y for both, the paper's bound on ||i||^2 + ||l||^2 of samples in [0, 1]^(d_X + d_Y)."""
        bound = float(input_dim + label_dim)
        return cls(removal=bound, replacement=bound)
