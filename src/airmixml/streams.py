"""One seed per run, independent named streams of random numbers.

Slots are drawn in chapters of a fixed length, each with a generator of its own. A block of slots of any size, on
any number of threads, is then cut from the same draws: the block size never changes a result, and changing one
policy (the fading, say) never changes the draws of another.
"""

from typing import Final, Literal

import numpy as np

StreamName = Literal[
    "placement",
    "data",
    "schedule",
    "fading",
    "phase",
    "ratios",
    "assignment",
    "noise",
    "training",
    "encoder",
    "canary",
    "audit",
    "eavesdropper",
    "eavesdropper-noise",
]

# The numbers are part of every published result: never renumber, only append.
_STREAM_KEYS: Final[dict[StreamName, int]] = {
    "placement": 0,
    "data": 1,
    "schedule": 2,
    "fading": 3,
    "phase": 4,
    "ratios": 5,
    "assignment": 6,
    "noise": 7,
    "training": 8,
    "encoder": 9,
    "canary": 10,
    "audit": 11,
    "eavesdropper": 12,
    "eavesdropper-noise": 13,
}

SLOTS_PER_CHAPTER: Final = 128


class Streams:
    """Generators for the parts of one run, all derived from its seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def generator(self, name: StreamName, chapter: int = 0) -> np.random.Generator:
        """Return a fresh generator of the stream ``name``, at the start of ``chapter``."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(_STREAM_KEYS[name], chapter))
        return np.random.Generator(np.random.PCG64DXSM(sequence))
