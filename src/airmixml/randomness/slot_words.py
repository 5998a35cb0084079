"""What slots draw: random words from a counter or a secret, and numbers of a distribution made of them.

In simulations words are those of Philox4x64-10 (Salmon, Moraes, Dror and Shaw, 2011), which follow from a key and a
counter alone. No word depends on another, so any part of a sequence can be made anywhere, in any order: on the CPU by
NumPy, on a GPU by one kernel, with the same bits. Words are 64 bits in int64 tensors, which know no unsigned numbers.
Anyone who knows the key can make them again: where data are protected, words come from a secret.

A slot takes a fixed number of words from each stream, in order. Rare draws that need more words (a value to be drawn
again) take them from further sequences, the ``attempts``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import torch, without_torch
from airmixml.streams import SLOTS_PER_CHAPTER, Secret, StreamName, Streams

_WORDS_PER_COUNTER: Final = 4
_FACTORS: Final = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS: Final = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_LOW_HALF: Final = 0xFFFFFFFF
_WORD: Final = 0xFFFFFFFFFFFFFFFF
_FEWEST_PER_THREAD: Final = 8192
_KERNEL: Final = """
template <typename T> T philox(T place, T k0, T k1, T attempt) {
  unsigned long long a = place / 4 + 1, b = attempt, c = 0, d = 0, x = k0, y = k1;
  for (int round = 0; round < 10; ++round) {
    const unsigned long long m = 0xD2E7470EE14C6C93ull, n = 0xCA5A826395121157ull;
    const unsigned long long e = __umul64hi(n, c) ^ b ^ x, f = __umul64hi(m, a) ^ d ^ y;
    b = n * c; d = m * a; a = e; c = f;
    x += 0x9E3779B97F4A7C15ull; y += 0xBB67AE8584CAA73Bull;
  }
  const int which = place % 4;
  return which == 0 ? a : which == 1 ? b : which == 2 ? c : d;
}
"""

Key = tuple[int, int]
Counters = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]


def words_from(key: Key, attempt: int, first: int, count: int, device: torch.device) -> torch.Tensor:
    """Return words ``first`` to ``first + count - 1`` of the sequence that key and attempt name; shape count.

    Word n is output n mod 4 of the counter (1 + n div 4, attempt, 0, 0): NumPy counts on before it makes its first. On
    a CPU as many threads make them as torch uses.
    """
    if device.type != "cpu":
        return words_at(key, attempt, torch.arange(first, first + count, device=device))
    start, skipped = divmod(first, _WORDS_PER_COUNTER)
    count += skipped
    part = max(_FEWEST_PER_THREAD, _WORDS_PER_COUNTER * -(-count // (_WORDS_PER_COUNTER * torch.get_num_threads())))

    def made(first: int) -> NDArray[np.int64]:
        counter = np.array([start + first // _WORDS_PER_COUNTER, attempt, 0, 0], dtype=np.uint64)
        generator = np.random.Philox(key=np.array(key, dtype=np.uint64), counter=counter)
        return generator.random_raw(min(part, count - first)).view(np.int64)

    if part >= count:
        return torch.from_numpy(made(0))[skipped:]
    words = np.empty(count, dtype=np.int64)

    def make(first: int) -> None:
        words[first : first + part] = made(first)

    without_torch(make, range(0, count, part))
    return torch.from_numpy(words)[skipped:]


def words_at(key: Key, attempt: int, places: torch.Tensor) -> torch.Tensor:
    """Return the words at these places of the sequence; same shape."""
    if places.device.type != "cpu":
        k0, k1 = (part - (1 << 64) if part >> 63 else part for part in key)
        words: torch.Tensor = _kernel()(places, k0=k0, k1=k1, attempt=attempt)
        return words
    numbers = (places.numpy() >> 2).astype(np.uint64) + 1
    nothing = np.zeros_like(numbers)
    outputs = philox4x64((numbers, nothing + np.uint64(attempt), nothing, nothing), key)
    return torch.from_numpy(np.choose(places.numpy() & 3, outputs).view(np.int64))


@lru_cache(maxsize=1)
def _kernel() -> Callable[..., torch.Tensor]:
    """Return what makes the word at each place on a GPU."""
    made: Callable[..., torch.Tensor] = torch.cuda.jiterator._create_jit_fn(_KERNEL, k0=0, k1=0, attempt=0)
    return made


def philox4x64(counter: Counters, key: Key) -> Counters:
    """Return the four output words of counters of four words each, of equal shape."""
    c0, c1, c2, c3 = counter
    for number in range(10):
        k0, k1 = (np.uint64((part + number * step) & _WORD) for part, step in zip(key, _KEY_STEPS, strict=True))
        (high0, low0), (high1, low1) = _product(c0, _FACTORS[0]), _product(c2, _FACTORS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return c0, c1, c2, c3


def _product(numbers: NDArray[np.uint64], factor: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the high and the low word of the products; same shape."""
    high, low = numbers >> 32, numbers & _LOW_HALF
    factor_high, factor_low = factor >> 32, factor & _LOW_HALF
    across, other = high * factor_low, low * factor_high
    carried = (low * factor_low >> 32) + (across & _LOW_HALF) + (other & _LOW_HALF)
    return high * factor_high + (across >> 32) + (other >> 32) + (carried >> 32), numbers * factor


_RADIUS_BITS: Final = 40
_BELOW_ONE: Final = 1.0 - 2.0**-24  # the largest float32 that is
_ANGLE_BITS: Final = 64 - _RADIUS_BITS
_SQUEEZE: Final = 0.0331
_LARGE_SHAPE: Final = 1e8


def uniforms(words: torch.Tensor) -> torch.Tensor:
    """Return numbers between 0 and 1, both left out, in steps of 2^-52; float64."""
    return _leading_bits(words, 52).double().add_(0.5).mul_(2.0**-52)


def integers_below(words: torch.Tensor, count: int) -> torch.Tensor:
    """Return integers from 0 to count - 1: of equal probability up to count 2^-53 of it; int64."""
    return _leading_bits(words, 53).double().mul_(2.0**-53 * count).long()


def exponentials(words: torch.Tensor) -> torch.Tensor:
    """Return standard exponential values; float64."""
    return uniforms(words).log_().neg_()


def standard_normals(words: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """Fill ``out`` with independent standard normal values (Box and Muller), two from each word; float32.

    Words are rows x pairs, ``out`` rows x 2 pairs, or one column less. 40 bits of a word give the radius, which ends at
    7.5 deviations (one value in 10^13 lies beyond), 24 the angle.
    """
    radius, angle = _polar(words)
    pairs = words.shape[-1]
    torch.mul(radius, torch.cos(angle), out=out[..., :pairs])
    rest = out.shape[-1] - pairs
    torch.mul(radius[..., :rest], torch.sin(angle[..., :rest]), out=out[..., pairs:])
    return out


def normal_pairs(words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two independent standard normal values of each word; both of its shape, float64 of float32's precision."""
    radius, angle = _polar(words)
    return (radius * torch.cos(angle)).double(), (radius * torch.sin(angle)).double()


def log_gammas(
    shape: torch.Tensor, words: torch.Tensor, more: Callable[[torch.Tensor, int], torch.Tensor]
) -> torch.Tensor:
    """Return logarithms of standard gamma values with these shapes, at least 0; rows x columns, float64.

    Marsaglia and Tsang's method: d (1 + c x)^3 for a normal x is accepted with a probability of 95 % or more. Shapes a
    below 1 use G(a) = G(a + 1) U^(1/a), as a logarithm: 1e-8 is an ordinary shape. ``shape`` has as many values as
    there are columns. ``words`` are rows x columns x 3, enough for two attempts; ``more(places, attempt)`` gives a word
    each for further ones, where places count through rows x columns x 2.
    """
    small = shape < 1.0
    d = torch.where(small, shape + 1.0, shape) - 1.0 / 3.0
    c = (9.0 * d).rsqrt()
    normals, columns = normal_pairs(words[..., 0]), shape.shape[-1]
    chances = _leading_bits(words[..., 1], 32), words[..., 1] & 0xFFFFFFFF
    base = 1.0 + c * normals[0]
    flat = base.view(-1)
    # Which the full test would accept, as a bound without logarithms tells of nearly all.
    surely = chances[0].double().mul_(2.0**-32) < 1.0 - _SQUEEZE * normals[0].square().square_()
    left = torch.nonzero(~surely).T
    left = left[0] * columns + left[1]
    drawn, chance, attempt = normals[0].view(-1)[left], chances[0].reshape(-1)[left], 1
    while True:
        column = left % columns
        tried, scale = flat[left], d[column]
        # Accepted are base above 0 and ln U below x^2 / 2 + d - d base^3 + d ln base^3. Of large shapes all but one in
        # d would be, and the terms of the bound cancel to nothing.
        bound = 0.5 * drawn.square() + scale * (1.0 - tried**3 + 3.0 * torch.log(tried.clamp(min=1e-300)))
        below = (chance.double().add_(0.5).mul_(2.0**-32).log_() < bound) | (scale > _LARGE_SHAPE)
        rejected = ~((tried > 0.0) & below)
        left, column = left[rejected], column[rejected]
        if not len(left):
            break
        if attempt == 1:
            drawn, chance = normals[1].view(-1)[left], chances[1].reshape(-1)[left]
        else:
            drawn, chance = normal_pairs(more(2 * left, attempt))[0], _leading_bits(more(2 * left + 1, attempt), 32)
        flat[left] = 1.0 + c[column] * drawn
        attempt += 1
    logarithms = base.log_().mul_(3.0).add_(d.log())
    if bool(small.any()):
        # A shape of 0 gives minus infinity: nothing.
        boost = uniforms(words[..., 2]).log_().div_(torch.where(small, shape, 1.0))
        logarithms = torch.where(small, logarithms + boost, logarithms)
    return logarithms


def _polar(words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return radius and angle of points whose two coordinates are standard normal; float32.

    Float32 rounds the largest 2^15 numbers of 40 bits to 1, whose logarithm is 0: they are kept below, so that no
    radius is 0.
    """
    uniform = _leading_bits(words, _RADIUS_BITS).float().add_(0.5).mul_(2.0**-_RADIUS_BITS).clamp_(max=_BELOW_ONE)
    radius = uniform.log_().mul_(-2.0).sqrt_()
    angle = (words & ((1 << _ANGLE_BITS) - 1)).float().mul_(2.0 * math.pi * 2.0**-_ANGLE_BITS)
    return radius, angle


def _leading_bits(words: torch.Tensor, bits: int) -> torch.Tensor:
    """Return the leading bits as a number that is never negative; int64."""
    if words.device.type == "cpu":  # NumPy shifts several words at once, torch one after the other
        return torch.from_numpy((words.numpy().view(np.uint64) >> np.uint64(64 - bits)).view(np.int64))
    return (words >> (64 - bits)).bitwise_and_((1 << bits) - 1)


_LARGEST_ATTEMPT: Final = 1 << 20
_WORDS_PER_KEY: Final = 1 << 16
_WORDS_AT_ONCE: Final = 1 << 15
_DENSE_CELLS: Final = 4_000_000


class SlotWords(ABC):
    """One stream of random words, so many for each slot; equal streams have equal hashes, so that draws can be kept."""

    device: torch.device

    @abstractmethod
    def words(self, slots: range, per_slot: int, attempt: int = 0) -> torch.Tensor:
        """Return the words of these slots; slots x per_slot."""

    @abstractmethod
    def words_at(self, slots: range, per_slot: int, places: torch.Tensor, attempt: int) -> torch.Tensor:
        """Return what ``words(slots, per_slot, attempt)`` has at these places, counted through; shape of places."""

    @abstractmethod
    def normals(self, slots: range, per_slot: int) -> torch.Tensor:
        """Return independent standard normal values; slots x per_slot."""

    def uniforms(self, slots: range, per_slot: int, attempt: int = 0) -> torch.Tensor:
        """Return independent numbers between 0 and 1; slots x per_slot, float64."""
        return uniforms(self.words(slots, per_slot, attempt))


@dataclass(frozen=True)
class PhiloxWords(SlotWords):
    """Words that follow from a key: those of a simulation."""

    key: Key
    device: torch.device

    def words(self, slots: range, per_slot: int, attempt: int = 0) -> torch.Tensor:
        made = words_from(self.key, attempt, slots.start * per_slot, len(slots) * per_slot, self.device)
        return made.reshape(len(slots), per_slot)

    def words_at(self, slots: range, per_slot: int, places: torch.Tensor, attempt: int) -> torch.Tensor:
        return words_at(self.key, attempt, slots.start * per_slot + places)

    def normals(self, slots: range, per_slot: int) -> torch.Tensor:
        """Draw them in float32, by Box and Muller."""
        values = torch.empty((len(slots), per_slot), device=self.device)
        pairs = -(-per_slot // 2)
        # On the CPU little enough for a core's cache.
        at_once = max(1, _WORDS_AT_ONCE // pairs) if self.device.type == "cpu" and pairs else len(slots)
        for first in range(0, len(slots), at_once):
            some = slots[first : first + at_once]
            standard_normals(self.words(some, pairs), out=values[first : first + at_once])
        return values


@dataclass(frozen=True)
class SecretWords(SlotWords):
    """Words that nobody can predict or make again: each group of slots from a key of its own."""

    secret: Secret
    stream: int
    device: torch.device

    def words(self, slots: range, per_slot: int, attempt: int = 0) -> torch.Tensor:
        def draw(rng: np.random.Generator, count: int) -> NDArray[Any]:
            return rng.bit_generator.random_raw(count * per_slot).view(np.int64).reshape(count, per_slot)

        return self._of_groups(slots, per_slot, attempt, draw, np.int64)

    def words_at(self, slots: range, per_slot: int, places: torch.Tensor, attempt: int) -> torch.Tensor:
        return self.words(slots, per_slot, attempt).flatten()[places]

    def normals(self, slots: range, per_slot: int) -> torch.Tensor:
        """Draw them in float64 by NumPy's method of rejection.

        No value is too large to occur, as none is in the noise that was stated.
        In float32, of 32 random bits, few values lead to each number that is received, and some numbers cannot be
        received at all: which, tells the sum below the noise (benchmarks/measure_float_leak.py).
        """
        return self._of_groups(
            slots, per_slot, 0, lambda rng, count: rng.standard_normal((count, per_slot)), np.float64
        )

    def _of_groups(
        self,
        slots: range,
        per_slot: int,
        attempt: int,
        draw: Callable[[np.random.Generator, int], NDArray[Any]],
        dtype: type,
    ) -> torch.Tensor:
        """Return what each group's generator draws for its slots, from the first of the group on; slots x per_slot.

        Few slots share a key where each takes many words, since those before must be made too.
        """
        length = max(1, min(SLOTS_PER_CHAPTER, _WORDS_PER_KEY // max(1, per_slot)))
        made: NDArray[Any] = np.empty((len(slots), per_slot), dtype=dtype)

        def make(group: int) -> None:
            first, stop = group * length, min((group + 1) * length, slots.stop)
            rng = self.secret.generator(self.stream, group * _LARGEST_ATTEMPT + attempt)
            skipped = max(0, slots.start - first)
            made[first + skipped - slots.start : stop - slots.start] = draw(rng, stop - first)[skipped:]

        without_torch(make, range(slots.start // length, -(-slots.stop // length) if len(slots) else 0))
        return torch.from_numpy(made).to(self.device)


def slot_words(streams: Streams, name: StreamName, device: torch.device | None = None) -> SlotWords:
    """Return the words of the stream ``name`` that slots are drawn from, made on the device; None: on the CPU."""
    device = device or torch.device("cpu")
    hidden = streams.hidden_number(name)
    if streams.secret is not None and hidden is not None:
        return SecretWords(streams.secret, hidden, device)
    return PhiloxWords(streams.key(name), device)


def draw_schedule(slots: range, scheduled: int, workers: int, source: SlotWords) -> torch.Tensor:
    """Draw the scheduled workers of each slot in random order; slots x scheduled.

    Few of many are the first distinct values of a sequence of independent draws, which is exactly uniform; else every
    worker gets a random number and the smallest are taken, a few slots at a time to save memory.
    """
    if scheduled * 4 > workers:
        at_once = max(1, _DENSE_CELLS // workers)
        parts = (slots[first : first + at_once] for first in range(0, len(slots), at_once))
        return torch.cat(
            [source.uniforms(some, workers).topk(scheduled, dim=1, largest=False).indices for some in parts]
        )
    chosen = integers_below(source.words(slots, scheduled), workers)
    if chosen.device.type == "cpu":  # NumPy sorts short rows of short integers six times faster
        ascending = torch.from_numpy(np.sort(chosen.to(torch.int32).numpy(), axis=1))
    else:
        ascending = chosen.sort(dim=1).values
    unfinished = torch.nonzero((ascending[:, 1:] == ascending[:, :-1]).any(dim=1))[:, 0]
    drawn, attempt = chosen[unfinished], 0
    while len(unfinished):
        attempt += 1
        more = integers_below(source.words(slots, scheduled, attempt)[unfinished], workers)
        drawn = torch.cat([drawn, more], dim=1)
        ascending, order = drawn.sort(dim=1, stable=True)
        repeated = torch.zeros(drawn.shape, dtype=torch.bool, device=drawn.device)
        repeated.scatter_(1, order[:, 1:], ascending[:, 1:] == ascending[:, :-1])
        order = (~repeated).cumsum(dim=1)
        complete = order[:, -1] >= scheduled
        wanted = ~repeated[complete] & (order[complete] <= scheduled)
        chosen[unfinished[complete]] = drawn[complete][wanted].reshape(-1, scheduled)
        unfinished, drawn = unfinished[~complete], drawn[~complete]
    return chosen
