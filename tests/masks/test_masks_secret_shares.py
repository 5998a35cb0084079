"""Shamir's scheme: any threshold of shares gives the secret, fewer fit every secret."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from airmixml.masks.recovery import PRIME, rebuild, split
from airmixml.messages import ProtocolError

SECRETS = some.binary(min_size=32, max_size=32)


def test_the_modulus_is_the_first_prime_above_two_to_the_256() -> None:
    def is_prime(number: int) -> bool:
        """Miller and Rabin with 40 bases: wrong with probability 4^-40."""
        odd, twos = number - 1, 0
        while odd % 2 == 0:
            odd, twos = odd // 2, twos + 1
        for base in range(2, 42):
            power = pow(base, odd, number)
            if power in (1, number - 1):
                continue
            for _ in range(twos - 1):
                power = power * power % number
                if power == number - 1:
                    break
            else:
                return False
        return True

    assert is_prime(PRIME)
    assert not any(is_prime(number) for number in range(2**256 + 1, PRIME))


@settings(max_examples=30, deadline=None)
@given(SECRETS, some.integers(1, 12), some.data())
def test_any_threshold_of_shares_gives_the_secret(secret: bytes, holders: int, data: some.DataObject) -> None:
    threshold = data.draw(some.integers(1, holders))
    shares = split(secret, holders, threshold)
    chosen = data.draw(some.permutations(range(holders)))[: data.draw(some.integers(threshold, holders))]
    assert rebuild({place: shares[place] for place in chosen}, threshold) == secret


def test_a_line_by_hand() -> None:
    shares = split((5).to_bytes(32, "big"), 3, 2, random_below=lambda _: 7)  # 5 + 7 x
    assert [int.from_bytes(share, "big") for share in shares] == [12, 19, 26]


@pytest.mark.parametrize("chosen", list(combinations(range(4), 2)))
def test_fewer_shares_fit_every_secret(chosen: tuple[int, int]) -> None:
    """With one share less than needed, each secret has exactly one share that completes it: nothing is ruled out."""
    shares = split(b"\x07" * 32, 4, 3)
    held = {place: shares[place] for place in chosen}
    third = next(place for place in range(4) if place not in chosen)
    for wanted in (b"\0" * 32, b"\xff" * 32):
        # The share at the third place that makes the polynomial pass through the wanted secret at 0.
        points = {0: int.from_bytes(wanted, "big")} | {x + 1: int.from_bytes(y, "big") for x, y in held.items()}
        value = 0
        for x, y in points.items():
            term = y
            for other in points:
                if other != x:
                    term = term * (third + 1 - other) * pow(x - other, -1, PRIME) % PRIME
            value = (value + term) % PRIME
        assert rebuild(held | {third: value.to_bytes(33, "big")}, 3) == wanted


def test_single_shares_look_random() -> None:
    """The first bytes of a share of the secret 0 are spread evenly (chi-square, 255 degrees of freedom)."""
    firsts = [split(bytes(32), 2, 2)[0][1] for _ in range(5000)]
    expected = len(firsts) / 256
    assert sum((firsts.count(byte) - expected) ** 2 / expected for byte in range(256)) < 400


def test_wrong_shares_and_numbers_are_refused() -> None:
    with pytest.raises(ProtocolError, match="31 bytes"):
        split(bytes(31), 3, 2)
    for threshold in (0, 4):
        with pytest.raises(ProtocolError, match=f"threshold = {threshold}"):
            split(bytes(32), 3, threshold)
    with pytest.raises(ProtocolError, match="too few"):
        rebuild({0: bytes(33)}, 2)
    with pytest.raises(ProtocolError, match="do not fit"):
        rebuild({0: (PRIME - 1).to_bytes(33, "big")}, 1)
