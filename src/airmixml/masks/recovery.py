"""Recovery of the masks that absent workers leave behind: both sides, as state machines without a network.

docs/trust.md#recovery has the protocol (Bonawitz et al. 2017; on a sparse graph, Bell et al. 2020): a worker sends
v_i + n_i + b_i + sum_j m_ij, and its neighbours hold shares, one of each for every mask that they share with it, of the
seed of its own mask b_i and of its mask key, which gives all m_ij.

**Adversary**: the server and up to C workers of its choice, fixed before the graph is drawn. It hears every worker
perfectly, reads, drops and alters all messages, and may call anyone absent after it has heard all. It cannot break the
ciphers, sign for an honest worker, or choose verifying keys. It can stop a round, and so choose among ``MOST_ROUNDS``
graphs. All honest workers that answer agree on one list (see ``Rules``). What it learns of honest workers i:

- called present: b_i may become known, its mask key cannot. Unknown are n_i and the masks on edges within the present
  honest P: S_P = sigma_s^2 I + sigma_e^2 L(graph on P), mu_i^2 = D^2 (S_P^-1)_ii.
- called absent: its mask key may become known, b_i cannot: mu_i^2 = D^2 / (sigma_s^2 + sigma_b^2).

Choosing the list by what it has heard gains nothing over the worst list: what it learns about one worker comes in steps
that are Gaussian given the earlier ones, with a variance that depends on the list alone, and such steps compose to the
largest total mu (Smith, Thakurta 2022).

With the present P and the absent A, the aligned sum holds sum_P (v_i + n_i) and, besides,
sum_P b_i + sum over edges from i in P to a in A of m_ia; ``RecoveryServer.correction`` is the latter. Over an air with
gains g_i the server takes it off as if all gains were 1: what is left is noise in the sum, never privacy.

Secrets are shared after Shamir (1979) in the field of the smallest prime above 2^256; the holder in place h gets the
value of the dealer's polynomial at h + 1. A secret that is rebuilt is checked against a public key or commitment.
"""

import math
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from airmixml.masks.keys import (
    KEY_BYTES,
    PROTOCOL,
    KeyPair,
    edge_masks,
    opened,
    pair_seed,
    reduced,
    sealed,
    self_mask,
    signature,
)
from airmixml.masks.rounds import Announcement, Reveal, Round, nonce_commitment, round_name
from airmixml.masks.rules import Rules
from airmixml.messages import ProtocolError

PRIME: Final = (1 << 256) + 297
SECRET_BYTES: Final = 32
SHARE_BYTES: Final = 33


def split(
    secret: bytes, holders: int, threshold: int, random_below: Callable[[int], int] = secrets.randbelow
) -> list[bytes]:
    """Return a share for each holder, 33 bytes each, in the order of their places."""
    if len(secret) != SECRET_BYTES:
        raise ProtocolError(f"secret of {len(secret)} bytes must have {SECRET_BYTES}")
    if not 1 <= threshold <= holders:
        raise ProtocolError(f"threshold = {threshold} must be from 1 to the {holders} holders")
    coefficients = [int.from_bytes(secret, "big"), *(random_below(PRIME) for _ in range(threshold - 1))]
    shares = []
    for x in range(1, holders + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * x + coefficient) % PRIME
        shares.append(value.to_bytes(SHARE_BYTES, "big"))
    return shares


def rebuild(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Return the secret from shares by the places of their holders; the first ``threshold`` places are used."""
    if len(shares) < threshold:
        raise ProtocolError(f"{len(shares)} shares are too few to rebuild a secret; {threshold} are needed")
    points = {place + 1: int.from_bytes(shares[place], "big") for place in sorted(shares)[:threshold]}
    secret = 0
    for x, y in points.items():  # Lagrange's polynomial at 0
        others = [other for other in points if other != x]
        above, below = math.prod(others), math.prod(other - x for other in others)
        secret = (secret + y * above * pow(below, -1, PRIME)) % PRIME
    if secret >> 8 * SECRET_BYTES:
        raise ProtocolError("shares do not fit together: a holder sent a wrong one; rebuild from others")
    return secret.to_bytes(SECRET_BYTES, "big")


class Step(IntEnum):
    """How far a worker is in a round; it never goes back."""

    ANNOUNCED = 0
    REVEALED = 1  # its nonce, to one set of announcements
    JOINED = 2
    READY = 3  # it holds its neighbours' shares: only now may it send
    AGREED = 4  # to one list of absent workers: it sends nothing more
    ANSWERED = 5


@dataclass(frozen=True)
class Answer:
    """Shares that one holder hands out, by the worker whose secret they belong to; the list says which of the two.

    A holder that shares several masks with a worker has as many shares of it, one after the other.
    """

    holder: int
    shares: Mapping[int, bytes]


def seed_commitment(seed: bytes) -> bytes:
    """Return what a worker publishes about the seed of its own mask, and nobody can open but by the seed."""
    return sha256(PROTOCOL + b" seed\0" + seed).digest()


class RecoveringWorker:
    """One worker in one round. Its secrets live in this object alone, and its owner fixes all else, not the server.

    ``rules`` are what it insists on, or several, of which a round keeps to the one for its number of workers.
    ``restarts`` counts the rounds for these ``slots`` that were stopped. ``directory`` has everybody's verifying key.
    It must not be made twice for one round, nor send the same slots in two: what remembers that, also when a worker is
    started again, is its ledger (``deploy.spending``). ``entropy`` gives so many random bytes.
    """

    def __init__(
        self,
        identity: int,
        signing_key: bytes,
        run: bytes,
        slots: range,
        rules: Rules | Sequence[Rules],
        *,
        directory: Mapping[int, bytes],
        restarts: int = 0,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.identity = identity
        self.step = Step.ANNOUNCED
        self._signing_key = signing_key
        self._run = round_name(run, slots, restarts)
        self._slots = slots
        self._allowed = (rules,) if isinstance(rules, Rules) else tuple(rules)
        self._rules = self._allowed[0]
        self._directory = directory
        self._mask_keys = KeyPair(entropy(KEY_BYTES))
        self._channel_keys = KeyPair(entropy(KEY_BYTES))
        self._own_seed = entropy(KEY_BYTES)
        self._nonce = entropy(KEY_BYTES)
        self._round: Round
        self._edge_seeds: dict[int, tuple[bytes, ...]] = {}  # by the other end, one for each mask
        self._channels: dict[int, bytes] = {}  # keys of the channels to neighbours
        self._held: dict[int, tuple[bytes, bytes]] = {}  # shares of mask key and seed, by their owner
        self._next_symbol = (slots.start, 0)
        self._agreed: frozenset[int] = frozenset()

    def announce(self) -> Announcement:
        commitments = seed_commitment(self._own_seed), nonce_commitment(self._run, self.identity, self._nonce)
        said = Announcement(self.identity, self._mask_keys.public, self._channel_keys.public, *commitments)
        return replace(said, signed=signature(self._signing_key, said.statement(self._run)))

    def reveal(self, announced: Round) -> Reveal:
        """Check everybody's announcement and return this worker's nonce, for this set of announcements and no other."""
        self._expect(Step.ANNOUNCED)
        if announced.rules not in self._allowed or announced.run != self._run:
            raise ProtocolError(f"round has another name or rules than worker {self.identity} insists on; use its own")
        if announced.announcements.get(self.identity) != self.announce():
            raise ProtocolError(f"round does not have the announcement of worker {self.identity}; leave the worker out")
        announced.check_announcements()
        announced.check_directory(self._directory)
        self._rules = announced.rules
        self._round = announced
        self.step = Step.REVEALED
        said = Reveal(self.identity, self._nonce)
        return replace(said, signed=signature(self._signing_key, said.statement(announced.transcript)))

    def join(self, joined: Round) -> dict[int, bytes]:
        """Check nonces and graph and return sealed shares of this worker's two secrets, a parcel for each neighbour."""
        self._expect(Step.REVEALED)
        announced = self._round
        if joined.drawn(announced.reveals) != announced:
            raise ProtocolError(
                f"round has other announcements than those that worker {self.identity} revealed its nonce for; send "
                "those, or start the round again"
            )
        if joined.announcements is not announced.announcements:
            joined = announced.drawn(dict(joined.reveals))  # the worker's own numbers, whatever equals them
        joined.check()
        self._round = joined
        neighbours = sorted(joined.graph[self.identity])
        self._edge_seeds = joined.edge_seeds(self._mask_keys, self.identity, set(neighbours))
        shares = dict.fromkeys(neighbours, b"")
        for secret in (self._mask_keys.private, self._own_seed):
            for other, share in zip(neighbours, split(secret, len(neighbours), self._rules.threshold), strict=True):
                shares[other] += share
        self.step = Step.JOINED
        own, round_id = self.identity, joined.digest
        publics = {other: joined.announcements[other].channel_key for other in shares}
        self._channels = {
            other: pair_seed(self._channel_keys, own, public, other, round_id, purpose="channel")
            for other, public in publics.items()
        }
        return {other: sealed(content, self._channels[other], own, round_id) for other, content in shares.items()}

    def receive(self, parcels: Mapping[int, bytes]) -> None:
        """Take the neighbours' shares. If one is missing the worker stays silent: it could not be recovered."""
        self._expect(Step.JOINED)
        missing = sorted(set(self._edge_seeds) - set(parcels))
        if missing:
            raise ProtocolError(f"shares of worker {missing[0]} are missing; send them, or start a round without it")
        for other, seeds in self._edge_seeds.items():
            length = len(seeds) * SHARE_BYTES
            try:
                content = opened(parcels[other], self._channels[other], other, self._round.digest)
                if len(content) != 2 * length:
                    raise ProtocolError(f"shares of worker {other} have a wrong length; start a round without it")
            except ProtocolError as problem:
                problem.culprit = other
                raise
            self._held[other] = content[:length], content[length:]
        self._channels.clear()
        self.step = Step.READY

    def masks(self, slot: int, first: int, count: int) -> NDArray[Any]:
        """Return b_i + sum_j m_ij for symbols ``first`` to ``first + count - 1`` of a slot; shape count.

        With ``rules.bits`` they are integers modulo 2^bits. Each symbol is masked once, in rising order: two values
        under one mask would show their difference. All slots are sent in one round: the same values under several masks
        would be released as often.
        """
        self._expect(Step.READY)
        if slot not in self._slots:
            raise ProtocolError(
                f"slot {slot} is none of this round; must be from {self._slots.start} to {self._slots.stop - 1}"
            )
        if first < 0 or count < 0:  # or else the next symbol could lie behind this one
            raise ProtocolError(f"symbols {first} to {first + count - 1} of slot {slot} must not be negative")
        if (slot, first) < self._next_symbol:
            raise ProtocolError(f"symbol {first} of slot {slot} was masked before; go on at {self._next_symbol}")
        self._next_symbol = (slot, first + count)
        rules = self._rules
        own = self_mask(self._own_seed, rules.self_deviation, slot, first, count, rules.bits)
        edges = edge_masks(self.identity, self._edge_seeds, rules.mask_deviation, slot, first, count, rules.bits)
        return reduced(own + edges, rules.bits)

    def agree(self, absent: Iterable[int]) -> bytes:
        """Return this worker's signature under the list of absent workers, or refuse the list. It signs one."""
        if self.step not in (Step.READY, Step.AGREED):
            self._expect(Step.READY)
        absent = self._round.check_absent(absent)
        if self.identity in absent:
            raise ProtocolError(f"list calls worker {self.identity} absent: it hands out nothing in this round")
        if self.step is Step.AGREED and absent != self._agreed:
            raise ProtocolError("list of absent workers is refused: this worker agreed to another; send that one")
        self.step = Step.AGREED
        self._agreed = absent
        return signature(self._signing_key, self._round.list_statement(absent))

    def answer(self, signatures: Mapping[int, bytes]) -> Answer:
        """Return the shares that belong to the agreed list, once a quorum of workers has signed it."""
        self._expect(Step.AGREED)
        signed = self._round.signers(self._agreed, signatures)
        if signed < self._rules.quorum:
            raise ProtocolError(
                f"list of absent workers has {signed} signatures of workers, and needs {self._rules.quorum}; "
                "collect more, on this same list"
            )
        self.step = Step.ANSWERED
        shares = {owner: held[0 if owner in self._agreed else 1] for owner, held in self._held.items()}
        self._held.clear()
        return Answer(self.identity, shares)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a worker is never stored, copied or sent to another process: it would make its masks twice")

    def _expect(self, step: Step) -> None:
        if self.step is not step:
            raise ProtocolError(
                f"worker {self.identity} is {self.step.name.lower()} and must be {step.name.lower()} for this; "
                "follow the order of the round"
            )


class RecoveryServer:
    """The server of one round, after the slots: it collects shares until every secret that it needs can be rebuilt."""

    def __init__(self, joined: Round, absent: Collection[int]) -> None:
        self._round = joined
        self._absent = frozenset(absent)
        self._shares: dict[int, dict[int, bytes]] = {identity: {} for identity in joined.graph}

    def take(self, answer: Answer) -> None:
        """Keep the shares of one holder."""
        for owner, share in answer.shares.items():
            if answer.holder not in self._round.graph.get(owner, ()):
                raise ProtocolError(
                    f"answer of worker {answer.holder} has a share of {owner}, not its neighbour; drop it"
                )
            places = [place for place, each in enumerate(sorted(self._round.graph[owner])) if each == answer.holder]
            if len(share) != len(places) * SHARE_BYTES:
                raise ProtocolError(
                    f"answer of worker {answer.holder} has shares of {owner} of a wrong length; drop it"
                )
            for number, place in enumerate(places):
                self._shares[owner][place] = share[number * SHARE_BYTES : (number + 1) * SHARE_BYTES]

    @property
    def missing(self) -> list[int]:
        """Workers whose secret is needed and has too few shares yet."""
        return [owner for owner in self._needed if len(self._shares[owner]) < self._round.rules.threshold]

    def correction(self, slot: int, first: int, count: int) -> NDArray[Any]:
        """Return what the masks leave in the sum of the present workers' symbols, to be subtracted; shape count."""
        rules = self._round.rules
        total: NDArray[Any] = np.zeros(count, dtype=np.uint64 if rules.bits else np.float64)
        for seed in self._own_seeds.values():
            total += self_mask(seed, rules.self_deviation, slot, first, count, rules.bits)
        for absent, seeds in self._left_seeds.items():  # the other ends have the opposite sign
            total -= edge_masks(absent, seeds, rules.mask_deviation, slot, first, count, rules.bits)
        return reduced(total, rules.bits)

    @property
    def _needed(self) -> list[int]:
        """All present workers, and the absent ones that have a present neighbour."""
        graph = self._round.graph
        return [each for each in sorted(graph) if each not in self._absent or set(graph[each]) - self._absent]

    @cached_property
    def _own_seeds(self) -> dict[int, bytes]:
        """The seeds of the present workers' own masks."""
        present = [owner for owner in self._needed if owner not in self._absent]
        return {owner: self._rebuilt(owner, seed_commitment, "commitment") for owner in present}

    @cached_property
    def _left_seeds(self) -> dict[int, dict[int, tuple[bytes, ...]]]:
        """The seeds of the masks between absent and present workers."""
        seeds = {}
        for owner in self._needed:
            if owner in self._absent:
                key = KeyPair(self._rebuilt(owner, lambda private: KeyPair(private).public, "mask_key"))
                seeds[owner] = self._round.edge_seeds(key, owner, set(self._round.graph[owner]) - self._absent)
        return seeds

    def _rebuilt(self, owner: int, published: Callable[[bytes], bytes], field: str) -> bytes:
        """Return the secret of a worker. If a share is wrong, look for ``threshold`` in a row that are right."""
        threshold, shares = self._round.rules.threshold, self._shares[owner]
        places = sorted(shares)
        if len(places) < threshold:
            raise ProtocolError(
                f"worker {owner} has {len(places)} shares, and {threshold} are needed; wait for more neighbours"
            )
        for start in range(len(places)):
            some = [places[(start + step) % len(places)] for step in range(threshold)]
            try:
                secret = rebuild({place: shares[place] for place in some}, threshold)
            except ProtocolError:
                continue
            if published(secret) == getattr(self._round.announcements[owner], field):
                return secret
        problem = ProtocolError(f"shares of worker {owner} give no secret of it: it dealt wrong ones, or holders did")
        problem.culprit = owner
        raise problem
