"""Where the slots' random words come from: a counter-based sequence in simulations, a secret where data are protected.

A slot takes a fixed number of words from each stream, in order. So any run of slots can be drawn on its own, on any
device, and always in the same way. Rare draws that need more words (a value to be drawn again) take them from further
sequences, the ``attempts``.
"""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import torch

from airmixml.randomness import philox
from airmixml.randomness.distributions import standard_normals
from airmixml.streams import SLOTS_PER_CHAPTER, Secret, StreamName, Streams
from airmixml.threads import without_torch

CPU: Final = torch.device("cpu")
_LARGEST_ATTEMPT: Final = 1 << 20
_WORDS_AT_ONCE: Final = 1 << 15


class SlotWords(Protocol):
    """One stream of random words, so many for each slot."""

    def __hash__(self) -> int:
        """Tell streams apart, so that what was drawn from one can be kept."""

    @property
    def device(self) -> torch.device:
        """Where the words are made."""

    def words(self, slots: range, per_slot: int, attempt: int = 0) -> torch.Tensor:
        """Return the words of these slots; slots x per_slot."""

    def words_at(self, slots: range, per_slot: int, places: torch.Tensor, attempt: int) -> torch.Tensor:
        """Return what ``words(slots, per_slot, attempt)`` has at these places, counted through; shape of places."""

    def normals(self, slots: range, per_slot: int) -> torch.Tensor:
        """Return independent standard normal values; slots x per_slot, float32."""


def slot_words(streams: Streams, name: StreamName, device: torch.device = CPU) -> SlotWords:
    """Return the words of the stream ``name`` that slots are drawn from, made on the device."""
    hidden = streams.hidden_number(name)
    if streams.secret is not None and hidden is not None:
        return SecretWords(streams.secret, hidden, device)
    return PhiloxWords(streams.key(name), device)


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
    """Words that nobody can predict or make again: each chapter of slots from a key of its own."""

    secret: Secret
    stream: int
    device: torch.device = CPU

    def words(self, slots: range, per_slot: int, attempt: int = 0) -> torch.Tensor:
        """Return the words of these slots; slots x per_slot."""
        made = np.empty((len(slots), per_slot), dtype=np.int64)

        def make(chapter: int) -> None:
            rng, here, skipped = self._chapter(slots, chapter, attempt)
            count = len(made[here]) + skipped
            words = rng.bit_generator.random_raw(count * per_slot).view(np.int64).reshape(count, per_slot)
            made[here] = words[skipped:]

        without_torch(make, _chapters_of(slots))
        return torch.from_numpy(made).to(self.device)

    def words_at(self, slots: range, per_slot: int, places: torch.Tensor, attempt: int) -> torch.Tensor:
        """Return what ``words(slots, per_slot, attempt)`` has at these places, counted through; shape of places."""
        return self.words(slots, per_slot, attempt).flatten()[places]

    def normals(self, slots: range, per_slot: int) -> torch.Tensor:
        """Return independent standard normal values; slots x per_slot, float32.

        Drawn by NumPy's method of rejection: no value is too large to occur, as none is in the noise that was stated.
        """
        made = np.empty((len(slots), per_slot), dtype=np.float32)

        def make(chapter: int) -> None:
            rng, here, skipped = self._chapter(slots, chapter, 0)
            made[here] = rng.standard_normal((len(made[here]) + skipped, per_slot), dtype=np.float32)[skipped:]

        without_torch(make, _chapters_of(slots))
        return torch.from_numpy(made).to(self.device)

    def _chapter(self, slots: range, chapter: int, attempt: int) -> tuple[np.random.Generator, slice, int]:
        """Return the generator of a chapter, which of the slots it is for, and how many it makes for others before."""
        first = chapter * SLOTS_PER_CHAPTER
        here = slice(max(0, first - slots.start), first + SLOTS_PER_CHAPTER - slots.start)
        return (
            self.secret.generator(self.stream, chapter * _LARGEST_ATTEMPT + attempt),
            here,
            max(0, slots.start - first),
        )


def _chapters_of(slots: range) -> range:
    """Return the chapters that hold some of the slots."""
    return range(slots.start // SLOTS_PER_CHAPTER, -(-slots.stop // SLOTS_PER_CHAPTER) if len(slots) else 0)
