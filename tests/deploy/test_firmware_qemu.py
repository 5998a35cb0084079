"""The C worker on an emulated Cortex-M4: the frame, its repeat and its refusal after a restart, as on this machine."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from c_worker import (
    AGAIN,
    NOT_BEGUN,
    OK,
    OWN_IDENTITY,
    USED_ROUND,
    Secrets,
    built,
    contract_of,
    order_of,
    reference_frame,
)
from provision import first_record, provisioned

from airmixml.arrays import Singles
from airmixml.deploy.contract import Contract
from airmixml.deploy.wire import PREFIX, Message, Type

pytestmark = [
    pytest.mark.deploy,
    pytest.mark.skipif(
        not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
        reason="needs the Debian packages gcc-arm-none-eabi and qemu-system-arm",
    ),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("arm", tmp_path_factory.mktemp("firmware")) / "cortex-m4.elf"


@dataclass(frozen=True)
class Round:
    """What a test puts into the board's memory."""

    contract: Contract
    row: Singles
    labels: Singles
    secrets: Secrets
    number: int = 3

    def packed(self) -> bytes:
        """Return it as ports/cortex-m4/main.c reads it."""
        first, contract = (each(self.contract, f"w{OWN_IDENTITY}") for each in (first_record, provisioned))
        order = order_of(self.contract, self.number)
        key = bytes.fromhex(self.contract.server_key)
        signed = sha256(key + PREFIX + order.statement).digest() + bytes(32)  # the stand-in of that port
        message = order.statement + signed
        edges = b"".join(struct.pack("<Q", other) + seed for other, seed in self.secrets.listed)
        sizes = struct.pack("<IIII", len(contract), len(message), len(self.secrets.listed), 0)
        numbers = self.row.astype("<f4").tobytes() + self.labels.astype("<f4").tobytes()
        return sizes + first + contract + message + numbers + self.secrets.noise + self.secrets.own + edges


def board_says(image: Path, given: Round, folder: Path) -> dict[str, list[str]]:
    """Return what the board prints, by name."""
    memory = folder / "given.bin"
    memory.write_bytes(given.packed())
    command = ["qemu-system-arm", "-machine", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", "-icount", "shift=0"]
    command += ["-device", f"loader,file={memory},addr=0x21000000,force-raw=on", "-kernel", str(image)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, list[str]] = {}
    for line in (done.stdout + done.stderr).splitlines():
        name, _, value = line.partition(" ")
        said.setdefault(name, []).append(value)
    return said


def frame_digest(given: Round, features: Singles) -> str:
    """Return the digest of the message that the reference sends, with that port's stand-in for a signature."""
    body = reference_frame(given.contract, features, given.labels, given.secrets, given.number)
    message = Message(Type.FRAME, OWN_IDENTITY, given.contract.run, given.number, 0, body)
    passed = sha256(PREFIX + message.statement).digest()
    return sha256(message.statement + passed + passed).hexdigest()


def drawn_round(inputs: int, classes: int, **keys: object) -> Round:
    drawn = np.random.default_rng(inputs)
    labels = np.eye(classes, dtype=np.float32)[0]
    contract = contract_of(inputs, classes, **keys)
    return Round(contract, drawn.normal(1.0, 1.5, inputs).astype(np.float32), labels, Secrets())


@pytest.mark.parametrize(
    "given",
    [
        drawn_round(6, 3, bits=20, constant=0.5, centre="public"),
        drawn_round(40, 10, bits=13, norm="clip", clip_norm=0.5),
        drawn_round(33, 2, bits=40, encoder="embeddings", bounds=None),
    ],
)
def test_board_sends_the_bytes_of_the_reference(image: Path, given: Round, tmp_path: Path) -> None:
    said = board_says(image, given, tmp_path)
    assert said["start"] == said["order"] == said["row"] == said["frame"] == [str(OK)]
    features = np.frombuffer(bytes.fromhex(said["features"][0]), dtype="<f4")
    expected = given.contract.encoder.encode(given.row[None])[0]
    np.testing.assert_array_max_ulp(features, expected, maxulp=1)
    assert said["frame_digest"] == [frame_digest(given, features)]


def test_board_repeats_a_frame_and_never_sends_again_after_a_restart(image: Path, tmp_path: Path) -> None:
    said = board_says(image, drawn_round(6, 3), tmp_path)
    assert said["order_again"] == said["frame_again"] == [str(AGAIN)]
    assert said["frame_again_digest"] == said["frame_digest"]
    assert said["replay"] == [str(OK)] * 4  # the first; after the restart the first, began, spent
    assert said["order_after_restart"] == [str(USED_ROUND)]
    assert said["frame_after_restart"] == [str(NOT_BEGUN)]
    assert said["nothing_digest"] == [sha256().hexdigest()]


@pytest.mark.long
def test_half_a_million_products_have_a_pinned_digest_on_the_board(image: Path, tmp_path: Path) -> None:
    """1,024 features and 10 classes, noise and four masks; firmware/README.md names the digest."""
    given = drawn_round(1024, 10, bits=20, variance=31511.0)
    said = board_says(image, given, tmp_path)
    features = np.frombuffer(bytes.fromhex(said["features"][0]), dtype="<f4")
    frame = reference_frame(given.contract, features, given.labels, given.secrets, given.number)
    assert sha256(frame).hexdigest() == "9691a6baeae1318bae999a21f78a0423a4be1224e07f739d4a8a772e64acf20a"
    assert said["frame_digest"] == [frame_digest(given, features)]
    assert int(said["stack_bytes"][0]) < 4096
