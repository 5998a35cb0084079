"""The C worker on this machine: standard vectors, the bits of the Python reference, and the rules of its ledger."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
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
    DEVICE_KEY,
    FEW_MASKS,
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
    SERVER_KEY,
    USED_ROUND,
    CWorker,
    Secrets,
    built,
    contract_of,
    order_of,
    reference_frame,
)
from one_process import new_ledger
from provision import first_record, provisioned

from airmixml import Scenario
from airmixml.deploy.compiling import data_of, make_contract, planned_for
from airmixml.deploy.contract import Contract
from airmixml.deploy.wire import SERVER, Message, Type, pack_list, unpack_list, unpacked
from airmixml.deploy.worker import Device, Name, Transcripts, delivery
from airmixml.integers.encoding import SkellamTable, skellam_table
from airmixml.masks.keys import KeyPair, Use, stream_words, verifying_key
from airmixml.masks.rules import Rules
from airmixml.messages import ProtocolError, ScenarioError
from airmixml.workers.signal import payload_of

pytestmark = pytest.mark.skipif(not (shutil.which("cc") and shutil.which("make")), reason="needs a C compiler and make")
COMPILERS = [each for each in ("gcc", "clang") if shutil.which(each)] or ["cc"]
RULES = {
    "most_repeats": 0,
    "second_eigenvalue": 1.0,
    "threshold": 3,
    "quorum": 6,
    "most_absent": 1,
    "most_absent_neighbours": 1,
    "mask_deviation": 1.0,
    "self_deviation": 1.0,
}
ROW = np.array([0.5, -2.0, 1.25, 2.75, 3.5, 0.0], dtype=np.float32)
LABEL = np.array([0.0, 1.0, 0.0], dtype=np.float32)


@pytest.fixture(scope="module", params=COMPILERS)
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = built("host", tmp_path_factory.mktemp("firmware"), CC=request.param)
    return ctypes.CDLL(str(folder / "libairmix.so"))


def device(library: ctypes.CDLL, contract: Contract, records: tuple[bytes, ...] | None = None) -> CWorker:
    """Return a worker that is started with these records, or a new one."""
    name = f"w{OWN_IDENTITY}"
    worker = CWorker(
        library, provisioned(contract, name), (first_record(contract, name),) if records is None else records
    )
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
    content, hashed, digest = (
        bytes(each % 251 for each in range(count)),
        ctypes.create_string_buffer(128),
        (ctypes.create_string_buffer(32)),
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
        (17, 11, {"label_code": "centred", "constant": 0.4}),
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


def test_targets_of_a_regression_are_sent_as_the_caller_scales_them(library: ctypes.CDLL) -> None:
    bounds = {"target_lower": (0.0,), "target_upper": (50.0,)}
    contract = contract_of(classes=1, targets=((0.0,), (50.0,)), task="regression", dataset="diabetes", **bounds)
    labels = contract.label_code.coded(np.array([[12.5]]))[0].astype(np.float32)
    worker, secrets = device(library, contract), Secrets()
    assert worker.order(order_of(contract).packed()) == OK
    assert worker.row(ROW, labels) == OK
    assert worker.frame(secrets) == OK
    assert unpacked(worker.sent).body == reference_frame(contract, worker.features(6), labels, secrets, 0)


def test_ties_of_the_noise_are_decided_by_the_lower_words(library: ctypes.CDLL) -> None:
    """Each of the first four words equals three thresholds, of which the lower words leave 3, 2, 1 and none below."""
    contract, secrets = contract_of(bits=40), Secrets()
    kind, usual = contract.kinds[0], skellam_table(contract.kinds[0].variance)
    words = stream_words(secrets.noise, Use.NOISE, 0, 0, kind.numbers, 8)
    ties = stream_words(secrets.noise, Use.NOISE_TIES, 0, 0, kind.numbers, 8)
    full = [(int(word) << 64) + int(tie) for word, tie in zip(words, ties, strict=True)]
    met = sorted(full[place] + place + move for place in range(4) for move in (-2, -1, 0))
    split = np.array([divmod(each, 1 << 64) for each in met], dtype=np.uint64)
    blob = provisioned(contract, f"w{OWN_IDENTITY}")
    table = SkellamTable(-6, split[:, 0], split[:, 1])
    first = first_record(contract, f"w{OWN_IDENTITY}")
    worker = CWorker(library, with_table(blob, len(usual.high), table), [first])
    assert worker.order(order_of(contract).packed()) == OK
    assert worker.row(ROW, LABEL) == OK
    assert worker.frame(secrets) == OK
    by_hand = [-6 + sum(each <= drawn for each in met) for drawn in full]
    drawn = usual.at(words, lambda place: int(ties[place[0]]))
    plain = kind.unpacked(reference_frame(contract, worker.features(6), LABEL, secrets, 0))
    expected = (plain + (np.array(by_hand) - drawn).astype(np.uint64)) & kind.modulus
    assert (kind.unpacked(unpacked(worker.sent).body) == expected).all()


def with_table(blob: bytes, thresholds: int, table: SkellamTable) -> bytes:
    """Return a contract of firmware with another table of noise."""
    head = bytearray(blob[: -32 - 16 * thresholds])
    head[112:116] = len(table.high).to_bytes(4, "little")
    head[152:160] = table.smallest.to_bytes(8, "little", signed=True)
    content = bytes(head) + table.high.astype("<u8").tobytes() + table.low.astype("<u8").tobytes()
    return content + sha256(content).digest()


def test_message_is_that_of_a_python_device(library: ctypes.CDLL, tmp_path: Path) -> None:
    """All devices go through a round; firmware with the seeds of one sends that one's message, byte for byte."""
    contract = iris_contract(6)
    transcripts, ledger = Transcripts(contract), new_ledger(contract, tmp_path)
    entropies = [Entropy(place) for place in range(6)]
    rows, labels = np.full(4, 3.0, dtype=np.float32), contract.label_code.coded(np.array([2]))[0]
    worker = CWorker(library, provisioned(contract, "w2"), [first_record(contract, "w2")])
    worker.signing_key = bytes([2 + 1]) * 32
    assert worker.row(rows, labels) == OK
    payload = payload_of(contract.plan.workers, worker.features(5)[None], labels[None], protects=True)
    devices = [
        Device(
            place,
            contract,
            bytes([place + 1]) * 32,
            lambda kind, told: payload.vectors(np.array([0]))[0],
            ledger,
            transcripts,
            entropies[place],
        )
        for place in range(6)
    ]

    def said(kind: Type, body: bytes) -> list[bytes]:
        message = Message(kind, SERVER, contract.run, 0, 0, body).signed_with(SERVER_KEY)
        return [answer.body for device in devices for answer in device.handle(message)]

    order = order_of(contract)
    announced = pack_list(dict(enumerate(said(Type.ORDER, order.body))))
    revealed = pack_list(dict(enumerate(said(Type.ANNOUNCED, announced))))
    parcels = [unpack_list(each) for each in said(Type.REVEALED, revealed)]
    to_it = delivery(2, {sender: each[2] for sender, each in enumerate(parcels) if 2 in each})
    (frame,) = devices[2].handle(Message(Type.DELIVERY, SERVER, contract.run, 0, 0, to_it).signed_with(SERVER_KEY))
    joined = transcripts.revealed(Name.of(order, 0), announced, revealed)
    mask_key, _, own, _, noise = entropies[2].given
    edges = joined.edge_seeds(KeyPair(mask_key), 2, set(joined.graph[2]))
    assert frame.type is Type.FRAME
    assert worker.order(order.packed()) == OK
    assert worker.frame(Secrets(noise=noise, own=own, edges=edges)) == OK
    assert worker.sent == frame.packed()


class Entropy:
    """Random bytes of a seed, and what was given."""

    def __init__(self, seed: int) -> None:
        self.given: list[bytes] = []
        self._seed = seed

    def __call__(self, count: int) -> bytes:
        self.given.append(sha256(bytes([self._seed, len(self.given)])).digest()[:count])
        return self.given[-1]


def iris_contract(workers: int) -> Contract:
    """Return the contract of a preset that is compiled for so few workers."""
    preset = Scenario.preset("trustless-iris")
    scenario = replace(
        preset,
        radio=replace(preset.radio, link="digital"),
        privacy=replace(preset.privacy, arithmetic="integers"),
        workers=replace(preset.workers, holding="dealt"),
    )
    planned = planned_for(scenario, workers)
    keys = {f"w{place}": verifying_key(bytes([place + 1]) * 32) for place in range(workers)}
    return make_contract(planned, data_of(planned), keys, verifying_key(SERVER_KEY))


def test_order_is_kept_before_anything_is_sent_and_so_is_its_cost(library: ctypes.CDLL) -> None:
    worker = begun(library, contract_of())
    assert worker.events == ["kept"]
    assert worker.frame(Secrets()) == OK
    assert worker.events[:2] == ["kept", "kept"]
    assert set(worker.events[2:]) == {"emitted"}


def test_repeated_order_gives_the_identical_bytes_and_costs_nothing(library: ctypes.CDLL) -> None:
    contract = contract_of(budget=100, cost=100)
    worker = begun(library, contract)
    assert worker.frame(Secrets()) == OK
    first, records = worker.sent, list(worker.records)
    assert worker.order(order_of(contract).packed()) == AGAIN
    assert worker.row(ROW, LABEL) == OK
    assert worker.frame(Secrets()) == AGAIN
    assert worker.sent == first
    assert worker.records == records


@pytest.mark.parametrize("what", ["row", "label", "noise", "own", "edges"])
def test_second_frame_of_a_round_with_other_bytes_is_refused(library: ctypes.CDLL, what: str) -> None:
    worker, secrets = begun(library, contract_of()), Secrets()
    assert worker.frame(secrets) == OK
    row, label = ROW + (what == "row"), LABEL[::-1] if what == "label" else LABEL
    label = np.roll(label, 1) if what == "label" else label
    assert worker.row(row, label) == OK
    other = {"noise": bytes(32), "own": bytes(32), "edges": {1: [bytes([1]) * 32]}}
    assert worker.frame(replace(secrets, **{what: other[what]}) if what in other else secrets) == OTHER_FRAME
    assert worker.sent == b""


def test_another_order_under_the_name_of_a_round_is_refused(library: ctypes.CDLL) -> None:
    contract = contract_of()
    worker = begun(library, contract)
    assert worker.order(order_of(contract, power_dbm=2.0).packed()) == OTHER_ORDER
    assert worker.order(order_of(contract).packed()) == AGAIN


def test_refused_order_does_not_disturb_the_round_that_is_under_way(library: ctypes.CDLL) -> None:
    contract = contract_of()
    worker = device(library, contract)
    assert worker.order(order_of(contract, 1).packed()) == OK
    assert worker.order(order_of(contract, 0).packed()) == USED_ROUND
    assert worker.order(order_of(contract, 1).packed()) == AGAIN


def test_frame_with_fewer_masks_than_agreed_is_refused(library: ctypes.CDLL) -> None:
    contract = replace(contract_of(), rules=tuple(Rules(workers=9, degree=each, **RULES) for each in (5, 4)))
    worker, secrets = begun(library, contract), Secrets()
    assert worker.frame(replace(secrets, edges={1: secrets.edges[1], 7: secrets.edges[7]})) == FEW_MASKS
    assert worker.events == ["kept"]  # only that the round began
    assert worker.frame(secrets) == OK


@pytest.mark.parametrize("sent", [False, True])
def test_restarted_worker_never_sends_again_in_a_round_that_it_began(library: ctypes.CDLL, sent: bool) -> None:
    contract = contract_of()
    worker = device(library, contract)
    assert worker.order(order_of(contract, 2).packed()) == OK
    assert worker.row(ROW, LABEL) == OK
    if sent:
        assert worker.frame(Secrets()) == OK
    again = device(library, contract, tuple(worker.records))
    assert again.replayed == [OK] * (2 + sent)
    assert again.row(ROW, LABEL) == OK
    assert again.frame(Secrets()) == NOT_BEGUN
    for number, attempt in ((2, 0), (2, 1), (1, 0)):
        assert again.order(order_of(contract, number, attempt).packed()) == USED_ROUND
    assert again.frame(Secrets()) == NOT_BEGUN
    assert again.events == []
    assert again.order(order_of(contract, 3).packed()) == OK
    assert again.frame(Secrets()) == OK


def test_attempts_rise_until_a_frame_is_sent(library: ctypes.CDLL) -> None:
    contract = contract_of()
    worker = begun(library, contract)
    assert worker.order(order_of(contract, 0, 2).packed()) == OK
    assert worker.order(order_of(contract, 0, 1).packed()) == USED_ROUND
    assert worker.frame(Secrets()) == OK
    assert unpacked(worker.sent).attempt == 2
    assert worker.order(order_of(contract, 0, 3).packed()) == USED_ROUND
    assert worker.order(order_of(contract, 1, 4).packed()) == OTHER_ORDER
    assert worker.order(order_of(contract, contract.most_rounds).packed()) == OTHER_ORDER


@pytest.mark.parametrize(("budget", "releases", "frames"), [(250, 9, 2), (300, 9, 3), (10**6, 4, 4), (99, 9, 0)])
def test_no_more_is_spent_than_agreed_also_over_restarts(
    library: ctypes.CDLL, budget: int, releases: int, frames: int
) -> None:
    contract = contract_of(budget=budget, cost=100, releases=releases)
    records: tuple[bytes, ...] | None = None
    for number in range(frames):
        worker = device(library, contract, records)
        assert worker.order(order_of(contract, number).packed()) == OK
        assert worker.row(ROW, LABEL) == OK
        assert worker.frame(Secrets()) == OK
        records = tuple(worker.records)
    assert device(library, contract, records).order(order_of(contract, frames).packed()) == NO_BUDGET


@pytest.mark.parametrize("failing", [1, 2])
def test_nothing_is_sent_where_the_ledger_cannot_be_written(library: ctypes.CDLL, failing: int) -> None:
    contract = contract_of()
    worker = device(library, contract)
    worker.keeps = failing == 2
    assert worker.order(order_of(contract).packed()) == (OK if failing == 2 else NOT_KEPT)
    assert worker.row(ROW, LABEL) == OK
    worker.keeps = False
    assert worker.frame(Secrets()) == NOT_KEPT
    worker.keeps = True
    assert worker.frame(Secrets()) == NOT_KEPT
    assert worker.order(order_of(contract, 1).packed()) == NOT_KEPT
    assert "emitted" not in worker.events


@pytest.mark.parametrize("place", [0, 1, 5, 12, 31])
def test_damaged_record_ends_all_sending(library: ctypes.CDLL, place: int) -> None:
    contract = contract_of()
    worker = begun(library, contract)
    assert worker.frame(Secrets()) == OK
    for which in range(3):
        records = [bytearray(each) for each in worker.records]
        records[which][place] ^= 4
        again = device(library, contract, tuple(bytes(each) for each in records))
        assert again.replayed[-1] == BAD_LEDGER
        assert again.order(order_of(contract, 5).packed()) == BAD_LEDGER


def test_records_of_another_run_or_worker_or_out_of_order_are_refused(library: ctypes.CDLL) -> None:
    contract = contract_of()
    worker = begun(library, contract)
    assert worker.frame(Secrets()) == OK
    first, began, spent = (each[:16] for each in worker.records)
    assert worker.records == chained(contract, first, began, spent)
    assert device(library, contract_of(budget=999), tuple(worker.records[:1])).replayed == [BAD_LEDGER]
    assert CWorker(library, provisioned(contract, "w6"), worker.records[:1]).replayed == [BAD_LEDGER]
    for *good, bad in (
        [began],
        [spent],
        [first, first],
        [first, spent],
        [first, began, began],
        [first, began, spent, spent],
        [first, began, spent, first],
        [first, b"\4" + first[1:]],
    ):
        again = device(library, contract, tuple(chained(contract, *good, bad)))
        assert again.replayed == [OK] * len(good) + [BAD_LEDGER]
        assert again.order(order_of(contract, 5).packed()) == BAD_LEDGER


def chained(contract: Contract, *data: bytes) -> list[bytes]:
    """Return records of these data whose digests are right."""
    records = [bytes(32)]
    for each in data:
        hashed = contract.run + OWN_IDENTITY.to_bytes(8, "big") + records[-1][16:] + each
        records.append(each + sha256(hashed).digest()[:16])
    return records[1:]


@pytest.mark.parametrize("lost", [1, 3])  # the first of the two records that a round leaves
def test_lost_records_end_all_sending_unless_they_were_the_last(library: ctypes.CDLL, lost: int) -> None:
    contract = contract_of(releases=3)
    worker = device(library, contract)
    assert worker.row(ROW, LABEL) == OK
    for number in range(3):
        assert worker.order(order_of(contract, number).packed()) == OK
        assert worker.frame(Secrets()) == OK
    records = tuple(worker.records)
    for count in (1, 2):
        again = device(library, contract, records[:lost] + records[lost + count :])
        assert again.replayed[lost] == BAD_LEDGER
        assert again.order(order_of(contract, 3).packed()) == BAD_LEDGER
        assert again.events == []
    assert set(device(library, contract, records[:-2]).replayed) == {OK}  # no storage can tell


def test_worker_whose_ledger_is_missing_sends_nothing(library: ctypes.CDLL) -> None:
    contract = contract_of()
    worker = device(library, contract, ())
    assert worker.order(order_of(contract).packed()) == BAD_LEDGER
    assert worker.row(ROW, LABEL) == OK
    assert worker.frame(Secrets()) == NOT_BEGUN
    assert worker.events == []


def test_transport_that_fails_leaves_the_cost_spent_and_the_same_frame_to_send(library: ctypes.CDLL) -> None:
    worker = begun(library, contract_of())
    worker.emits = False
    assert worker.frame(Secrets()) == NOT_SENT
    worker.emits = True
    assert worker.frame(Secrets()) == AGAIN
    assert len(worker.records) == 3
    assert unpacked(worker.sent).is_signed_by(verifying_key(DEVICE_KEY))


def test_orders_that_are_not_the_servers_or_not_agreed_are_refused(library: ctypes.CDLL) -> None:
    contract = contract_of(power_dbm=10.0)
    worker, good = device(library, contract), order_of(contract)
    packed = good.packed()
    flipped = packed[:60] + bytes([packed[60] ^ 1]) + packed[61:]
    by_another = replace(good, sender=3).signed_with(SERVER_KEY)
    refused = {
        flipped: NOT_SIGNED,
        packed[:-1] + bytes([packed[-1] ^ 1]): NOT_SIGNED,
        order_of(contract).signed_with(DEVICE_KEY).packed(): NOT_SIGNED,
        by_another.packed(): OTHER_RUN,
        replace(good, type=Type.OVER).signed_with(SERVER_KEY).packed(): OTHER_RUN,
        order_of(contract_of(budget=7)).packed(): OTHER_RUN,
        order_of(contract, kind=1).packed(): OTHER_ORDER,
        order_of(contract, power_dbm=10.001).packed(): OTHER_ORDER,
        order_of(contract, power_dbm=float("nan")).packed(): OTHER_ORDER,
        replace(good, body=good.body + b"\0").signed_with(SERVER_KEY).packed(): OTHER_ORDER,
        replace(good, body=b"").signed_with(SERVER_KEY).packed(): OTHER_ORDER,
        packed[:-1]: NO_MESSAGE,
        packed + b"\0": NO_MESSAGE,
        b"AMX2" + packed[4:]: NO_MESSAGE,
        packed[:6] + b"\1" + packed[7:]: NO_MESSAGE,
        packed[:4] + bytes([17]) + packed[5:]: NO_MESSAGE,
        packed[:52] + b"\xff\xff\xff\xff" + packed[56:]: NO_MESSAGE,
        b"": NO_MESSAGE,
        packed[:119]: NO_MESSAGE,
    }
    assert {worker.order(each) == status for each, status in refused.items()} == {True}
    assert worker.events == []
    assert worker.order(packed) == OK


def test_c_and_python_take_the_same_bytes_for_messages(library: ctypes.CDLL) -> None:
    drawn, good = np.random.default_rng(0), order_of(contract_of()).packed()
    taken = []
    for _ in range(3000):
        content = bytearray(good)
        for place in drawn.integers(0, 56, drawn.integers(0, 3)):
            content[place] = drawn.choice([0, 1, 2, 16, 17, 255, content[place] ^ 1])
        if drawn.random() < 0.2:
            content = content[: drawn.integers(0, len(good))] if drawn.random() < 0.5 else content + bytes(1)
        header = ctypes.create_string_buffer(64)
        status = library.amx_read_header(header, bytes(content), ctypes.c_size_t(len(content)))
        try:
            unpacked(bytes(content))
            taken.append(True)
        except ProtocolError:
            taken.append(False)
        assert (status == OK) == taken[-1]
    assert 300 < sum(taken) < 2700


@pytest.mark.parametrize("label_code", ["one-hot", "centred"])
def test_classes_are_coded_as_the_contract_says(library: ctypes.CDLL, label_code: str) -> None:
    contract = contract_of(classes=4, constant=0.5, label_code=label_code)
    worker = device(library, contract)
    for number in range(4):
        status, coded = worker.class_label(number)
        assert status == OK
        assert coded[:4].tolist() == contract.label_code.coded(np.array([number]))[0].tolist()
    assert worker.class_label(4)[0] == BAD_ROW


def test_refusal_is_a_signed_message_with_a_reason(library: ctypes.CDLL) -> None:
    contract = contract_of()
    worker, order = device(library, contract), order_of(contract, 3, 1)
    message = unpacked(worker.refusal(order, NO_BUDGET))
    assert (message.type, message.sender, message.round, message.attempt) == (Type.REFUSAL, OWN_IDENTITY, 3, 1)
    assert message.body.startswith(b"budget")
    assert message.is_signed_by(verifying_key(DEVICE_KEY))


def test_rows_that_are_not_finite_and_labels_that_are_too_long_are_refused(library: ctypes.CDLL) -> None:
    worker = begun(library, contract_of())
    for value in (np.nan, np.inf, -np.inf):
        assert worker.row(np.where(np.arange(6) == 4, value, ROW), LABEL) == BAD_ROW
        assert worker.row(ROW, np.where(LABEL > 0.0, value, LABEL)) == BAD_ROW
        assert worker.frame(Secrets()) == NOT_BEGUN
    assert worker.row(ROW, np.array([0.8, 0.8, 0.0])) == BAD_ROW
    assert worker.row(ROW, np.array([0.6, -0.8, 0.0])) == OK


@pytest.mark.parametrize("norm", ["unit", "clip"])
def test_encoded_rows_are_within_the_norm_in_exact_arithmetic(library: ctypes.CDLL, norm: str) -> None:
    contract = contract_of(50, norm=norm, clip_norm=0.25, constant=0.6)
    worker, drawn = device(library, contract), np.random.default_rng(3)
    for scale in (0.0, 1e-30, 1.0, 1e20):
        assert worker.row((drawn.normal(size=50) * scale).astype(np.float32), LABEL) == OK
        features = worker.features(51)
        length = sum(Fraction(float(each)) ** 2 for each in features)
        assert length <= Fraction(0.25) ** 2


def test_damaged_contract_and_one_that_is_too_large_are_refused(library: ctypes.CDLL) -> None:
    blob = provisioned(contract_of(), f"w{OWN_IDENTITY}")
    for damaged in (blob[:-1], blob + b"\0", blob[:90] + bytes([blob[90] ^ 1]) + blob[91:], b"", blob[:223]):
        assert CWorker(library, damaged).started == BAD_CONTRACT
    assert CWorker(library, provisioned(contract_of(1026), "w0")).started == BAD_CONTRACT
    assert CWorker(library, provisioned(contract_of(1025), "w0")).started == OK
    assert CWorker(library, provisioned(contract_of(1025, constant=0.5), "w0")).started == BAD_CONTRACT


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"encoder": "signs", "centre": "none"}, "workers.encoder"),
        ({"centre": "own"}, "workers.centre"),
        ({"holding": "size-skewed"}, "one row"),
    ],
)
def test_contract_that_firmware_cannot_keep_is_refused_by_name(keys: dict[str, str], named: str) -> None:
    with pytest.raises(ScenarioError, match=named):
        provisioned(contract_of(**keys), "w0")


def test_mutated_messages_break_nothing_under_sanitizers(tmp_path: Path) -> None:
    folder = built("fuzz", tmp_path, FUZZ_INPUTS="0")
    done = subprocess.run([folder / "fuzz", "2000"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    met = {tuple(line.split()[:2]) for line in done.stdout.splitlines()}
    for target, refusal in (("contract", BAD_CONTRACT), ("order", NO_MESSAGE), ("records", BAD_LEDGER)):
        assert {(target, str(OK)), (target, str(refusal))} <= met  # both sides of the checks were met
