"""A seed turned into masks: ChaCha20 (RFC 8439) to normal values or integers, with the same bits on every machine.

The masks of two workers cancel only if both ends compute the same bits. Libraries for logarithm, sine and cosine differ
in the last digit between systems, so only IEEE 754's own operations are used (+, -, x, / and square root, each rounded
correctly on any machine), in an order that is part of the protocol. NumPy runs each as a pass of its own, so no
compiler can fuse two of them. Tests pin the bits; changing any needs another ``keys.PROTOCOL``.

Symbols are addressed, not drawn in turn: any block of a slot can be made alone. A key stream has a nonce of 96 bits, 4
bytes for what it is used for and 8 for the slot, little end first; the 32-bit block counter limits a slot to 2^35
normal values.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import ProtocolError
from airmixml.masks.keys import chacha20

_BLOCK_BYTES: Final = 64
_BLOCKS_PER_NONCE: Final = 1 << 32
_NORMALS_PER_BLOCK: Final = 8
_BLOCKS_AT_ONCE: Final = 2048  # 64 KB for each array of 8,192 pairs: they stay in a core's cache
_LARGEST_BITS: Final = 64

# 2 atanh(s) / s as a series in s^2, and sin(x) / x in x^2, both highest power first. |s| < 0.1716 and |x| < pi / 8
# leave less than 1e-17 behind the last term.
_LOGARITHM: Final = tuple(2.0 / (2 * power + 1) for power in range(10, -1, -1))
_SINE: Final = tuple((-1.0) ** power / math.factorial(2 * power + 1) for power in range(7, -1, -1))
_LN_2: Final = float.fromhex("0x1.62e42fefa39efp-1")
_PI: Final = float.fromhex("0x1.921fb54442d18p+1")
_ONE: Final = 0x3FF0000000000000  # the bits of 1.0
_ROOT_HALF: Final = 0x3FE6A09E00000000  # the bits of a number just below sqrt(1/2)


class Use(IntEnum):
    """What a key stream is for: the same seed and slot never give the same bytes to two uses."""

    NORMALS = 1
    INTEGERS = 2
    ROUNDING = 3  # of a worker's own seed, as are the next two
    NOISE = 4
    NOISE_TIES = 5


def keystream(seed: bytes, nonce: bytes, first_byte: int, count: int) -> bytearray:
    """Return ``count`` bytes of ChaCha20 from ``first_byte`` on, for a seed of 32 bytes and a nonce of 12."""
    first_block, skipped = divmod(first_byte, _BLOCK_BYTES)
    if first_byte < 0 or first_byte + count > _BLOCKS_PER_NONCE * _BLOCK_BYTES:
        raise ProtocolError(f"symbol block ends at byte {first_byte + count} of a slot, beyond 2^38; use more slots")
    made = chacha20(seed, first_block, nonce, skipped + count)
    return made[skipped:] if skipped else made


def standard_normals(seed: bytes, slot: int, first: int, count: int) -> NDArray[np.float64]:
    """Return standard normal values ``first`` to ``first + count - 1`` of a slot; shape count.

    Box and Muller: pair p comes from the 64-bit words a, b at byte 16 p, u = (floor(a / 2^12) + 1/2) / 2^52 and
    t = 2 pi (floor(b / 2^12) + 1/2) / 2^52 - pi, and is sqrt(-2 ln u) (cos t, sin t). Values end at 8.57 deviations,
    beyond which 1e-17 of a normal distribution lies.
    """
    if first < 0 or count < 0:
        raise ProtocolError(f"symbols {first} to {first + count - 1} must not be negative")
    nonce = _nonce(Use.NORMALS, slot)
    values = np.empty(count)
    written = 0
    for block, skipped, taken in _pieces(first, count):
        blocks = -(-(skipped + taken) // _NORMALS_PER_BLOCK)
        normals = _box_muller(keystream(seed, nonce, block * _BLOCK_BYTES, blocks * _BLOCK_BYTES))
        values[written : written + taken] = normals[skipped : skipped + taken]
        written += taken
    return values


def uniform_integers(seed: bytes, slot: int, first: int, count: int, bits: int) -> NDArray[np.uint64]:
    """Return integers of equal probability from 0 to 2^bits - 1; shape count.

    Each takes the lowest bits of a word of 8, 16, 32 or 64 bits, the smallest that holds them, little end first.
    """
    if not 1 <= bits <= _LARGEST_BITS:
        raise ProtocolError(f"bits = {bits} must be from 1 to {_LARGEST_BITS}")
    width = word_bytes(bits)
    return stream_words(seed, Use.INTEGERS, slot, first, count, width) & np.uint64((1 << bits) - 1)


def word_bytes(bits: int) -> int:
    """Return the bytes of the smallest word of 8, 16, 32 or 64 bits that holds so many."""
    return 1 << max(0, (bits - 1).bit_length() - 3)


def stream_words(seed: bytes, use: Use, slot: int, first: int, count: int, width: int) -> NDArray[np.uint64]:
    """Return words of so many bytes, little end first, of a key stream; shape count."""
    made = keystream(seed, _nonce(use, slot), first * width, count * width)
    return np.frombuffer(made, dtype=f"<u{width}").astype(np.uint64)


def self_mask(seed: bytes, deviation: float, slot: int, first: int, count: int, bits: int = 0) -> NDArray[Any]:
    """Return a mask with this seed: normal of that deviation per real symbol, or uniform modulo 2^bits; shape count."""
    if bits:
        return uniform_integers(seed, slot, first, count, bits)
    return deviation * standard_normals(seed, slot, first, count)


def edge_masks(
    own: int,
    seeds: Mapping[int, Sequence[bytes]],
    deviation: float,
    slot: int,
    first: int,
    count: int,
    bits: int = 0,
) -> NDArray[Any]:
    """Return sum_j m_ij over the edges of worker ``own``, whose seeds are given by the other end; shape count.

    On an edge the worker with the smaller number adds the mask, the other subtracts it: m_ij = -m_ji, bit for bit. Two
    workers may share several masks, each with a seed of its own.
    """
    total: NDArray[Any] = np.zeros(count, dtype=np.uint64 if bits else np.float64)
    for other in sorted(seeds):
        for seed in seeds[other]:
            mask = self_mask(seed, deviation, slot, first, count, bits)
            total = total + mask if own < other else total - mask
    return reduced(total, bits)


def reduced(total: NDArray[Any], bits: int) -> NDArray[Any]:
    """Return a sum of masks, modulo 2^bits where they are integers; same shape."""
    return total & np.uint64((1 << bits) - 1) if bits else total  # sums are modulo 2^64, so modulo 2^bits too


def _nonce(use: Use, slot: int) -> bytes:
    if not 0 <= slot < 1 << 64:
        raise ProtocolError(f"slot = {slot} must be from 0 to 2^64 - 1")
    return use.to_bytes(4, "little") + slot.to_bytes(8, "little")


def _pieces(first: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Cut symbols into pieces that fit a cache: first block, symbols of it to leave out, symbols to take."""
    at_once = _BLOCKS_AT_ONCE * _NORMALS_PER_BLOCK
    while count:
        block, skipped = divmod(first, _NORMALS_PER_BLOCK)
        taken = min(count, at_once - skipped)
        yield block, skipped, taken
        first, count = first + taken, count - taken


def _box_muller(made: bytearray) -> NDArray[np.float64]:
    """Return the normal values of a piece of key stream; two for each 16 bytes."""
    words = np.frombuffer(made, dtype="<u8").astype(np.uint64, copy=False).reshape(-1, 2) >> np.uint64(12)
    numbers = words.view(np.int64).T.astype(np.float64, order="C")  # below 2^52: exact
    numbers += 0.5
    radius = np.sqrt(_minus_two_logarithm(numbers[0]))
    cosine, sine = _turn(numbers[1])
    normals = np.empty((len(radius), 2))
    np.multiply(radius, cosine, out=normals[:, 0])
    np.multiply(radius, sine, out=normals[:, 1])
    return normals.reshape(-1)


def _minus_two_logarithm(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -2 ln(x / 2^52), for x from 1/2 to 2^52; same shape.

    x = 2^e m with m from sqrt(1/2) to sqrt(2), taken from the bits of x; ln m = 2 atanh(s), s = (m - 1) / (m + 1).
    """
    bits = numbers.view(np.int64) + (_ONE - _ROOT_HALF)
    exponent = ((bits >> 52) - 1023).astype(np.float64)
    bits &= (1 << 52) - 1
    bits += _ROOT_HALF
    mantissa = bits.view(np.float64)
    s = mantissa - 1.0
    mantissa += 1.0
    s /= mantissa
    logarithm = _series(_LOGARITHM, s * s)
    logarithm *= s
    exponent -= 52.0
    exponent *= _LN_2
    logarithm += exponent
    logarithm *= -2.0
    return logarithm


def _turn(numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return cosine and sine of 2 pi x / 2^52 - pi, for x from 0 to 2^52; each of the same shape.

    From the sine of an eighth of the angle, which has a short series, by doubling the angle three times.
    """
    angle = numbers - 2.0**51
    angle *= _PI * 2.0**-54
    sine = _series(_SINE, angle * angle)
    sine *= angle
    cosine = np.sqrt(1.0 - sine * sine)  # at least cos(pi / 8): nothing cancels
    for _ in range(3):
        double = sine * cosine
        double *= 2.0
        np.multiply(sine, sine, out=cosine)
        cosine *= -2.0
        cosine += 1.0
        sine = double
    return cosine, sine


def _series(coefficients: tuple[float, ...], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the polynomial with these coefficients, highest power first, by Horner's rule; same shape."""
    value = x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        value += coefficient
        value *= x
    value += coefficients[-1]
    return value
