"""Philox4x64-10 (Salmon, Moraes, Dror and Shaw, 2011): random words that follow from a key and a counter alone.

No word depends on another, so any part of a sequence can be made anywhere, in any order: on the CPU by NumPy, on a GPU
by one fused kernel, on any device by plain tensor operations. All give the same bits. Words are 64 bits in int64
tensors, which know no unsigned numbers.

It suits simulations. Anyone who knows the key can make the words again, so nothing secret is drawn from it.
"""

from importlib.util import find_spec
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.devices import without_torch

WORDS_PER_COUNTER: Final = 4
_ROUNDS: Final = 10
_FACTORS: Final = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS: Final = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_LOW_HALF: Final = 0xFFFFFFFF
_FEWEST_PER_THREAD: Final = 8192

Key = tuple[int, int]
Words = TypeVar("Words", NDArray[np.int64], torch.Tensor)


def words_from(key: Key, attempt: int, first: int, count: int, device: torch.device) -> torch.Tensor:
    """Return words ``first`` to ``first + count - 1`` of the sequence that key and attempt name; shape count.

    Word n is output n mod 4 of the counter (1 + n div 4, attempt, 0, 0): NumPy counts on before it makes its first.
    """
    start, skipped = divmod(first, WORDS_PER_COUNTER)
    if device.type == "cpu":
        return _by_numpy(key, attempt, start, skipped + count)[skipped:]
    counters = -(-(skipped + count) // WORDS_PER_COUNTER)
    if _has_kernel(device):
        from airmixml.randomness import philox_triton

        words = philox_triton.words_from(key, attempt, start, counters, device)
    else:
        numbers = torch.arange(start, start + counters, device=device)
        words = torch.stack(philox4x64(_counters(numbers, attempt), key), dim=-1).flatten()
    return words[skipped : skipped + count]


def _by_numpy(key: Key, attempt: int, start: int, count: int) -> torch.Tensor:
    """Return the words of counters from number ``start`` on, made by as many threads as torch uses; shape count."""
    part = max(_FEWEST_PER_THREAD, WORDS_PER_COUNTER * -(-count // (WORDS_PER_COUNTER * torch.get_num_threads())))

    def made(first: int) -> NDArray[np.int64]:
        counter = np.array([start + first // WORDS_PER_COUNTER, attempt, 0, 0], dtype=np.uint64)
        generator = np.random.Philox(key=np.array(key, dtype=np.uint64), counter=counter)
        return generator.random_raw(min(part, count - first)).view(np.int64)

    if count <= part:
        return torch.from_numpy(made(0))
    words = np.empty(count, dtype=np.int64)

    def make(first: int) -> None:
        words[first : first + part] = made(first)

    without_torch(make, range(0, count, part))
    return torch.from_numpy(words)


def words_at(key: Key, attempt: int, places: torch.Tensor) -> torch.Tensor:
    """Return the words at these places of the sequence; same shape."""
    if _has_kernel(places.device):
        from airmixml.randomness import philox_triton

        return philox_triton.words_at(key, attempt, places)
    if places.device.type == "cpu":  # NumPy starts an operation on few numbers sooner
        return torch.from_numpy(_picked(philox4x64(_counters(places.numpy() >> 2, attempt), key), places.numpy() & 3))
    return _picked(philox4x64(_counters(places >> 2, attempt), key), places & 3)


def _has_kernel(device: torch.device) -> bool:
    """Return whether the fused kernel can run there; Triton comes with torch on most systems that have a GPU."""
    return device.type == "cuda" and find_spec("triton") is not None


def _counters(numbers: Words, attempt: int) -> tuple[Words, Words, Words, Words]:
    """Return the four words of the counters with these numbers, each of their shape."""
    nothing = numbers & 0
    return numbers + 1, nothing + attempt, nothing, nothing


def _picked(outputs: tuple[Words, Words, Words, Words], which: Words) -> Words:
    """Return of each four outputs the one named; same shape."""
    return sum((output * (which == number) for number, output in enumerate(outputs)), start=which & 0)


def philox4x64(counter: tuple[Words, Words, Words, Words], key: Key) -> tuple[Words, Words, Words, Words]:
    """Return the four output words of counters of four words each; int64 arrays or tensors of equal shape."""
    c0, c1, c2, c3 = counter
    for number in range(_ROUNDS):
        k0, k1 = (_signed(part + number * step) for part, step in zip(key, _KEY_STEPS, strict=True))
        high0, low0 = _product(c0, _FACTORS[0])
        high1, low1 = _product(c2, _FACTORS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return c0, c1, c2, c3


def _product(numbers: Words, factor: int) -> tuple[Words, Words]:
    """Return the high and the low word of the products of unsigned words; same shape."""
    high, low = _high_half(numbers), numbers & _LOW_HALF
    factor_high, factor_low = factor >> 32, factor & _LOW_HALF
    across, other = high * factor_low, low * factor_high
    carried = _high_half(low * factor_low) + (across & _LOW_HALF) + (other & _LOW_HALF)
    upper = high * factor_high + _high_half(across) + _high_half(other) + _high_half(carried)
    return upper, numbers * _signed(factor)


def _high_half(words: Words) -> Words:
    return (words >> 32) & _LOW_HALF


def _signed(word: int) -> int:
    """Return the signed number that has the bits of an unsigned word (of the lowest 64 bits)."""
    word &= 0xFFFFFFFFFFFFFFFF
    return word - (1 << 64) if word >> 63 else word
