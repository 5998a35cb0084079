"""Keys that two workers share without meeting, and masks: X25519, HKDF-SHA256, Ed25519 signatures, ChaCha20.

The only file that uses the package ``cryptography``. Sources: RFC 7748, RFC 5869, RFC 8032, RFC 8439.

Each worker makes two X25519 key pairs for a round. Recovery may reveal the private *mask* key of a worker that is
called absent. Its *channel* key, which hides the shares on their way, is never shared: were both one key, a party
that learns it could read the shares of the worker's own seed as well, and so hold both of its secrets.

A seed becomes masks by ChaCha20: normal values or integers, with the same bits on every machine. Masks cancel only if
both ends compute the same bits. Libraries for logarithm, sine and cosine differ in the last digit between systems, so
only IEEE 754's own operations are used (+, -, x, / and square root, each rounded correctly on any machine), in an order
that is part of the protocol. NumPy runs each as a pass of its own, so no compiler can fuse two of them. Tests pin the
bits; changing any needs another ``PROTOCOL``. Symbols are addressed, not drawn in turn: any block of a slot can be made
alone. A key stream has a nonce of 96 bits, 4 bytes for what it is used for and 8 for the slot, little end first; the
32-bit block counter limits a slot to 2^35 normal values.
"""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from airmixml.messages import PluginError, ProtocolError

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError as problem:
    raise PluginError(f"masks: need the package cryptography ({problem}); pip install 'airmixml[masks]'") from None

# Part of every derivation: a change of what is derived, or of how it is expanded, changes this number.
PROTOCOL: Final = b"airmixml-masks/1"
KEY_BYTES: Final = 32
IDENTITY_BYTES: Final = 8
_LONGEST_KEPT: Final = 1 << 12  # bytes of a statement whose check is kept; frames have megabytes, and are checked once

Purpose = Literal["mask", "channel"]


@dataclass(frozen=True)
class KeyPair:
    """An X25519 key pair; the private key is never shown."""

    private: bytes = field(repr=False)

    @staticmethod
    def generate() -> "KeyPair":
        """Return a fresh pair from the operating system's entropy."""
        return KeyPair(secrets.token_bytes(KEY_BYTES))

    @cached_property
    def _key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.private)

    @cached_property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def shared_secret(self, other_public: bytes) -> bytes:
        """Return what X25519 gives both ends, 32 bytes; refuse a point of small order, which gives zero to all."""
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(other_public))
        except ValueError as problem:
            raise ProtocolError(
                f"public key {other_public.hex()!r} is no usable X25519 key ({problem}); leave that worker out"
            ) from None


def identity_bytes(identity: int) -> bytes:
    """Return a worker's number as it enters messages and derivations: 8 bytes, big end first."""
    if not isinstance(identity, int) or not 0 <= identity < 1 << 8 * IDENTITY_BYTES:
        raise ProtocolError(f"identity = {identity} must be from 0 to 2^64 - 1; number the workers from 0")
    return identity.to_bytes(IDENTITY_BYTES, "big")


def derive(secret: bytes, salt: bytes, information: bytes, length: int = KEY_BYTES) -> bytes:
    """Return ``length`` bytes of HKDF-SHA256 (RFC 5869)."""
    return HKDF(algorithm=SHA256(), length=length, salt=salt, info=information).derive(secret)


def pair_seed(
    own: KeyPair,
    own_identity: int,
    other_public: bytes,
    other_identity: int,
    round_id: bytes,
    number: int = 0,
    purpose: Purpose = "mask",
) -> bytes:
    """Return 32 bytes that two workers share in a round: the seed of mask ``number``, or the key of their channel.

    All that must agree enters the derivation: protocol version, purpose, round, identities and public keys in the order
    of the identities. Two ends that disagree about any of these get unrelated bytes.
    """
    if own_identity == other_identity:
        raise ProtocolError(f"identity = {own_identity} shares no key with itself; give each worker its own number")
    keys = {own_identity: own.public, other_identity: other_public}
    ends = b"".join(identity_bytes(identity) + keys[identity] for identity in sorted(keys))
    # To be read in one way: lengths are fixed, and a pair's first mask has no number.
    bound = PROTOCOL + b" " + purpose.encode() + b"\0" + ends + (number.to_bytes(8, "big") if number else b"")
    return derive(own.shared_secret(other_public), salt=round_id, information=bound)


def sealed(content: bytes, key: bytes, sender: int, round_id: bytes) -> bytes:
    """Return the content so that the other end of the channel alone can read it, and no one can change it unnoticed.

    One key serves both directions of a channel; the sender's number is the nonce, so that the two differ. It is for one
    message in each direction and round.
    """
    return ChaCha20Poly1305(key).encrypt(_sender_nonce(sender), content, round_id)


def opened(content: bytes, key: bytes, sender: int, round_id: bytes) -> bytes:
    """Return what the other worker sealed, or refuse it."""
    try:
        return ChaCha20Poly1305(key).decrypt(_sender_nonce(sender), content, round_id)
    except (InvalidTag, TypeError):
        raise ProtocolError(
            f"shares of worker {sender} were changed or are of another round; ask for them again"
        ) from None


def signature(signing_key: bytes, statement: bytes) -> bytes:
    """Return the Ed25519 signature of a statement, 64 bytes."""
    return Ed25519PrivateKey.from_private_bytes(signing_key).sign(statement)


def verifying_key(signing_key: bytes) -> bytes:
    """Return the public key that goes with a private Ed25519 key, 32 bytes."""
    return Ed25519PrivateKey.from_private_bytes(signing_key).public_key().public_bytes_raw()


def is_signed(statement: bytes, signed: bytes, by: bytes) -> bool:
    """Return whether that is the statement's signature by the owner of this verifying key."""
    check = _is_signed if len(statement) <= _LONGEST_KEPT else _is_signed.__wrapped__
    return isinstance(signed, bytes) and isinstance(by, bytes) and check(statement, signed, by)


@lru_cache(maxsize=1 << 12)  # all workers of a round check the same signatures: where one process plays many, once
def _is_signed(statement: bytes, signed: bytes, by: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(by).verify(signed, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


def _sender_nonce(sender: int) -> bytes:
    return b"\0\0\0\0" + identity_bytes(sender)


_BLOCK_BYTES: Final = 64
_BLOCKS_PER_NONCE: Final = 1 << 32
_NORMALS_PER_BLOCK: Final = 8
_NORMALS_AT_ONCE: Final = 1 << 14  # 64 KB for each array of 8,192 pairs: they stay in a core's cache
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
    """Return ``count`` bytes of ChaCha20 (RFC 8439) from ``first_byte`` on; a seed has 32 bytes, a nonce 12."""
    first_block, skipped = divmod(first_byte, _BLOCK_BYTES)
    if first_byte < 0 or first_byte + count > _BLOCKS_PER_NONCE * _BLOCK_BYTES:
        raise ProtocolError(f"symbol block ends at byte {first_byte + count} of a slot, beyond 2^38; use more slots")
    made = bytearray(skipped + count)
    cipher = Cipher(ChaCha20(seed, first_block.to_bytes(4, "little") + nonce), mode=None).encryptor()
    cipher.update_into(bytes(skipped + count), made)
    return made[skipped:] if skipped else made


def standard_normals(seed: bytes, slot: int, first: int, count: int) -> NDArray[np.float64]:
    """Return standard normal values ``first`` to ``first + count - 1`` of a slot; shape count.

    Box and Muller: pair p comes from the 64-bit words a, b at byte 16 p, u = (floor(a / 2^12) + 1/2) / 2^52 and
    t = 2 pi (floor(b / 2^12) + 1/2) / 2^52 - pi, and is sqrt(-2 ln u) (cos t, sin t). Values end at 8.57 deviations,
    beyond which 1e-17 of a normal distribution lies.
    """
    if first < 0 or count < 0:
        raise ProtocolError(f"symbols {first} to {first + count - 1} must not be negative")
    skipped = first % _NORMALS_PER_BLOCK
    values = np.empty(skipped + count)
    for start in range(0, len(values), _NORMALS_AT_ONCE):
        part = values[start : start + _NORMALS_AT_ONCE]
        first_byte = (first - skipped + start) * _BLOCK_BYTES // _NORMALS_PER_BLOCK
        made = keystream(seed, _nonce(Use.NORMALS, slot), first_byte, 16 * -(-len(part) // 2))
        part[:] = _box_muller(made)[: len(part)]
    return values[skipped:]


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
