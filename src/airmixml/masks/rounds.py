"""One round of masks: who takes part, with which keys and masks, and which lists of absent workers nobody may accept.

A round is the slots for which it is decided once who was absent; its keys are used for nothing else. Everything here is
public, and every worker checks it for itself. ``verifying_keys`` must be those of the worker's own directory: a server
that may invent workers can surround anyone with its own. Nobody chooses the graph: docs/trust.md says how workers
commit to nonces and reveal them, and what a party gains that stops rounds.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Self

from airmixml.masks.graph import MOST_ROUNDS, MaskGraph, draw_graph
from airmixml.masks.keys import KEY_BYTES, PROTOCOL, KeyPair, identity_bytes, is_signed, pair_seed
from airmixml.masks.rules import Rules
from airmixml.messages import ProtocolError


def round_name(run: bytes, slots: range, restarts: int = 0) -> bytes:
    """Return what names a round: the run, its slots, and in the last byte how often it was started again."""
    if slots.step != 1 or not 0 <= slots.start < slots.stop <= 1 << 64:
        raise ProtocolError(f"slots = {slots} must be a range of slots from 0 to 2^64 - 1, such as range(0, 1)")
    if not 0 <= restarts < MOST_ROUNDS:
        raise ProtocolError(
            f"restarts = {restarts} must be from 0 to {MOST_ROUNDS - 1}: further graphs would let a server choose one; "
            "leave these slots out"
        )
    first_and_last = b"".join(each.to_bytes(8, "big") for each in (slots.start, slots.stop - 1))
    return sha256(run).digest() + first_and_last + bytes([restarts])


def nonce_commitment(run: bytes, identity: int, nonce: bytes) -> bytes:
    """Return what a worker publishes about its nonce; nobody can open it but by the nonce, nor as another worker's."""
    return sha256(PROTOCOL + b" nonce\0" + sha256(run).digest() + identity_bytes(identity) + nonce).digest()


@dataclass(frozen=True)
class Announcement:
    """What a worker publishes before a round, with its signature."""

    identity: int
    mask_key: bytes
    channel_key: bytes
    commitment: bytes  # to the seed of its own mask
    nonce_commitment: bytes  # to its part of the graph's seed
    signed: bytes = b""

    def statement(self, run: bytes) -> bytes:
        content = identity_bytes(self.identity) + self.mask_key + self.channel_key + self.commitment
        return PROTOCOL + b" announcement\0" + sha256(run).digest() + content + self.nonce_commitment


@dataclass(frozen=True)
class Reveal:
    """The nonce that a worker has committed to, signed together with the announcements that it has seen."""

    identity: int
    nonce: bytes
    signed: bytes = b""

    def statement(self, transcript: bytes) -> bytes:
        return PROTOCOL + b" reveal\0" + transcript + identity_bytes(self.identity) + self.nonce


@dataclass(frozen=True)
class Round:
    """The workers of a round, their keys and, once all nonces are revealed, the graph of their masks."""

    run: bytes  # its ``round_name``
    rules: Rules
    announcements: Mapping[int, Announcement]
    verifying_keys: Mapping[int, bytes]
    reveals: Mapping[int, Reveal] = field(default_factory=dict)

    def drawn(self, reveals: Mapping[int, Reveal]) -> Self:
        """Return the round with these nonces, which give its graph; they are not checked."""
        return replace(self, reveals=reveals)

    @cached_property
    def graph(self) -> dict[int, tuple[int, ...]]:
        """The neighbours of each worker, in rising order, as often as they share masks: what the nonces give."""
        names = sorted(self.announcements)
        return {names[seat]: tuple(names[each] for each in others) for seat, others in self._seats.neighbours.items()}

    @property
    def _seats(self) -> MaskGraph:
        return draw_graph(len(self.announcements), self.rules.degree, int.from_bytes(self.seed, "big"))

    @cached_property
    def transcript(self) -> bytes:
        """Names all that is known before the nonces: run, rules, workers and their keys."""
        whole = sha256(PROTOCOL + b" transcript\0" + sha256(self.run).digest() + self.rules.packed())
        for identity in sorted(self.announcements):
            whole.update(self.announcements[identity].statement(self.run) + self.verifying_keys[identity])
        return whole.digest()

    @cached_property
    def seed(self) -> bytes:
        """Of the graph: a hash of the transcript and of every nonce."""
        whole = sha256(PROTOCOL + b" graph\0" + self.transcript)
        for identity in sorted(self.reveals):
            whole.update(identity_bytes(identity) + self.reveals[identity].nonce)
        return whole.digest()

    @cached_property
    def digest(self) -> bytes:
        """Names all of the round: keys and signatures of one round are worth nothing in another."""
        whole = sha256(PROTOCOL + b" round\0" + self.seed)
        for identity in sorted(self.graph):
            neighbours = sorted(self.graph[identity])
            whole.update(identity_bytes(identity) + len(neighbours).to_bytes(8, "big"))
            whole.update(b"".join(map(identity_bytes, neighbours)))
        return whole.digest()

    def check_announcements(self) -> None:
        """Refuse too few or too many workers, or one whose keys are not signed: before any nonce is revealed.

        Where one process plays many workers they share the round, which is checked once.
        """
        if "announcements_pass" in vars(self):
            return
        if set(self.announcements) != set(self.verifying_keys):
            raise ProtocolError("announcements and verifying_keys must name the same workers; send them again")
        if len(self.announcements) != self.rules.workers:
            raise ProtocolError(
                f"round has {len(self.announcements)} workers and must have rules.workers = {self.rules.workers}; "
                "send all announcements, or agree on other rules"
            )
        for other, announced in sorted(self.announcements.items()):
            parts = announced.mask_key, announced.channel_key, announced.commitment, announced.nonce_commitment
            if not all(map(_is_key, parts)):  # or else one statement could be read in two ways
                raise ProtocolError(
                    f"announcement of worker {other} has parts of a wrong length; leave that worker out"
                )
            signed = is_signed(announced.statement(self.run), announced.signed, self.verifying_keys[other])
            if announced.identity != other or not signed:
                raise ProtocolError(f"announcement of worker {other} is not signed by it; leave that worker out")
        vars(self)["announcements_pass"] = True

    def check_directory(self, directory: Mapping[int, bytes]) -> None:
        """Refuse verifying keys that are not those of a worker's own directory."""
        for other, key in self.verifying_keys.items():
            if directory.get(other) != key:
                raise ProtocolError(
                    f"verifying key of worker {other} is not the one in this worker's directory; send that one, or "
                    "agree on rules without that worker"
                )

    def check(self) -> None:
        """Refuse nonces that were not committed to, and a graph of them that does not keep to the rules; once."""
        if "passes" in vars(self):
            return
        missing = sorted(set(self.announcements) - set(self.reveals))
        if missing:
            raise ProtocolError(
                f"reveal of worker {missing[0]} is missing, and no graph is drawn without it; start the round again, "
                "with new nonces; without that worker it needs other rules"
            )
        if set(self.reveals) != set(self.announcements):
            raise ProtocolError("announcements and reveals must name the same workers; send them again")
        for other in sorted(self.announcements):
            self.check_reveal(self.reveals[other], other)
        for each, neighbours in self.graph.items():
            repeats = sum(times * times for times in Counter(neighbours).values()) - self.rules.degree
            if repeats > self.rules.most_repeats:
                raise ProtocolError(
                    f"graph: worker {each} shares its masks with too few others: they repeat by {repeats}, and "
                    f"rules.most_repeats = {self.rules.most_repeats}; start the round again"
                )
        second = self._seats.checked_eigenvalue
        if second > self.rules.second_eigenvalue:
            raise ProtocolError(
                f"graph has the second eigenvalue {second:.4g}, and rules.second_eigenvalue = "
                f"{self.rules.second_eigenvalue:.4g}; start the round again"
            )
        vars(self)["passes"] = True

    def check_reveal(self, reveal: Reveal, other: int) -> None:
        """Refuse a nonce that this worker was not committed to, or did not reveal for these announcements."""
        announced = self.announcements[other]
        if announced.identity != other:
            raise ProtocolError(f"announcement of worker {other} is that of {announced.identity}; send its own")
        if not _is_key(reveal.nonce):
            raise ProtocolError(f"nonce of worker {other} must have {KEY_BYTES} bytes; start the round again")
        if nonce_commitment(self.run, other, reveal.nonce) != announced.nonce_commitment:
            raise ProtocolError(f"nonce of worker {other} is not the one it committed to; start the round again")
        signed = is_signed(reveal.statement(self.transcript), reveal.signed, self.verifying_keys[other])
        if reveal.identity != other or not signed:
            raise ProtocolError(
                f"reveal of worker {other} is not signed for these announcements: the server shows others different "
                "ones; start the round again"
            )

    def edge_seeds(self, keys: KeyPair, own: int, others: Collection[int]) -> dict[int, tuple[bytes, ...]]:
        """Return the seeds of the masks that worker ``own``, whose mask keys these are, shares with each of others."""
        shared = Counter(self.graph[own])
        return {
            other: tuple(
                pair_seed(keys, own, self.announcements[other].mask_key, other, self.digest, number)
                for number in range(shared[other])
            )
            for other in sorted(others)
        }

    def check_absent(self, absent: Iterable[int]) -> frozenset[int]:
        """Return the absent workers; refuse a list with too many, of all or around any worker that is present."""
        listed = list(absent)  # read once: all that follows is about the same list
        named = frozenset(listed)
        if len(named) < len(listed) or not named <= self.graph.keys():
            raise ProtocolError("list of absent workers must name workers of the round, each once")
        most = self.rules.most_absent
        if len(named) > most:
            raise ProtocolError(
                f"list of absent workers is refused: it names {len(named)} of {len(self.graph)}, more than {most}; "
                "start a new round"
            )
        around = Counter(neighbour for identity in named for neighbour in self.graph[identity])
        most = self.rules.most_absent_neighbours
        for identity, count in around.items():
            if identity not in named and count > most:
                raise ProtocolError(
                    f"list of absent workers is refused: it names {count} of the {len(self.graph[identity])} "
                    f"neighbours of worker {identity}, more than {most}; name that worker as well, or start a new round"
                )
        return named

    def signers(self, absent: Collection[int], signatures: Mapping[int, bytes]) -> int:
        """Return how many workers have signed this list of absent workers."""
        statement, keys = self.list_statement(absent), self.verifying_keys
        return sum(each in keys and is_signed(statement, signatures[each], keys[each]) for each in signatures)

    def list_statement(self, absent: Collection[int]) -> bytes:
        return PROTOCOL + b" absent\0" + self.digest + b"".join(map(identity_bytes, sorted(absent)))


def _is_key(part: object) -> bool:
    return isinstance(part, bytes) and len(part) == KEY_BYTES
