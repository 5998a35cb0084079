"""One round of masks: who takes part, with which keys, and which lists of absent workers nobody may accept.

A round is the slots for which it is decided once who was absent; its keys are used for nothing else. Everything here is
public, and every worker checks it for itself. ``verifying_keys`` must come from someone other than the server (a server
that may invent workers can surround anyone with its own), and so must the seed of graph and witnesses, fixed after the
announcements: each worker draws both itself.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from airmixml.errors import ProtocolError
from airmixml.masks.keys import PROTOCOL, identity_bytes, is_signed
from airmixml.masks.rules import Rules


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
        most = self.rules.most_absent
        if len(named) > most:
            raise ProtocolError(
                f"list of absent workers is refused: it names {len(named)} of {len(self.graph)}, more than {most}; "
                "start a new round"
            )
        around: dict[int, int] = {}
        for identity in named:
            for neighbour in self.graph[identity]:
                around[neighbour] = around.get(neighbour, 0) + 1
        most = self.rules.most_absent_neighbours
        for identity, count in around.items():
            if identity not in named and count > most:
                raise ProtocolError(
                    f"list of absent workers is refused: it names {count} of the {len(self.graph[identity])} "
                    f"neighbours of worker {identity}, more than {most}; name that worker as well, or start a new round"
                )

    def list_digest(self, absent: Collection[int]) -> bytes:
        """Name a list of absent workers of this round; 32 bytes."""
        return sha256(self.list_statement(absent)).digest()

    def list_statement(self, absent: Collection[int]) -> bytes:
        """Return what the witnesses sign."""
        return PROTOCOL + b" absent\0" + self.digest + b"".join(map(identity_bytes, sorted(absent)))
