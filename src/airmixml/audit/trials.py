"""Many trials of one attack, in blocks that depend on the seed and their number alone, so that they can be resumed.

An attack is a function that takes a ``Bench`` and returns ``Bench.run`` of what scores a block of its trials.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from airmixml.arrays import Doubles, Integers, in_order, using_threads
from airmixml.audit.faults import Fault
from airmixml.files import ResultStore
from airmixml.radio.draws import AirSetting, SlotDraws, SlotTensors, draw_slots, slots_of_rounds, suitable_block
from airmixml.scenario import RunContext
from airmixml.streams import Streams

Blocks = list[Doubles]
ScoreBlock = Callable[[int, int], Doubles]
"""Returns the scores of a block, 2 x trials, from its number and its trials; it is sent to other processes."""
_TRIALS: Final = "trials.npz"
KEPT_FILES: Final = (_TRIALS,)


class Keeper:
    """Keeps what is finished as long as the process lives; with a folder also there, trials every few seconds."""

    def __init__(self, folder: Path | None = None, every_seconds: float = 2.0) -> None:
        self._store, self._every_seconds = None if folder is None else ResultStore(folder), every_seconds
        self._saved_at = time.monotonic()
        kept = None if self._store is None else self._store.load(_TRIALS, _read_blocks)
        self._blocks: dict[str, Blocks] = kept or {}
        self.resumed_blocks = sum(map(len, self._blocks.values()))

    def load(self, name: str) -> Blocks:
        """Return the finished blocks of that name in order."""
        return list(self._blocks.get(name, []))

    def save(self, name: str, blocks: Blocks) -> None:
        """Keep the finished blocks; on the disk a few seconds later, or with ``write``."""
        self._blocks[name] = list(blocks)
        if time.monotonic() - self._saved_at >= self._every_seconds:
            self.write()

    def write(self) -> None:
        """Write all blocks to the disk."""
        if self._store is None or not self._blocks:
            return
        counts = {key: len(every) for key, every in self._blocks.items()}
        named = {f"{key}/{number}": each for key, every in self._blocks.items() for number, each in enumerate(every)}
        self._store.save(_TRIALS, counts, named)
        self._saved_at = time.monotonic()


def _read_blocks(counts: dict[str, int], arrays: Mapping[str, Doubles]) -> dict[str, Blocks]:
    return {name: [arrays[f"{name}/{number}"] for number in range(count)] for name, count in counts.items()}


INDEPENDENT: Final = "independent trials"


@dataclass(frozen=True, kw_only=True, eq=False)
class Trials:
    """Scores of an attack, and how they were made."""

    scores_in: Doubles  # log-likelihood ratios of trials with the canary
    scores_out: Doubles  # of trials without it
    how: str  # how a trial was made, in words
    normal: bool  # whether the scores of the sound mechanism are normal (a known schedule)
    independence: str = INDEPENDENT  # what bounds assume of them, in words

    def to_dict(self) -> dict[str, Any]:
        return {"with_canary": len(self.scores_in), "without": len(self.scores_out), "how": self.how}


@dataclass(frozen=True, eq=False)
class SlotKind:
    """Slots in which workers send the same kind of vectors, by their numbers."""

    air: AirSetting
    slots: range

    def drawn(self, block_slots: int = 0) -> Iterator[SlotTensors]:
        """Yield them as a run of that seed draws them, in blocks of that size (0: what suits)."""
        size = block_slots or suitable_block(self.air)
        blocks = [self.slots[first : first + size] for first in range(0, len(self.slots), size)]
        return in_order(lambda slots: draw_slots(self.air, slots), blocks, 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Bench:
    """What all trials of an audit have in common."""

    air: AirSetting
    classes: int
    adjacency: str
    trials: int  # in each world
    fault: Fault
    keeper: Keeper
    context: RunContext
    rounds: AirSetting | None = None  # of the rounds that follow the slots, if any do

    @property
    def kinds(self) -> list[SlotKind]:
        """The scenario's own slots, and its rounds."""
        own = SlotKind(self.air, range(self.air.scenario.radio.slots))
        return [own] if self.rounds is None else [own, SlotKind(self.rounds, slots_of_rounds(self.air.scenario))]

    def run(self, name: str, per_block: int, score_block: ScoreBlock, *, how: str, normal: bool = False) -> Trials:
        """Return all trials of an attack of that name, so many in a block; kept ones are not made again.

        The last block may have fewer trials than the others. ``how`` and ``normal`` are those of ``Trials``.
        """
        sizes = [min(per_block, self.trials - first) for first in range(0, self.trials, per_block)]
        done = self.keeper.load(name)
        self.context.progress(name, len(done), len(sizes))
        engine = self.context.engine
        shared = score_block, self.context.speed.threads if engine.here else 1
        try:
            with closing(engine.run_in_order(prepare_blocks, shared, list(enumerate(sizes))[len(done) :])) as scored:
                for scores in scored:
                    done.append(scores)
                    self.keeper.save(name, done)
                    self.context.progress(name, len(done), len(sizes))
        finally:
            self.keeper.write()  # an interrupted audit goes on here
        scores_in, scores_out = np.concatenate(done, axis=1)
        how += "; one model is broadcast in all rounds" if self.air.scenario.has_rounds else ""
        return Trials(scores_in=scores_in, scores_out=scores_out, how=how, normal=normal)


def prepare_blocks(shared: tuple[ScoreBlock, int]) -> Callable[[tuple[int, int], Any], Doubles]:
    """Return what scores a block, from its number and its trials, on so many threads."""
    score_block, threads = shared

    def score(block: tuple[int, int], _tell: Any) -> Doubles:
        with using_threads(threads):
            return score_block(*block)

    return score


def seats_of_worker(kind: SlotKind, worker: int) -> Iterator[tuple[SlotTensors, SlotDraws, Integers, Integers]]:
    """Yield, block by block, slots, and in which of them and where a worker sends."""
    for drawn in kind.drawn():
        draws = drawn.numpy()
        slot, seat = np.nonzero((draws.scheduled_workers == worker) & (draws.ratios > 0.0))
        yield drawn, draws, slot, seat


def noise_source(seed: int, chapter: int) -> torch.Generator:
    """Return the generator of a block's noise, of torch, which draws normal numbers several times as fast as NumPy."""
    start = Streams(seed).generator("audit", chapter).integers(2**63 - 1)
    return torch.Generator().manual_seed(int(start))
