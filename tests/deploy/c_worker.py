"""The worker of firmware/ called from Python, and contracts of any size for it."""

from __future__ import annotations

import ctypes
import math
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airmixml import Scenario
from airmixml.arrays import Singles
from airmixml.deploy.contract import Contract, Member
from airmixml.deploy.frames import FrameKind
from airmixml.deploy.wire import PREFIX, SERVER, Message, Type
from airmixml.masks.keys import edge_masks, is_signed, signature, uniform_integers, verifying_key
from airmixml.scenario import Learner, Privacy, Workers
from airmixml.workers.signal import payload_of

FIRMWARE = Path(__file__).parents[2] / "firmware"
SERVER_KEY, DEVICE_KEY = bytes([7]) * 32, bytes([8]) * 32
OWN_IDENTITY = 5

(
    OK,
    AGAIN,
    NO_MESSAGE,
    OTHER_RUN,
    NOT_SIGNED,
    OTHER_ORDER,
    USED_ROUND,
    NO_BUDGET,
    NOT_BEGUN,
    BAD_ROW,
    OTHER_FRAME,
    NOT_KEPT,
    BAD_LEDGER,
    NOT_SENT,
    BAD_CONTRACT,
    FEW_MASKS,
) = range(16)


def built(target: str, folder: Path, source: Path = FIRMWARE, **variables: str) -> Path:
    """Make a target of the Makefile in this folder, and return the folder."""
    given = [f"{name}={value}" for name, value in {"BUILD": str(folder), **variables}.items()]
    subprocess.run(["make", "-s", "-C", str(source), target, *given], check=True, timeout=300)
    return folder


def contract_of(
    inputs: int = 6,
    classes: int = 3,
    *,
    bits: int = 20,
    variance: float = 900.0,
    step: float = 2.0**-9,
    budget: int = 1000,
    cost: int = 100,
    releases: int = 5,
    most_rounds: int = 8,
    power_dbm: float = 20.0,
    bounds: tuple[float, float] | None = (-1.0, 3.0),
    targets: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
    **workers: Any,
) -> Contract:
    """Return a contract with a single kind of frame, for workers with so many inputs; ``workers`` are scenario keys."""
    settled = {
        "encoder": "clip",
        "centre": "none",
        "norm": "unit",
        "sends": "moments",
        "label_weight": 0.7,
        "label_code": "one-hot",
        **workers,
    }
    plan = Scenario(workers=Workers(**settled), privacy=Privacy(sensitivity="encoder"), learner=Learner(model="ridge"))
    features = inputs + bool(plan.workers.constant)
    kind = FrameKind(
        sends="moments",
        numbers=features * (features + 1) // 2 + features * classes,
        norm=math.hypot(plan.workers.clip_norm**2, plan.workers.label_weight * plan.workers.clip_norm),
        step=step,
        bits=bits,
        variance=variance,
        cost=cost,
        releases=releases,
    )
    lower, upper = (None, None) if bounds is None else ([each] * inputs for each in bounds)
    shape = {"feature_names": [], "image_shape": None, "columns": [], "decimal": "point"}
    return Contract(
        scenario=plan.to_toml(),
        rows={"width": inputs, "lower": lower, "upper": upper, **shape},
        outputs=tuple(map(str, range(classes))),
        targets=targets,
        kinds=(kind,),
        rules=(),
        budget=budget,
        epsilon=1.0,
        delta=1e-3,
        carriers=1,
        most_rounds=most_rounds,
        power_dbm=power_dbm,
        server_key=verifying_key(SERVER_KEY).hex(),
        members=tuple(Member(name=f"w{place}", verifying_key="00" * 32) for place in range(9)),
    )


def order_of(
    contract: Contract, number: int = 0, attempt: int = 0, *, kind: int = 0, power_dbm: float = 3.0
) -> Message:
    """Return a signed order."""
    body = struct.pack(">Bd", kind, power_dbm)
    return Message(Type.ORDER, SERVER, contract.run, number, attempt, body).signed_with(SERVER_KEY)


@dataclass(frozen=True)
class Secrets:
    """Seeds of a round."""

    noise: bytes = bytes(range(32))
    own: bytes = bytes(range(32, 64))
    edges: Mapping[int, Sequence[bytes]] = field(
        default_factory=lambda: {1: [bytes([1]) * 32], 4: [bytes([2]) * 32], 7: [bytes([3]) * 32, bytes([4]) * 32]}
    )

    @property
    def listed(self) -> list[tuple[int, bytes]]:
        """Each edge with its other end."""
        return [(other, seed) for other, seeds in self.edges.items() for seed in seeds]


def reference_frame(contract: Contract, features: Singles, labels: Singles, secrets: Secrets, number: int) -> bytes:
    """Return the frame of these features and labels by the package's own code."""
    kind = contract.kinds[0]

    def masks(first: int, count: int) -> NDArray[np.uint64]:
        own = uniform_integers(secrets.own, number, first, count, kind.bits)
        return own + edge_masks(OWN_IDENTITY, secrets.edges, 0.0, number, first, count, kind.bits)

    payload = payload_of(contract.plan.workers, features[None], labels[None], protects=True)
    vector = payload.vectors(np.array([0]))[0]
    assert vector.dtype == np.float32
    return kind.packed(kind.residues(vector, secrets.noise, number, masks))


class _Edge(ctypes.Structure):
    _fields_ = (("other", ctypes.c_uint64), ("seed", ctypes.c_uint8 * 32))


class _Seeds(ctypes.Structure):
    _fields_ = (
        ("noise", ctypes.c_char_p),
        ("own", ctypes.c_char_p),
        ("edges", ctypes.POINTER(_Edge)),
        ("edge_count", ctypes.c_uint32),
    )


_BYTES = ctypes.POINTER(ctypes.c_uint8)
_Persist = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, _BYTES)
_Verify = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, _BYTES, ctypes.c_size_t, _BYTES, _BYTES)
_Sign = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int, _BYTES, ctypes.c_size_t)
_Signature = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, _BYTES)
_Emit = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, _BYTES, ctypes.c_size_t)


class _Port(ctypes.Structure):
    _fields_ = (
        ("context", ctypes.c_void_p),
        ("persist", _Persist),
        ("verify", _Verify),
        ("sign", _Sign),
        ("signature", _Signature),
        ("emit", _Emit),
    )


class CWorker:
    """One device: the shared library with a port in Python. ``records`` are its flash."""

    def __init__(self, library: ctypes.CDLL, contract: bytes, records: Sequence[bytes] = ()) -> None:
        self.records, self._sent = list(records), bytearray()
        self.events: list[str] = []  # "kept" and "emitted", in the order of the calls
        self.signing_key = DEVICE_KEY
        self.keeps, self.emits = True, True  # what the storage and the transport do
        self._library, self._contract = library, contract
        self._passes = {1: bytearray(), 2: bytearray()}
        library.amx_worker_bytes.restype = ctypes.c_size_t
        library.amx_worker_features.restype = ctypes.POINTER(ctypes.c_float)
        self._memory = ctypes.create_string_buffer(library.amx_worker_bytes())
        self._port = _Port(
            None,
            _Persist(self._persist),
            _Verify(self._verify),
            _Sign(self._sign),
            _Signature(self._signature),
            _Emit(self._emit),
        )
        self.started = library.amx_start(
            self._memory, contract, ctypes.c_size_t(len(contract)), ctypes.byref(self._port)
        )
        self.replayed = [library.amx_replay(self._memory, each) for each in records]

    @property
    def sent(self) -> bytes:
        """What it emitted for the latest call."""
        return bytes(self._sent)

    def order(self, message: bytes) -> int:
        """Return what it makes of an order."""
        return int(self._library.amx_take_order(self._memory, message, ctypes.c_size_t(len(message))))

    def row(self, inputs: Singles, labels: Singles) -> int:
        """Return what it makes of a row."""
        given = (np.ascontiguousarray(each, dtype=np.float32) for each in (inputs, labels))
        return int(self._library.amx_take_row(self._memory, *(each.ctypes.data_as(ctypes.c_void_p) for each in given)))

    def class_label(self, number: int) -> tuple[int, Singles]:
        """Return what it makes of a class, and what is sent of it."""
        room = np.zeros(32, dtype=np.float32)  # the contract is what the worker's memory begins with
        return self._library.amx_code_class(self._memory, number, room.ctypes.data_as(ctypes.c_void_p)), room

    def features(self, count: int) -> Singles:
        """Return the row as it was encoded."""
        return np.ctypeslib.as_array(self._library.amx_worker_features(self._memory), (count,)).copy()

    def frame(self, secrets: Secrets) -> int:
        """Have the frame sent: ``sent`` is then the message."""
        edges = (_Edge * len(secrets.listed))(
            *(_Edge(other, (ctypes.c_uint8 * 32)(*seed)) for other, seed in secrets.listed)
        )
        seeds = _Seeds(secrets.noise, secrets.own, edges, len(edges))
        self._sent, self._passes = bytearray(), {1: bytearray(), 2: bytearray()}
        return int(self._library.amx_send_frame(self._memory, ctypes.byref(seeds)))

    def refusal(self, order: Message, why: int) -> bytes:
        """Return the message that says why an order was refused."""
        self._sent, self._passes = bytearray(), {1: bytearray(), 2: bytearray()}
        header = self._library.amx_read_header
        room, packed = ctypes.create_string_buffer(64), order.packed()
        assert header(room, packed, ctypes.c_size_t(len(packed))) == OK
        assert self._library.amx_send_refusal(self._memory, room, why) == OK
        return self.sent

    def _persist(self, context: Any, record: Any) -> bool:
        self.events.append("kept")
        if self.keeps:
            self.records.append(ctypes.string_at(record, 32))
        return self.keeps

    def _verify(self, context: Any, content: Any, count: int, signed: Any, key: Any) -> bool:
        return is_signed(
            PREFIX + ctypes.string_at(content, count), ctypes.string_at(signed, 64), ctypes.string_at(key, 32)
        )

    def _sign(self, context: Any, number: int, content: Any, count: int) -> bool:
        self._passes[number] += ctypes.string_at(content, count)
        return True

    def _signature(self, context: Any, out: Any) -> bool:
        if self._passes[1] != self._passes[2]:  # Ed25519 would then sign neither
            return False
        ctypes.memmove(out, signature(self.signing_key, bytes(self._passes[1])), 64)
        return True

    def _emit(self, context: Any, content: Any, count: int) -> bool:
        self.events.append("emitted")
        if self.emits:
            self._sent += ctypes.string_at(content, count)
        return self.emits
