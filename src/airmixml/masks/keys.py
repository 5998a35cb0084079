"""Keys that two workers share without meeting: X25519 agreement, HKDF-SHA256, Ed25519 signatures, ChaCha20.

The only file that uses the package ``cryptography``. Sources: RFC 7748, RFC 5869, RFC 8032, RFC 8439.

Each worker makes two X25519 key pairs for a round. Recovery may reveal the private *mask* key of a worker that is
called absent. Its *channel* key, which hides the shares on their way, is never shared: were both one key, a party
that learns it could read the shares of the worker's own seed as well, and so hold both of its secrets.
"""

import secrets
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final, Literal

from airmixml.errors import PluginError, ProtocolError

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


def chacha20(key: bytes, first_block: int, nonce: bytes, count: int) -> bytearray:
    """Return ``count`` bytes of ChaCha20's key stream from a block on (RFC 8439): key 32 bytes, nonce 12."""
    made = bytearray(count)
    cipher = Cipher(ChaCha20(key, first_block.to_bytes(4, "little") + nonce), mode=None).encryptor()
    cipher.update_into(bytes(count), made)
    return made


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
    return ChaCha20Poly1305(key).encrypt(_nonce(sender), content, round_id)


def opened(content: bytes, key: bytes, sender: int, round_id: bytes) -> bytes:
    """Return what the other worker sealed, or refuse it."""
    try:
        return ChaCha20Poly1305(key).decrypt(_nonce(sender), content, round_id)
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


def _nonce(sender: int) -> bytes:
    return b"\0\0\0\0" + identity_bytes(sender)
