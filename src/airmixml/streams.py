"""One seed per run, independent named streams of random numbers.

Slots are drawn in chapters of a fixed length, each with a generator of its own. A block of slots of any size, on
any number of threads, is then cut from the same draws: the block size never changes a result, and changing one
policy (the fading, say) never changes the draws of another.
"""

from typing import Final, Literal, get_args

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

# The order is part of every published result: never change it, only append.
_STREAM_KEYS: Final[dict[StreamName, int]] = {name: key for key, name in enumerate(get_args(StreamName))}

SLOTS_PER_CHAPTER: Final = 128


class Streams:
    """Generators for the parts of one run, all derived from its seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def generator(self, name: StreamName, chapter: int = 0) -> np.random.Generator:
        """Return a fresh generator of the stream ``name``, at the start of ``chapter``."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(_STREAM_KEYS[name], chapter))
        return np.random.Generator(np.random.PCG64DXSM(sequence))
