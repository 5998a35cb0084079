"""One seed per run, independent named streams of random numbers.

What happens in a slot is drawn from words that follow from the seed, the stream and the slot's number alone
(``randomness``), so that neither the block size, nor the threads, nor the device ever changes a result, and changing
one policy (the fading, say) never changes the draws of another. All else comes from NumPy's generators.

That is for simulations: anyone who knows the seed can remove the noise. Where real data are protected, everything that
hides them comes from a secret instead, and the seed decides only what is public.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from threading import Lock
from typing import Final, Literal, NoReturn, get_args

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
    "eavesdropper-fading",
    "air",
    "masks",
    "integers",
]

# The order is part of every published result: never change it, only append.
_STREAM_KEYS: Final[dict[StreamName, int]] = {name: key for key, name in enumerate(get_args(StreamName))}

SLOTS_PER_CHAPTER: Final = 128
_MOST_STREAMS: Final = 1000


# Who sends when, with which share, and the noise, that on pilots and on the other quadrature (air) included; and who
# shares masks with whom, which nobody may know when colluders are chosen.
_HIDES: Final[frozenset[StreamName]] = frozenset(
    {"schedule", "fading", "phase", "ratios", "assignment", "noise", "air", "masks", "integers"}
)
# Of these only chapter 0 is public: an encoder's features, and the split of a data set. The rest rounds symbols and
# picks which rows of a worker enter; a public pick could depend on how many rows somebody else has.
_HIDES_LATER: Final[frozenset[StreamName]] = frozenset({"encoder", "data"})


class Secret:
    """A key from the operating system's entropy that lives in this object alone: it is never shown, stored or sent.

    ChaCha20 draws from it, which nobody can tell from true randomness or predict, whatever they have seen of it.
    ``claim`` is called before the first draw: what a killed process may have sent must be known to the next one.
    """

    def __init__(self, claim: Callable[[], None] | None = None) -> None:
        self._key, self._claim, self._claiming = secrets.token_bytes(32), claim, Lock()

    def generator(self, stream: int, chapter: int) -> np.random.Generator:
        """Return a fresh generator with a key of its own."""
        from randomgen import ChaCha  # here: only protected runs need it

        with self._claiming:
            if self._claim is not None:
                self._claim()
                self._claim = None
        own_key = blake2b(b"%d/%d" % (stream, chapter), key=self._key, digest_size=32).digest()
        return np.random.Generator(ChaCha(key=int.from_bytes(own_key, "little"), rounds=20))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is never stored or sent to another process")


@dataclass(frozen=True)
class Streams:
    """Generators for the parts of one run: all derived from its seed, or those that hide the data from a secret."""

    seed: int
    secret: Secret | None = field(default=None, repr=False)
    kind: int = 0  # of slots: those that take another number of words have sequences of their own

    def generator(self, name: StreamName, chapter: int = 0) -> np.random.Generator:
        """Return a fresh generator of the stream ``name``, at the start of ``chapter``."""
        hides = name in _HIDES or (name in _HIDES_LATER and chapter > 0)
        if self.secret is not None and hides:
            return self.secret.generator(_STREAM_KEYS[name], chapter)
        sequence = np.random.SeedSequence(self.seed, spawn_key=(_STREAM_KEYS[name], chapter))
        return np.random.Generator(np.random.PCG64DXSM(sequence))

    def hidden_number(self, name: StreamName) -> int | None:
        """Return the number of a stream whose slots are drawn from the secret, and None if the seed decides them."""
        number = _STREAM_KEYS[name] + _MOST_STREAMS * self.kind
        return number if self.secret is not None and name in _HIDES else None

    def key(self, name: StreamName) -> tuple[int, int]:
        """Return the two words, of 64 bits each, that name a counter-based sequence of the seed."""
        return _key(self.seed, _STREAM_KEYS[name], self.kind)


@lru_cache(maxsize=256)
def _key(seed: int, stream: int, kind: int) -> tuple[int, int]:
    spawn_key = (stream, 0, kind) if kind else (stream,)
    first, second = np.random.SeedSequence(seed, spawn_key=spawn_key).generate_state(2, np.uint64)
    return int(first), int(second)
