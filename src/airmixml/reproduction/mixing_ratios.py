"""Fig. 2: how alpha spreads the mixing ratios, drawn and computed."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.radio.ratios import draw_ratios
from airmixml.scenario import Mixing
from airmixml.streams import Streams

ALPHAS: Final = (0.1, 1.0, 10.0, 100.0, 1e5)
_WORKERS: Final = 8
_SLOTS: Final = 20_000


@dataclass(frozen=True, kw_only=True)
class MixingRatios:
    """Ratios drawn for one alpha.

    Attributes:
        ratios: q of the first slots; slots x workers.
        largest_share: mean of the largest ratio of a slot.
        squares: mean of sum q^2, which is 1 where one worker sends alone and 1/workers where all share equally.
        expected_squares: what the Dirichlet distribution says, (1 + alpha/workers) / (1 + alpha).
    """

    alpha: float
    ratios: NDArray[np.float64]
    largest_share: float
    squares: float
    expected_squares: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, in the shape of a cell."""
        return {
            "target": "fig2",
            "row": f"{self.ratios.shape[1]} workers",
            "column": f"alpha = {self.alpha:g}",
            "alpha": self.alpha,
            "quantity": "mean of the sum of squared ratios",
            "printed": None,
            "measured": {"mean": self.squares, "largest_share": self.largest_share},
            "expected": self.expected_squares,
            "verdict": "",
        }


def draw_mixing_ratios(seed: int = 0, *, shown_slots: int = 16) -> list[MixingRatios]:
    """Draw the ratios of many slots of eight workers for each alpha."""
    drawn = []
    for number, alpha in enumerate(ALPHAS):
        mixing = Mixing(policy="dirmix", alpha=alpha)
        ratios = draw_ratios(mixing, _WORKERS, _SLOTS, Streams(seed).generator("ratios", number))
        drawn.append(
            MixingRatios(
                alpha=alpha,
                ratios=ratios[:shown_slots],
                largest_share=float(ratios.max(axis=1).mean()),
                squares=float((ratios**2).sum(axis=1).mean()),
                expected_squares=(1.0 + alpha / _WORKERS) / (1.0 + alpha),
            )
        )
    return drawn
