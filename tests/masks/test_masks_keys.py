"""Key agreement: the vectors of the RFCs, and what a seed is bound to."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import pytest

from airmixml.masks.keys import (
    KeyPair,
    derive,
    is_signed,
    opened,
    pair_seed,
    sealed,
    signature,
    verifying_key,
)
from airmixml.messages import ProtocolError

# RFC 7748, section 6.1
ALICE = KeyPair(bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
BOB = KeyPair(bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
ROUND = bytes(range(32))
PINNED_SEED = "c9e67e8a6cd18ebcb73ca89c97cfb86144bf7b520e80455ef71df2779c30b84f"


def test_x25519_gives_the_vector_of_rfc_7748() -> None:
    assert ALICE.public.hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert BOB.public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert ALICE.shared_secret(BOB.public).hex() == BOB.shared_secret(ALICE.public).hex() == shared


def test_hkdf_gives_the_vector_of_rfc_5869() -> None:
    made = derive(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)), 42)
    assert made.hex() == ("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")


def test_ed25519_gives_the_vector_of_rfc_8032() -> None:
    key = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = verifying_key(key)
    assert public.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    signed = signature(key, b"")
    assert signed.hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24"
        "655141438e7a100b"
    )
    assert is_signed(b"", signed, public)
    assert not is_signed(b"x", signed, public)
    assert not is_signed(b"", signed[:-1], public)


def test_both_ends_derive_the_pinned_seed() -> None:
    seed = pair_seed(ALICE, 1, BOB.public, 2, ROUND)
    assert seed == pair_seed(BOB, 2, ALICE.public, 1, ROUND)
    assert seed.hex() == PINNED_SEED


def test_the_seed_is_hkdf_by_hand() -> None:
    """HMAC written out from RFC 5869: extract with the round as salt, one step of expand."""
    import hmac

    extracted = hmac.digest(ROUND, ALICE.shared_secret(BOB.public), "sha256")
    ends = (1).to_bytes(8, "big") + ALICE.public + (2).to_bytes(8, "big") + BOB.public
    by_hand = hmac.digest(extracted, b"airmixml-masks/1 mask\0" + ends + b"\x01", "sha256")
    assert by_hand.hex() == PINNED_SEED


@pytest.mark.parametrize("change", ["round", "identities", "purpose", "order"])
def test_everything_that_must_agree_changes_the_seed(change: str) -> None:
    seed = pair_seed(ALICE, 1, BOB.public, 2, ROUND)
    others = {
        "round": pair_seed(ALICE, 1, BOB.public, 2, bytes(32)),
        "identities": pair_seed(ALICE, 1, BOB.public, 3, ROUND),
        "purpose": pair_seed(ALICE, 1, BOB.public, 2, ROUND, purpose="channel"),
        "order": pair_seed(ALICE, 2, BOB.public, 1, ROUND),
    }
    assert others[change] != seed


def test_only_the_other_end_opens_a_parcel_unchanged() -> None:
    key = pair_seed(ALICE, 1, BOB.public, 2, ROUND, purpose="channel")
    assert key == pair_seed(BOB, 2, ALICE.public, 1, ROUND, purpose="channel")
    parcel = sealed(b"shares", key, 1, ROUND)
    assert opened(parcel, key, 1, ROUND) == b"shares"
    assert sealed(b"shares", key, 2, ROUND) != parcel  # no nonce serves twice
    for wrong in (bytes([parcel[0] ^ 1]) + parcel[1:], parcel[:-1], b""):
        with pytest.raises(ProtocolError, match="shares of worker 1"):
            opened(wrong, key, 1, ROUND)
    with pytest.raises(ProtocolError, match="another round"):
        opened(parcel, pair_seed(BOB, 2, ALICE.public, 1, bytes(32), purpose="channel"), 1, bytes(32))
    with pytest.raises(ProtocolError):
        opened(parcel, pair_seed(KeyPair.generate(), 2, ALICE.public, 1, ROUND, purpose="channel"), 1, ROUND)


def test_points_of_small_order_and_odd_identities_are_refused() -> None:
    with pytest.raises(ProtocolError, match="no usable X25519 key"):
        ALICE.shared_secret(bytes(32))
    with pytest.raises(ProtocolError, match="no usable X25519 key"):
        ALICE.shared_secret(b"short")
    with pytest.raises(ProtocolError, match="shares no key with itself"):
        pair_seed(ALICE, 1, BOB.public, 1, ROUND)
    with pytest.raises(ProtocolError, match="identity = -1"):
        pair_seed(ALICE, -1, BOB.public, 1, ROUND)


def test_private_keys_are_not_shown() -> None:
    assert ALICE.private.hex() not in repr(ALICE)
    assert repr(ALICE.private) not in repr(ALICE)


def test_a_missing_package_is_named() -> None:
    code = "import sys; sys.modules['cryptography'] = None; import airmixml.masks; import airmixml.masks.keys"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "PluginError: masks: need the package cryptography" in done.stderr
    assert "pip install 'airmixml[masks]'" in done.stderr


def test_long_statements_are_checked_and_not_kept() -> None:
    """Frames of a deployment have megabytes each; whoever checks thousands of them must not hold them all."""
    key = bytes(range(32))
    tracemalloc.start()
    try:
        for number in range(20):
            statement = bytes([number]) * (1 << 20)
            assert is_signed(statement, signature(key, statement), verifying_key(key))
        del statement
        assert tracemalloc.get_traced_memory()[0] < 3 << 20
    finally:
        tracemalloc.stop()
