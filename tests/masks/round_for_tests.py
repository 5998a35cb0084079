"""A round of workers with real keys on a random regular graph, and the part of the server that carries messages."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import networkx
import numpy as np
from numpy.typing import NDArray

from airmixml.errors import ProtocolError
from airmixml.masks.keys import verifying_key
from airmixml.masks.recovery import Answer, RecoveringWorker
from airmixml.masks.rounds import Round
from airmixml.masks.rules import Rules

RULES = Rules(
    threshold=7,  # of 10 neighbours, at most 2 of whom collude
    quorum=17,  # of 30 workers, at most 2 of whom collude
    most_absent=6,
    most_absent_neighbours=3,
    mask_deviation=5.0,
    self_deviation=11.0,
)


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


def regular_graph(workers: int, degree: int, seed: int) -> dict[int, tuple[int, ...]]:
    drawn = networkx.random_regular_graph(degree, workers, seed)
    return {int(node): tuple(int(other) for other in drawn[node]) for node in sorted(drawn)}


def announced_round(
    workers: int = 30,
    degree: int = 10,
    rules: Rules = RULES,
    seed: int = 0,
    memory: Path | None = None,
    graph: dict[int, tuple[int, ...]] | None = None,
) -> Party:
    """Workers that have announced their keys, not joined yet."""
    signing_keys = {identity: secrets.token_bytes(32) for identity in range(workers)}
    run = secrets.token_bytes(16)
    members = {
        identity: RecoveringWorker(identity, key, run, rules, memory / str(identity) if memory else None)
        for identity, key in signing_keys.items()
    }
    joined = Round(
        run,
        rules,
        {identity: member.announce() for identity, member in members.items()},
        {identity: verifying_key(key) for identity, key in signing_keys.items()},
        graph or regular_graph(workers, degree, seed),
        frozenset(range(workers)),
    )
    return Party(joined, members)


def ready_round(
    workers: int = 30,
    degree: int = 10,
    rules: Rules = RULES,
    seed: int = 0,
    memory: Path | None = None,
    graph: dict[int, tuple[int, ...]] | None = None,
) -> Party:
    """Workers that hold each other's shares."""
    party = announced_round(workers, degree, rules, seed, memory, graph)
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
