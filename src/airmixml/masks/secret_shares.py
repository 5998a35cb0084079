"""Shamir's secret sharing: any ``threshold`` of the holders can rebuild a secret, fewer learn nothing about it.

Over the field of the smallest prime above 2^256, so that every secret of 32 bytes is a number of it. The dealer draws a
polynomial of degree threshold - 1 with the secret at 0; the holder in place h gets its value at h + 1 (Shamir 1979).
Shares are not verified one by one: a secret that is rebuilt is checked against a public key or commitment.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Final

from airmixml.errors import ProtocolError

PRIME: Final = (1 << 256) + 297
SECRET_BYTES: Final = 32
SHARE_BYTES: Final = 33


def split(
    secret: bytes, holders: int, threshold: int, random_below: Callable[[int], int] = secrets.randbelow
) -> list[bytes]:
    """Return a share for each holder, 33 bytes each, in the order of their places."""
    if len(secret) != SECRET_BYTES:
        raise ProtocolError(f"secret of {len(secret)} bytes must have {SECRET_BYTES}")
    if not 1 <= threshold <= holders:
        raise ProtocolError(f"threshold = {threshold} must be from 1 to the {holders} holders")
    coefficients = [int.from_bytes(secret, "big"), *(random_below(PRIME) for _ in range(threshold - 1))]
    return [_value(coefficients, place + 1).to_bytes(SHARE_BYTES, "big") for place in range(holders)]


def rebuild(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Return the secret from shares by the places of their holders; the first ``threshold`` places are used."""
    if len(shares) < threshold:
        raise ProtocolError(f"{len(shares)} shares are too few to rebuild a secret; {threshold} are needed")
    points = {place + 1: int.from_bytes(shares[place], "big") for place in sorted(shares)[:threshold]}
    secret = 0
    for x, y in points.items():  # Lagrange's polynomial at 0
        above = below = 1
        for other in points:
            if other != x:
                above = above * other % PRIME
                below = below * (other - x) % PRIME
        secret = (secret + y * above * pow(below, -1, PRIME)) % PRIME
    if secret >> 8 * SECRET_BYTES:
        raise ProtocolError("shares do not fit together: a holder sent a wrong one; rebuild from others")
    return secret.to_bytes(SECRET_BYTES, "big")


def _value(coefficients: list[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value
