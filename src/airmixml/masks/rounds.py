"""One round of masks: who takes part, with which keys, and which lists of absent workers nobody may accept.

A round is the slots for which it is decided once who was absent; its keys are used for nothing else. Everything here is
public, and every worker checks it for itself. ``verifying_keys`` must come from someone other than the server (a server
that may invent workers can surround anyone with its own), and so must the seed of graph and witnesses, fixed after the
announcements: each worker draws both itself.
"""

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from airmixml.errors import ProtocolError
from airmixml.masks.keys import PROTOCOL, identity_bytes, is_signed


@dataclass(frozen=True)
class Rules:
    """What every worker of a round insists on; ``recovery_bounds`` chooses the numbers and says what follows.

    Two different lists cannot both have a quorum of the w witnesses if quorum > (w + c) / 2 for at most c colluders
    among them: two such sets share more than c witnesses, so an honest one, which signs once. In the same way the
    threshold keeps anyone from rebuilding both secrets of a worker, even if its neighbours were told different lists.
    """

    threshold: int  # shares that rebuild a secret
    quorum: int  # witnesses that must have signed one list
    largest_absent_share: float  # of all workers
    largest_absent_neighbour_share: float  # of the neighbours of any worker that is present
    mask_deviation: float  # of a mask on an edge, per real symbol
    self_deviation: float  # of a worker's own mask, per real symbol

    def packed(self) -> bytes:
        """Return the rules as bytes of fixed length."""
        shares = self.largest_absent_share, self.largest_absent_neighbour_share
        return struct.pack(">QQdddd", self.threshold, self.quorum, *shares, self.mask_deviation, self.self_deviation)


@dataclass(frozen=True)
class Announcement:
    """What a worker publishes before a round, with its signature."""

    identity: int
    mask_key: bytes
    channel_key: bytes
    commitment: bytes  # to the seed of its own mask
    signed: bytes = b""

    def statement(self, run: bytes) -> bytes:
        """Return what is signed."""
        content = identity_bytes(self.identity) + self.mask_key + self.channel_key + self.commitment
        return PROTOCOL + b" announcement\0" + sha256(run).digest() + content


@dataclass(frozen=True)
class Round:
    """The workers of a round, their keys and the graph of their masks."""

    run: bytes  # names the run and, where it has several, the round
    rules: Rules
    announcements: Mapping[int, Announcement]
    verifying_keys: Mapping[int, bytes]
    graph: Mapping[int, tuple[int, ...]]  # the neighbours of each worker, one as often as they share masks
    witnesses: frozenset[int]  # whose signatures count: all workers, or a committee drawn with the graph

    @cached_property
    def digest(self) -> bytes:
        """Names all of the round: keys and signatures of one round are worth nothing in another."""
        whole = sha256(PROTOCOL + b" round\0" + sha256(self.run).digest() + self.rules.packed())
        for identity in sorted(self.graph):
            announced = self.announcements[identity]
            neighbours = self.graph[identity]
            whole.update(announced.statement(self.run) + self.verifying_keys[identity])
            whole.update(bytes([identity in self.witnesses]) + len(neighbours).to_bytes(8, "big"))
            whole.update(b"".join(map(identity_bytes, sorted(neighbours))))
        return whole.digest()

    def check(self, identity: int) -> None:
        """Refuse a round whose parts do not fit together, or a neighbour of this worker whose keys are not signed."""
        if not (set(self.graph) == set(self.announcements) == set(self.verifying_keys)):
            raise ProtocolError("graph, announcements and verifying_keys must name the same workers; send them again")
        if not self.witnesses <= set(self.graph) or self.rules.quorum > len(self.witnesses):
            raise ProtocolError(
                f"rules.quorum = {self.rules.quorum} needs as many witnesses, all of them workers of the round; "
                f"it has {len(self.witnesses)}"
            )
        neighbours = self.graph[identity]
        if identity in neighbours or not set(neighbours) <= set(self.graph):
            raise ProtocolError(f"graph: the neighbours of worker {identity} must be other workers of the round")
        if len(neighbours) < self.rules.threshold:
            raise ProtocolError(
                f"graph: worker {identity} has {len(neighbours)} neighbours and needs rules.threshold = "
                f"{self.rules.threshold}; draw a graph of higher degree"
            )
        for other in sorted(set(neighbours)):
            if self.masks_between(other, identity) != self.masks_between(identity, other):
                raise ProtocolError(f"graph: workers {identity} and {other} must name each other equally often")
            announced = self.announcements[other]
            signed = is_signed(announced.statement(self.run), announced.signed, self.verifying_keys[other])
            if announced.identity != other or not signed:
                raise ProtocolError(f"announcement of worker {other} is not signed by it; leave that worker out")

    def masks_between(self, one: int, other: int) -> int:
        """Return how many masks two workers share."""
        return self.graph[one].count(other)

    def check_absent(self, absent: Collection[int]) -> None:
        """Refuse a list of absent workers that names too many, of all or around any worker that is present."""
        named = set(absent)
        if len(named) < len(absent) or not named <= set(self.graph):
            raise ProtocolError("list of absent workers must name workers of the round, each once")
        most = self.rules.largest_absent_share
        if len(named) > most * len(self.graph):
            raise ProtocolError(
                f"list of absent workers is refused: it names {len(named)} of {len(self.graph)}, more than the share "
                f"{most:g}; start a new round"
            )
        around: dict[int, int] = {}
        for identity in named:
            for neighbour in self.graph[identity]:
                around[neighbour] = around.get(neighbour, 0) + 1
        most = self.rules.largest_absent_neighbour_share
        for identity, count in around.items():
            if identity not in named and count > most * len(self.graph[identity]):
                raise ProtocolError(
                    f"list of absent workers is refused: it names {count} of the {len(self.graph[identity])} "
                    f"neighbours of worker {identity}, more than the share {most:g}; name that worker as well, or "
                    "start a new round"
                )

    def list_digest(self, absent: Collection[int]) -> bytes:
        """Name a list of absent workers of this round; 32 bytes."""
        return sha256(self.list_statement(absent)).digest()

    def list_statement(self, absent: Collection[int]) -> bytes:
        """Return what the witnesses sign."""
        return PROTOCOL + b" absent\0" + self.digest + b"".join(map(identity_bytes, sorted(absent)))
