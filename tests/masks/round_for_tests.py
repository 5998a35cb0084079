"""A round of workers with real keys on the graph that their nonces give, and the part of the server that relays."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from airmixml.masks.keys import verifying_key
from airmixml.masks.recovery import Answer, RecoveringWorker
from airmixml.masks.rounds import Round, round_name
from airmixml.masks.rules import Rules
from airmixml.messages import ProtocolError

RULES = Rules(
    workers=30,
    degree=10,
    most_repeats=20,
    second_eigenvalue=8.0,
    threshold=7,  # of 10 neighbours, at most 2 of whom collude
    quorum=17,  # of 30 workers, at most 2 of whom collude
    most_absent=6,
    most_absent_neighbours=3,
    mask_deviation=5.0,
    self_deviation=11.0,
)

SLOTS = range(4)
SEED = 53  # of a graph on which the tests' lists pass, and 0 and 1 together share at most two masks with anyone


@dataclass
class Party:
    """All workers of a round."""

    joined: Round
    workers: dict[int, RecoveringWorker]

    def lists_signed(self, absent: Collection[int], by: Iterable[int]) -> dict[int, bytes]:
        """Signatures of those asked who do not refuse."""
        signed = {}
        for identity in by:
            try:
                signed[identity] = self.workers[identity].agree(absent)
            except ProtocolError:
                continue
        return signed

    def answers(self, signed: dict[int, bytes], by: Iterable[int]) -> list[Answer]:
        return [self.workers[identity].answer(signed) for identity in by]


def announced_round(workers: int = 30, rules: Rules = RULES, seed: int = SEED, restarts: int = 0) -> Party:
    """Workers that have announced their keys and committed to nonces; keys, nonces and so the graph are the seed's."""
    entropy = np.random.default_rng([seed, workers, restarts]).bytes
    signing_keys = {identity: entropy(32) for identity in range(workers)}
    directory = {identity: verifying_key(key) for identity, key in signing_keys.items()}
    run = b"run %d" % seed
    members = {
        identity: RecoveringWorker(
            identity,
            key,
            run,
            SLOTS,
            rules,
            directory=directory,
            restarts=restarts,
            entropy=entropy,
        )
        for identity, key in signing_keys.items()
    }
    announcements = {identity: member.announce() for identity, member in members.items()}
    return Party(Round(round_name(run, SLOTS, restarts), rules, announcements, directory), members)


def revealed_round(workers: int = 30, rules: Rules = RULES, seed: int = SEED, restarts: int = 0) -> Party:
    """Workers that have revealed their nonces, which give the graph, not joined yet."""
    party = announced_round(workers, rules, seed, restarts)
    reveals = {identity: member.reveal(party.joined) for identity, member in party.workers.items()}
    return replace(party, joined=party.joined.drawn(reveals))


def ready_round(workers: int = 30, rules: Rules = RULES, seed: int = SEED, restarts: int = 0) -> Party:
    """Workers that hold each other's shares."""
    party = revealed_round(workers, rules, seed, restarts)
    parcels = {identity: member.join(party.joined) for identity, member in party.workers.items()}
    for identity, member in party.workers.items():
        member.receive({other: parcels[other][identity] for other in party.joined.graph[identity]})
    return party


def sent_symbols(
    party: Party, values: NDArray[np.float64], blocks: Iterable[tuple[int, int, int]]
) -> NDArray[np.float64]:
    """What each worker sends: its values plus its masks; workers x symbols, the blocks one after the other."""
    blocks = list(blocks)
    masks = [
        np.concatenate([party.workers[identity].masks(*block) for block in blocks])
        for identity in sorted(party.workers)
    ]
    return values + np.stack(masks)
