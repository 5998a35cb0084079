"""What somebody found who knows no schedule: figures, and the slots to be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from airmixml.attacks.label_inference import LabelInference, PropertyInference, tell_populations_apart
from airmixml.attacks.linkage import Linkage
from airmixml.attacks.recovery import Recovery

__all__ = ["ListenerFindings"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ListenerFindings:
    """What was found without a schedule.

    Attributes:
        linkage: known samples told from samples that nobody holds.
        recovery: samples unmixed.
        slot_labels: class of the worker that dominates a slot; None where no label is sent by itself.
        shares: classes of the population; None where too little was received.
        groups_identified: unmixed groups that are most like the very sample that dominates them, of all that are held.
        identified: the same of the ``examples``.
        beside: slots in which the worker nearby was loudest, and in how many its sample is found; None without any.
        held_samples: different samples that workers hold.
        examples: the clearest slots as received, each dominated by another sample, decoded; examples x inputs.
        example_index: row of the pool that dominates each of them (slots in which nobody sent are none); examples.
        example_psnr_db: likeness of the two at the best scale; examples.
    """

    linkage: Linkage
    recovery: Recovery
    slot_labels: LabelInference | None
    shares: PropertyInference | None
    groups_identified: int
    identified: int
    beside: tuple[int, int] | None
    held_samples: int
    examples: NDArray[np.float32]
    example_index: NDArray[np.int64]
    example_psnr_db: NDArray[np.float64]

    def _by_chance(self, identified: int, trials: int) -> float:
        """Return the probability that so many, or more, are identified by guessing among all that is held."""
        return float(binom.sf(identified - 1, trials, 1.0 / self.held_samples))

    @staticmethod
    def _shares(shares: PropertyInference) -> dict[str, Any]:
        """Return the classes of the population, and how surely they are told from equal shares."""
        equal = np.full(len(shares.true_shares), 1.0 / len(shares.true_shares))
        told = tell_populations_apart(shares, equal, shares.true_shares)
        return {**shares.to_dict(), "told_from_equal": told.to_dict()}

    def to_dict(self) -> dict[str, Any]:
        """Return the figures without the pictures."""
        return {
            "linkage": self.linkage.to_dict(),
            "unmixing": {
                **self.recovery.to_dict(),
                "identified": self.groups_identified,
                "p_value": self._by_chance(self.groups_identified, self.recovery.estimates),
            },
            "slot_labels": None if self.slot_labels is None else self.slot_labels.to_dict(),
            "shares": None if self.shares is None else self._shares(self.shares),
            "clearest_slots": {
                "looked_at": len(self.examples),
                "identified": self.identified,
                "p_value": self._by_chance(self.identified, len(self.examples)),
                "psnr_db": float(np.median(self.example_psnr_db)) if len(self.example_psnr_db) else 0.0,
            },
            "beside": None
            if self.beside is None
            else {
                "looked_at": self.beside[0],
                "identified": self.beside[1],
                "p_value": self._by_chance(self.beside[1], self.beside[0]),
            },
        }
