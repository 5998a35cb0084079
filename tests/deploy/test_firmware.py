"""The C worker on this machine: standard vectors, the bits of the Python reference, and the rules of its ledger."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from c_worker import (
    AGAIN,
    BAD_CONTRACT,
    BAD_LEDGER,
    BAD_ROW,
    NO_BUDGET,
    NO_MESSAGE,
    NOT_BEGUN,
    NOT_KEPT,
    NOT_SENT,
    NOT_SIGNED,
    OK,
    OTHER_FRAME,
    OTHER_ORDER,
    OTHER_RUN,
    OWN_IDENTITY,
    USED_ROUND,
    CWorker,
    Secrets,
    built,
    contract_of,
    order_of,
    reference_frame,
    DEVICE_KEY,
)

from airmixml.deploy.contract import Contract
from airmixml.deploy.provision import provisioned
from airmixml.deploy.wire import Type, unpacked
from airmixml.errors import ScenarioError
from airmixml.integers.exact_sampler import skellam_table
from airmixml.masks.keys import verifying_key

pytestmark = pytest.mark.skipif(not (shutil.which("cc") and shutil.which("make")), reason="needs a C compiler and make")
COMPILERS = [each for each in ("gcc", "clang") if shutil.which(each)] or ["cc"]
ROW = np.array([0.5, -2.0, 1.25, 2.75, 3.5, 0.0], dtype=np.float32)
LABEL = np.array([0.0, 1.0, 0.0], dtype=np.float32)


@pytest.fixture(scope="module", params=COMPILERS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = built("host", tmp_path_factory.mktemp("firmware"), CC=request.param)
    return ctypes.CDLL(str(folder / "libairmix.so"))


def device(library: ctypes.CDLL, contract: Contract, records: tuple[bytes, ...] = ()) -> CWorker:
    worker = CWorker(library, provisioned(contract, f"w{OWN_IDENTITY}"), records)
    assert worker.started == OK
    return worker


def begun(library: ctypes.CDLL, contract: Contract) -> CWorker:
    worker = device(library, contract)
    assert worker.order(order_of(contract).packed()) == OK
    assert worker.row(ROW, LABEL) == OK
    return worker


def test_chacha20_has_the_stream_of_rfc_8439(library: ctypes.CDLL) -> None:
    # Section 2.3.2: its nonce is 00:00:00:09:00:00:00:4a:00:00:00:00, its block counter 1.
    stream, out = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    library.amx_stream_open(stream, bytes(range(32)), ctypes.c_uint32(0x09000000), ctypes.c_uint64(0x4A000000))
    library.amx_stream_block(stream, ctypes.c_uint32(1), out)
    assert out.raw.hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


@pytest.mark.parametrize("count", [0, 3, 55, 56, 63, 64, 65, 1000])
def test_sha256_is_that_of_the_standard_library(library: ctypes.CDLL, count: int) -> None:
    content, hashed, digest = bytes(each % 251 for each in range(count)), ctypes.create_string_buffer(128), (
        ctypes.create_string_buffer(32)
    )
    library.amx_sha256_start(hashed)
    library.amx_sha256_add(hashed, content[: count // 3], ctypes.c_size_t(count // 3))
    library.amx_sha256_add(hashed, content[count // 3 :], ctypes.c_size_t(count - count // 3))
    library.amx_sha256_end(hashed, digest)
    assert digest.raw == sha256(content).digest()


def test_square_roots_are_those_of_ieee_754(library: ctypes.CDLL) -> None:
    library.amx_square_root.restype = ctypes.c_double
    drawn = np.random.default_rng(0)
    values = [*(drawn.random(2000) * 10.0 ** drawn.integers(-300, 300, 2000)), 0.0, 1.0, 2.0, 4.0, 5e-324, 1e-310]
    values += [float(np.nextafter(4.0**each, 0.0)) for each in range(-5, 5)]
    assert [library.amx_square_root(ctypes.c_double(each)) for each in values] == np.sqrt(values).tolist()


@pytest.mark.parametrize(
    ("bits", "inputs", "keys"),
    [
        (2, 6, {}),
        (8, 6, {"constant": 0.5}),
        (9, 1, {"norm": "clip", "clip_norm": 0.5}),
        (16, 6, {"centre": "public", "constant": 0.3}),
        (17, 11, {"label_code": "centred"}),
        (32, 40, {"norm": "clip", "clip_norm": 0.9}),
        (33, 6, {"encoder": "embeddings"}),
        (62, 30, {}),
    ],
)
def test_frames_have_the_bits_of_the_reference(
    library: ctypes.CDLL, bits: int, inputs: int, keys: dict[str, object]
) -> None:
    bounds = None if keys.get("encoder") == "embeddings" else (-1.0, 3.0)
    contract = contract_of(inputs, bits=bits, bounds=bounds, **keys)
    worker, drawn, secrets = device(library, contract), np.random.default_rng(bits), Secrets()
    labels = contract.label_code.coded(np.array([1]))[0]
    for number in range(3):
        row = drawn.normal(1.0, 1.5, inputs).astype(np.float32)
        assert worker.order(order_of(contract, number).packed()) == OK
        assert worker.row(row, labels) == OK
        assert worker.frame(secrets) == OK
        expected = contract.encoder.encode(row[None])[0]
        features = worker.features(len(expected))
        np.testing.assert_array_max_ulp(features, expected, maxulp=1)  # NumPy adds up squares in an order of its own
        message = unpacked(worker.sent)
        assert message.body == reference_frame(contract, features, labels, secrets, number)
        assert (message.type, message.sender, message.run) == (Type.FRAME, OWN_IDENTITY, contract.run)
        assert (message.round, message.attempt) == (number, 0)
        assert message.is_signed_by(verifying_key(DEVICE_KEY))
