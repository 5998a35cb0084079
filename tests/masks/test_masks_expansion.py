"""Seeds turned into numbers: published vectors, pinned bits, a scalar reference, distributions."""

from __future__ import annotations

import math
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from numpy.typing import NDArray
from scipy import stats

from airmixml.masks import keys as expansion
from airmixml.masks.keys import (
    Use,
    edge_masks,
    keystream,
    self_mask,
    standard_normals,
    uniform_integers,
)
from airmixml.messages import ProtocolError

SEED = bytes(range(32))
PINNED_NORMALS = ["0x1.02949ee88ecbfp+0", "0x1.64d6c00373d77p+0", "0x1.3370179cd2602p-2", "-0x1.f4e6aad015689p-3"]
PINNED_DIGESTS = {
    "normals": "8d10d173052e2bb63bd6d32f2ac2fcb7",
    "integers": "2c8fab7e859a6be00aee01c0f8f76abb",
}


def test_the_key_stream_is_that_of_rfc_8439() -> None:
    """Section 2.3.2, block counter 1."""
    made = keystream(SEED, bytes.fromhex("000000090000004a00000000"), 64, 64)
    assert made.hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4ed2826446079faa0914c2d705d98b02a2b5129cd1de164eb9"
        "cbd083e8a2503c4e"
    )


def test_the_key_stream_of_another_library_has_the_same_bits() -> None:
    from randomgen import ChaCha

    words = ChaCha(key=int.from_bytes(SEED, "little"), counter=0, rounds=20).random_raw(800)
    assert np.array_equal(np.frombuffer(keystream(SEED, bytes(12), 320, 640), "<u8"), words[40:120])


def reference_pair(words: tuple[int, int]) -> tuple[float, float]:
    """The expansion in scalars, from the definition and IEEE operations alone, in the order of the protocol."""
    x, y = (float(word >> 12) + 0.5 for word in words)
    mantissa, exponent = math.frexp(x)
    if mantissa < float.fromhex("0x1.6a09ep-1"):
        mantissa, exponent = 2.0 * mantissa, exponent - 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square, value = s * s, 2.0 / 21.0
    for power in range(9, -1, -1):
        value = value * square + 2.0 / (2 * power + 1)
    radius = math.sqrt((value * s + (float(exponent) - 52.0) * math.log(2.0)) * -2.0)
    angle = (y - 2.0**51) * (math.pi * 2.0**-54)
    square, value = angle * angle, -1.0 / math.factorial(15)
    for power in range(6, -1, -1):
        value = value * square + (-1.0) ** power / math.factorial(2 * power + 1)
    sine = value * angle
    cosine = math.sqrt(1.0 - sine * sine)
    for _ in range(3):
        sine, cosine = sine * cosine * 2.0, sine * sine * -2.0 + 1.0
    return radius * cosine, radius * sine


def test_vectors_have_the_bits_of_a_scalar_reference() -> None:
    """So NumPy neither fuses operations nor rounds one of them in its own way on this machine."""
    words = np.frombuffer(keystream(SEED, expansion._nonce(Use.NORMALS, 3), 0, 16 * 5000), "<u8")
    expected = [value for a, b in words.reshape(-1, 2).tolist() for value in reference_pair((a, b))]
    assert standard_normals(SEED, 3, 0, 10_000).tolist() == expected


def test_extreme_words_give_extreme_values() -> None:
    words = np.array([0, 0, 2**64 - 1, 2**64 - 1, 2**64 - 1, 0, 0, 2**63], dtype="<u8")
    made = expansion._box_muller(bytearray(words.tobytes()))
    expected = [value for a, b in words.reshape(-1, 2).tolist() for value in reference_pair((a, b))]
    assert made.tolist() == expected
    assert made[6] == pytest.approx(math.sqrt(2 * 53 * math.log(2)), rel=1e-14)  # u = 2^-53, t = 0
    assert np.hypot(*made[2:4]) == pytest.approx(2**-26, rel=1e-14)  # u = 1 - 2^-53


def test_values_are_those_of_exact_arithmetic() -> None:
    import mpmath

    words = np.frombuffer(keystream(SEED, expansion._nonce(Use.NORMALS, 3), 0, 16 * 300), "<u8").tolist()
    made = standard_normals(SEED, 3, 0, 600)
    with mpmath.workdps(40):
        for pair in range(300):
            u = (mpmath.mpf(words[2 * pair] >> 12) + 0.5) / 2**52
            t = 2 * mpmath.pi * (mpmath.mpf(words[2 * pair + 1] >> 12) + 0.5) / 2**52 - mpmath.pi
            radius = mpmath.sqrt(-2 * mpmath.log(u))
            assert abs(made[2 * pair] - radius * mpmath.cos(t)) < 1e-14
            assert abs(made[2 * pair + 1] - radius * mpmath.sin(t)) < 1e-14


def test_bits_are_pinned() -> None:
    """They must be the same on every machine: the two ends of an edge may run on different ones."""
    assert [value.hex() for value in standard_normals(SEED, 0, 0, 4).tolist()] == PINNED_NORMALS
    assert digest(standard_normals(SEED, 2**40, 3, 535_040).astype("<f8")) == PINNED_DIGESTS["normals"]
    assert digest(uniform_integers(SEED, 1, 5, 10_000, 20).astype("<u8")) == PINNED_DIGESTS["integers"]


def digest(values: NDArray[np.generic]) -> str:
    return sha256(values.tobytes()).hexdigest()[:32]


@settings(max_examples=40, deadline=None)
@given(some.integers(0, 50_000), some.integers(0, 20_000), some.sampled_from(["normals", 1, 7, 16, 33, 64]))
def test_any_block_of_symbols_can_be_made_alone(first: int, count: int, kind: str | int) -> None:
    def make(first: int, count: int) -> NDArray[np.generic]:
        if kind == "normals":
            return standard_normals(SEED, 9, first, count)
        return uniform_integers(SEED, 9, first, count, int(kind))

    whole = WHOLE.setdefault(kind, make(0, 70_000))
    assert np.array_equal(make(first, count), whole[first : first + count])


WHOLE: dict[str | int, NDArray[np.generic]] = {}


def test_the_end_of_a_key_stream_is_refused() -> None:
    last = 2**35
    assert len(standard_normals(SEED, 0, last - 10, 10)) == 10
    with pytest.raises(ProtocolError, match="use more slots"):
        standard_normals(SEED, 0, last - 10, 11)
    with pytest.raises(ProtocolError, match="must not be negative"):
        standard_normals(SEED, 0, -1, 2)
    for wrong in (-1, 2**64):
        with pytest.raises(ProtocolError, match="slot = "):
            standard_normals(SEED, wrong, 0, 1)
    for bits in (0, 65):
        with pytest.raises(ProtocolError, match="bits = "):
            uniform_integers(SEED, 0, 0, 1, bits)


def test_values_are_normal() -> None:
    """Kolmogorov and Smirnov, four moments and the tails, which also reject another deviation."""
    count = 200_000
    values = standard_normals(SEED, 1, 0, count)
    assert stats.kstest(values, "norm").pvalue > 1e-3
    for wrong in (0.98, 1.02):
        assert stats.kstest(values * wrong, "norm").pvalue < 1e-3
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((values**power).mean() - mean) < 4.5 * math.sqrt(variance / count)
    for limit in (3.0, 4.0, 4.5):
        expected = count * 2 * stats.norm.sf(limit)
        assert abs(np.count_nonzero(np.abs(values) > limit) - expected) < 4.5 * math.sqrt(expected)


def test_values_are_independent() -> None:
    count = 400_000
    values = standard_normals(SEED, 1, 0, count)
    others = {
        "next": np.roll(values, -1),
        "slot": standard_normals(SEED, 2, 0, count),
        "seed": standard_normals(bytes(32), 1, 0, count),
        "use": stats.norm.ppf((uniform_integers(SEED, 1, 0, count, 52) + 0.5) / 2.0**52),
    }
    for name, other in others.items():
        assert abs((values * other).mean()) < 4.5 / math.sqrt(count), name
        assert abs((values**2 * other**2).mean() - 1) < 4.5 * math.sqrt(8 / count), name


@pytest.mark.parametrize("bits", [1, 3, 8, 11])
def test_integers_are_uniform(bits: int) -> None:
    counts = np.bincount(uniform_integers(SEED, 1, 0, 400_000, bits).astype(np.int64), minlength=2**bits)
    assert len(counts) == 2**bits
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("bits", [32, 50, 64])
def test_wide_integers_are_uniform(bits: int) -> None:
    values = uniform_integers(SEED, 1, 0, 200_000, bits)
    assert int(values.max()) < 2**bits
    assert stats.kstest(values.astype(np.float64) / 2.0**bits, "uniform").pvalue > 1e-3


def test_masks_of_the_two_ends_cancel_bit_for_bit() -> None:
    at_one, at_two = (edge_masks(own, {3 - own: (SEED,)}, 2.5, 6, 10, 5000) for own in (1, 2))
    assert np.array_equal(at_one, -at_two)
    assert np.array_equal(at_one, 2.5 * standard_normals(SEED, 6, 10, 5000))
    both = edge_masks(1, {2: (SEED, bytes(32))}, 2.5, 6, 10, 5000)  # two masks between the same two
    assert np.array_equal(both, at_one + 2.5 * standard_normals(bytes(32), 6, 10, 5000))
    assert np.array_equal(self_mask(SEED, 0.5, 6, 10, 99), 0.5 * standard_normals(SEED, 6, 10, 99))


@pytest.mark.parametrize("bits", [1, 12, 64])
def test_integer_masks_vanish_in_the_sum(bits: int) -> None:
    seeds = {frozenset(pair): bytes([pair[0], pair[1]]) * 16 for pair in ((1, 2), (1, 3), (2, 3))}
    total = np.zeros(1000, dtype=np.uint64)
    for own in (1, 2, 3):
        mine = {other: (seeds[frozenset((own, other))],) for other in (1, 2, 3) if other != own}
        masks = edge_masks(own, mine, 0.0, 0, 0, 1000, bits)
        assert masks.any()
        assert int(masks.max()) < 2**bits
        total += masks
    assert not (total & np.uint64(2**bits - 1)).any()
