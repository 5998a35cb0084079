"""Many trials of one attack, in blocks that depend on the seed and their number alone, so that they can be resumed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from airmixml.audit.faults import Fault
from airmixml.progress import Progress
from airmixml.radio.draws import AirSetting
from airmixml.streams import Streams


class Keeper(Protocol):
    """Where scores of finished blocks are kept."""

    def load(self, name: str) -> list[NDArray[np.float64]]:
        """Return the finished blocks of that name in order, each 2 x trials; none where nothing was kept."""

    def save(self, name: str, blocks: list[NDArray[np.float64]]) -> None:
        """Keep the finished blocks."""


@dataclass
class MemoryKeeper:
    """Keeps blocks as long as the process lives."""

    blocks: dict[str, list[NDArray[np.float64]]] = field(default_factory=dict)

    def load(self, name: str) -> list[NDArray[np.float64]]:
        """Return the finished blocks of that name."""
        return list(self.blocks.get(name, []))

    def save(self, name: str, blocks: list[NDArray[np.float64]]) -> None:
        """Keep the finished blocks."""
        self.blocks[name] = list(blocks)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trials:
    """Scores of an attack, and how they were made.

    Attributes:
        scores_in: log-likelihood ratios of trials with the canary.
        scores_out: of trials without it.
        how: how a trial was made, in words.
        normal: whether the scores of the sound mechanism are normal (a known schedule).
        shift: how far the canary moves what is received over the stated deviation of the noise, all slots together;
            None where the schedule is hidden.
    """

    scores_in: NDArray[np.float64]
    scores_out: NDArray[np.float64]
    how: str
    normal: bool
    shift: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Bench:
    """What all trials of an audit have in common.

    Attributes:
        setting: of the scenario.
        classes: number of classes.
        adjacency: which other world.
        trials: in each world.
        fault: injected into the mechanism.
        keeper: keeps finished blocks.
        progress: told how many blocks are done.
        threads: CPU threads.
    """

    setting: AirSetting
    classes: int
    adjacency: str
    trials: int
    fault: Fault
    keeper: Keeper
    progress: Progress
    threads: int = 0


def noise_source(seed: int, chapter: int) -> torch.Generator:
    """Return the generator of a block's noise, of torch, which draws normal numbers several times as fast as NumPy."""
    start = Streams(seed).generator("audit", chapter).integers(2**63 - 1)
    return torch.Generator().manual_seed(int(start))


def shares_of(columns: NDArray[np.int64], ratios: NDArray[np.float64], canaries: int) -> torch.Tensor:
    """Return the share of each canary in each slot, 0 where it does not send; slots x canaries.

    Args:
        columns: number of the canary in each seat, -1 for other workers; slots x scheduled.
        ratios: slots x scheduled.
        canaries: how many there are.
    """
    slot, seat = np.nonzero(columns >= 0)
    shares = torch.zeros((len(columns), canaries))
    shares[slot, columns[slot, seat]] = torch.from_numpy(ratios[slot, seat]).float()
    return shares


def collect(
    name: str, blocks: int, score_block: Callable[[int], NDArray[np.float64]], bench: Bench
) -> NDArray[np.float64]:
    """Return the scores of all blocks, 2 x trials (with the canary, without it); finished ones are not made again."""
    done = bench.keeper.load(name)[:blocks]
    for number in range(len(done), blocks):
        bench.progress(name, number, blocks)
        done.append(score_block(number))
        bench.keeper.save(name, done)
    bench.progress(name, blocks, blocks)
    return np.concatenate(done, axis=1)
