"""Shared by tests of laws: random words that are nothing but ends, in place of those that follow from a key."""

import numpy as np
import pytest
import torch

from airmixml.randomness.slot_words import PhiloxWords

# The leading 40 bits (of a radius, a uniform number) at their ends, next to them, and where float32 rounds to 1 (from
# 2^40 - 2^15 on); the other 24 (of an angle) at each quarter of a turn, and next to it.
_LEADING = [0, 1, (1 << 39) - 1, 1 << 39, (1 << 40) - (1 << 15) - 1, (1 << 40) - (1 << 15), (1 << 40) - 1]
_TRAILING = [0, 1, (1 << 22) - 1, 1 << 22, 1 << 23, 3 << 22, (1 << 24) - 1]
ENDS = np.array([(high << 24) | low for high in _LEADING for low in _TRAILING], dtype=np.uint64).view(np.int64)


def draw_nothing_but_ends(patch: pytest.MonkeyPatch) -> None:
    """Have simulations draw from ``ENDS`` alone, each in every combination with every other."""

    def words(self: PhiloxWords, slots: range, per_slot: int, attempt: int = 0) -> torch.Tensor:
        picked = np.random.default_rng([attempt, slots.start, *self.key]).integers(
            len(ENDS), size=len(slots) * per_slot
        )
        return torch.from_numpy(ENDS[picked].reshape(len(slots), per_slot))

    def words_at(self: PhiloxWords, slots: range, per_slot: int, places: torch.Tensor, attempt: int) -> torch.Tensor:
        picked = np.random.default_rng([attempt, *self.key]).integers(len(ENDS), size=tuple(places.shape))
        return torch.from_numpy(ENDS[picked])

    patch.setattr(PhiloxWords, "words", words)
    patch.setattr(PhiloxWords, "words_at", words_at)
