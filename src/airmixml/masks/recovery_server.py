"""Recovery of the masks that absent workers leave behind: the server's side.

With the present P and the absent A, the aligned sum holds sum_P (v_i + n_i) and, besides,
sum_P b_i + sum over edges from i in P to a in A of m_ia; ``correction`` is the latter. Over an air with gains g_i the
server takes it off as if all gains were 1: what is left is noise in the sum, never privacy.
"""

from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airmixml.errors import ProtocolError
from airmixml.masks.expansion import edge_masks, reduced, self_mask
from airmixml.masks.keys import KeyPair
from airmixml.masks.recovery import SHARE_BYTES, Answer, rebuild, seed_commitment
from airmixml.masks.rounds import Round


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
