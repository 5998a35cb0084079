"""A contract as the constants of one microcontroller: what firmware/ holds in flash and no order changes.

The layout is read by firmware/worker/contract.c; numbers have the little end first, and a digest is at the end. Tables
of the noise are made here, so that the device needs no arithmetic but comparisons to draw it. So is the first record of
its ledger, which firmware/worker/ledger.c continues.
"""

import math
import struct
from hashlib import sha256
from typing import Final

import numpy as np

from airmixml.data import Bounded
from airmixml.data.dataset import as_stored
from airmixml.deploy.contract import Contract
from airmixml.deploy.frames import FrameKind
from airmixml.integers.encoding import skellam_table
from airmixml.messages import ScenarioError
from airmixml.scenario import Workers
from airmixml.streams import Streams
from airmixml.workers.encoding import ROUNDING_MARGIN, encoded_dim, public_means

_MAGIC: Final = b"AMXC"
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<4sHBB32s32sQQQIIIIIfffdddqIffdI8x")
_UNIT_NORM, _MEAN, _CONSTANT, _BOUNDS = 1, 2, 4, 8
_RAW: Final = np.dtype("<f4")  # of the numbers that a device measures


def provisioned(contract: Contract, name: str) -> bytes:
    """Return the constants of the worker of that name; refuse a contract that firmware cannot keep."""
    workers, rows = contract.plan.workers, contract.encoder.row_format
    for key, whose in (
        (contract.server_key, "server"),
        (contract.members[contract.identity(name)].verifying_key, name),
    ):
        contract.check_key(key, whose)  # a device reads no list of revoked keys
    place, kind = _moments(contract)
    _check(workers)
    features = encoded_dim(workers, rows.width)
    table = skellam_table(kind.variance)
    flags, parts = 0, []
    if workers.norm == "unit":
        flags |= _UNIT_NORM
    if rows.lower is not None and rows.upper is not None:
        flags |= _BOUNDS
        parts += [np.broadcast_to(each, rows.width).astype("<f8") for each in as_stored(_RAW, rows.lower, rows.upper)]
    unit_rows = np.zeros((1, rows.width), dtype=np.float32)
    _, mean = public_means(workers, unit_rows, rows.image_shape, Streams(contract.plan.seed))
    if mean is not None:
        flags |= _MEAN
        parts.append(mean.astype("<f4"))
    if workers.constant:
        flags |= _CONSTANT
    parts += [table.high.astype("<u8"), table.low.astype("<u8")]
    code = contract.label_code
    own, other = (0.0, 0.0) if isinstance(code, Bounded) else code.coded(np.array([0]))[0, :2].tolist()
    header = _HEADER.pack(
        _MAGIC,
        _VERSION,
        flags,
        kind.bits,
        contract.run,
        bytes.fromhex(contract.server_key),
        contract.identity(name),
        contract.budget,
        kind.cost,
        place,
        contract.most_rounds,
        rows.width,
        (kind.numbers - features * (features + 1) // 2) // features,
        len(table.high),
        workers.label_weight,
        math.sqrt(1.0 - workers.constant**2),
        workers.constant * workers.clip_norm * ROUNDING_MARGIN,
        workers.clip_norm * ROUNDING_MARGIN,
        kind.step,
        kind.norm,
        table.smallest,
        kind.releases,
        own,
        other,
        contract.power_dbm,
        min((each.degree for each in contract.rules), default=0),
    )
    content = header + b"".join(each.tobytes() for each in parts)
    return content + sha256(content).digest()


def first_record(contract: Contract, name: str) -> bytes:
    """Return what the ledger of that worker begins with: written here alone, so that a ledger without it was lost."""
    identity, link_before, data = contract.identity(name).to_bytes(8, "big"), bytes(16), b"\3" + bytes(15)
    return data + sha256(contract.run + identity + link_before + data).digest()[:16]


def _moments(contract: Contract) -> tuple[int, FrameKind]:
    """Return the kind of frame that firmware sends, and its place; orders of another kind it refuses."""
    for place, kind in enumerate(contract.kinds):
        if isinstance(kind, FrameKind) and kind.sends == "moments":
            return place, kind
    raise ScenarioError('workers.sends: must be "moments" on a microcontroller; use airmix worker for other frames')


def _check(workers: Workers) -> None:
    for key, value, allowed in (
        ("encoder", workers.encoder, ("clip", "embeddings")),
        ("centre", workers.centre, ("none", "public")),
        ("norm", workers.norm, ("clip", "unit")),
    ):
        if value not in allowed:
            choices = " or ".join(f'"{each}"' for each in allowed)
            raise ScenarioError(
                f'workers.{key} = "{value}": must be {choices} on a microcontroller; use airmix worker for others'
            )
    if workers.several_rows:
        raise ScenarioError("workers.max_rows: a microcontroller sends one row; use airmix worker for several")
