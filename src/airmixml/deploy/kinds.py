"""Kinds of frames: what each costs, how a worker forms it, and what a server makes of the sum.

Masked integers travel to the server, which adds them up. Samples travel to an air, which does: of them a worker tells
the server the digest alone, and its own noise hides it from all who hear the frame by itself, as the air does.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from airmixml.arrays import Doubles, dbm_to_watts
from airmixml.deploy.frames import FrameCode, Mean
from airmixml.deploy.wire import Message, Type
from airmixml.errors import ProtocolError
from airmixml.integers.rounding import IntegerCode, signed

if TYPE_CHECKING:
    from airmixml.deploy.air import SumOnAir
    from airmixml.deploy.baseband import Baseband
    from airmixml.masks.recovery import RecoveringWorker
    from airmixml.masks.rules import Rules

KINDS: Final = ("moments", "gradients")

Say = Callable[[Type, bytes], Message]
"""Signs a message of the worker in the round that it is in."""


class Sender(NamedTuple):
    """A worker that sends a frame."""

    worker: int
    slot: int
    gain: float  # power gain of its channel
    seed: bytes  # of its noise, new for each frame
    masks: "RecoveringWorker | None"  # its side of the agreement, where frames have masks
    say: Say


@dataclass(frozen=True, kw_only=True)
class FrameKind:
    """Masked integers: their code, what a frame costs, and how many a worker sends at most."""

    on_air: ClassVar[bool] = False  # whether an air adds them up; if not, the server does, and removes their masks
    rounds: ClassVar[str] = "airmixml.deploy.masked_rounds:MaskedAttempt"  # the server's side, which no worker loads

    sends: str  # one of ``KINDS``
    numbers: int
    norm: float
    step: float
    bits: int
    variance: float  # of a worker's noise, in squared steps
    cost: int  # in ``contract.UNITS``
    releases: int

    @cached_property
    def code(self) -> FrameCode:
        """How its integers are formed."""
        code = IntegerCode(numbers=self.numbers, norm=self.norm, step=self.step, bits=self.bits)
        return FrameCode(code=code, variance=self.variance)

    def check_power(self, power_dbm: float, gain: float) -> None:
        """Refuse an order whose power does not do; packets have their own."""

    def rules(self, agreed: "Sequence[Rules]") -> "list[Rules]":
        """Return the rules of its masks; of all that were agreed on, for fewer and fewer workers."""
        return [each.with_bits(self.bits) for each in agreed]

    def messages(self, vector: NDArray[np.floating], by: Sender) -> list[Message]:
        """Return what a worker says that sends a vector."""
        assert by.masks is not None
        masks = partial(by.masks.integer_masks, by.slot)
        return [by.say(Type.FRAME, self.code.packed(self.code.residues(vector, by.seed, by.slot, masks)))]

    def check(self, body: bytes) -> None:
        """Refuse what is no FRAME of this kind."""
        self.code.unpacked(body)

    def mean(self, frames: Mapping[int, bytes], correction: NDArray[np.uint64]) -> Mean:
        """Return the mean over those who sent these."""
        total = np.zeros(self.numbers, dtype=np.uint64)
        for frame in frames.values():
            total += self.code.unpacked(frame)
        of_each = (self.variance + self.code.code.rounding_variance) * self.step**2
        mean = signed((total - correction) & self.code.modulus, self.bits) * self.step / len(frames)
        return Mean(mean, of_each / len(frames), float(len(frames)))


@dataclass(frozen=True, kw_only=True)
class AnalogKind:
    """Complex baseband; see ``baseband``."""

    on_air: ClassVar[bool] = True
    rounds: ClassVar[str] = "airmixml.deploy.air_rounds:AttemptOnAir"

    sends: str  # one of ``KINDS``
    numbers: int
    norm: float
    watts: float  # that each worker is received with: beta q^2
    own_watts: float  # variance of a worker's own noise on a number, as received; its privacy rests on it
    receiver_watts: float  # noise power per complex sample of the receiver, behind which nobody hides
    workers: int  # of a slot at most
    cost: int
    releases: int

    @cached_property
    def code(self) -> "Baseband":
        """How its samples are formed."""
        from airmixml.deploy.baseband import Baseband

        return Baseband(
            numbers=self.numbers,
            norm=self.norm,
            most_watts=self.watts,
            limit_watts=math.inf,
            workers=self.workers,
            own_watts=self.own_watts,
            receiver_watts=self.receiver_watts,
        )

    @property
    def loudest(self) -> float:
        """The largest sample that an air adds up, as received; half a step is for a channel's rounding to float32."""
        return self.code.largest_sample(self.watts) + self.code.step(self.watts) / 2.0

    def check_power(self, power_dbm: float, gain: float) -> None:
        """Refuse an order with too little power to be received as agreed through a channel of this power gain."""
        self.code.check_power(self.watts, float(dbm_to_watts(power_dbm)), gain)

    def rules(self, agreed: "Sequence[Rules]") -> "list[Rules]":
        """Return none: such frames have no masks."""
        return []

    def received_watts(self, slot: int, workers: Sequence[int]) -> Doubles:
        """Return what these workers are received with in a slot."""
        return np.full(len(workers), self.watts)

    def largest_watts(self, slot: int) -> float:
        """Return what the strongest worker of a slot is received with."""
        return self.watts

    def messages(self, vector: NDArray[np.floating], by: Sender) -> list[Message]:
        """Return the digest of the samples, for the server, and the samples."""
        from airmixml.deploy.air import as_bytes, frame_messages

        length = float(np.linalg.norm(vector.astype(np.float64)))
        found = self.code.samples(
            vector.astype(np.float64) * min(1.0, self.norm / max(length, self.norm)),
            float(self.received_watts(by.slot, [by.worker])[0]),
            largest_watts=self.largest_watts(by.slot),
            seed=by.seed,
            slot=by.slot,
            masks=None if by.masks is None else partial(by.masks.masks, by.slot),
            gain=by.gain,
        )
        return frame_messages(as_bytes(found), by.say)

    def check(self, body: bytes) -> None:
        """Refuse what is no digest."""
        if len(body) != sha256().digest_size:
            raise ProtocolError(f"FRAME has {len(body)} bytes and must be the digest of samples")

    def mean(self, total: "SumOnAir", slot: int, correction: Doubles | None = None) -> Mean:
        """Return the mean over the workers of a sum, without what masks have left in it."""
        watts = self.received_watts(slot, total.present)
        return self.code.mean(total.samples, watts, self.largest_watts(slot), correction)


def loudest_samples(kinds: Iterable[FrameKind | AnalogKind]) -> dict[int, float]:
    """Return the largest sample that an air adds up, by the number of samples of a frame."""
    found: dict[int, float] = {}
    for each in kinds:
        if isinstance(each, AnalogKind):
            found[each.numbers] = max(each.loudest, found.get(each.numbers, 0.0))
    return found


def kind_of(plain: Mapping[str, Any]) -> FrameKind | AnalogKind:
    """Return the kind that these values describe."""
    return AnalogKind(**plain) if "own_watts" in plain else FrameKind(**plain)
