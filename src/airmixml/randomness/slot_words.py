"""Where the slots' random words come from: a counter-based sequence in simulations, a secret where data are protected.

A slot takes a fixed number of words from each stream, in order. So any run of slots can be drawn on its own, on any
device, and always in the same way. Rare draws that need more words (a value to be drawn again) take them from further
sequences, the ``attempts``.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from airmixml.devices import without_torch
from airmixml.randomness import philox
from airmixml.randomness.distributions import standard_normals
from airmixml.streams import SLOTS_PER_CHAPTER, Secret, StreamName, Streams

CPU: Final = torch.device("cpu")
_LARGEST_ATTEMPT: Final = 1 << 20
_WORDS_PER_KEY: Final = 1 << 16
_WORDS_AT_ONCE: Final = 1 << 15


@dataclass(frozen=True)
class PhiloxWords:
    """Words that follow from a key: those of a simulation."""

    key: philox.Key
    device: torch.device = CPU

    def words(self, slots: range, per_slot: int, attempt: int = 0) -> torch.Tensor:
        """Return the words of these slots; slots x per_slot."""
        made = philox.words_from(self.key, attempt, slots.start * per_slot, len(slots) * per_slot, self.device)
        return made.reshape(len(slots), per_slot)

    def words_at(self, slots: range, per_slot: int, places: torch.Tensor, attempt: int) -> torch.Tensor:
        """Return what ``words(slots, per_slot, attempt)`` has at these places, counted through; shape of places."""
        return philox.words_at(self.key, attempt, slots.start * per_slot + places)

    def normals(self, slots: range, per_slot: int) -> torch.Tensor:
        """Return independent standard normal values; slots x per_slot, float32."""
        values = torch.empty((len(slots), per_slot), device=self.device)
        pairs = -(-per_slot // 2)
        # On the CPU little enough for a core's cache.
        at_once = max(1, _WORDS_AT_ONCE // pairs) if self.device.type == "cpu" and pairs else len(slots)
        for first in range(0, len(slots), at_once):
            some = slots[first : first + at_once]
            standard_normals(self.words(some, pairs), out=values[first : first + at_once])
        return values


@dataclass(frozen=True)
class SecretWords:
    """Words that nobody can predict or make again: each group of slots from a key of its own."""

    secret: Secret
    stream: int
    device: torch.device = CPU

    def words(self, slots: range, per_slot: int, attempt: int = 0) -> torch.Tensor:
        """Return the words of these slots; slots x per_slot."""
        made = np.empty((len(slots), per_slot), dtype=np.int64)

        def make(group: int) -> None:
            rng, here, skipped = self._group(slots, per_slot, group, attempt)
            rng.bit_generator.random_raw(skipped * per_slot, output=False)
            made[here] = rng.bit_generator.random_raw(made[here].size).view(np.int64).reshape(made[here].shape)

        without_torch(make, _groups_of(slots, per_slot))
        return torch.from_numpy(made).to(self.device)

    def words_at(self, slots: range, per_slot: int, places: torch.Tensor, attempt: int) -> torch.Tensor:
        """Return what ``words(slots, per_slot, attempt)`` has at these places, counted through; shape of places."""
        return self.words(slots, per_slot, attempt).flatten()[places]

    def normals(self, slots: range, per_slot: int) -> torch.Tensor:
        """Return independent standard normal values; slots x per_slot, float64.

        Drawn by NumPy's method of rejection: no value is too large to occur, as none is in the noise that was stated.
        In float32, of 32 random bits, few values lead to each number that is received, and some numbers cannot be
        received at all: which, tells the sum below the noise (benchmarks/measure_float_leak.py).
        """
        made = np.empty((len(slots), per_slot))

        def make(group: int) -> None:
            rng, here, skipped = self._group(slots, per_slot, group, 0)
            made[here] = rng.standard_normal((len(made[here]) + skipped, per_slot))[skipped:]

        without_torch(make, _groups_of(slots, per_slot))
        return torch.from_numpy(made).to(self.device)

    def _group(self, slots: range, per_slot: int, group: int, attempt: int) -> tuple[np.random.Generator, slice, int]:
        """Return the generator of a group of slots, which of ``slots`` are its, and how many come before them in it."""
        length = _group_length(per_slot)
        here = slice(max(0, group * length - slots.start), (group + 1) * length - slots.start)
        rng = self.secret.generator(self.stream, group * _LARGEST_ATTEMPT + attempt)
        return rng, here, max(0, slots.start - group * length)


SlotWords = PhiloxWords | SecretWords
"""One stream of random words, so many for each slot; equal streams have equal hashes, so that draws can be kept."""


def slot_words(streams: Streams, name: StreamName, device: torch.device = CPU) -> SlotWords:
    """Return the words of the stream ``name`` that slots are drawn from, made on the device."""
    hidden = streams.hidden_number(name)
    if streams.secret is not None and hidden is not None:
        return SecretWords(streams.secret, hidden, device)
    return PhiloxWords(streams.key(name), device)


def _group_length(per_slot: int) -> int:
    """Return how many slots share a key: few where each takes many words, since those before must be made too."""
    return max(1, min(SLOTS_PER_CHAPTER, _WORDS_PER_KEY // max(1, per_slot)))


def _groups_of(slots: range, per_slot: int) -> range:
    """Return the numbers of the groups that hold some of the slots."""
    length = _group_length(per_slot)
    return range(slots.start // length, -(-slots.stop // length) if len(slots) else 0)
